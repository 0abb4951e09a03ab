"""transformers: classifiers, encoders and dual encoders give the library's own outputs."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import transformers
from raised import fields
from tiny_models import PROCESSOR, VIT, pil_images, save_dual_encoder, save_transformers

import zoo
from zoo.errors import CorruptFile, InputError
from zoo.models import sources as lookup
from zoo.models.sources.assembly import Request


def inputs(folder: str, images: torch.Tensor) -> torch.Tensor:
    """Return the inputs that the library's own image processor computes."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder.removeprefix("file:"))
    return processor(pil_images(images), return_tensors="pt")["pixel_values"]


@pytest.mark.parametrize("kind", ["vit", "resnet", "deit"])
def test_classifiers_give_the_librarys_logits(kind: str, tmp_path: Path, images: torch.Tensor) -> None:
    torch.manual_seed(0)
    names = {0: "cat", 1: "dog", 2: "truck"}
    if kind == "vit":
        model = transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, id2label=names))
    elif kind == "deit":  # the mean of two final layers
        model = transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(**VIT, id2label=names))
    else:
        config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], id2label=names)
        model = transformers.ResNetForImageClassification(config)
    name = save_transformers(model.eval(), tmp_path / "model")
    card = dataclasses.replace(zoo.card(name), head="trained", labels="pets of ours")
    loaded = lookup.source(card.source).load(Request(card, True, torch.device("cpu")))
    with torch.inference_mode():
        expected = model(inputs(name, images)).logits
    assert loaded.classes == ("cat", "dog", "truck")
    # The library's processor and ours interpolate with the same filter but may round a pixel differently.
    assert torch.allclose(loaded.predict(images), expected, atol=2e-2)
    assert torch.allclose(loaded.head(loaded.embed(images)), loaded.predict(images), atol=1e-5)
    assert loaded.layer_names


def test_an_encoder_gives_the_librarys_embeddings(tmp_path: Path, images: torch.Tensor) -> None:
    torch.manual_seed(0)
    model = transformers.Dinov2Model(transformers.Dinov2Config(**VIT)).eval()
    name = save_transformers(model, tmp_path / "model")
    loaded = zoo.load(name)
    with torch.inference_mode():
        expected = model(inputs(name, images)).pooler_output
    assert torch.allclose(loaded.embed(images), expected, atol=2e-2)
    assert loaded.classes == ()
    with pytest.raises(InputError, check=fields(where=name)):
        loaded.predict(images)


def test_a_masked_autoencoder_sees_the_whole_image(tmp_path: Path, images: torch.Tensor) -> None:
    model = transformers.ViTMAEModel(transformers.ViTMAEConfig(**VIT)).eval()
    loaded = zoo.load(save_transformers(model, tmp_path / "model"))
    assert torch.allclose(loaded.embed(images), loaded.embed(images), atol=1e-5)  # by default it hides random patches


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    name = save_transformers(
        transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, num_labels=3)), tmp_path / "model"
    )
    state = load_file(tmp_path / "model" / "model.safetensors")
    del state["classifier.weight"]
    save_file(state, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, check=fields(where=name, problem=["1 keys", "classifier.weight"])):
        zoo.load(name)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["hidden_size"] = 64
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, check=fields(where=name, problem="ViTForImageClassification")):
        zoo.load(name)


def test_weights_in_several_files_are_loaded(tmp_path: Path, images: torch.Tensor) -> None:
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, num_labels=3)).eval()
    name = save_transformers(model, tmp_path / "one")
    model.save_pretrained(tmp_path / "several", max_shard_size="40KB")
    transformers.ViTImageProcessor(**PROCESSOR).save_pretrained(tmp_path / "several")
    assert len(list((tmp_path / "several").glob("*.safetensors"))) > 1
    one, several = zoo.load(name), zoo.load(f"file:{tmp_path / 'several'}")
    assert torch.equal(one.predict(images), several.predict(images))


def test_a_dual_encoder_gives_the_librarys_logits(tmp_path: Path, images: torch.Tensor) -> None:
    model, tokenizer = save_dual_encoder(tmp_path / "model")
    name = f"file:{tmp_path / 'model'}"
    loaded = zoo.load(name, classes=["cat", "dog"])
    tokens = tokenizer(["a photo of a cat.", "a photo of a dog."], return_tensors="pt", padding=True)
    with torch.inference_mode():
        expected = model(pixel_values=inputs(name, images), input_ids=tokens["input_ids"],
                         attention_mask=tokens["attention_mask"]).logits_per_image  # fmt: skip
    assert torch.allclose(loaded.predict(images), expected, atol=2e-2)
    assert loaded.classes == ("cat", "dog")
    assert loaded.num_parameters < sum(parameter.numel() for parameter in model.parameters())  # the text tower is dropped


def test_align_is_built_from_its_default_configuration() -> None:
    model = zoo.load("align-zero-shot", pretrained=False, device="meta")
    embeddings, logits = model.forward(torch.empty(2, *model.transform.size, device="meta"))
    assert embeddings.shape == (2, 640)
    assert logits is not None
    assert logits.shape == (2, 1000)


def test_a_folder_with_an_unusable_configuration_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, check=fields(where=str(tmp_path), problem="transformers")):
        zoo.load(f"file:{tmp_path}")
    for text in ("{", '{"architecture": 1, "architecture": 2}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(CorruptFile, match=r"config\.json.*JSON"):
            zoo.load(f"file:{tmp_path}")
