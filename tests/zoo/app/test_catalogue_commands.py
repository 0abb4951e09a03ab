"""`zoo list` and `zoo show`, as a person runs them."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zoo
from zoo.cards import card as cards


def command(*words: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run([sys.executable, "-m", "zoo", *words], capture_output=True, text=True, env=environment)


def test_list_fits_the_terminal_and_names_stay_whole() -> None:
    result = command("list")
    lines = result.stdout.splitlines()
    assert result.returncode == 0
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines[1:]]
    assert names == zoo.list()
    assert lines[0].split()[:3] == ["name", "family", "data"]
    assert f"{len(names)} models" in result.stderr


def test_list_a_pattern() -> None:
    lines = command("list", "clip-*").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == zoo.list("clip-*")


def test_every_line_says_where_the_weights_are() -> None:
    result = command("list")
    words = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert "local" in words["efficientnet-lite0"]
    assert "download" in words["clip-vit-b32"]
    assert "train" in words["resnet50-cosine.in1k"]
    assert "never" in words["simclr-resnet50"]
    here = sum(bool({"local", "shipped"} & set(line)) for line in words.values())
    assert here > 3  # those of packages, and those that come with this one
    assert f"{here} with weights on this machine" in result.stderr


def test_list_by_fields() -> None:
    rows = json.loads(command("list", "-f", "objective=cosine", "--json").stdout)
    assert [row["name"] for row in rows] == zoo.list(objective="cosine")
    assert set(rows[0]) >= {"name", "family", "dataset", "framework", "objective", "license", "accuracy", "weights"}
    assert {row["weights"] for row in rows} <= {"shipped", "local", "to download", "to train", "never published"}
    rows = json.loads(command("list", "--field", "accuracy=74..78", "--field", "source=timm", "--json").stdout)
    assert rows
    assert all(74 <= row["accuracy"] <= 78 and row["source"] == "timm" for row in rows)
    assert {row["accuracy_by"] for row in rows} == {"library"}
    shown = command("list", "resnet50-ra").stdout
    assert f"{zoo.card('resnet50-ra').accuracy:.2f} l" in shown
    rows = json.loads(command("list", "-f", "tau=0.05", "--json").stdout)
    assert "resnet50-cosine.in1k" in [row["name"] for row in rows]
    rows = json.loads(command("list", "-f", "input_size=[3, 299, 299]", "--json").stdout)
    assert "inception-v3" in [row["name"] for row in rows]


def test_nothing_found_is_no_failure() -> None:
    result = command("list", "no-such-*")
    assert (result.returncode, result.stdout) == (0, "")
    assert "no model matches no-such-*" in result.stderr
    assert json.loads(command("list", "no-such-*", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "-f", "objectiv=cosine"), "zoo: unknown field 'objectiv'; did you mean objective?"),
        (("list", "-f", "objective"), "zoo: --field objective: expected KEY=VALUE, e.g. objective=cosine"),
        (("list", "-f", "accuracy=a..b"), "zoo: --field accuracy=a..b: the value cannot be read"),
        (("show", "resnet50-cosin"), "did you mean resnet50-cosine?"),
        (("show", "../../etc/passwd"), "expected letters, digits"),
    ],
)
def test_mistakes_end_in_one_line_and_exit_code_2(words: tuple[str, ...], message: str) -> None:
    result = command(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "--nonsense"), "No such option: --nonsense"),
        (("show",), "Missing argument"),
        (("lst",), "Did you mean 'list'?"),
        (("ensemble", "a", "--steps", "many"), "a valid integer"),
    ],
)
def test_wrong_words_are_explained_with_exit_code_2(words: tuple[str, ...], message: str) -> None:
    result = command(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert max(map(len, result.stderr.splitlines())) <= 80
    assert "\x1b" not in result.stderr  # no colour when piped


def test_help_shows_tasks_and_examples() -> None:
    result = command("--help")
    assert result.returncode == 0
    assert "Compare and combine" in result.stdout
    assert "zoo compare resnet8-cosine resnet8-softmax --data digits:test" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "name", ["resnet50-cosine.in1k", "clip-vit-b32", "resnet8", "mpl-efficientnet-l2", "resnet8-cosine-s3"]
)
def test_show(name: str) -> None:
    result = command("show", name)
    assert result.returncode == 0
    card = zoo.card(name)
    assert zoo.availability(name) in result.stdout
    for said in (name, card.license, card.architecture, card.training.dataset, card.training.objective):
        assert said in result.stdout
    # Addresses are left in one piece, however long.
    assert all(len(line) <= 80 or "https://" in line for line in result.stdout.splitlines())


def test_show_json_and_the_card_itself() -> None:
    shown = json.loads(command("show", "resnet50-cosine.imagenet-1k", "--json").stdout)
    assert shown["training"]["objective"] == "cosine"
    assert shown["accuracy"] == 77.9
    assert (shown["name"], shown["weights"], shown["trained_here"]) == ("resnet50-cosine.in1k", "to train", None)
    assert command("show", "resnet50-cosine.in1k", "--card").stdout == zoo.card("resnet50-cosine.in1k").path.read_text()
    member = command("show", "resnet8-cosine", "--card")
    assert cards.parse(member.stdout, "member") == zoo.card("resnet8-cosine.digits")
    assert member.stderr.startswith("zoo: resnet8-cosine is short for resnet8-cosine.digits; the one of ImageNet is ")
    made = command("show", "wrn-16-8-softmax.cifar10", "--card").stdout
    assert cards.parse(made, "made").architecture == "wrn-16-8"


def test_show_one_of_the_users_cards(zoo_home: Path) -> None:
    (zoo_home / "cards").mkdir()
    card = dataclasses.replace(zoo.card("resnet8-cosine"), name="mine", title="Mine", body="# Mine\n\nA note of my own.")
    (zoo_home / "cards" / "mine.md").write_text(cards.write(card))
    assert "A note of my own." in command("show", "mine").stdout
    assert "mine" in command("list", "mine").stdout


def test_imported_names_are_known(tmp_path: Path) -> None:
    """What was imported is listed and shown, with or without a description, and loads no torch."""
    rng = np.random.default_rng(0)
    for name in ("plain", "told"):
        np.savez(tmp_path / f"{name}.npz", logits=rng.normal(size=(30, 3)), labels=np.arange(30) % 3)
    (tmp_path / "models.csv").write_text("model,family,framework\ntold,convnext,supervised\n")
    for words in (["plain.npz"], ["told.npz", "--meta", str(tmp_path / "models.csv")]):
        result = command("import", str(tmp_path / words[0]), *words[1:], "--kind", "logits", "--data", "my-set")
        assert result.returncode == 0, result.stderr
    listed = {row["name"]: row for row in json.loads(command("list", "--json").stdout)}
    assert (listed["plain"]["weights"], listed["plain"]["family"]) == ("outputs only", "unknown")
    assert (listed["told"]["weights"], listed["told"]["family"]) == ("outputs only", "convnext")
    assert [row["name"] for row in json.loads(command("list", "-f", "family=convnext", "--json").stdout)][-1] == "told"
    assert json.loads(command("list", "plai*", "--json").stdout)[0]["name"] == "plain"
    for name in ("plain", "told"):
        assert "logits of 30 examples, 3 classes, on my-set" in command("show", name).stdout
        assert json.loads(command("show", name, "--json").stdout)["outputs"][0]["dataset"] == "my-set"
    assert "convnext" in command("show", "told").stdout
    unknown = command("show", "plian")
    assert unknown.returncode == 2


def test_list_loads_nothing_heavy() -> None:
    """It takes about half a second of processor time; the bound is one, for machines differ and a suite must not."""
    command("list")  # fills caches, as the first time ever does
    code = (
        "import sys, time\n"
        "from zoo.app.main import main\n"
        "sys.argv = ['zoo', 'list']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    loaded = {'torch', 'numpy', 'timm', 'rich.table'} & {*sys.modules}\n"
        "    print(time.process_time(), sorted(loaded), file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    seconds, loaded = result.stderr.splitlines()[-1].split(" ", 1)
    assert loaded == "[]"
    assert float(seconds) < 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_wait_briefly_unless_the_user_says_otherwise(given: dict[str, str], expected: str) -> None:
    """In a process of its own: torch reads it once, when it is loaded."""
    code = (
        "import os, sys\n"
        "from zoo.app.main import main\n"
        "sys.argv = ['zoo', '--version']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)\n"
    )
    plain = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=plain | given)
    assert result.stdout.splitlines()[-1] == f"{expected} False"


def test_help_has_an_example() -> None:
    assert "zoo list 'clip-*'" in command("list", "--help").stdout
    assert "zoo show resnet50-cosine.in1k" in command("show", "--help").stdout
