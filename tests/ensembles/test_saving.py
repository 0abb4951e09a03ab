"""A found ensemble becomes a card, and the card a model that predicts what was searched."""

import dataclasses

import numpy as np
import pytest
import torch
from made_runs import card, logits_of, runs_of, softmax
from numpy.testing import assert_allclose

import ensembles
import zoo
from zoo.cards import card as cards
from zoo.cards.card import EnsembleMember
from zoo.errors import InputError
from zoo.models import membership, registry

Z, LABELS = logits_of(3, 240)
NAMES = ["resnet8-softmax", "resnet8-sigmoid", "all-cnn-c-cosine.digits"]
# Small splits have small gains.
pytestmark = pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")


def path_of(names=NAMES, cards=None, **options):
    cards = [zoo.card(name) for name in names] if cards is None else cards
    runs = runs_of(Z, LABELS, names, cards, temperatures=[0.5, 2.0, 1.5])
    return ensembles.greedy(runs, steps=6, **{"replace": True} | options)


def test_the_card_says_what_was_found_and_reads_back(zoo_home):
    path = path_of()
    made = path.to_model("my-ensemble", title="Mine")
    assert made.path == zoo_home / "cards" / "my-ensemble.md"
    assert cards.read(made.path) == made
    assert {member.name: member.weight for member in made.members} == path.weights
    temperatures = dict(zip(NAMES, [0.5, 2.0, 1.5], strict=True))
    assert all(member.temperature == temperatures[member.name] for member in made.members)
    assert made.details["test_score"] == path.best_test_score
    assert made.details["search"]["seed"] == 0
    assert made.details["search"]["selection_examples"] == 120
    assert made.details["found_on"] == "made:test"
    assert made.title == "Mine"
    assert zoo.card("my-ensemble") == made
    assert "my-ensemble" in zoo.list("my-*")


def test_the_model_predicts_the_weighted_mean_and_embeds_side_by_side():
    path = path_of()
    made = path.to_model("my-ensemble")
    images = [np.random.default_rng(i).integers(0, 255, (8, 8, 3), dtype=np.uint8) for i in range(4)]
    model = zoo.load("my-ensemble", pretrained=False)
    members = [zoo.load(member.name, pretrained=False) for member in made.members]
    assert_allclose(model.embed(images), torch.cat([m.embed(images) for m in members], 1), rtol=1e-4, atol=1e-5)
    probabilities = [
        zoo.calibration.to_probabilities(m.predict(images), member.temperature, m.card.link)
        for m, member in zip(members, made.members, strict=True)
    ]
    expected = ensembles.average(torch.stack(probabilities), [member.weight for member in made.members])
    assert_allclose(softmax(model.predict(images).numpy()), expected, atol=1e-5)


def test_a_sigmoids_temperature_divides_in_the_model_what_it_divided_in_the_search():
    names = NAMES[:2]
    runs = runs_of(Z[:2], LABELS, names, [zoo.card(name) for name in names])
    sigmoid = dataclasses.replace(runs[names[1]], link="sigmoid")
    calibrated = zoo.calibrate([runs[names[0]], sigmoid], 0.5, temperature_space="distribution")
    made = ensembles.greedy(calibrated, base=names[1], steps=1).to_model("as-distribution")
    member = next(one for one in made.members if "sigmoid" in one.name)
    assert (member.temperature_space, member.temperature) == ("distribution", calibrated[member.name].temperature)
    images = [np.random.default_rng(i).integers(0, 255, (8, 8, 3), dtype=np.uint8) for i in range(4)]
    alone = dataclasses.replace(made, name="alone", members=[member])
    zoo.register(alone)
    p = torch.sigmoid(zoo.load(member.name, pretrained=False).predict(images).double()) ** (1 / member.temperature)
    found = softmax(zoo.load("alone", pretrained=False).predict(images).numpy())
    assert_allclose(found, (p / p.sum(1, keepdim=True)).numpy(), atol=1e-5)


def test_an_ensemble_is_run_compared_and_searched_like_any_model():
    path_of().to_model("my-ensemble")
    runs = zoo.run(["my-ensemble", "resnet8-softmax"], data="digits:test[:60]", pretrained=False, progress=False)
    again = ensembles.greedy(runs, base="my-ensemble", steps=1)
    assert again.members == ["my-ensemble", "resnet8-softmax.digits"]
    assert again.to_model("of-ensembles").members[0].name == "my-ensemble"


