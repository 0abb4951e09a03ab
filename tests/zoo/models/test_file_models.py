"""A state dictionary and nothing else, as training scripts leave them: named once with `zoo card new` or `zoo.register`."""

import argparse
import json
import re
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torchvision
import typer
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import zoo
from zoo.app.main import app
from zoo.core import settings
from zoo.errors import InputError, UnknownName
from zoo.models import registry

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


def test_as_timms_training_script_leaves_it(folder: Path) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    options = argparse.Namespace(model="test_resnet", output=Path("out"), lr=0.1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    average = timm.utils.ModelEmaV3(network)
    for values in average.parameters():
        values.data += 1  # so that the two are told apart
    saver = timm.utils.CheckpointSaver(network, optimizer, options, average, checkpoint_dir=".", recovery_dir=".")
    saver.save_checkpoint(3, metric=np.float64(70.5))
    command("card", "new", "file:model_best.pth.tar", "--arch", "test_resnet", "--classes", "classes.txt", "--as", "mine")
    found, expected = answers(average.module, "mine")
    assert torch.allclose(found, expected, atol=1e-5)


def test_as_torchvisions_training_script_leaves_it(folder: Path) -> None:
    """`references/classification/train.py` with --model-ema."""
    network = TORCHVISION(num_classes=3)
    average = torch.optim.swa_utils.AveragedModel(network, use_buffers=True)
    for values in average.parameters():
        values.data *= 0.9
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    saved = {
        "model": torch.nn.DataParallel(network).module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1).state_dict(),
        "epoch": 3,
        "args": argparse.Namespace(model="mobilenet_v3_small", data_path="/data", amp=False),
        "model_ema": average.state_dict(),
    }
    torch.save(saved, "model_3.pth")
    zoo.register("file:model_3.pth", "mine", architecture="mobilenet_v3_small", classes=["cat", "dog", "horse"])
    found, expected = answers(average.module, "mine")
    assert torch.allclose(found, expected, atol=1e-5)


def test_as_lightning_leaves_it(folder: Path) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    saved = {
        "epoch": 3, "global_step": 100, "pytorch-lightning_version": "2.5.0", "loops": {"fit_loop": {"state_dict": {}}},
        "state_dict": {f"model.{key}": value for key, value in network.state_dict().items()},
        "callbacks": {"ModelCheckpoint{'monitor': 'val'}": {"best_model_score": torch.tensor(0.5), "dirpath": "/runs"}},
        "hyper_parameters": {"lr": 0.1},
    }  # fmt: skip
    torch.save(saved, "epoch=3.ckpt")
    zoo.register("file:epoch=3.ckpt", "mine", architecture="test_resnet", classes=["cat", "dog", "horse"])
    found, expected = answers(network, "mine")
    assert torch.allclose(found, expected, atol=1e-5)


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
    assert "describe bare files, and no model is one" in str(result.exception)


@pytest.fixture
def two_checkpoints(folder: Path) -> list[str]:
    """As two runs of a training script leave them, both called best.pth, and a folder of images of its classes."""
    rng = np.random.default_rng(0)
    for seed in (1, 2):
        torch.manual_seed(seed)
        Path(f"run{seed}").mkdir()
        torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), f"run{seed}/best.pth")
    for split in ("train", "test"):
        for name in ("cat", "dog", "horse"):
            Path("images", split, name).mkdir(parents=True)
            for number in range(6):
                Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8)).save(
                    Path("images", split, name, f"{number}.png")
                )
    return ["file:run1/best.pth", "file:run2/best.pth"]


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # of models that know nothing
def test_commands_on_bare_files(two_checkpoints: list[str]) -> None:
    told = ("--arch", "test_resnet", "--classes", "classes.txt")
    data = ("--data", "folder:images:test")
    for words in (
        ("compare", *two_checkpoints, *data, "--resamples", "10"),
        ("ensemble", *two_checkpoints, "--base", two_checkpoints[1], *data, "--uncalibrated"),
        ("pairs", *two_checkpoints, *data),
    ):
        registry._registered.clear()  # as another process begins
        printed = command(*words, *told, "--json")
        assert "run1-best" in printed, words
        assert "run2-best" in printed, words
    registry._registered.clear()
    assert json.loads(command("show", two_checkpoints[0], *told, "--json"))["architecture"] == "test_resnet"
    registry._registered.clear()
    assert zoo.run("run2-best", data=data[1], progress=False).names == ["run2-best"]  # stored, so that the name is enough


def test_every_command_that_takes_models_takes_bare_files() -> None:
    def options(*words: str) -> set[str]:
        return set(re.findall(r"--[a-z]+", command(*words, "--help")))

    takes = {name for name in typer.main.get_group(app).commands if {"--arch", "--classes"} <= options(name)}
    assert takes == {
        "show", "run", "export", "compare", "calibrate", "pairs", "shift", "ensemble", "probe", "similarity", "separation",
        "report", "head", "accuracy", "triage", "recommend",
    }  # fmt: skip


def test_a_name_that_is_taken(folder: Path) -> None:
    torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), "densenet121.pth")
    shown = command("show", "file:densenet121.pth", "--arch", "test_resnet", "--classes", "classes.txt", "--json")
    assert json.loads(shown)["name"] == f"{folder.name}-densenet121"


def test_any_model_by_a_name_of_ones_own(folder: Path) -> None:
    command("card", "new", "timm:resnet18", "--as", "my-resnet")
    card = zoo.card("my-resnet")
    assert (card.source, card.id) == ("timm", zoo.card("timm:resnet18").id)
    assert card.path.read_text().count("# my-resnet") == 1
    assert zoo.load("my-resnet", pretrained=False, device="meta").name == "my-resnet"
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
