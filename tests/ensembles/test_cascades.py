"""Cascades: stages, thresholds and costs against plain loops; saved cascades evaluate only the members they need."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from made_runs import logits_of, runs_of, softmax
from numpy.testing import assert_allclose
from raised import fields

import ensembles
import zoo
from ensembles.cascade_thresholds import candidate_thresholds, first_stop, fit_cuts, read_stages
from ensembles.model_library import ModelLibrary
from zoo.cards import card as cards
from zoo.core.splits import stratified_split
from zoo.core.stop_rules import NEVER, RULES
from zoo.errors import InputError

Z, LABELS = logits_of(5, 600, skill=0.9)
PROBS = softmax(Z)
COSTS = [1.0, 2.0, 4.0, 3.0, 8.0]
IMAGES = [np.random.default_rng(i).integers(0, 255, (8, 8, 3), dtype=np.uint8) for i in range(24)]
NAMES = ["resnet8-softmax.digits", "resnet8-sigmoid.digits", "all-cnn-c-cosine.digits"]


def certainty_of(probs, rule):
    """Return one example's certainty after the members [j, K], and their prediction."""
    mean = probs.mean(0)
    predicted = int(mean.argmax())
    confidence = mean[predicted]
    if rule == "margin":
        return confidence - np.sort(mean)[-2], predicted
    votes = sum(int(p.argmax()) == predicted for p in probs)
    return (confidence if rule == "confidence" else (votes - 1 + confidence) / len(probs)), predicted


def evaluate(order, rule, thresholds, rows):
    """Return accuracy, mean cost and mean number of members evaluated, computed example by example."""
    correct, cost, evaluated = [], [], []
    for row in rows:
        for j in range(1, len(order) + 1):
            certainty, predicted = certainty_of(PROBS[order[:j], row], rule)
            if j == len(order) or certainty >= thresholds[j - 1]:
                break
        correct.append(predicted == LABELS[row])
        cost.append(sum(COSTS[m] for m in order[:j]))
        evaluated.append(j)
    return np.mean(correct), np.mean(cost), np.mean(evaluated)


def test_stages_are_those_of_growing_means():
    order = [3, 0, 4]
    found = read_stages(ModelLibrary.read(PROBS, LABELS), order)
    assert found.sizes.tolist() == [1, 2, 3]
    for rule, (j, row) in itertools.product(RULES, itertools.product(range(3), range(0, 600, 37))):
        certainty, predicted = certainty_of(PROBS[order[: j + 1], row], rule)
        assert_allclose(found.certainty[rule][j, row], certainty, atol=1e-6)
        assert found.correct[j, row] == (predicted == LABELS[row])


def test_a_threshold_is_the_best_of_all():
    """With two stages, the fitted cut has the smallest sum of errors and cost of all cuts."""
    rng = np.random.default_rng(0)
    bins, wrong = rng.integers(0, 30, (1, 400)), rng.random((2, 400)) < [[0.3], [0.15]]
    wrong[0] &= bins[0] < 20  # certain examples are right
    costs = np.array([0.2, 0.8])
    for rate in (0.01, 0.1, 0.3):
        cut = fit_cuts(bins, wrong.astype(float), costs, rate)[0]

        def total(cut, rate=rate):
            stop = bins[0] >= cut
            return np.where(stop, wrong[0], wrong[1]).sum() + rate * (costs[0] * 400 + costs[1] * (~stop).sum())

        assert_allclose(total(cut), min(total(one) for one in range(31)))


def test_thresholds_of_three_stages_come_near_the_best_of_all():
    found = read_stages(ModelLibrary.read(PROBS, LABELS), [0, 1, 4])
    wrong, costs = (~found.correct).astype(float), np.array([0.1, 0.2, 0.7])
    grids = [candidate_thresholds(found.certainty["margin"][j])[::12] for j in range(2)]
    bins = np.stack([np.searchsorted(grid, found.certainty["margin"][j], "right") for j, grid in enumerate(grids)])

    def total(cuts, rate):
        stop = first_stop(bins >= np.array(cuts)[:, None])
        return wrong[stop, np.arange(600)].sum() + rate * costs.cumsum()[stop].sum()

    for rate in (0.02, 0.1):
        best = min(total(cuts, rate) for cuts in itertools.product(*(range(len(grid) + 2) for grid in grids)))
        assert total(fit_cuts(bins, wrong, costs, rate), rate) <= best + 2  # errors, of about 200