def test_what_cannot_be_saved(zoo_home):
    arrays = ensembles.greedy(softmax(Z), LABELS, steps=2)
    with pytest.raises(InputError, match="members are arrays"):
        arrays.to_model("x")
    with pytest.raises(InputError, match="has no card"):
        path_of(["a", "b", "c"], [None, None, None]).to_model("x")
    path = path_of()
    for name in ("../x", "a/b", "", "CON", "x" * 300):
        with pytest.raises(InputError, match="ensemble name"):
            path.to_model(name)
    with pytest.raises(InputError, match="a model called clip-vit-b32 exists already"):
        path.to_model("CLIP-ViT-b32")
    with pytest.raises(InputError, match="always means a recipe"):
        path.to_model("mine-cosine")
    others = [card("a", dataset="digits"), card("b", dataset="digits"), card("c", dataset="in1k")]
    mixed = path_of(["a", "b", "c"], others, base=["a", "b", "c"])
    with pytest.raises(InputError, match="label sets, digits and in1k"):
        mixed.to_model("x")
    assert not (zoo_home / "cards").exists()


def test_an_ensemble_never_contains_itself_through_others(zoo_home):
    path_of().to_model("inner")
    z, names = Z[:2], ["inner", "resnet8-softmax"]

    def outer(name, members, **options):
        found = ensembles.greedy(runs_of(z, LABELS, members, [zoo.card(one) for one in members]), base=members, steps=1)
        return found.to_model(name, **options)

    outer("outer", names)
    before = (zoo_home / "cards" / "inner.md").read_bytes()
    with pytest.raises(InputError, match="inner: a model cannot be its own member \\(inner > outer > inner\\)"):
        outer("inner", ["outer", "resnet8-softmax"], overwrite=True)
    assert (zoo_home / "cards" / "inner.md").read_bytes() == before


def test_ensembles_within_ensembles_are_bounded(zoo_home, monkeypatch):
    """Each level doubles: 2, 4, 8, ... networks. Counting them takes no longer than naming them."""
    members = [EnsembleMember(NAMES[0], 1.0), EnsembleMember(NAMES[1], 1.0)]
    template = path_of().to_model("template")
    for level in range(15):
        for side in "ab":
            name = f"level{level}{side}"
            made = dataclasses.replace(template, name=name, members=members)
            (zoo_home / "cards" / f"{name}.md").write_text(cards.write(made))
        members = [EnsembleMember(f"level{level}{side}", 1.0) for side in "ab"]
    assert membership.check("top", ["level6a", "level6b"], registry.parts) == 256
    with pytest.raises(InputError, match=r"top: 65536 networks, .* at most 256 .* set ZOO_MAX_NETWORKS"):
        membership.check("top", ["level14a", "level14b"], registry.parts)
    monkeypatch.setenv("ZOO_MAX_NETWORKS", "7")
    with pytest.raises(InputError, match="top: 8 networks"):
        membership.check("top", ["level1a", "level1b"], registry.parts)
    monkeypatch.setenv("ZOO_MAX_NETWORKS", "many")
    with pytest.raises(InputError, match="ZOO_MAX_NETWORKS: expected a whole number above 0, found 'many'"):
        membership.check("top", ["level0a"], registry.parts)


def test_a_card_that_leads_back_to_itself_or_goes_too_deep(zoo_home):
    template = path_of().to_model("template")

    def write(name, *members):
        made = dataclasses.replace(template, name=name, members=[EnsembleMember(one, 1.0) for one in members])
        (zoo_home / "cards" / f"{name}.md").write_text(cards.write(made))

    write("loop-a", "loop-b")
    write("loop-b", "loop-a")
    with pytest.raises(InputError, match="loop-a: a model cannot be its own member \\(loop-a > loop-b > loop-a\\)"):
        zoo.load("loop-a", pretrained=False)
    write("deep0", NAMES[0])
    for level in range(1, 40):
        write(f"deep{level}", f"deep{level - 1}")
    with pytest.raises(InputError, match="deep39: ensembles within ensembles 17 deep, at most 16"):
        zoo.load("deep39", pretrained=False)


def test_saving_twice():
    path = path_of()
    path.to_model("twice")
    with pytest.raises(InputError, match=r"twice: .* exists already; .* overwrite=True"):
        path.to_model("twice")
    named = path_of(["a", "b", "c"], [card(name, dataset="digits") for name in "abc"])
    with pytest.raises(InputError, match="cannot be its own member"):
        named.to_model(next(iter(named.weights)))
    assert path.to_model("twice", title="Again", overwrite=True).title == "Again"


def test_mixed_members_are_said_to_be_mixed():
    mixed = [
        card("a", license="mit"),
        card("b", framework="contrastive", objective="contrastive", license="apache-2.0"),
        card("c", license="mit"),
    ]
    made = path_of(["a", "b", "c"], mixed, base=["a", "b", "c"]).to_model("mixed")
    assert (made.framework, made.objective, made.dataset, made.license) == ("unknown", "mixed", "in1k", "other")
