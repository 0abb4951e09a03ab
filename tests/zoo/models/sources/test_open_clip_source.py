"""open_clip: zero-shot heads equal to open_clip's own, and an error for weights that do not fit."""

from pathlib import Path

import open_clip
import pytest
import torch
from fake_hub import FakeHub
from raised import fields
from tiny_models import OPEN_CLIP, transformed

import zoo
from zoo.errors import InputError, ZooWarning
from zoo.models.heads import zero_shot

CLASSES = ["truck", "sweet_pepper", "n02012849"]


@pytest.fixture
def small(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """The network of a model `ViT-small-test/ours` that open_clip knows and whose weights are cached."""
    from open_clip import factory, pretrained

    monkeypatch.setitem(factory._MODEL_CONFIGS, "ViT-small-test", OPEN_CLIP)
    monkeypatch.setitem(pretrained._PRETRAINED, "ViT-small-test", {"ours": pretrained._pcfg(hf_hub="us/small/")})
    torch.manual_seed(3)
    model = open_clip.create_model("ViT-small-test", pretrained=None, load_weights=False).eval()
    model.logit_scale.data.fill_(2.0)
    hub.put("us/small", "open_clip_model.safetensors", model.state_dict())
    return model


def test_zero_shot_predictions_are_open_clips_own(small: torch.nn.Module, images: torch.Tensor) -> None:
    model = zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)
    tokenizer = open_clip.get_tokenizer("ViT-small-test")
    batch = transformed(model, images)
    with torch.inference_mode():
        text = small.encode_text(tokenizer(["a photo of a truck.", "a photo of a sweet pepper.", "a photo of a crane."]))
        image = small.encode_image(batch)
        similarity = torch.nn.functional.cosine_similarity(image[:, None], text[None], dim=2)
        expected = small.logit_scale.exp() * similarity
    assert torch.allclose(model.predict(images), expected, atol=1e-5)
    assert torch.allclose(model.embed(images), image, atol=1e-5)
    assert model.classes == tuple(CLASSES)
    assert model.num_parameters < 0.3 * sum(p.numel() for p in small.parameters())  # the text tower is dropped


def test_class_weights_equal_open_clips_zero_shot_classifier(small: torch.nn.Module) -> None:
    from open_clip.zero_shot_metadata import OPENAI_IMAGENET_TEMPLATES

    tokenizer = open_clip.get_tokenizer("ViT-small-test")
    names, templates = ["zebra", "toaster", "crane (bird)"], OPENAI_IMAGENET_TEMPLATES[:5]
    with torch.inference_mode():
        theirs = open_clip.build_zero_shot_classifier(small, tokenizer, names, templates).T
    plain = [template("{}") for template in templates]
    ours = zero_shot.class_weights(lambda texts: small.encode_text(tokenizer(texts)), names, plain)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_imagenet_has_the_published_names_and_templates() -> None:
    from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES, OPENAI_IMAGENET_TEMPLATES

    names, templates = zero_shot.sentences(zoo.labels.classes("imagenet-1k"))
    assert names == list(IMAGENET_CLASSNAMES)
    assert [template.format("x") for template in templates] == [template("x") for template in OPENAI_IMAGENET_TEMPLATES]
    subset = zoo.labels.classes("imagenet-a")
    places = zoo.labels.indices(subset, zoo.labels.classes("imagenet-1k"))
    assert zero_shot.sentences(subset)[0] == [IMAGENET_CLASSNAMES[place] for place in places]


def test_class_weights_are_stored(small: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    first = zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)
    monkeypatch.setattr(zero_shot, "class_weights", lambda *_: pytest.fail("computed again"))
    again = zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)
    assert torch.equal(first.head.weight, again.head.weight)
    assert first.weights_hash == again.weights_hash


def test_the_hash_depends_on_the_classes(small: torch.nn.Module) -> None:
    hashes = {zoo.load("open_clip:ViT-small-test/ours", classes=classes).weights_hash for classes in (CLASSES, CLASSES[:2])}
    assert len(hashes) == 2


def test_damaged_class_weights_are_set_aside_and_computed_again(small: torch.nn.Module, zoo_home: Path) -> None:
    first = zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)
    (stored,) = (zoo_home / "heads").iterdir()
    stored.write_bytes(stored.read_bytes()[:-7])
    with pytest.warns(ZooWarning, match=stored.name):
        again = zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)
    assert torch.equal(first.head.weight, again.head.weight)


def test_weights_that_do_not_fit_are_refused(small: torch.nn.Module, hub: FakeHub) -> None:
    state = small.state_dict()
    del state["visual.conv1.weight"]
    hub.put("us/small", "open_clip_model.safetensors", state)
    with pytest.raises(InputError, check=fields(problem=["ViT-small-test", "visual.conv1.weight"])):
        zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)


def test_a_pickle_is_refused(small: torch.nn.Module, hub: FakeHub) -> None:
    (hub.folder / "models--us--small").rename(hub.folder / "elsewhere")
    hub.put("us/small", "open_clip_pytorch_model.bin", {"weight": torch.nn.Linear(2, 2)})
    with pytest.raises(InputError, check=fields(where="open_clip_pytorch_model.bin", problem="pickle")) as caught:
        zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)
    assert "weights_only" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*TorchScript archive", "ignore:.*torch.jit")
def test_torchs_advice_to_read_an_unsafe_file_is_not_passed_on(small: torch.nn.Module, hub: FakeHub) -> None:
    (hub.folder / "models--us--small").rename(hub.folder / "elsewhere")
    path = hub.put("us/small", "open_clip_pytorch_model.bin", {"weight": torch.zeros(1)})
    path.unlink()
    torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)).save(str(path))
    check = fields(where="open_clip_pytorch_model.bin", problem="run code", hint="safetensors")
    with pytest.raises(InputError, check=check) as caught:
        zoo.load("open_clip:ViT-small-test/ours", classes=CLASSES)
    assert "weights_only" not in str(caught.value)


def test_sigmoid_models_have_a_scale_and_a_bias() -> None:
    model = zoo.load("siglip-vit-b16", pretrained=False, device="meta")
    config = open_clip.get_model_config("ViT-B-16-SigLIP")
    assert model.card.link == "sigmoid"
    head = zero_shot.build(zero_shot.TextTower(4, 10.0, config["init_logit_bias"], None), ["a", "b"], None)[0]
    x = torch.randn(3, 4)
    expected = 10 * torch.nn.functional.cosine_similarity(x[:, None], head.weight[None], dim=2) - 10
    assert torch.allclose(head(x), expected, atol=1e-5)


def test_other_classes_need_a_zero_shot_head() -> None:
    with pytest.raises(InputError, check=fields(argument="classes", problem="zero-shot")):
        zoo.load("timm:test_resnet", pretrained=False, classes=["a", "b"])
