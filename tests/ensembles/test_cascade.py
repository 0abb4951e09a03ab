"""Cascades: stages, thresholds and cost against plain loops; and the saved model, which must really skip networks."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from made_runs import logits_of, runs_of, softmax
from numpy.testing import assert_allclose

import ensembles
import zoo
from ensembles import _stages
from ensembles._library import library
from zoo.cards import card as cards
from zoo.core.stop_rules import NEVER, RULES
from zoo.errors import InputError

Z, LABELS = logits_of(5, 600, skill=0.9)
PROBS = softmax(Z)
COSTS = [1.0, 2.0, 4.0, 3.0, 8.0]
IMAGES = [np.random.default_rng(i).integers(0, 255, (8, 8, 3), dtype=np.uint8) for i in range(24)]
NAMES = ["resnet8-softmax.digits", "resnet8-sigmoid.digits", "all-cnn-c-cosine.digits"]


def certainty_of(probs, rule):
    """One example's certainty after the members [j, K] were asked, and their answer."""
    mean = probs.mean(0)
    answer = int(mean.argmax())
    confidence = mean[answer]
    if rule == "margin":
        return confidence - np.sort(mean)[-2], answer
    votes = sum(int(p.argmax()) == answer for p in probs)
    return (confidence if rule == "confidence" else (votes - 1 + confidence) / len(probs)), answer


def play(order, rule, thresholds, rows):
    """Accuracy, mean cost and mean number of members asked, example by example."""
    right, cost, asked = [], [], []
    for row in rows:
        for j in range(1, len(order) + 1):
            certainty, answer = certainty_of(PROBS[order[:j], row], rule)
            if j == len(order) or certainty >= thresholds[j - 1]:
                break
        right.append(answer == LABELS[row])
        cost.append(sum(COSTS[m] for m in order[:j]))
        asked.append(j)
    return np.mean(right), np.mean(cost), np.mean(asked)


def test_stages_are_those_of_growing_means():
    order = [3, 0, 4]
    found = _stages.stages(library(PROBS, LABELS), order)
    assert found.ends.tolist() == [1, 2, 3]
    for rule, (j, row) in itertools.product(RULES, itertools.product(range(3), range(0, 600, 37))):
        certainty, answer = certainty_of(PROBS[order[: j + 1], row], rule)
        assert_allclose(found.certainty[rule][j, row], certainty, atol=1e-6)
        assert found.right[j, row] == (answer == LABELS[row])


def test_a_threshold_is_the_best_of_all():
    """Two stages: the fitted cut has the least sum of errors and cost among every cut there is."""
    rng = np.random.default_rng(0)
    bins, wrong = rng.integers(0, 30, (1, 400)), rng.random((2, 400)) < [[0.3], [0.15]]
    wrong[0] &= bins[0] < 20  # certain examples are right
    costs = np.array([0.2, 0.8])
    for rate in (0.01, 0.1, 0.3):
        cut = _stages.fit_cuts(bins, wrong.astype(float), costs, rate)[0]

        def total(cut, rate=rate):
            stop = bins[0] >= cut
            return np.where(stop, wrong[0], wrong[1]).sum() + rate * (costs[0] * 400 + costs[1] * (~stop).sum())

        assert_allclose(total(cut), min(total(one) for one in range(31)))


def test_thresholds_of_three_stages_come_near_the_best_of_all():
    found = _stages.stages(library(PROBS, LABELS), [0, 1, 4])
    wrong, costs = (~found.right).astype(float), np.array([0.1, 0.2, 0.7])
    grids = [_stages.edges(found.certainty["margin"][j])[::12] for j in range(2)]
    bins = np.stack([np.searchsorted(grid, found.certainty["margin"][j], "right") for j, grid in enumerate(grids)])

    def total(cuts, rate):
        stop = _stages.first_stop(bins >= np.array(cuts)[:, None])
        return wrong[stop, np.arange(600)].sum() + rate * costs.cumsum()[stop].sum()

    for rate in (0.02, 0.1):
        best = min(total(cuts, rate) for cuts in itertools.product(*(range(len(grid) + 2) for grid in grids)))
        assert total(_stages.fit_cuts(bins, wrong, costs, rate), rate) <= best + 2  # errors, of about 200


def test_every_cascade_of_the_front_does_what_it_says():
    found = ensembles.cascade(PROBS, LABELS, members=[0, 1, 2, 4], cost=COSTS)
    _, test = ensembles.stratified_split(LABELS, 0.5, 0)
    assert len(found.front) > 3
    for _, row in found.front.iterrows():
        accuracy, cost, _ = play(list(row["members"]), row["rule"], row["thresholds"], test)
        assert_allclose([row["test"], row["test_cost"]], [accuracy, cost], atol=1e-9)
    assert (np.diff(found.front["cost"]) > 0).all()
    assert (np.diff(found.front["selection"]) > 0).all()
    accuracy, cost, asked = play(found.members, found.rule, found.thresholds, test)
    assert_allclose([found.test_score, found.test_cost, sum(found.asked)], [accuracy, cost, asked])
    whole = (PROBS[[0, 1, 2, 4]].sum(0).argmax(1) == LABELS)[test].mean()
    assert_allclose([found.whole.test_score, found.whole.cost, found.gain], [whole, 15.0, accuracy - whole])
    assert found.interval[0] <= found.gain <= found.interval[1]
    assert found.score >= found.whole.score - 0.001