def test_scores_and_costs_of_the_front_are_those_of_running_each_cascade():
    found = ensembles.cascade(PROBS, LABELS, members=[0, 1, 2, 4], cost=COSTS)
    _, test = ensembles.stratified_split(LABELS, 0.5, 0)
    assert len(found.front) > 3
    for _, row in found.front.iterrows():
        accuracy, cost, _ = evaluate(list(row["members"]), row["rule"], row["thresholds"], test)
        assert_allclose([row["test"], row["test_cost"]], [accuracy, cost], atol=1e-9)
    assert (np.diff(found.front["cost"]) > 0).all()
    assert (np.diff(found.front["selection"]) > 0).all()
    accuracy, cost, evaluated = evaluate(found.members, found.rule, found.thresholds, test)
    assert_allclose([found.test_score, found.test_cost, sum(found.evaluated)], [accuracy, cost, evaluated])
    full = (PROBS[[0, 1, 2, 4]].sum(0).argmax(1) == LABELS)[test].mean()
    ensemble = found.full_ensemble
    assert_allclose([ensemble.test_score, ensemble.cost, found.gain], [full, 15.0, accuracy - full])
    assert found.interval[0] <= found.gain <= found.interval[1]
    assert found.score >= ensemble.score - 0.001


def test_a_cascade_of_greedy_members_costs_a_fraction_of_the_ensemble():
    """Nine examples in ten are easy for all members, so the first member suffices for them."""
    z, labels = logits_of(6, 4000, seed=3)
    easy = np.random.default_rng(0).random(4000) < 0.9
    z[:, easy, labels[easy]] += 12
    found = ensembles.cascade(softmax(z).astype(np.float32), labels, steps=5, cost=[1.0] * 6)
    path = ensembles.greedy(softmax(z).astype(np.float32), labels, steps=5)
    assert found.full_ensemble.members == path.members[: path.best]
    assert_allclose(found.full_ensemble.test_score, path.best_test_score)
    assert found.cost_fraction < 0.5
    assert found.gain > -0.005
    assert_allclose(found.cost_fraction, sum(found.evaluated) / len(found.full_ensemble.members))


def test_a_budget_bounds_the_mean_cost_and_more_buys_more():
    search = ensembles.Search(PROBS, LABELS)
    low, high = (search.cascade(members=[0, 1, 2, 4], cost=COSTS, budget=budget) for budget in (2.0, 9.0))
    assert low.cost <= 2.0
    assert low.cost < high.cost <= 9.0
    assert low.score < high.score
    assert search.cascade(members=[0, 1, 2, 4], cost=COSTS, budget="0.002k").to_dict() == low.to_dict() | {
        "settings": low.settings | {"budget": "0.002k"}
    }
    with pytest.raises(InputError, check=fields(argument="budget", expected="cascade, 1", found=0.5)):
        search.cascade(members=[0, 1], cost=COSTS, budget=0.5)


def test_one_member_and_identical_members():
    alone = ensembles.cascade(PROBS, LABELS, members=[2], cost=COSTS)
    assert (alone.members, alone.thresholds, alone.cost_fraction, alone.gain) == ([2], [], 1.0, 0.0)
    same = ensembles.cascade([PROBS[0]] * 3, LABELS, members=[0, 1, 2], cost=[1, 1, 1])
    assert (same.members, same.cost, same.gain) == ([0], 1.0, 0.0)


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("loss", -0.1, {"found": -0.1}),
        ("rules", ["luck"], {"expected": "confidence, margin, agreement", "found": "luck"}),
        ("rules", [], {"found": "none"}),
        ("members", [], {"expected": "at least one"}),
        ("members", [9], {"name": "9"}),
        ("objective", "nll", {"found": "nll"}),
        ("cost", "flops", {"problem": "arrays"}),
        ("steps", 1.5, {"expected": "whole number"}),
    ],
)
def test_bad_options(argument, value, error):
    with pytest.raises(InputError, check=fields(argument=argument, **error)):
        ensembles.cascade(PROBS, LABELS, **{"cost": COSTS} | {argument: value})


def test_votes_and_arrays_that_cannot_be_used():
    with pytest.raises(InputError, check=fields(argument="kind", expected="votes")):
        ensembles.cascade(PROBS.argmax(2), LABELS, kind="predictions", cost=COSTS)
    with pytest.raises(InputError, check=fields(where="x", problem="arrays")):
        ensembles.cascade(PROBS, LABELS, cost=COSTS).to_model("x")


