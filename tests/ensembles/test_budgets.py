"""Costs, the best ensemble within a budget and the Pareto front, against every subset."""

import itertools

import numpy as np
import pytest
import torch
from made_runs import logits_of, runs_of, softmax
from numpy.testing import assert_allclose
from raised import fields

import ensembles
from ensembles import subsets
from ensembles.charts import front_chart
from ensembles.costs import count_flops, member_costs, parse_budget
from ensembles.model_library import ModelLibrary
from zoo.errors import InputError

Z, LABELS = logits_of(6, 160, skill=0.8)
PROBS = softmax(Z).astype(np.float32)
COSTS = [1.0, 2.0, 2.5, 4.0, 7.0, 9.0]
SELECTION, TEST = ensembles.stratified_split(LABELS, 0.5, 0)
SUBSETS = [members for size in range(1, 7) for members in itertools.combinations(range(6), size)]


def accuracy(members, rows=SELECTION):
    return (PROBS[list(members)].astype(np.float64).sum(0)[rows].argmax(1) == LABELS[rows]).mean()


def cost_of(members):
    return sum(COSTS[m] for m in members)


@pytest.mark.parametrize("budget", [1.0, 3.0, 6.5, 12.0, 100.0])
def test_best_within_a_budget_is_the_best_of_every_subset(budget):
    found = ensembles.best_within(PROBS, LABELS, budget=budget, cost=COSTS)
    best = max(accuracy(members) for members in SUBSETS if cost_of(members) <= budget)
    assert_allclose(found.score, best)
    assert found.cost <= budget
    assert_allclose(found.cost, min(cost_of(m) for m in SUBSETS if cost_of(m) <= budget and accuracy(m) == best))
    assert_allclose(found.test_score, accuracy(found.members, TEST))
    assert found.method == "every subset"


@pytest.mark.parametrize("budget", [3.0, 6.5, 12.0])
def test_too_many_subsets_are_searched_greedily(budget, monkeypatch):
    exact = ensembles.best_within(PROBS, LABELS, budget=budget, cost=COSTS)
    monkeypatch.setattr(subsets, "MAX_BUDGET_SUBSETS", 10)
    found = ensembles.best_within(PROBS, LABELS, budget=budget, cost=COSTS)
    assert found.method.startswith("greedy by gain")
    assert found.cost <= budget
    assert_allclose(found.score, accuracy(found.members))
    singles = max(accuracy([m]) for m in range(6) if COSTS[m] <= budget)
    assert singles <= found.score <= exact.score


def test_gain_per_cost_can_beat_gain(monkeypatch):
    """An expensive model that is best alone takes the whole budget; two cheap models together are better."""
    monkeypatch.setattr(subsets, "MAX_BUDGET_SUBSETS", 0)
    labels = np.zeros(20, int)
    right = {"dear": range(13), "left": range(12), "right": range(8, 20)}
    sure = {name: np.where(np.isin(np.arange(20), rows), 0.9, 0.4) for name, rows in right.items()}
    probs = {name: np.stack([p, 1 - p], 1) for name, p in sure.items()}
    found = ensembles.best_within(probs, labels, budget=2, cost={"dear": 2, "left": 1, "right": 1}, test_fraction=0)
    assert set(found.members) == {"left", "right"}
    assert found.method == "greedy by gain per cost"


def test_front_of_every_subset():
    front = ensembles.pareto(PROBS, LABELS, cost=COSTS)
    assert front.attrs["method"] == "every subset"
    for _, row in front.iterrows():
        assert_allclose(row["selection"], accuracy(row["members"]))
        assert_allclose(row["test"], accuracy(row["members"], TEST))
        assert_allclose(row["cost"], cost_of(row["members"]))
        better = [m for m in SUBSETS if cost_of(m) <= row["cost"] and accuracy(m) > row["selection"] + 1e-12]
        assert not better
    assert (np.diff(front["cost"]) > 0).all()
    assert (np.diff(front["selection"]) > 0).all()
    drawn = [row for rows in front_chart(front).to_dict()["datasets"].values() for row in rows]
    for split in ("selection", "test"):
        points = [(row["cost"], row["score"], row["members"]) for row in drawn if row["split"] == split]
        shown = [", ".join(map(str, members)) for members in front["members"]]
        assert points == list(zip(front["cost"], front[split], shown, strict=True))


