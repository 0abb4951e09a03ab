"""Saved ensembles: the card describes the search, and the model predicts what was searched."""

import dataclasses

import numpy as np
import pytest
import torch
from made_runs import card, logits_of, runs_of, softmax
from numpy.testing import assert_allclose
from raised import fields

import ensembles
import zoo
from ensembles.ensemble_temperature import apply_temperature
from zoo.cards import card as cards
from zoo.cards.card import EnsembleMember
from zoo.core.splits import stratified_split
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


def loadable(name, **options):
    """Return a card of a model that could be loaded, unlike those of imported outputs."""
    return dataclasses.replace(card(name, **options), source="recipe")


def test_the_card_describes_the_search_and_is_read_back(zoo_home):
    path = path_of()
    made = path.to_model("my-ensemble", title="Mine")
    assert made.path == zoo_home / "cards" / "my-ensemble.md"
    assert cards.read(made.path) == made
    assert {member.name: member.weight for member in made.members} == path.weights
    temperatures = dict(zip(NAMES, [0.5, 2.0, 1.5], strict=True))
    assert all(member.temperature == temperatures[member.name] for member in made.members)
    assert made.details["test_score"] == path.best_test_score
    assert made.details["temperature"] == path.temperature
    assert made.details["calibration_error"] == {"before": path.calibration.ece_before, "after": path.calibration.ece_after}
    assert made.details["search"]["seed"] == 0
    assert made.details["search"]["selection_examples"] == 120
    assert made.details["found_on"] == "made:test"
    assert made.title == "Mine"
    assert zoo.card("my-ensemble") == made
    assert "my-ensemble" in zoo.list("my-*")


def images(count=4):
    return [np.random.default_rng(i).integers(0, 255, (8, 8, 3), dtype=np.uint8) for i in range(count)]


def weighted_mean(made):
    """Return [N, K] the mean of the members' calibrated probabilities on the images."""
    members = [zoo.load(member.name, pretrained=False) for member in made.members]
    probabilities = [
        zoo.calibration.to_probabilities(model.predict(images()), member.temperature, model.card.link)
        for model, member in zip(members, made.members, strict=True)
    ]
    return ensembles.average(torch.stack(probabilities), [member.weight for member in made.members])


def test_the_model_predicts_the_weighted_mean_and_concatenates_embeddings():
    path = dataclasses.replace(path_of(), best_ensemble=None)  # without a temperature of its own
    made = path.to_model("my-ensemble")
    assert "temperature" not in made.details
    model = zoo.load("my-ensemble", pretrained=False)
    embeddings = [zoo.load(member.name, pretrained=False).embed(images()) for member in made.members]
    assert_allclose(model.embed(images()), torch.cat(embeddings, 1), rtol=1e-4, atol=1e-5)
    assert_allclose(softmax(model.predict(images()).numpy()), weighted_mean(made), atol=1e-5)


def test_the_model_is_calibrated_by_the_ensembles_temperature():
    made = path_of().to_model("my-ensemble")
    sharp = dataclasses.replace(made, name="sharp", details=made.details | {"temperature": 0.4})
    zoo.register(sharp)
    model, mean = zoo.load("sharp", pretrained=False), weighted_mean(made)
    assert_allclose(softmax(model.predict(images()).numpy()), apply_temperature(mean, 0.4), atol=1e-5)
    assert model.weights_hash != zoo.load("my-ensemble", pretrained=False).weights_hash


def test_the_temperature_of_a_sigmoid_member_acts_as_in_the_search():
    names = NAMES[:2]
    runs = runs_of(Z[:2], LABELS, names, [zoo.card(name) for name in names])
    sigmoid = dataclasses.replace(runs[names[1]], link="sigmoid")
    calibrated = zoo.calibrate([runs[names[0]], sigmoid], 0.5, temperature_space="distribution")
    made = ensembles.greedy(calibrated, base=names[1], steps=1).to_model("as-distribution")
    member = next(one for one in made.members if "sigmoid" in one.name)
    assert (member.temperature_space, member.temperature) == ("distribution", calibrated[member.name].temperature)
    alone = dataclasses.replace(made, name="alone", members=[member], details={})
    zoo.register(alone)
    p = torch.sigmoid(zoo.load(member.name, pretrained=False).predict(images()).double()) ** (1 / member.temperature)
    found = softmax(zoo.load("alone", pretrained=False).predict(images()).numpy())
    assert_allclose(found, (p / p.sum(1, keepdim=True)).numpy(), atol=1e-5)


def test_an_ensemble_is_run_compared_and_searched_like_any_model():
    path_of().to_model("my-ensemble")
    runs = zoo.run(["my-ensemble", "resnet8-softmax"], data="digits:test[:60]", pretrained=False, progress=False)
    again = ensembles.greedy(runs, base="my-ensemble", steps=1)
    assert again.members == ["my-ensemble", "resnet8-softmax.digits"]
    assert again.to_model("of-ensembles").members[0].name == "my-ensemble"


