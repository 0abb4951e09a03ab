"""The registry: names, filters, registration, missing weights, and speed."""

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
from raised import fields

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
    monkeypatch.setattr(registry, "_shown", set())


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})


def test_listing_and_cards_load_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, zoo; zoo.list('resnet50-*'); zoo.card('resnet8-cosine-s3'); print({'torch', 'numpy'} & {*sys.modules})"
    )
    assert python(code).stdout.strip() == "set()"


def test_the_list_is_sorted_and_expands_sweeps() -> None:
    names = zoo.list()
    assert names == sorted(names)
    assert len(names) == len({name.lower() for name in names})
    assert "resnet8-cosine.digits" in names
    assert "resnet8" not in names


def test_the_list_is_filtered_by_patterns_and_fields() -> None:
    assert zoo.list("resnet50-*", objective="cosine") == ["resnet50-cosine.in1k"]
    assert zoo.list("resnet50-cosine.in1k", tau=0.05) == ["resnet50-cosine.in1k"]
    assert zoo.list("resnet50-cosine.in1k", tau=0.06) == []
    assert zoo.list("resnet50-cosine") == ["resnet50-cosine.digits"]  # the default dataset
    assert zoo.list("*-cosine") == [name for name in zoo.list() if "-cosine." in name]
    band = zoo.list(accuracy=(74, 78), source="timm")
    assert band == [name for name in zoo.list(source="timm") if 74 <= (zoo.card(name).accuracy or 0) <= 78]
    assert band
    assert set(zoo.list(accuracy=(None, 78))) & set(band) == set(band)
    with pytest.raises(InputError, check=fields(argument="accuracy", found=(0.74, 0.78))):
        zoo.list(accuracy=(0.74, 0.78))
    assert zoo.list("no-such-*") == []
    both = zoo.list("resnet50-*", objective=["cosine", "sigmoid"])
    assert both == sorted(zoo.list("resnet50-*", objective="cosine") + zoo.list("resnet50-*", objective="sigmoid"))
    assert "clip-vit-b32" in zoo.list(input_size=(3, 224, 224))


@pytest.mark.parametrize(("field", "suggestions"), [("objectiv", ("objective",)), ("zzz", ())])
def test_an_unknown_field_is_an_error(field: str, suggestions: tuple[str, ...]) -> None:
    with pytest.raises(UnknownName, check=fields(kind="field", name=field, suggestions=suggestions)):
        zoo.list(**{field: 1})


@pytest.mark.parametrize(
    ("name", "kind", "suggestion"),
    [
        ("resnet50-cosin", "model", "resnet50-cosine"),
        ("tim:resnet18", "library", "timm"),
        ("timm:resnet1", None, "resnet18"),
    ],
)
def test_an_unknown_name_suggests_similar_ones(name: str, kind: str | None, suggestion: str) -> None:
    with pytest.raises(UnknownName) as caught:
        zoo.load(name)
    assert kind in (None, caught.value.kind)
    assert suggestion in caught.value.suggestions


@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "/etc/passwd", "a\0b", "x" * 300, "", "C:\\x"])
def test_invalid_names_are_errors(name: str) -> None:
    with pytest.raises(InputError):
        zoo.card(name)
    with pytest.raises(InputError):
        zoo.load(name, pretrained=False)


def test_a_users_card_is_read_again_when_it_changes(zoo_home: Path) -> None:
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
def test_a_users_card_cannot_change_what_a_shipped_name_means(zoo_home: Path, name: str) -> None:
    before, names = {other: zoo.card(other) for other in [*zoo.list(), "resnet50-cosine", "resnet8"]}, zoo.list()
    path = put(zoo_home, a_card(name, family="an impostor"))
    with pytest.warns(ZooWarning) as caught:
        assert zoo.list() == names
    (message,) = (str(warning.message) for warning in caught)
    assert message.startswith(f"{path}: ")
    assert repr(name) in message
    assert {other: zoo.card(other) for other in before} == before  # without a second warning


@pytest.mark.parametrize("text", ["no front matter", "---\nzoo: [\n---\n", "\0\0"])
def test_an_invalid_card_is_skipped_with_a_warning(zoo_home: Path, text: str) -> None:
    put(zoo_home, a_card("mine"))
    (zoo_home / "cards" / "broken.md").write_text(text)
    with pytest.warns(ZooWarning, match=r"broken\.md"):
        assert "mine" in zoo.list()
    assert zoo.card("mine").family == "resnet"


def test_names_that_differ_only_by_case_are_refused() -> None:
    with pytest.raises(InputError, check=fields(argument="name", found="CLIP-ViT-B32", problem="clip-vit-b32")):
        zoo.register(a_card("CLIP-ViT-B32"))


@pytest.mark.parametrize("name", ["resnet50-cosine.in1k", "resnet50-cosine", "mine-softmax"])
def test_the_name_of_a_recipe_cannot_be_registered(name: str) -> None:
    with pytest.raises(InputError, match=name):
        zoo.register(a_card(name))


def test_the_first_shorthand_of_a_process_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    zoo.card("resnet50-cosine.in1k")
    zoo.card("clip-vit-b32")
    assert capsys.readouterr().err == ""
    assert zoo.card("resnet50-cosine").name == "resnet50-cosine.digits"
    (line,) = capsys.readouterr().err.splitlines()
    assert {"resnet50-cosine", "resnet50-cosine.digits;", "resnet50-cosine.in1k"} <= {*line.split()}
    zoo.card("resnet8-cosine")
    assert capsys.readouterr().err == ""


def test_shorthand_means_the_default_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_DATASET", "imagenet-1k")
    assert zoo.card("resnet50-cosine") == zoo.card("resnet50-cosine.in1k")
    monkeypatch.setenv("ZOO_DATASET", "cifar100")
    assert zoo.load("resnet8-cosine", pretrained=False).name == "resnet8-cosine.cifar100"


