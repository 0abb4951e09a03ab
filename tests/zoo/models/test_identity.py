"""A name always means the same model: `load(n).card == card(n)`, and two seeds differ only in their seed."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from raised import fields

import zoo
from diversity.categories import category
from zoo.cards import card as cards
from zoo.cards import card_index, sources
from zoo.cards.card import EnsembleMember
from zoo.cards.names import RecipeName, parse_recipe
from zoo.cards.recipe_names import DATASETS, OBJECTIVES, SMALL_ARCHITECTURES
from zoo.core import files
from zoo.errors import CorruptFile, InputError
from zoo.models import registry, trained
from zoo.models import sources as lookup
from zoo.models.sources.base import Source

RECIPES = [name for name in zoo.list(source="recipe") if parse_recipe(name)]
CUSTOM = sorted({*zoo.list(source="recipe")} - {*RECIPES})  # shipped models that were trained with other settings
LARGE = ("wrn-16-8", "resnet50", "inception_v3")


def variants(name: str) -> list[str]:
    """Return a recipe, another seed, another dataset and, unless it is of another framework, a combination."""
    parts = parse_recipe(name)
    assert parts is not None
    recipes = [parts, dataclasses.replace(parts, seed=3), dataclasses.replace(parts, dataset="fashion-mnist")]
    if parts.objective in OBJECTIVES:
        other = "dropout" if parts.objective != "dropout" else "label-smoothing"
        recipes.append(dataclasses.replace(parts, objective=f"{parts.objective}+{other}", dataset="cifar10"))
    return [str(one) for one in recipes]


def test_a_card_depends_only_on_the_name(zoo_home: Path) -> None:
    """It is the same when the files are read again, and after writing and parsing."""
    names = [*zoo.list(), *(variant for name in RECIPES for variant in variants(name))]
    first = {name: zoo.card(name) for name in names}
    assert all(card.name == name for name, card in first.items())
    assert all(card.transform is not None and card.seed is not None for card in first.values() if card.source == "recipe")
    card_index._read.clear()
    assert {name: zoo.card(name) for name in names} == first
    assert all(cards.parse(cards.write(card), name) == card for name, card in first.items())


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.startswith(LARGE)])
def test_a_loaded_model_has_the_card_of_its_name(name: str) -> None:
    for variant in variants(name):
        model = zoo.load(variant, pretrained=False, device="cpu")
        assert (model.name, model.card) == (variant, zoo.card(variant))


@pytest.mark.parametrize("name", CUSTOM)
def test_a_model_with_custom_settings_has_the_card_of_its_name(name: str) -> None:
    for pretrained in (True, False):
        model = zoo.load(name, pretrained=pretrained, device="cpu")
        assert (model.name, model.card) == (name, zoo.card(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith(LARGE)])
def test_a_loaded_large_model_has_the_card_of_its_name(name: str) -> None:
    for variant in variants(name):
        assert zoo.load(variant, pretrained=False, device="meta").card == zoo.card(variant)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_seeds_are_in_the_category_reinit(objective: str, dataset: str) -> None:
    for architecture in (*SMALL_ARCHITECTURES, "resnet50", "inception_v3"):
        names = [str(RecipeName(architecture, objective, seed, dataset)) for seed in (0, 1, 17)]
        first, second, third = (zoo.card(name) for name in names)
        if first.sha256 is not None and first.training.initialisation is None:
            continue  # weights of an earlier version of the recipe, which their cards describe
        assert (first.seed, second.seed, third.seed) == (0, 1, 17)
        assert {category(first, second), category(second, third)} == {"reinit"}
        words = {"name": "", "title": "", "body": "", "sha256": None, "details": {}}  # facts about shipped weights
        training = dataclasses.replace(first.training, seed=1, initialisation=second.training.initialisation)
        assert dataclasses.replace(first, training=training, **words) == dataclasses.replace(second, **words)


def test_categories_of_another_framework_and_another_loss() -> None:
    dino, mae, beit = zoo.card("dino-vit-s16"), zoo.card("mae-vit-b16"), zoo.card("beit-base")
    assert category(dino, mae) == category(mae, dino) == "fwork"
    assert category(dino, dino) == "reinit"
    assert (
        category(mae, dataclasses.replace(beit, training=dataclasses.replace(beit.training, dataset=mae.dataset))) == "fwork"
    )
    assert category(zoo.card("resnet50-cosine.in1k"), zoo.card("resnet50-sigmoid.in1k")) == "hparam"
    unknown = dataclasses.replace(mae, training=dataclasses.replace(mae.training, objective="unknown"))
    assert category(dino, unknown) is None


def test_training_and_saving_do_not_change_what_a_name_means(zoo_home: Path) -> None:
    names = ["resnet8-cosine.digits", "resnet8-cosine-s3.digits", "resnet50-cosine.in1k"]
    before = {name: zoo.card(name) for name in names}
    made = zoo.train("resnet8-cosine", seed=3, progress=False)
    assert made.name == names[1]
    assert made.card == before[names[1]]
    model = zoo.load("resnet8-cosine-s3")
    assert model.card == before[names[1]]
    fitted = zoo.heads.fit_linear(model, torch.eye(2, model.num_features), [0, 1], ["x", "y"], name="pair")
    zoo.heads.save_linear(fitted)
    assert zoo.load("pair").card == zoo.card("pair")
    assert {name: zoo.card(name) for name in names} == before
    assert zoo.list("resnet8-cosine-s3") == [names[1]]
    assert zoo.availability(names[1]) == zoo.availability("pair") == "local"
    # A network that was trained with other settings than the recipe has now is not that recipe's model.
    record, tensors, _ = trained.read(trained.path(names[1]))
    training = dataclasses.replace(record.card.training, hyperparameters=record.card.hyperparameters | {"tau": 0.3})
    old = dataclasses.replace(record, card=dataclasses.replace(record.card, training=training))
    trained.path(names[1]).write_bytes(trained.encode(old, tensors))
    with pytest.raises(InputError, check=fields(where=names[1], problem=["tau", "0.3", "0.15"])):
        zoo.load(names[1])


@pytest.fixture
def shipped_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shipped cards with one recipe, whose weights are next to its card in float16."""
    folder = tmp_path / "cards"
    folder.mkdir()
    card = zoo.card("resnet8-cosine.cifar10")
    network = zoo.load(card.name, pretrained=False, device="cpu").network
    state = {name: value.half() if value.is_floating_point() else value for name, value in network.state_dict().items()}
    from safetensors.torch import save_file

    save_file(state, folder / f"{card.name}.safetensors")
    hashed = dataclasses.replace(card, sha256=files.sha256(folder / f"{card.name}.safetensors"))
    (folder / f"{card.name}.md").write_text(cards.write(hashed))
    monkeypatch.setattr(card_index, "shipped_folder", lambda: folder)
    return folder