def test_ensembles_that_cannot_be_saved(zoo_home):
    arrays = ensembles.greedy(softmax(Z), LABELS, steps=2)
    with pytest.raises(InputError, check=fields(where="x", problem="arrays")):
        arrays.to_model("x")
    with pytest.raises(InputError, check=fields(where="x: member", problem="no model to load")):
        path_of(["a", "b", "c"], [None, None, None]).to_model("x")
    path = path_of()
    for name in ("../x", "a/b", "", "CON", "x" * 300, "mine-cosine"):
        with pytest.raises(InputError, check=fields(argument="name", found=name)):
            path.to_model(name)
    with pytest.raises(InputError, check=fields(argument="name", problem="clip-vit-b32", found="CLIP-ViT-b32")):
        path.to_model("CLIP-ViT-b32")
    others = [loadable("a", dataset="digits"), loadable("b", dataset="digits"), loadable("c", dataset="in1k")]
    mixed = path_of(["a", "b", "c"], others, base=["a", "b", "c"])
    with pytest.raises(InputError, check=fields(where="x", problem=["digits", "in1k"])):
        mixed.to_model("x")
    assert not (zoo_home / "cards").exists()


@pytest.mark.parametrize("imported", ["a", "b"])
@pytest.mark.parametrize("kind", ["greedy", "cascade"])
def test_an_ensemble_with_imported_outputs_is_refused(imported, kind, zoo_home):
    cards = [card(name) if name == imported else loadable(name) for name in "abc"]
    search = ensembles.Search(runs_of(Z, LABELS, list("abc"), cards), base=["a", "b", "c"])
    result = search.greedy(1) if kind == "greedy" else search.cascade(members=[imported], cost=[1, 1, 1])
    with pytest.raises(InputError, check=fields(where=f"x: member {imported}", problem="imported")):
        result.to_model("x")
    assert not (zoo_home / "cards").exists()


def test_an_ensemble_cannot_contain_itself_through_others(zoo_home):
    path_of().to_model("inner")
    z, names = Z[:2], ["inner", "resnet8-softmax"]

    def outer(name, members, **options):
        found = ensembles.greedy(runs_of(z, LABELS, members, [zoo.card(one) for one in members]), base=members, steps=1)
        return found.to_model(name, **options)

    outer("outer", names)
    before = (zoo_home / "cards" / "inner.md").read_bytes()
    with pytest.raises(InputError, check=fields(where="inner", problem="inner > outer > inner")):
        outer("inner", ["outer", "resnet8-softmax"], overwrite=True)
    assert (zoo_home / "cards" / "inner.md").read_bytes() == before


def test_nested_ensembles_are_bounded(zoo_home, monkeypatch):
    """Each level doubles the networks: 2, 4, 8, ... Counting them is fast all the same."""
    members = [EnsembleMember(NAMES[0], 1.0), EnsembleMember(NAMES[1], 1.0)]
    template = path_of().to_model("template")
    for level in range(15):
        for side in "ab":
            name = f"level{level}{side}"
            made = dataclasses.replace(template, name=name, members=members)
            (zoo_home / "cards" / f"{name}.md").write_text(cards.write(made))
        members = [EnsembleMember(f"level{level}{side}", 1.0) for side in "ab"]
    assert membership.check("top", ["level6a", "level6b"], registry.parts) == 256
    with pytest.raises(InputError, check=fields(where="top", problem=["65536", "256"], hint="ZOO_MAX_NETWORKS")):
        membership.check("top", ["level14a", "level14b"], registry.parts)
    monkeypatch.setenv("ZOO_MAX_NETWORKS", "7")
    with pytest.raises(InputError, check=fields(where="top", problem=["8 networks", "7"])):
        membership.check("top", ["level1a", "level1b"], registry.parts)
    monkeypatch.setenv("ZOO_MAX_NETWORKS", "many")
    with pytest.raises(InputError, match="ZOO_MAX_NETWORKS"):
        membership.check("top", ["level0a"], registry.parts)


def test_cards_that_contain_themselves_or_are_nested_too_deeply(zoo_home):
    template = path_of().to_model("template")

    def write(name, *members):
        made = dataclasses.replace(template, name=name, members=[EnsembleMember(one, 1.0) for one in members])
        (zoo_home / "cards" / f"{name}.md").write_text(cards.write(made))

    write("loop-a", "loop-b")
    write("loop-b", "loop-a")
    with pytest.raises(InputError, check=fields(where="loop-a", problem="loop-a > loop-b > loop-a")):
        zoo.load("loop-a", pretrained=False)
    write("deep0", NAMES[0])
    for level in range(1, 40):
        write(f"deep{level}", f"deep{level - 1}")
    with pytest.raises(InputError, check=fields(where="deep39", problem=["17", "16"])):
        zoo.load("deep39", pretrained=False)


def test_saving_twice():
    path = path_of()
    path.to_model("twice")
    with pytest.raises(InputError, check=fields(argument="name", found="twice", hint="overwrite=True")):
        path.to_model("twice")
    named = path_of(["a", "b", "c"], [loadable(name, dataset="digits") for name in "abc"])
    with pytest.raises(InputError, check=fields(problem="itself")):
        named.to_model(next(iter(named.weights)))
    assert path.to_model("twice", title="Again", overwrite=True).title == "Again"


