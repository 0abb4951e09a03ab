"""Hugging Face transformers: classifiers, encoders and dual encoders with the library's own outputs."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import transformers
from PIL import Image

import zoo
from zoo.errors import CorruptFile, InputError
from zoo.models import sources as lookup
from zoo.models.sources.assembly import Request

VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
PROCESSOR = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def saved(model: torch.nn.Module, folder: Path, **processor: object) -> str:
    """The model as a folder in the form of the hub."""
    model.save_pretrained(folder)
    transformers.ViTImageProcessor(**(PROCESSOR | processor)).save_pretrained(folder)
    return f"file:{folder}"


@pytest.fixture
def images() -> list[Image.Image]:
    pixels = torch.randint(0, 256, (3, 40, 50, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)).numpy()
    return [Image.fromarray(one) for one in pixels]


def inputs(folder: str, images: list[Image.Image]) -> torch.Tensor:
    processor = transformers.AutoImageProcessor.from_pretrained(folder.removeprefix("file:"))
    return processor(images, return_tensors="pt")["pixel_values"]


@pytest.mark.parametrize("kind", ["vit", "resnet", "deit"])
def test_classifiers(kind: str, tmp_path: Path, images: list[Image.Image]) -> None:
    torch.manual_seed(0)
    names = {0: "cat", 1: "dog", 2: "truck"}
    if kind == "vit":
        model = transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, id2label=names))
    elif kind == "deit":  # two final layers, whose mean is the answer
        model = transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(**VIT, id2label=names))
    else:
        config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], id2label=names)
        model = transformers.ResNetForImageClassification(config)
    name = saved(model.eval(), tmp_path / "model")
    card = dataclasses.replace(zoo.card(name), head="trained", labels="pets of ours")
    loaded = lookup.source(card.source).load(Request(card, True, torch.device("cpu")))
    with torch.inference_mode():
        expected = model(inputs(name, images)).logits
    assert loaded.classes == ("cat", "dog", "truck")
    # The library's processor and ours interpolate with the same filter but may round a pixel the other way.
    assert torch.allclose(loaded.predict(images), expected, atol=2e-2)
    assert torch.allclose(loaded.head(loaded.embed(images)), loaded.predict(images), atol=1e-5)
    assert loaded.layer_names


def test_an_encoder(tmp_path: Path, images: list[Image.Image]) -> None:
    torch.manual_seed(0)
    model = transformers.Dinov2Model(transformers.Dinov2Config(**VIT)).eval()
    name = saved(model, tmp_path / "model")
    loaded = zoo.load(name)
    with torch.inference_mode():
        expected = model(inputs(name, images)).pooler_output
    assert torch.allclose(loaded.embed(images), expected, atol=2e-2)
    assert loaded.classes == ()
    with pytest.raises(InputError, match="bare encoder"):
        loaded.predict(images)


def test_a_masked_autoencoder_sees_the_whole_image(tmp_path: Path, images: list[Image.Image]) -> None:
    model = transformers.ViTMAEModel(transformers.ViTMAEConfig(**VIT)).eval()
    loaded = zoo.load(saved(model, tmp_path / "model"))
    assert torch.allclose(loaded.embed(images), loaded.embed(images), atol=1e-5)  # it hides patches at random by itself


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    name = saved(transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, num_labels=3)), tmp_path / "model")
    state = load_file(tmp_path / "model" / "model.safetensors")
    del state["classifier.weight"]
    save_file(state, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"1 keys missing or of another shape, e\.g\. 'classifier\.weight'"):
        zoo.load(name)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["hidden_size"] = 64
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"^file:.*do(es)? not fit ViTForImageClassification"):
        zoo.load(name)


def test_weights_in_several_files(tmp_path: Path, images: list[Image.Image]) -> None:
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, num_labels=3)).eval()
    name = saved(model, tmp_path / "one")
    model.save_pretrained(tmp_path / "several", max_shard_size="40KB")
    transformers.ViTImageProcessor(**PROCESSOR).save_pretrained(tmp_path / "several")
    assert len(list((tmp_path / "several").glob("*.safetensors"))) > 1
    one, several = zoo.load(name), zoo.load(f"file:{tmp_path / 'several'}")
    assert torch.equal(one.predict(images), several.predict(images))


def dual_encoder(folder: Path) -> tuple[transformers.CLIPModel, transformers.PreTrainedTokenizerFast]:
    """CLIP with a word-level tokenizer of our own, saved in a folder in the form of the hub."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    words = {word: number for number, word in enumerate(["<pad>", "<end>", "a", "photo", "of", "cat", "dog", "."])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", model_max_length=12)
    text = {"vocab_size": 8, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
            "max_position_embeddings": 12, "eos_token_id": 1, "bos_token_id": 0, "pad_token_id": 0}  # fmt: skip
    config = transformers.CLIPConfig(text_config=text, vision_config=VIT, projection_dim=16)
    model = transformers.CLIPModel(config).eval()
    saved(model, folder)
    fast.save_pretrained(folder)
    return model, fast


def test_a_dual_encoder(tmp_path: Path, images: list[Image.Image]) -> None:
    """Scores are scale * cosine, as the library's own forward pass gives."""
    model, tokenizer = dual_encoder(tmp_path / "model")
    name = f"file:{tmp_path / 'model'}"
    loaded = zoo.load(name, classes=["cat", "dog"])
    tokens = tokenizer(["a photo of a cat.", "a photo of a dog."], return_tensors="pt", padding=True)
    with torch.inference_mode():
        expected = model(pixel_values=inputs(name, images), input_ids=tokens["input_ids"],
                         attention_mask=tokens["attention_mask"]).logits_per_image  # fmt: skip
    assert torch.allclose(loaded.predict(images), expected, atol=2e-2)
    assert loaded.classes == ("cat", "dog")
    assert loaded.num_parameters < sum(parameter.numel() for parameter in model.parameters())  # the text side is let go


def test_align_is_built_from_its_default_configuration() -> None:
    model = zoo.load("align-zero-shot", pretrained=False, device="meta")
    embeddings, logits = model.forward(torch.empty(2, *model.transform.size, device="meta"))
    assert embeddings.shape == (2, 640)
    assert logits is not None
    assert logits.shape == (2, 1000)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="transformers cannot read it as an image model"):
        zoo.load(f"file:{tmp_path}")
    for text in ("{", '{"architecture": 1, "architecture": 2}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(CorruptFile, match=r"config\.json: not valid JSON"):
            zoo.load(f"file:{tmp_path}")