def test_greedy_members_are_kept_at_a_fraction_of_the_cost():
    """Nine examples in ten are easy for all members, so nine in ten need ask the first alone."""
    z, labels = logits_of(6, 4000, seed=3)
    easy = np.random.default_rng(0).random(4000) < 0.9
    z[:, easy, labels[easy]] += 12
    found = ensembles.cascade(softmax(z).astype(np.float32), labels, steps=5, cost=[1.0] * 6)
    path = ensembles.greedy(softmax(z).astype(np.float32), labels, steps=5)
    assert found.whole.members == path.members[: path.best]
    assert_allclose(found.whole.test_score, path.best_test_score)
    assert found.share < 0.5
    assert found.gain > -0.005
    assert_allclose(found.share, sum(found.asked) / len(found.whole.members))


def test_a_budget_bounds_the_mean_cost_and_more_buys_more():
    search = ensembles.Search(PROBS, LABELS)
    low, high = (search.cascade(members=[0, 1, 2, 4], cost=COSTS, budget=budget) for budget in (2.0, 9.0))
    assert low.cost <= 2.0
    assert low.cost < high.cost <= 9.0
    assert low.score < high.score
    with pytest.raises(InputError, match="budget: the cheapest cascade costs 1 in the mean"):
        search.cascade(members=[0, 1], cost=COSTS, budget=0.5)


def test_one_member_and_identical_members():
    alone = ensembles.cascade(PROBS, LABELS, members=[2], cost=COSTS)
    assert (alone.members, alone.thresholds, alone.share, alone.gain) == ([2], [], 1.0, 0.0)
    same = ensembles.cascade([PROBS[0]] * 3, LABELS, members=[0, 1, 2], cost=[1, 1, 1])
    assert (same.members, same.cost, same.gain) == ([0], 1.0, 0.0)


def test_what_is_refused():
    for options, message in (
        ({"loss": -0.1}, "loss: expected a share"),
        ({"rules": ["luck"]}, "rules: expected some of confidence, margin, agreement, found luck"),
        ({"members": []}, "members: expected at least one"),
        ({"members": [9]}, "member 9 is not among these 5 models"),
        ({"objective": "nll"}, "objective: a cascade exchanges accuracy for cost"),
        ({"cost": "flops"}, "measured on models, but the library is arrays"),
    ):
        with pytest.raises(InputError, match=message):
            ensembles.cascade(PROBS, LABELS, **{"cost": COSTS} | options)
    with pytest.raises(InputError, match="votes have none"):
        ensembles.cascade(PROBS.argmax(2), LABELS, kind="predictions", cost=COSTS)
    with pytest.raises(InputError, match="members are arrays"):
        ensembles.cascade(PROBS, LABELS, cost=COSTS).to_model("x")


class TestModel:
    """A saved cascade on images, against its members asked one image at a time."""

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
    def test_it_asks_a_network_only_about_what_is_open(self, rule, zoo_home):
        p = self.probabilities
        first = [certainty_of(p[:1, row], rule)[0] for row in range(24)]
        second = [certainty_of(p[:2, row], rule)[0] for row in range(24)]
        thresholds = [float(np.sort(first)[11:13].mean()), float(np.sort(second)[9:11].mean())]
        made = self.saved(rule, thresholds)
        assert cards.read(made.path) == made
        model = zoo.load("my-cascade", pretrained=False)
        asked = [0, 0, 0]
        for number, body in enumerate(model.body.members):
            body.register_forward_hook(lambda _, inputs, out, n=number: asked.__setitem__(n, asked[n] + len(out)))
        found = torch.softmax(model.predict(IMAGES, batch_size=10), 1).numpy()
        expected, used = [], [0, 0, 0]
        for row in range(24):
            for j in range(1, 4):
                used[j - 1] += 1
                if j == 3 or certainty_of(p[:j, row], rule)[0] >= thresholds[j - 1]:
                    break
            expected.append(p[:j, row].mean(0))
        assert_allclose(found, expected, atol=1e-5)
        assert asked == used
        assert 0 < used[2] < used[1] < 24

    def test_everything_or_nothing_may_stop(self, zoo_home):
        p = self.probabilities
        self.saved("confidence", [NEVER, NEVER])
        found = torch.softmax(zoo.load("my-cascade", pretrained=False).predict(IMAGES), 1)
        assert_allclose(found, p.mean(0), atol=1e-5)
        self.saved("confidence", [0.0, NEVER])
        found = torch.softmax(zoo.load("my-cascade", pretrained=False).predict(IMAGES), 1)
        assert_allclose(found, p[0], atol=1e-5)

    def test_it_is_run_like_any_model_and_its_thresholds_are_part_of_it(self, zoo_home):
        self.saved("margin", [0.1, 0.2])
        runs = zoo.run(["my-cascade", NAMES[0]], data="digits:test[:40]", pretrained=False, progress=False)
        assert runs["my-cascade"].logits.shape == (40, 10)
        one = zoo.load("my-cascade", pretrained=False)
        self.saved("margin", [0.1, 0.3])
        assert zoo.load("my-cascade", pretrained=False).weights_hash != one.weights_hash
        with pytest.raises(InputError, match="no embeddings"):
            one.embed(IMAGES)

    def test_a_card_that_does_not_fit_is_refused(self, zoo_home):
        made = self.saved("margin", [0.1, 0.2])
        text = made.path.read_text()
        assert "thresholds: [0.1, 0.2]" in text
        for wrong, message in (
            ("thresholds: [0.1]", "a cascade of 3 members needs 2 thresholds, .* its card has 1"),
            ("thresholds: [0.1, high]", r"zoo.details.cascade.thresholds\[1\]' must be a number"),
        ):
            made.path.write_text(text.replace("thresholds: [0.1, 0.2]", wrong))
            with pytest.raises(InputError, match=message):
                zoo.load("my-cascade", pretrained=False)