def test_a_card_or_the_file_of_a_card_is_registered(tmp_path: Path) -> None:
    zoo.register(a_card("mine"))
    assert zoo.card("mine").family == "resnet"
    assert "mine" in zoo.list("mi*")
    with pytest.raises(InputError, check=fields(argument="name", found="mine")):
        zoo.register(a_card("mine"))
    path = tmp_path / "yours.md"
    path.write_text(cards.write(a_card("yours")))
    zoo.register(path)
    assert zoo.card("yours").path == path
    with pytest.raises(InputError, match=r"\.\./mine"):
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


def test_another_seed_on_the_papers_dataset_has_the_papers_card() -> None:
    assert zoo.card("resnet50-cosine-s3.in1k").reference == zoo.card("resnet50-cosine.in1k").reference
    assert zoo.card("resnet50-cosine.in1k").hyperparameters["tau"] == 0.05
    assert not zoo.card("resnet50-cosine.cifar10").reference
    assert zoo.card("resnet50-cosine.cifar10").labels == "cifar10"


def test_a_recipe_of_an_unknown_architecture_is_an_error() -> None:
    check = fields(where="resnet8000-cosine.digits", kind="architecture", name="resnet8000")
    with pytest.raises(UnknownName, check=check):
        zoo.card("resnet8000-cosine")


def test_a_recipe_of_an_unknown_dataset_is_an_error() -> None:
    with pytest.raises(UnknownName, check=fields(where="resnet8-cosine.cifar11", name="cifar11")) as caught:
        zoo.card("resnet8-cosine.cifar11")
    assert "cifar10" in caught.value.suggestions
    assert zoo.card("resnet8-cosine.food101").dataset == "food101"


@pytest.mark.parametrize("pretrained", [True, False])
def test_loading_a_model_that_was_never_published_is_an_error(pretrained: bool) -> None:
    problem = ["never published", "Gontijo-Lopes 2021", "Table 1"]
    with pytest.raises(MissingWeights, check=fields(where="simclr-resnet50", problem=problem)):
        zoo.load("simclr-resnet50", pretrained=pretrained)


def test_loading_a_sweep_is_an_error_that_lists_its_members() -> None:
    assert len(zoo.card("resnet8").sweep) == 9
    with pytest.raises(InputError, check=fields(where="resnet8", hint="resnet8-softmax.digits")):
        zoo.load("resnet8", pretrained=False)


def test_missing_trained_weights_are_an_error_that_names_the_command(
    monkeypatch: pytest.MonkeyPatch, zoo_home: Path
) -> None:
    with pytest.raises(MissingWeights, check=fields(hint="`zoo train resnet50-cosine.in1k`")):
        zoo.load("resnet50-cosine.in1k")
    with pytest.raises(MissingWeights, check=fields(hint="`zoo train resnet8-cosine-s3.cifar10`")):
        zoo.load("resnet8-cosine-s3.cifar10")
    monkeypatch.setenv("ZOO_AUTOTRAIN", "0")
    problem = f"{zoo_home}/weights/resnet8-cosine.digits/model.safetensors"
    with pytest.raises(MissingWeights, check=fields(problem=problem, hint="`zoo train resnet8-cosine.digits`")):
        zoo.load("resnet8-cosine")
    monkeypatch.setenv("ZOO_DATASET", "cifar100")
    with pytest.raises(MissingWeights, check=fields(hint="`zoo train resnet50-softmax.cifar100`")):
        zoo.load("resnet50-softmax")


@pytest.fixture(params=["offline", "silent"])
def network(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Settings of an offline hub client; or of a hub that accepts connections and never answers."""
    if request.param == "offline":
        yield {"HF_HUB_OFFLINE": "1"}
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": f"http://127.0.0.1:{server.getsockname()[1]}"}


def test_missing_weights_without_a_network_are_an_error_without_delay(tmp_path: Path, network: dict[str, str]) -> None:
    """In a new process, in which neither torch nor a model library is loaded."""
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
        assert float(seconds) < 10  # about one second on an idle machine; the client alone retries for 30
        assert message.startswith(f"{name}: ")
        assert str(tmp_path / "hub") in message
        assert f"`hf download {repository}`" in message


@pytest.mark.parametrize("damaged", [True, False])
def test_a_missing_or_damaged_index_of_cards_changes_nothing(
    zoo_home: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    shipped = registry.shipped_folder()
    monkeypatch.setattr(card_index, "_read", {})
    plain = card_index.read(shipped)
    (index,) = (zoo_home / "cache").glob("cards-*.json")
    if damaged:
        index.write_text(index.read_text()[:500])
    monkeypatch.setattr(card_index, "_read", {})
    assert card_index.read(shipped) == plain
    assert [card.path for card in card_index.read(shipped)] == [card.path for card in plain]
    stored = json.loads(index.read_text())
    assert len(stored["cards"]) == len(plain)


def test_the_list_works_with_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ZOO_HOME", str(blocked / "home"))
    monkeypatch.setattr(card_index, "_read", {})
    assert "resnet50-cosine.in1k" in zoo.list()


def test_a_card_is_found_quickly() -> None:
    zoo.card("resnet50-cosine")
    start = time.process_time()
    zoo.card("clip-vit-b32")
    assert time.process_time() - start < 0.1


def test_cards_link_the_repository_that_the_library_downloads_from() -> None:
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


def test_the_card_of_a_recipe_is_written_and_read_under_another_name(zoo_home: Path) -> None:
    card = dataclasses.replace(zoo.card("resnet8-cosine-s3.cifar10"), name="mine")
    put(zoo_home, card)
    assert zoo.card("mine") == card
