"""Models by name: where cards come from, which goes first, what filters find, and how quickly."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo
from zoo.cards import card as cards
from zoo.cards import card_index
from zoo.cards.card import Card, Training
from zoo.errors import InputError, MissingWeights, UnknownName, ZooWarning
from zoo.models import registry
from zoo.models import sources as lookup

TRAINING = Training("digits", "supervised", "softmax")


def a_card(name: str, **fields: object) -> Card:
    values = {"source": "recipe", "family": "resnet", "architecture": "resnet8", "labels": "digits", "link": "softmax",
              "head": "trained", "training": TRAINING} | fields  # fmt: skip
    return Card(name=name, **values)


def put(home: Path, card: Card) -> Path:
    path = home / "cards" / f"{card.name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(cards.write(card))
    return path


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_told", set())


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})


def test_import_is_light() -> None:
    code = (
        "import sys, zoo; zoo.list('resnet50-*'); zoo.card('resnet8-cosine-s3'); print({'torch', 'numpy'} & {*sys.modules})"
    )
    assert python(code).stdout.strip() == "set()"


def test_list_is_sorted_and_takes_sweeps_apart() -> None:
    names = zoo.list()
    assert names == sorted(names)
    assert len(names) == len({name.lower() for name in names})
    assert "resnet8-cosine.digits" in names
    assert "resnet8" not in names


def test_list_by_pattern_and_fields() -> None:
    assert zoo.list("resnet50-*", objective="cosine") == ["resnet50-cosine.in1k"]
    assert zoo.list("resnet50-cosine.in1k", tau=0.05) == ["resnet50-cosine.in1k"]
    assert zoo.list("resnet50-cosine.in1k", tau=0.06) == []
    assert zoo.list("resnet50-cosine") == ["resnet50-cosine.in1k"]  # without a dataset, on any
    assert zoo.list("*-cosine") == [name for name in zoo.list() if "-cosine." in name]
    band = zoo.list(accuracy=(74, 78), source="timm")
    assert band == [name for name in zoo.list(source="timm") if 74 <= (zoo.card(name).accuracy or 0) <= 78]
    assert band
    assert set(zoo.list(accuracy=(None, 78))) & set(band) == set(band)
    with pytest.raises(InputError, match="accuracy: cards have percent"):
        zoo.list(accuracy=(0.74, 0.78))
    assert zoo.list("no-such-*") == []
    both = zoo.list("resnet50-*", objective=["cosine", "sigmoid"])
    assert both == sorted(zoo.list("resnet50-*", objective="cosine") + zoo.list("resnet50-*", objective="sigmoid"))
    assert "clip-vit-b32" in zoo.list(input_size=(3, 224, 224))


def test_unknown_fields_are_named() -> None:
    with pytest.raises(InputError, match="unknown field 'objectiv'; did you mean objective"):
        zoo.list(objectiv="cosine")
    with pytest.raises(InputError, match="unknown field 'zzz'; fields: accuracy"):
        zoo.list(zzz=1)


def test_a_mistaken_name_is_met_with_the_near_one() -> None:
    with pytest.raises(UnknownName, match=r"did you mean resnet50-cosine\?$"):
        zoo.load("resnet50-cosin")
    with pytest.raises(UnknownName, match="did you mean timm"):
        zoo.card("tim:resnet18")
    with pytest.raises(UnknownName, match="resnet18"):
        zoo.card("timm:resnet1")


@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "/etc/passwd", "a\0b", "x" * 300, "", "C:\\x"])
def test_names_that_are_no_names(name: str) -> None:
    with pytest.raises(InputError):
        zoo.card(name)
    with pytest.raises(InputError):
        zoo.load(name, pretrained=False)


def test_the_users_card_is_read_again_when_it_changes(zoo_home: Path) -> None:
    path = put(zoo_home, a_card("mine", title="Mine"))
    assert zoo.card("mine").path == path
    assert zoo.list("mine", dataset="digits") == ["mine"]
    path.write_text(cards.write(a_card("mine", family="changed since")))
    os.utime(path, ns=(1, 1))
    assert zoo.card("mine").family == "changed since"
    path.unlink()
    with pytest.raises(UnknownName):
        zoo.card("mine")


@pytest.mark.parametrize(
    "name",
    ["resnet50-cosine.in1k", "resnet8-cosine.digits", "clip-vit-b32", "resnet8", "resnet50-cosine", "CLIP-ViT-B32",
     "resnet8-sigmoid-s4.in1k", "ResNet50-cosine.in1k"],
)  # fmt: skip
def test_nothing_in_the_home_changes_what_a_shipped_name_means(zoo_home: Path, name: str) -> None:
    before, names = {other: zoo.card(other) for other in [*zoo.list(), "resnet50-cosine", "resnet8"]}, zoo.list()
    path = put(zoo_home, a_card(name, family="an impostor"))
    with pytest.warns(ZooWarning) as caught:
        assert zoo.list() == names
    (said,) = (str(warning.message) for warning in caught)
    assert said.startswith(f"{path}: its name {name!r} ")
    assert "it is left out, rename it" in said
    assert {other: zoo.card(other) for other in before} == before  # and it is not said again


@pytest.mark.parametrize("text", ["no front matter", "---\nzoo: [\n---\n", "\0\0"])
def test_a_broken_card_is_named_and_left_out(zoo_home: Path, text: str) -> None:
    put(zoo_home, a_card("mine"))
    (zoo_home / "cards" / "broken.md").write_text(text)
    with pytest.warns(ZooWarning, match=r"broken\.md: .*; this card is left out"):
        assert "mine" in zoo.list()
    assert zoo.card("mine").family == "resnet"


def test_names_that_differ_only_by_case_are_refused() -> None:
    with pytest.raises(InputError, match="'clip-vit-b32' is registered already"):
        zoo.register(a_card("CLIP-ViT-B32"))


@pytest.mark.parametrize("name", ["resnet50-cosine.in1k", "resnet50-cosine", "mine-softmax"])
def test_a_recipes_name_cannot_be_registered(name: str) -> None:
    with pytest.raises(InputError, match=r"registered already|always means a recipe"):
        zoo.register(a_card(name))


def test_the_first_shorthand_of_a_process_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    zoo.card("resnet50-cosine.in1k")
    zoo.card("clip-vit-b32")
    assert capsys.readouterr().err == ""
    assert zoo.card("resnet50-cosine").name == "resnet50-cosine.digits"
    said = capsys.readouterr().err
    assert said == "zoo: resnet50-cosine is short for resnet50-cosine.digits; the one of ImageNet is resnet50-cosine.in1k\n"
    zoo.card("resnet8-cosine")
    assert capsys.readouterr().err == ""


def test_the_default_dataset_is_what_shorthand_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_DATASET", "imagenet-1k")
    assert zoo.card("resnet50-cosine") == zoo.card("resnet50-cosine.in1k")
    monkeypatch.setenv("ZOO_DATASET", "cifar100")
    assert zoo.load("resnet8-cosine", pretrained=False).name == "resnet8-cosine.cifar100"


def test_register_a_card_or_a_file(tmp_path: Path) -> None:
    zoo.register(a_card("mine"))
    assert zoo.card("mine").family == "resnet"
    assert "mine" in zoo.list("mi*")
    with pytest.raises(InputError, match="'mine' is registered already"):
        zoo.register(a_card("mine"))
    path = tmp_path / "yours.md"
    path.write_text(cards.write(a_card("yours")))
    zoo.register(path)
    assert zoo.card("yours").path == path
    with pytest.raises(InputError, match="expected letters, digits"):
        zoo.register(a_card("../mine"))


@pytest.mark.parametrize(
    ("name", "architecture", "objective", "seed", "dataset"),
    [
        ("resnet8-cosine-s3", "resnet8", "cosine", 3, "digits"),
        ("wrn-16-8-softmax.cifar10", "wrn-16-8", "softmax", 0, "cifar10"),
        ("resnet20-sigmoid+dropout", "resnet20", "sigmoid+dropout", 0, "digits"),
        ("resnet50-cosine-s2.in1k", "resnet50", "cosine", 2, "imagenet-1k"),
        ("resnet18-label-smoothing.cifar100", "resnet18", "label-smoothing", 0, "cifar100"),
    ],
)
def test_recipes_need_no_card(name: str, architecture: str, objective: str, seed: int, dataset: str) -> None:
    card = zoo.card(name)
    full = name if "." in name else f"{name}.digits"
    assert (card.name, card.source, card.architecture, card.objective) == (full, "recipe", architecture, objective)
    assert (card.seed, card.dataset) == (seed, dataset)
    assert card.link == ("sigmoid" if "sigmoid" in objective else "softmax")
    assert cards.parse(cards.write(card), name) == card


def test_the_papers_dataset_gives_the_papers_card() -> None:
    assert zoo.card("resnet50-cosine-s3.in1k").reference == zoo.card("resnet50-cosine.in1k").reference
    assert zoo.card("resnet50-cosine.in1k").hyperparameters["tau"] == 0.05
    assert not zoo.card("resnet50-cosine.cifar10").reference
    assert zoo.card("resnet50-cosine.cifar10").labels == "cifar10"


def test_no_recipe_for_an_architecture_nobody_has() -> None:
    with pytest.raises(UnknownName, match=r"unknown model 'resnet8000-cosine\.digits': 'resnet8000' is no architecture"):
        zoo.card("resnet8000-cosine")


def test_no_recipe_for_data_nobody_knows() -> None:
    with pytest.raises(UnknownName, match=r"'cifar11' is no dataset to train on, .*did you mean cifar1"):
        zoo.card("resnet8-cosine.cifar11")
    assert zoo.card("resnet8-cosine.food101").dataset == "food101"


def test_loading_what_was_never_published() -> None:
    with pytest.raises(
        MissingWeights, match=r"simclr-resnet50: this model was never published.*Gontijo-Lopes 2021, Table 1: SimCLR"
    ):
        zoo.load("simclr-resnet50")
    with pytest.raises(MissingWeights, match="never published"):
        zoo.load("simclr-resnet50", pretrained=False)


def test_a_sweep_is_shown_and_its_members_are_loaded() -> None:
    assert len(zoo.card("resnet8").sweep) == 9
    with pytest.raises(InputError, match=r"resnet8 stands for several models; load one of them: resnet8-softmax\.digits"):
        zoo.load("resnet8", pretrained=False)


def test_missing_trained_weights_name_the_command(monkeypatch: pytest.MonkeyPatch, zoo_home: Path) -> None:
    with pytest.raises(MissingWeights, match=r"`zoo train resnet50-cosine\.in1k`"):
        zoo.load("resnet50-cosine.in1k")
    with pytest.raises(MissingWeights, match=r"`zoo train resnet8-cosine-s3\.cifar10`"):
        zoo.load("resnet8-cosine-s3.cifar10")
    monkeypatch.setenv("ZOO_AUTOTRAIN", "0")
    with pytest.raises(
        MissingWeights,
        match=rf"{zoo_home}/weights/resnet8-cosine\.digits/model\.safetensors.*`zoo train resnet8-cosine\.digits`",
    ):
        zoo.load("resnet8-cosine")
    monkeypatch.setenv("ZOO_DATASET", "cifar100")
    with pytest.raises(MissingWeights, match=r"`zoo train resnet50-softmax\.cifar100`"):
        zoo.load("resnet50-softmax")


@pytest.fixture(params=["offline", "silent"])
def network(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """ModelHints to be offline; or a hub that takes every call and never says a word."""
    if request.param == "offline":
        yield {"HF_HUB_OFFLINE": "1"}
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": f"http://127.0.0.1:{server.getsockname()[1]}"}


def test_no_network_and_no_weights_is_said_within_a_second(tmp_path: Path, network: dict[str, str]) -> None:
    """In a process of its own: neither torch nor a model library is loaded to find out."""
    repositories = {
        "clip-vit-b32": "timm/vit_base_patch32_clip_224.openai",
        "vit-b16-augreg": "timm/vit_base_patch16_224.augreg2_in21k_ft_in1k",
        "align-zero-shot": "kakaobrain/align-base",
    }
    code = (
        "import sys, time, zoo; zoo.list()\n"
        f"for name in {[*repositories]}:\n"
        "    start = time.perf_counter()\n"
        "    try:\n"
        "        zoo.load(name)\n"
        "    except Exception as error:\n"
        "        print(time.perf_counter() - start, 'torch' in sys.modules, type(error).__name__, error, sep='|')\n"
    )
    result = python(code, HF_HUB_CACHE=str(tmp_path / "hub"), TORCH_HOME=str(tmp_path / "torch"), **network)
    lines = result.stdout.splitlines()
    assert len(lines) == len(repositories), result.stderr
    for line, (name, repository) in zip(lines, repositories.items(), strict=True):
        seconds, torch_loaded, kind, message = line.split("|", 3)
        assert (torch_loaded, kind) == ("False", "MissingWeights")
        assert float(seconds) < 10  # one, on an idle machine; the client by itself tries for half a minute
        assert message.startswith(f"{name}: the weights file of {repository} is not in the cache {tmp_path / 'hub'} and ")
        assert f"run `hf download {repository}`" in message


@pytest.mark.parametrize("damaged", [True, False])
def test_the_index_of_cards_is_only_a_shortcut(zoo_home: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool) -> None:
    shipped = registry.shipped_folder()
    monkeypatch.setattr(card_index, "_read", {})
    plain = card_index.read(shipped)
    (kept,) = (zoo_home / "cache").glob("cards-*.json")
    if damaged:  # read anew, no complaint
        kept.write_text(kept.read_text()[:500])
    monkeypatch.setattr(card_index, "_read", {})
    assert card_index.read(shipped) == plain
    assert [card.path for card in card_index.read(shipped)] == [card.path for card in plain]
    stored = json.loads(kept.read_text())
    assert len(stored["cards"]) == len(plain)


def test_a_home_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ZOO_HOME", str(blocked / "home"))
    monkeypatch.setattr(card_index, "_read", {})
    assert "resnet50-cosine.in1k" in zoo.list()


def test_a_card_is_found_in_no_time() -> None:
    zoo.card("resnet50-cosine")
    start = time.process_time()
    zoo.card("clip-vit-b32")
    assert time.process_time() - start < 0.1


def test_cards_link_the_repository_the_library_downloads_from() -> None:
    """What is said offline without loading a library rests on these links."""
    import open_clip
    import timm

    for name in zoo.list():
        card = zoo.card(name)
        if card.source == "timm":
            assert lookup.source("timm").repository(card) == timm.get_pretrained_cfg(card.id).hf_hub_id, name
        elif card.source == "open_clip":
            architecture, _, tag = card.id.rpartition("/")
            repository = open_clip.get_pretrained_cfg(architecture, tag)["hf_hub"].rpartition("/")[0]
            assert lookup.source("open_clip").repository(card) == repository, name


def test_a_card_made_here_can_be_written_and_read_under_a_name_of_ones_own(zoo_home: Path) -> None:
    made = dataclasses.replace(zoo.card("resnet8-cosine-s3.cifar10"), name="mine")
    put(zoo_home, made)
    assert zoo.card("mine") == made