def test_front_of_greedy_searches_is_not_above_that_of_every_subset(monkeypatch):
    exact = ensembles.pareto(PROBS, LABELS, cost=COSTS)
    monkeypatch.setattr(subsets, "MAX_BUDGET_SUBSETS", 10)
    front = ensembles.pareto(PROBS, LABELS, cost=COSTS)
    assert front.attrs["method"].startswith("greedy")
    for _, row in front.iterrows():
        assert_allclose(row["selection"], accuracy(row["members"]))
        assert row["selection"] <= exact[exact["cost"] <= row["cost"]]["selection"].max() + 1e-12
    assert front["selection"].iloc[-1] >= max(accuracy([m]) for m in range(6))


@pytest.mark.parametrize("most", [10, 5000])
def test_every_ensemble_of_the_front_contains_the_base(monkeypatch, most):
    monkeypatch.setattr(subsets, "MAX_BUDGET_SUBSETS", most)
    front = ensembles.pareto(PROBS, LABELS, cost=COSTS, base=2)
    assert all(members[0] == 2 for members in front["members"])
    assert front["members"].iloc[0] == (2,)


def test_loss_objectives_fall_along_the_front():
    front = ensembles.pareto(PROBS, LABELS, cost=COSTS, objective="nll")
    assert (np.diff(front["selection"]) < 0).all()


@pytest.mark.parametrize("budget", [0.5, "0.5", "0.0005k"])
def test_a_budget_below_the_cheapest_model(budget):
    with pytest.raises(InputError, check=fields(argument="budget", expected="cost, 1", found=budget)):
        ensembles.best_within(PROBS, LABELS, budget=budget, cost=COSTS)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2M", 2e6),
        ("1.5G", 1.5e9),
        ("300k", 3e5),
        (" 2 K ", 2e3),
        ("1T", 1e12),
        ("7B", 7e9),
        ("12", 12),
        ("1e6", 1e6),
        (4, 4),
    ],
)
def test_budgets_with_units(text, number):
    assert parse_budget(text) == number
    small = ensembles.best_within(PROBS, LABELS, budget=text, cost=[number * share for share in COSTS])
    assert small == ensembles.best_within(PROBS, LABELS, budget=number, cost=[number * share for share in COSTS])
    path = ensembles.greedy(PROBS, LABELS, budget=text, cost=[number * 0.3] * 6, test_fraction=0)
    assert len(path.members) == 3


@pytest.mark.parametrize("budget", ["two", "2m", "M", "-1", -1, float("nan"), "nan", "2MM", [1]])
def test_bad_budgets(budget):
    for ask in (ensembles.greedy, ensembles.best_within, ensembles.cascade):
        with pytest.raises(InputError, check=fields(argument="budget", expected="1.5G")):
            ask(PROBS, LABELS, budget=budget, cost=COSTS)


class TestCosts:
    def test_custom_costs(self):
        arrays = ModelLibrary.read(PROBS, LABELS)
        assert member_costs(arrays, COSTS) == COSTS
        assert member_costs(arrays, lambda name: name + 1) == [1, 2, 3, 4, 5, 6]
        assert member_costs(arrays, dict(enumerate(COSTS))) == COSTS
        with pytest.raises(InputError, check=fields(argument="cost", found="params", problem="arrays")):
            member_costs(arrays, "params")

    def test_measured_on_the_models(self):
        import zoo

        names = ["timm:test_resnet", "timm:test_vit"]
        runs = ModelLibrary.read(runs_of(Z[:2], LABELS, names))
        models = [zoo.load(name, pretrained=False) for name in names]
        assert member_costs(runs, "params") == [sum(p.numel() for p in m.network.parameters()) for m in models]
        assert all(cost > 0 for cost in member_costs(runs, "latency"))
        assert all(cost > 1e5 for cost in member_costs(runs, "flops"))

    def test_flops_of_a_known_layer(self):
        from types import SimpleNamespace

        layer = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        model = SimpleNamespace(
            forward=lambda batch: (layer(batch), None), transform=SimpleNamespace(size=(3, 10, 12)), device="cpu"
        )
        assert count_flops(model) == 2 * 3 * 8 * 9 * 10 * 12

    def test_costs_stored_with_outputs_are_not_measured(self):
        import dataclasses

        runs = runs_of(Z[:2], LABELS, ["no-such-model", "nor-this"])
        stored = [dataclasses.replace(one, details={"params": 10.0 + i}) for i, one in enumerate(runs.values())]
        assert member_costs(ModelLibrary.read(stored), "params") == [10, 11]