def test_fields_in_which_members_differ_are_mixed():
    mixed = [
        loadable("a", license="mit"),
        loadable("b", framework="contrastive", objective="contrastive", license="apache-2.0"),
        loadable("c", license="mit"),
    ]
    made = path_of(["a", "b", "c"], mixed, base=["a", "b", "c"]).to_model("mixed")
    assert (made.framework, made.objective, made.dataset, made.license) == ("unknown", "mixed", "in1k", "other")


class TestPredictionSets:
    def path(self, **options):
        z, self.labels = logits_of(3, 400, 10)
        self.p = np.stack([softmax(one / t) for one, t in zip(z, [0.5, 2.0, 1.5], strict=True)])
        runs = runs_of(z, self.labels, NAMES, [zoo.card(name) for name in NAMES], temperatures=[0.5, 2.0, 1.5])
        return ensembles.greedy(runs, steps=6, **{"replace": True} | options)

    @pytest.mark.parametrize("conditioning", ["marginal", "class"])
    @pytest.mark.parametrize("method", ["lac", "raps"])
    def test_the_model_has_the_sets_that_were_fitted(self, method, conditioning):
        path = self.path()
        sets = path.prediction_sets(0.2, method, conditioning)
        made = path.to_model("with-sets", sets=sets)
        assert cards.read(made.path) == made
        model = zoo.load("with-sets", pretrained=False)
        expected = sets.rule.predict_sets(softmax(model.predict(images()).numpy()))
        assert (model.predict_sets(images()) == expected).all()
        assert vars(model.sets) == vars(sets.rule)
        assert "80% coverage" in repr(model)
        assert made.details["sets_measured"]["coverage"] == sets.report.coverage

    def test_thresholds_are_those_of_a_plain_quantile(self):
        """LAC on half of the test split: the quantile of 1 - p of the true class, of the ensemble at its temperature."""
        path = self.path()
        test = path.best_ensemble.test
        rows = test.examples.numpy()
        sets = path.prediction_sets(0.2)
        mean = ensembles.average(self.p, [path.weights.get(name, 0) for name in NAMES])
        p, y = apply_temperature(mean, path.temperature)[rows], self.labels[rows]
        fitted = stratified_split(y, 0.5, 0, test.ids)
        scores = np.sort(1 - p[fitted, y[fitted]])
        assert sets.rule.thresholds == pytest.approx([scores[int(np.ceil(101 * 0.8)) - 1]], abs=1e-6)
        covered = 1 - p[~fitted, y[~fitted]] <= sets.rule.thresholds[0]
        assert (sets.report.coverage, sets.report.examples) == (pytest.approx(covered.mean()), 100)
        assert sets.rule.fitted_on == "100 of 200 test examples of made:test"

    def test_examples_that_chose_the_ensemble_fit_no_threshold(self):
        path = self.path()
        chose, others = path.best_ensemble.selection.ids, path.best_ensemble.test.ids
        fitted = path.prediction_sets(0.2, calibration=others[:50].tolist())
        assert (fitted.rule.calibration_examples, fitted.report.examples) == (50, 150)
        for wrong in ([*others[:50], chose[3]], [*others[:50], "elsewhere"], others.tolist(), 1.5):
            with pytest.raises(InputError, check=fields(argument="calibration")):
                path.prediction_sets(0.2, calibration=wrong)
        with pytest.raises(InputError, check=fields(argument="test_fraction")):
            self.path(test_fraction=0).prediction_sets(0.2)
        with pytest.raises(InputError, check=fields(argument="alpha", found=1.5)):
            path.prediction_sets(1.5)

    def test_a_class_that_is_too_rare_is_in_every_set_of_the_saved_model(self):
        path = self.path()
        ids, labels = path.best_ensemble.test.ids, path.best_ensemble.test.labels.numpy()
        rare = labels == 3
        sets = path.prediction_sets(0.2, "lac", "class", calibration=[*ids[~rare], *ids[rare][:2]])
        path.to_model("rare", sets=sets)
        assert zoo.load("rare", pretrained=False).predict_sets(images())[:, 3].all()

    def test_models_without_sets(self):
        path = self.path()
        path.to_model("plain")
        model = zoo.load("plain", pretrained=False)
        assert model.sets is None
        with pytest.raises(InputError, check=fields(argument="sets", where="plain")):
            model.predict_sets(images())
        assert model.predict_sets(images(), path.prediction_sets(0.2).rule).shape == (4, 10)

    @pytest.mark.parametrize(
        "change", [{"alpha": 2}, {"thresholds": [0.1, 0.2]}, {"method": "top-k"}, {"thresholds": "high"}, {"rows": 3}]
    )
    def test_a_card_with_damaged_sets_is_refused(self, change, monkeypatch):
        monkeypatch.setattr(registry, "_registered", {})
        path = self.path()
        made = path.to_model("damaged", sets=path.prediction_sets(0.2))
        zoo.register(dataclasses.replace(made, name="other", details={"sets": made.details["sets"] | change}))
        with pytest.raises(InputError, check=fields(where="zoo.details.sets")):
            zoo.load("other", pretrained=False)
