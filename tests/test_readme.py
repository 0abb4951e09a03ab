"""What the README says works as it stands there."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torchvision
from PIL import Image
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from torchvision import transforms
from typer.testing import CliRunner

import zoo
from zoo.app.main import app

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def section(title: str) -> str:
    return re.search(rf"^## {title}\n(.*?)(?=^## )", README, re.DOTALL | re.MULTILINE)[1]


def commands_of(title: str) -> list[str]:
    """What stands in the section's block of commands, several to a line."""
    (block,) = re.findall(r"\n```\n(.*?)```", section(title), re.DOTALL)
    return [command.strip() for command in re.split(r"\n|\s{2,}", block) if command.strip()]


COMMANDS = commands_of("The command line")
OWN = "Your own models, predictions, datasets"
STANDS_FOR = {
    "NAMES": "resnet8-softmax resnet8-cosine", "'resnet8-*'": "resnet8-cosine",
    "A": "resnet8-softmax", "B": "resnet8-cosine", "SPEC": "digits:test", "FILES": "made/one.npz", "FOLDER": "made",
    "FILE": "plan.yaml",
    "my-ensemble": "our-ensemble",  # the ten lines of Python have made one of that name
}  # fmt: skip
LONG = ("train", "concat", "compress", "demo")  # have tests of their own; here they are run by `make test-all`


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all of the README, so that each network is built once."""
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(autouse=True)
def elsewhere(zoo_home: Path, built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_HOME", str(built))
    monkeypatch.chdir(tmp_path)


# Whether three networks of a few hundred images gain beyond noise depends on the processor's rounding.
@pytest.mark.filterwarnings("ignore:the gain in accuracy:zoo.errors.ZooWarning")
def test_ten_lines_of_python() -> None:
    names: dict[str, object] = {}
    exec(BLOCKS[0], names)
    assert names["model"].card.objective == "cosine"
    assert names["path"].best_test_score > 0.9


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # made-up models gain nothing
def test_measures_take_plain_arrays() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    logits = rng.normal(size=(200, 3)) + 2 * np.eye(3)[labels]
    probabilities = np.stack([np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (logits, logits[:, ::-1])])
    names = {
        "logits": logits, "labels": labels, "probabilities": probabilities, "embeddings": rng.normal(size=(200, 5)),
        "pred_a": logits.argmax(1), "pred_b": rng.integers(0, 3, 200),
    }  # fmt: skip
    exec("import zoo, diversity, ensembles\n" + BLOCKS[1], names)


def alternatives(command: str) -> list[str]:
    """`probe NAMES --kind linear|knn` as one command for each kind."""
    choice = re.search(r"\S+\|\S+", command)
    return [command.replace(choice[0], one) for one in choice[0].split("|")] if choice else [command]


def marked(command: str) -> object:
    return pytest.param(command, marks=[pytest.mark.slow] if set(command.split()) & set(LONG) else [])


@pytest.mark.parametrize("command", [marked(one) for command in COMMANDS for one in alternatives(command)])
def test_commands(command: str) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    Path("made").mkdir()
    for name in ("one", "two"):
        np.savez(f"made/{name}.npz", logits=rng.normal(size=(60, 3)) + 2 * np.eye(3)[labels], labels=labels)
    Path("plan.yaml").write_text("models: [resnet8-softmax]")
    assert run(" ".join(STANDS_FOR.get(word, word) for word in command.split(" ")))


def make_files_of_ones_own() -> dict[str, object]:
    """A folder as training scripts and other people leave it; what the lines of Python call by name."""
    rng = np.random.default_rng(0)
    names = np.array(["cat", "dog", "owl"])
    y = rng.integers(0, 3, 60)
    Path("predictions").mkdir()
    np.save("predictions/labels.npy", y)
    for name in ("one", "two", "three"):
        np.save(f"predictions/{name}.npy", rng.normal(size=(60, 3)) + 2 * np.eye(3)[y])
        logits = rng.normal(size=(60, 3)) + np.eye(3)[y]
        zoo.store.save(zoo.import_outputs({"logits": logits, "labels": y}, name=name, data="my-new-set")[name])
    for folder in ("predictions/classes.txt", "classes.txt"):
        Path(folder).write_text("\n".join(names))
    pd.DataFrame({"model": ["one", "two", "three"], "family": "cnn", "params": "5M"}).to_csv("models.csv", index=False)
    for name in names:
        Path("images", name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(f"images/{name}/{number}.png")
    for seed, file in enumerate(("weights.pth", "other.pth")):
        torch.manual_seed(seed)
        torch.save(torchvision.models.resnet18(num_classes=3).state_dict(), file)
    images = torch.rand(6, 3, 32, 32)
    x, labels = load_iris(return_X_y=True)
    return {
        "network": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 3)),
        "transform": transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()]),
        "classes": list(names),
        "loader": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, torch.arange(6) % 3), batch_size=4),
        "forest": RandomForestClassifier(10, random_state=0).fit(x, labels),
        "features": x,
        "labels": labels,
        "frame": pd.DataFrame({"id": range(60), "y_pred": names[y]}),
    }


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # untrained models, and a name that has an import too
def test_ones_own_line_by_line() -> None:
    """The commands one after another, then the lines of Python, before what was imported is removed."""
    values = make_files_of_ones_own()
    *commands, last = commands_of(OWN)
    (block,) = re.findall(r"```python\n(.*?)```", section(OWN), re.DOTALL)
    assert (len(commands), len(block.splitlines())) == (10, 6)
    for command in commands:
        run(command.replace("NAMES", "one two three"))
    exec("import zoo", values)
    for line in block.splitlines():
        exec(line, values)
    assert values["theirs"]["theirs"].accuracy == 1
    assert values["trees"].accuracy == values["forest"].score(values["features"], values["labels"])
    assert values["runs"].names == ["mine", "my-model"]
    assert len(values["seen"]) == 6
    assert "theirs" in run("zoo outputs --data my-test-set")
    run(last.replace("NAMES", "one two three"))
    assert "three" not in run("zoo outputs --data my-test-set")
    assert {line.split(",")[0] for line in Path("kappa.csv").read_text().split()} == {"model", "one", "two", "three"}
    assert Path("tree.svg").read_text().startswith("<svg")


def run(command: str) -> str:
    program, *words = shlex.split(command)
    assert program == "zoo"
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{command}: {result.output} {result.exception!r}"
    return result.output


def test_commands_and_benchmarks_exist() -> None:
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    said = set(re.findall(r"(?:^|\s)zoo ([a-z]+)", README)) - {"of"}
    assert said <= known
    assert {command.split()[1] for command in COMMANDS} <= known
    assert len(COMMANDS) > 10
    folder = Path(__file__).parent / "benchmarks"
    assert all((folder / name).exists() for name in re.findall(r"`([a-z_]+\.py)[^`]*`", README))
