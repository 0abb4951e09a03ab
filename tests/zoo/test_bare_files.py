"""A state dictionary and nothing else, as training scripts leave them: named once with `zoo card new` or `zoo.register`."""

import json
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import zoo
from zoo import settings
from zoo._registry import registry
from zoo.app.main import app
from zoo.errors import InputError, UnknownName

IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 60, 3), np.uint8))
TORCHVISION = torchvision.models.mobilenet_v3_small  # an architecture of which timm has none by that name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("classes.txt").write_text("cat\ndog\nhorse\n")
    return tmp_path


def command(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def answers(network: torch.nn.Module, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    model = zoo.load(name, device="cpu")
    with torch.inference_mode():
        return model.predict(IMAGE), network.eval()(model.transform(IMAGE)[None])


def test_a_newcomers_checkpoint(folder: Path) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in network.state_dict().items()}}, "best.pth.tar")
    command("card", "new", "file:best.pth.tar", "--arch", "test_resnet", "--classes", "classes.txt", "--as", "my-model")
    assert zoo.card("my-model").path == settings.home() / "cards/my-model.md"
    found, expected = answers(network, "my-model")
    assert torch.allclose(found, expected, atol=1e-5)
    assert zoo.load("my-model").classes == ("cat", "dog", "horse")
    assert "my-model" in command("list", "my-*")
    assert json.loads(command("run", "my-model", "--data", "digits:test[:4]", "--json"))[0]["model"] == "my-model"


@pytest.mark.parametrize("prefix", ["", "model.", "module.", "_orig_mod.", "model.module.", "net.backbone."])
def test_prefixes(folder: Path, prefix: str) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    save_file({prefix + key: value for key, value in network.state_dict().items()}, "w.safetensors")
    name = f"prefixed-{len(prefix)}"
    zoo.register("file:w.safetensors", name, architecture="test_resnet", classes=["a", "b", "c"])
    found, expected = answers(network, name)
    assert torch.allclose(found, expected, atol=1e-5)


def test_the_library_that_it_fits(folder: Path) -> None:
    """Both have an `efficientnet_b0`, with other keys; a `resnet18` of both is the same."""
    for library, network in (
        ("torchvision", torchvision.models.efficientnet_b0(num_classes=3)),
        ("timm", timm.create_model("efficientnet_b0", num_classes=3)),
    ):
        torch.save(network.state_dict(), f"{library}.pt")
        card = zoo.register(
            f"file:{library}.pt", f"of-{library}", architecture="efficientnet_b0", classes=["a", "b", "c"], size=64
        )
        assert (card.details["library"], card.transform.size) == (library, (3, 64, 64))
        found, expected = answers(network, card.name)
        assert torch.allclose(found, expected, atol=1e-4)


def test_run_at_once(folder: Path) -> None:
    torch.save(TORCHVISION(num_classes=3).state_dict(), "mine.pth")
    words = ("run", "file:mine.pth", "--arch", "mobilenet_v3_small", "--classes", "classes.txt", "--data", "digits:test[:4]")
    (row,) = json.loads(command(*words, "--json"))
    assert (row["model"], row["classes"]) == ("mine", 3)
    assert zoo.run("mine", data="digits:test[:4]", progress=False)["mine"].logits.shape == (4, 3)
    result = CliRunner().invoke(app, ["run", "resnet8-cosine", "--arch", "resnet18"])
    assert "describe one bare file" in str(result.exception)


def test_any_model_by_a_name_of_ones_own(folder: Path) -> None:
    command("card", "new", "timm:resnet18", "--as", "my-resnet")
    card = zoo.card("my-resnet")
    assert (card.source, card.id) == ("timm", zoo.card("timm:resnet18").id)
    assert card.path.read_text().count("# my-resnet") == 1
    assert zoo.load("my-resnet", weights=False, device="meta").name == "my-resnet"
    with pytest.raises(InputError, match="a model named 'my-resnet' is registered already"):
        zoo.register("timm:resnet34", "my-resnet", keep=True)


@pytest.mark.parametrize(
    ("entry", "name", "told", "error", "message"),
    [
        ("file:w.pt", "mine", {"size": 32}, InputError, r"does not say its architecture \(--arch.*\), classes \(--classes"),
        ("file:w.pt", "mine", {"architecture": "resnet18"}, InputError, r"does not say its classes"),
        (
            "file:w.pt",
            "mine",
            {"architecture": "test_resnot", "classes": list("abc")},
            UnknownName,
            "did you mean test_resnet",
        ),
        (
            "file:w.pt",
            "mine",
            {"architecture": "test_resnet", "classes": list("ab")},
            InputError,
            r"shape \[3.*\], expected \[2",
        ),
        ("file:w.pt", "mine", {"architecture": "test_vit", "classes": list("abc")}, InputError, "keys missing"),
        ("file:w.pt", "mine", {"architecture": "test_resnet", "classes": list("aab")}, InputError, "'a' is given twice"),
        ("file:absent.pt", "mine", {"architecture": "resnet18", "classes": ["a"]}, InputError, "no such file"),
        ("timm:resnet18", "mine", {"classes": ["a"]}, InputError, "says by itself what it is; leave out classes"),
        ("clip-vit-b32", "mine", {"classes": ["a"]}, InputError, "can be told of file:PATH and onnx:PATH only"),
        ("file:w.pt", "mine", {"architcture": "resnet18"}, InputError, "'architcture' cannot be told .* mean architecture"),
        ("file:w.pt", "mine", {"architecture": "test_resnet", "classes": []}, InputError, "at least one name, found none"),
        ("file:w.pt", "mine", {"classes": ["a"], "kind": "scores"}, InputError, "expected logits or probabilities"),
        ("timm:resnet18", "resnet8-cosine", {}, InputError, "always means a recipe"),
        ("resnet8-cosine", "mine", {}, InputError, "cannot go by another name"),
    ],
)
def test_what_cannot_be_named(folder: Path, entry: str, name: str, told: dict, error: type, message: str) -> None:
    torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), "w.pt")
    with pytest.raises(error, match=message):
        zoo.register(entry, name, **told)


@pytest.fixture(autouse=True)
def _forget():
    yield
    registry._registered.clear()