class TestModel:
    """A saved cascade on images, against its members evaluated one image at a time."""

    def members(self):
        return [zoo.load(name, pretrained=False) for name in NAMES]

    def probabilities(self):
        temperatures = [0.5, 2.0, 1.5]
        return np.stack(
            [
                zoo.calibration.to_probabilities(model.predict(IMAGES), t, model.card.link).numpy()
                for model, t in zip(self.members(), temperatures, strict=True)
            ]
        )

    def saved(self, rule, thresholds, name="my-cascade"):
        z, labels = logits_of(3, 240)
        runs = runs_of(z, labels, NAMES, [zoo.card(name) for name in NAMES], temperatures=[0.5, 2.0, 1.5])
        found = ensembles.cascade(runs, members=NAMES, cost=[1, 2, 3])
        shaped = dataclasses.replace(found, members=NAMES, rule=rule, thresholds=thresholds)
        return shaped.to_model(name, overwrite=True)

    @pytest.mark.parametrize("rule", RULES)
    def test_a_member_is_evaluated_only_for_images_that_reach_it(self, rule, zoo_home):
        p = self.probabilities()
        first = [certainty_of(p[:1, row], rule)[0] for row in range(24)]
        second = [certainty_of(p[:2, row], rule)[0] for row in range(24)]
        thresholds = [float(np.sort(first)[11:13].mean()), float(np.sort(second)[9:11].mean())]
        made = self.saved(rule, thresholds)
        assert cards.read(made.path) == made
        model = zoo.load("my-cascade", pretrained=False)
        evaluated = [0, 0, 0]
        for number, body in enumerate(model.body.ensemble.members):
            body.register_forward_hook(lambda _, inputs, out, n=number: evaluated.__setitem__(n, evaluated[n] + len(out)))
        found = torch.softmax(model.predict(IMAGES, batch_size=10), 1).numpy()
        expected, used = [], [0, 0, 0]
        for row in range(24):
            for j in range(1, 4):
                used[j - 1] += 1
                if j == 3 or certainty_of(p[:j, row], rule)[0] >= thresholds[j - 1]:
                    break
            expected.append(p[:j, row].mean(0))
        assert_allclose(found, expected, atol=1e-5)
        assert evaluated == used
        assert 0 < used[2] < used[1] < 24

    def test_all_images_or_none_may_stop_early(self, zoo_home):
        p = self.probabilities()
        self.saved("confidence", [NEVER, NEVER])
        found = torch.softmax(zoo.load("my-cascade", pretrained=False).predict(IMAGES), 1)
        assert_allclose(found, p.mean(0), atol=1e-5)
        self.saved("confidence", [0.0, NEVER])
        found = torch.softmax(zoo.load("my-cascade", pretrained=False).predict(IMAGES), 1)
        assert_allclose(found, p[0], atol=1e-5)

    def test_a_cascade_is_run_like_any_model_and_its_hash_includes_the_thresholds(self, zoo_home):
        self.saved("margin", [0.1, 0.2])
        runs = zoo.run(["my-cascade", NAMES[0]], data="digits:test[:40]", pretrained=False, progress=False)
        assert runs["my-cascade"].logits.shape == (40, 10)
        one = zoo.load("my-cascade", pretrained=False)
        self.saved("margin", [0.1, 0.3])
        assert zoo.load("my-cascade", pretrained=False).weights_hash != one.weights_hash
        with pytest.raises(InputError, match="embeddings"):
            one.embed(IMAGES)

    def test_a_card_that_does_not_fit_is_refused(self, zoo_home):
        made = self.saved("margin", [0.1, 0.2])
        text = made.path.read_text()
        assert "thresholds: [0.1, 0.2]" in text
        for wrong, message in (("thresholds: [0.1]", "thresholds"), ("thresholds: [0.1, high]", r"thresholds\[1\]")):
            made.path.write_text(text.replace("thresholds: [0.1, 0.2]", wrong))
            with pytest.raises(InputError, match=message):
                zoo.load("my-cascade", pretrained=False)

    def test_prediction_sets(self, zoo_home):
        """Fitted on the cascade's own probabilities, found here example by example, on half of the test split."""
        z, labels = logits_of(3, 400, 10)
        runs = runs_of(z, labels, NAMES, [zoo.card(name) for name in NAMES], temperatures=[0.5, 2.0, 1.5])
        found = ensembles.cascade(runs, members=NAMES, cost=[1, 2, 3])
        p = np.stack([zoo.calibration.to_probabilities(one, t) for one, t in zip(z, [0.5, 2.0, 1.5], strict=True)])
        sure = np.quantile([certainty_of(p[:1, row], "margin")[0] for row in range(400)], 0.6)
        found = dataclasses.replace(found, members=NAMES, rule="margin", thresholds=[float(sure), 0.3])
        mean = []
        for row in range(400):
            used = next((j for j in (1, 2) if certainty_of(p[:j, row], "margin")[0] >= found.thresholds[j - 1]), 3)
            mean.append(p[:used, row].mean(0))
        rows = found.setup.test.examples.numpy()
        mean, y = np.array(mean)[rows], labels[rows]
        fitted = stratified_split(y, 0.5, 0, found.setup.test.ids)
        sets = found.prediction_sets(0.2)
        expected = np.sort(1 - mean[fitted, y[fitted]])[int(np.ceil(101 * 0.8)) - 1]
        assert sets.rule.thresholds == pytest.approx([expected], abs=1e-6)
        found.to_model("with-sets", sets=sets)
        model = zoo.load("with-sets", pretrained=False)
        logits = model.predict(IMAGES)
        assert (model.predict_sets(IMAGES) == sets.rule.predict_sets(torch.softmax(logits, 1))).all()
