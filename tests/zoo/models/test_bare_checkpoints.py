"""Bare state dictionaries from training scripts, registered with `zoo card new` or `zoo.register`."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest
import timm
import torch
import torchvision
import typer
from PIL import Image
from raised import fields
from safetensors.torch import save_file
from typer.testing import CliRunner

import zoo
from zoo.app.main import app
from zoo.core import settings
from zoo.errors import InputError
from zoo.models import registry

IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 60, 3), np.uint8))
TORCHVISION = torchvision.models.mobilenet_v3_small  # an architecture that timm does not have under this name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("classes.txt").write_text("cat\ndog\nhorse\n")
    return tmp_path


def command(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def outputs(network: torch.nn.Module, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    model = zoo.load(name, device="cpu")
    with torch.inference_mode():
        return model.predict(IMAGE), network.eval()(model.transform(IMAGE)[None])


def test_a_checkpoint_is_described_on_the_command_line_and_loaded_by_name(folder: Path) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in network.state_dict().items()}}, "best.pth.tar")
    command("card", "new", "file:best.pth.tar", "--arch", "test_resnet", "--classes", "classes.txt", "--name", "my-model")
    assert zoo.card("my-model").path == settings.home() / "cards/my-model.md"
    found, expected = outputs(network, "my-model")
    assert torch.allclose(found, expected, atol=1e-5)
    assert zoo.load("my-model").classes == ("cat", "dog", "horse")
    assert "my-model" in command("list", "my-*")
    assert json.loads(command("run", "my-model", "--data", "digits:test[:4]", "--json"))[0]["model"] == "my-model"


def test_checkpoints_of_timms_training_script(folder: Path) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    options = argparse.Namespace(model="test_resnet", output=Path("out"), lr=0.1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    average = timm.utils.ModelEmaV3(network)
    for values in average.parameters():
        values.data += 1  # so that the average differs
    saver = timm.utils.CheckpointSaver(network, optimizer, options, average, checkpoint_dir=".", recovery_dir=".")
    saver.save_checkpoint(3, metric=np.float64(70.5))
    command("card", "new", "file:model_best.pth.tar", "--arch", "test_resnet", "--classes", "classes.txt", "--name", "mine")
    found, expected = outputs(average.module, "mine")
    assert torch.allclose(found, expected, atol=1e-5)


def test_checkpoints_of_torchvisions_training_script(folder: Path) -> None:
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
    found, expected = outputs(average.module, "mine")
    assert torch.allclose(found, expected, atol=1e-5)


def test_checkpoints_of_lightning(folder: Path) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    saved = {
        "epoch": 3, "global_step": 100, "pytorch-lightning_version": "2.5.0", "loops": {"fit_loop": {"state_dict": {}}},
        "state_dict": {f"model.{key}": value for key, value in network.state_dict().items()},
        "callbacks": {"ModelCheckpoint{'monitor': 'val'}": {"best_model_score": torch.tensor(0.5), "dirpath": "/runs"}},
        "hyper_parameters": {"lr": 0.1},
    }  # fmt: skip
    torch.save(saved, "epoch=3.ckpt")
    zoo.register("file:epoch=3.ckpt", "mine", architecture="test_resnet", classes=["cat", "dog", "horse"])
    found, expected = outputs(network, "mine")
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("key", ["net", "model_state_dict", "weights", "params"])
def test_checkpoints_of_other_scripts(folder: Path, key: str) -> None:
    """The weights are the only entry that holds tensors by name."""
    network = timm.create_model("test_resnet", num_classes=3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    network(torch.zeros(2, 3, 64, 64)).sum().backward()
    optimizer.step()
    parallel = torch.nn.DataParallel(network)
    saved = {key: parallel.state_dict(), "acc": 95.2, "epoch": 199, "optimizer": optimizer.state_dict()}
    torch.save(saved, "ckpt.pth")
    zoo.register("file:ckpt.pth", key, architecture="test_resnet", classes=["cat", "dog", "horse"])
    found, expected = outputs(network, key)
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_checkpoint_without_weights_is_an_error_that_lists_its_keys(folder: Path) -> None:
    for saved in ({"epoch": 3, "loss": 0.5}, {"generator": {"w": torch.ones(1)}, "discriminator": {"w": torch.ones(1)}}):
        torch.save(saved, "ckpt.pth")
        with pytest.raises(InputError, check=fields(where="ckpt.pth", problem=[*saved])):
            zoo.register("file:ckpt.pth", "mine", architecture="test_resnet", classes=["cat", "dog", "horse"])


@pytest.mark.parametrize("prefix", ["", "model.", "module.", "_orig_mod.", "model.module.", "net.backbone."])
def test_prefixes_of_keys_are_removed(folder: Path, prefix: str) -> None:
    network = timm.create_model("test_resnet", num_classes=3)
    save_file({prefix + key: value for key, value in network.state_dict().items()}, "w.safetensors")
    name = f"prefixed-{len(prefix)}"
    zoo.register("file:w.safetensors", name, architecture="test_resnet", classes=["a", "b", "c"])
    found, expected = outputs(network, name)
    assert torch.allclose(found, expected, atol=1e-5)


def test_the_library_whose_network_fits_is_found(folder: Path) -> None:
    """timm and torchvision have an `efficientnet_b0` with different keys."""
    for library, network in (
        ("torchvision", torchvision.models.efficientnet_b0(num_classes=3)),
        ("timm", timm.create_model("efficientnet_b0", num_classes=3)),
    ):
        torch.save(network.state_dict(), f"{library}.pt")
        card = zoo.register(
            f"file:{library}.pt", f"of-{library}", architecture="efficientnet_b0", classes=["a", "b", "c"], size=64
        )
        assert (card.details["library"], card.transform.size) == (library, (3, 64, 64))
        found, expected = outputs(network, card.name)
        assert torch.allclose(found, expected, atol=1e-4)


def test_an_assumed_input_size_is_noted_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(TORCHVISION(num_classes=3).state_dict(), "without_size.pth")
    hints = {"architecture": "mobilenet_v3_small", "classes": ["cat", "dog", "horse"]}
    assert zoo.load("file:without_size.pth", **hints).transform.size == (3, 224, 224)
    note = capsys.readouterr().err
    for fact in ("file:without_size.pth", "224 x 224", "mobilenet_v3_small", "--image-size", "size="):
        assert fact in note
    zoo.load("file:without_size.pth", **hints)
    assert zoo.load("file:without_size.pth", size=32, **hints).transform.size == (3, 32, 32)
    assert "224" not in capsys.readouterr().err


def test_a_checkpoint_is_described_and_run_by_one_command(folder: Path) -> None:
    torch.save(TORCHVISION(num_classes=3).state_dict(), "mine.pth")
    words = ("run", "file:mine.pth", "--arch", "mobilenet_v3_small", "--classes", "classes.txt", "--data", "digits:test[:4]")
    (row,) = json.loads(command(*words, "--json"))
    assert (row["model"], row["classes"]) == ("mine", 3)
    assert zoo.run("mine", data="digits:test[:4]", progress=False)["mine"].logits.shape == (4, 3)
    result = CliRunner().invoke(app, ["run", "resnet8-cosine", "--arch", "resnet18"])
    assert result.exit_code != 0


@pytest.fixture
def two_checkpoints(folder: Path) -> list[str]:
    """Two checkpoints of the same file name in different folders, and a folder of images of their classes."""
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


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # about models with random weights
def test_commands_on_bare_files(two_checkpoints: list[str]) -> None:
    hints = ("--arch", "test_resnet", "--classes", "classes.txt")
    data = ("--data", "folder:images:test")
    for words in (
        ("compare", *two_checkpoints, *data, "--resamples", "10"),
        ("ensemble", "search", *two_checkpoints, "--base", two_checkpoints[1], *data, "--uncalibrated"),
        ("pairs", *two_checkpoints, *data),
    ):
        registry._registered.clear()  # as in a new process
        printed = command(*words, *hints, "--json")
        assert "run1-best" in printed, words
        assert "run2-best" in printed, words
    registry._registered.clear()
    assert json.loads(command("show", two_checkpoints[0], *hints, "--json"))["architecture"] == "test_resnet"
    registry._registered.clear()
    assert zoo.run("run2-best", data=data[1], progress=False).names == ["run2-best"]  # stored, so the name is enough


def test_every_command_that_runs_models_takes_bare_files() -> None:
    def commands(group: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
        for name, command in getattr(group, "commands", {}).items():
            yield from commands(command, (*words, name))
        if words and not hasattr(group, "commands"):
            yield " ".join(words), group

    takes_models = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands(typer.main.get_group(app))
        if {"model", "models"} & {parameter.name for parameter in command.params}
    }
    without = {name for name, options in takes_models.items() if not {"--arch", "--classes"} <= options}
    assert {"run", "compare", "ensemble search"} <= takes_models.keys()
    assert without == {"list", "demo", "figure", "train", "ship", "outputs", "rm"}  # these use stored outputs or recipes


def test_a_file_with_the_name_of_a_known_model_is_named_after_its_folder_too(folder: Path) -> None:
    torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), "densenet121.pth")
    shown = command("show", "file:densenet121.pth", "--arch", "test_resnet", "--classes", "classes.txt", "--json")
    assert json.loads(shown)["name"] == f"{folder.name}-densenet121"


def test_a_library_model_is_registered_under_another_name(folder: Path) -> None:
    command("card", "new", "timm:resnet18", "--name", "my-resnet")
    card = zoo.card("my-resnet")
    assert (card.source, card.id) == ("timm", zoo.card("timm:resnet18").id)
    assert card.path.read_text().count("# my-resnet") == 1
    assert zoo.load("my-resnet", pretrained=False, device="meta").name == "my-resnet"
    with pytest.raises(InputError, check=fields(argument="name", found="my-resnet")):
        zoo.register("timm:resnet34", "my-resnet", keep=True)


@pytest.mark.parametrize(
    ("entry", "hints", "check"),
    [
        ("file:w.pt", {"size": 32}, fields(where="file:w.pt", argument="architecture", problem=["architecture", "classes"])),
        ("file:w.pt", {"architecture": "resnet18"}, fields(where="file:w.pt", argument="classes", problem="classes")),
        (
            "file:w.pt",
            {"architecture": "test_resnot", "classes": list("abc")},
            fields(name="test_resnot", suggestions=("test_resnet",)),
        ),
        (
            "file:w.pt",
            {"architecture": "test_resnet", "classes": list("ab")},
            fields(where="w.pt", problem=["shape [3", "[2", "timm"]),
        ),
        ("file:w.pt", {"architecture": "test_vit", "classes": list("abc")}, fields(where="w.pt", problem="missing")),
        ("file:absent.pt", {"architecture": "resnet18", "classes": ["a"]}, fields(where="file:absent.pt")),
        ("timm:resnet18", {"classes": ["a"]}, fields(where="timm:resnet18", problem="classes")),
        ("clip-vit-b32", {"classes": ["a"]}, fields(where="clip-vit-b32", argument="classes", problem="file:PATH")),
        ("file:w.pt", {"architcture": "resnet18"}, fields(name="architcture", suggestions=("architecture",))),
        ("file:w.pt", {"architecture": "test_resnet", "classes": []}, fields(argument="classes", expected="at least one")),
        ("file:w.pt", {"classes": ["a"], "kind": "scores"}, fields(argument="kind", found="scores")),
        ("file:w.pt", {"classes": ["a"], "size": 0}, fields(argument="size", found=0)),
        ("resnet8-cosine", {}, fields(where="resnet8-cosine.digits", hint="zoo train RECIPE --name mine")),
    ],
)
def test_what_cannot_be_registered(folder: Path, entry: str, hints: dict, check: Callable) -> None:
    torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), "w.pt")
    with pytest.raises(InputError, check=check):
        zoo.register(entry, "mine", **hints)


def test_classes_must_be_unique(folder: Path) -> None:
    torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), "w.pt")
    with pytest.raises(InputError, match="'a'"):
        zoo.register("file:w.pt", "mine", architecture="test_resnet", classes=list("aab"))


def test_hints_without_a_name_and_the_name_of_a_recipe_are_errors() -> None:
    with pytest.raises(InputError, check=fields(argument="name", problem="architecture")):
        zoo.register("file:w.pt", architecture="resnet18")
    with pytest.raises(InputError, match="resnet8-cosine"):
        zoo.register("timm:resnet18", "resnet8-cosine")


@pytest.fixture(autouse=True)
def _forget():
    yield
    registry._registered.clear()