def test_shipped_weights_are_preferred_and_loaded_as_float32(shipped_folder: Path) -> None:
    name = "resnet8-cosine.cifar10"
    assert (zoo.availability(name), zoo.availability("resnet8-cosine-s1.cifar10")) == ("shipped", "to train")
    model, random = zoo.load(name, device="cpu"), zoo.load(name, pretrained=False, device="cpu")
    assert model.card == random.card == zoo.card(name)
    for key, value in model.network.state_dict().items():
        expected = random.network.state_dict()[key]
        assert value.dtype == expected.dtype
        assert torch.equal(value, expected.half().float() if expected.is_floating_point() else expected)
    assert model.weights_hash == zoo.card(name).sha256


def test_changed_shipped_weights_are_refused(shipped_folder: Path) -> None:
    path = shipped_folder / "resnet8-cosine.cifar10.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorruptFile, check=fields(where=["resnet8-cosine.cifar10", str(path)], problem="sha256")):
        zoo.load("resnet8-cosine.cifar10")


def test_every_model_has_an_availability(zoo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    base = zoo.card("simclr-resnet50")
    members = [EnsembleMember("efficientnet-lite0", 1.0), EnsembleMember("resnet8-cosine.digits", 1.0)]
    both = dataclasses.replace(base, name="both", source="ensemble", members=members, reference=[])
    zoo.register(both)
    zoo.register(dataclasses.replace(both, name="lost", members=[*members, EnsembleMember("gone", 1.0)]))
    zoo.register(dataclasses.replace(both, name="loop", members=[EnsembleMember("loop", 1.0)]))
    expected = {
        "efficientnet-lite0": "local", "clip-vit-b32": "to download", "resnet8-cosine": "to train",
        "clip-vit-b32-linear": "to train", "simclr-resnet50": "never published", "both": "to train",
        "lost": "never published", "loop": "never published",
    }  # fmt: skip
    assert {name: zoo.availability(name) for name in expected} == expected
    with pytest.raises(InputError, check=fields(where="loop", problem="loop > loop")):
        zoo.load("loop", pretrained=False)


def test_availability_loads_no_library(zoo_home: Path) -> None:
    code = (
        "import sys, zoo; print({zoo.availability(name) for name in zoo.list()});"
        "print({'torch', 'numpy', 'timm', 'open_clip', 'transformers'} & {*sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert result.stdout.splitlines()[-1] == "set()", result.stderr


@pytest.mark.parametrize("name", sources.SOURCES)
def test_every_source_follows_the_interface(name: str) -> None:
    source = lookup.source(name)
    card = next((zoo.card(other) for other in zoo.list(source=name)), None)
    assert isinstance(source, Source)
    if card is not None:
        assert source.present(card) in ("shipped", "local", "to download", "to train", "never published")
        assert all(isinstance(path, Path) for path in source.files(card))
        assert all(getattr(card, field) is not None for field in sources.SOURCES[name].needs)


def test_every_prefix_belongs_to_a_source() -> None:
    found = {prefix: type(lookup.source(str(sources.of_prefix(prefix)))).__name__ for prefix in sources.prefixes()}
    assert found == {
        "timm": "Timm", "open_clip": "OpenClip", "hf": "Transformers", "file": "Local", "torchvision": "Torchvision",
        "onnx": "Onnx",
    }  # fmt: skip


def test_a_source_is_added_by_a_module_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CONTRIBUTING describes: a module with `SOURCE`, and its line in `SOURCES`."""
    (tmp_path / "constant.py").write_text(
        "from zoo.cards import Card, Training, Transform\n"
        "from zoo.models.sources.base import Source\n"
        "class Constant(Source):\n"
        "    def describe(self, id, name):\n"
        "        look = Transform((3, 8, 8), (8, 8), 'bilinear', (0.0,) * 3, (1.0,) * 3)\n"
        "        training = Training('unknown', 'unknown', 'unknown')\n"
        "        return Card(name, 'constant', 'none', 'none', 'digits', 'softmax', 'trained', training, look, id=id)\n"
        "    def load(self, request):\n"
        "        from torch import nn\n"
        "        from zoo.networks.network import Network\n"
        "        from zoo.models.sources.assembly import assemble\n"
        "        with request.initialising():\n"
        "            return assemble(request, Network(nn.Flatten(), nn.Linear(192, 10), {}), None)\n"
        "SOURCE = Constant()\n"
    )
    monkeypatch.setattr(lookup, "__path__", [*lookup.__path__, str(tmp_path)])
    monkeypatch.setitem(sources.SOURCES, "constant", sources.About("constant"))
    model = zoo.load("constant:seven", pretrained=False)
    assert model.predict(torch.zeros(2, 3, 9, 9, dtype=torch.uint8)).shape == (2, 10)
    assert model.card == zoo.card("constant:seven")
    written = cards.write(dataclasses.replace(model.card, name="mine"))
    assert cards.parse(written, "mine").source == "constant"
    sys.modules.pop("zoo.models.sources.constant")
    lookup.source.cache_clear()


def test_facts_about_a_model_depend_only_on_its_own_files(zoo_home: Path) -> None:
    from zoo.runs import model_facts

    card = zoo.card("resnet8-cosine.digits")
    facts = model_facts.of_model(zoo.load(card.name, pretrained=False), pretrained=False)
    model_facts.save(facts, card, False, None, None)
    zoo.train("resnet8-softmax", data="digits[:64]", epochs=1, progress=False, save_as="another")
    (zoo_home / "hashes.json").write_text(json.dumps({"schema": 1, "hashes": {"timm:other@latest/w": "0"}}))
    (zoo_home / "cards").mkdir(exist_ok=True)
    (zoo_home / "cards" / "mine.md").write_text(cards.write(dataclasses.replace(card, name="mine")))
    assert model_facts.load(card, False, None, None) == facts
    path = trained.path(card.name)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"other weights")
    assert model_facts.load(card, False, None, None) is None
