"""Greedy search: splits, evaluation, candidates, starts, bags, budgets, inputs of every kind, and errors."""

import inspect
import warnings

import numpy as np
import pytest
import torch
from brute_force import brute_force
from made_runs import card, logits_of, runs_of, softmax
from numpy.testing import assert_allclose, assert_array_equal
from raised import fields
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, log_loss

import ensembles
from ensembles import search
from zoo.core.columns import Column
from zoo.errors import InputError, UnknownName, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

Z, LABELS = logits_of()
PROBS = softmax(Z).astype(np.float32)
# Small splits have small gains; that the warning comes when it should is a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")


class TestSplit:
    def test_disjoint_complete_stratified_and_seeded(self):
        labels = np.random.default_rng(0).integers(0, 7, 500)
        selection, test = ensembles.stratified_split(labels, 0.4, seed=3)
        assert_array_equal(np.sort(np.concatenate([selection, test])), np.arange(500))
        for k in range(7):
            assert abs((labels[test] == k).sum() - 0.4 * (labels == k).sum()) <= 1
        assert_array_equal(ensembles.stratified_split(labels, 0.4, seed=3)[1], test)
        assert not np.array_equal(ensembles.stratified_split(labels, 0.4, seed=4)[1], test)

    def test_single_examples_of_a_class_fall_on_either_side(self):
        in_test = [0 in ensembles.stratified_split(np.arange(2), 0.5, seed)[1] for seed in range(20)]
        assert 0 < sum(in_test) < 20

    @pytest.mark.parametrize("fraction", [-0.1, 1.0, 1.5, np.nan])
    def test_bad_fractions(self, fraction):
        with pytest.raises(InputError, check=fields(argument="test_fraction")):
            ensembles.stratified_split(LABELS, fraction)

    def test_repeated_ids(self):
        with pytest.raises(InputError, match="ids"):
            ensembles.stratified_split([0, 1, 1], ids=["a", "b", "a"])

    def test_one_example_cannot_be_divided(self):
        with pytest.raises(
            InputError, check=fields(argument="test_fraction", problem="1 examples", hint="{test_fraction=0}")
        ):
            ensembles.greedy(PROBS[:, :1], LABELS[:1])
        assert ensembles.greedy(PROBS[:, :1], LABELS[:1], test_fraction=0).test_score is None

    def test_search_sees_the_selection_rows_only(self):
        rows = np.arange(100), np.arange(150, 240)
        path = ensembles.greedy(PROBS, LABELS, steps=4, split=rows)
        assert path.members == brute_force(PROBS[:, :100], LABELS[:100], 4, replace=False)[0]
        other = PROBS.copy()
        other[:, 100:] = other[:, 100:][:, :, ::-1]  # whatever stands elsewhere
        assert ensembles.greedy(other, LABELS, steps=4, split=rows).members == path.members

    @pytest.mark.parametrize(
        ("split", "error"),
        [
            ((range(10), range(9, 20)), {"problem": ["1 examples", "row 9"]}),
            (([0, 0], [1]), {"problem": "1 rows", "where": "selection"}),
            (([], [1]), {"expected": "at least one", "where": "selection"}),
            (([0], [240]), {"found": 240, "where": "test"}),
            (([-1], [0]), {"found": -1, "where": "selection"}),
            (([0.5], [1]), {"expected": "row numbers", "where": "selection"}),
            ((np.ones(3, bool), [0]), {"found": [3], "expected": "mask"}),
            (3, {"expected": "pair", "found": 3}),
        ],
    )
    def test_bad_splits(self, split, error):
        with pytest.raises(InputError, check=fields(argument="split", **error)):
            ensembles.greedy(PROBS, LABELS, split=split)


class TestEvaluation:
    @pytest.mark.parametrize("objective", ["accuracy", "balanced-accuracy", "nll", "brier"])
    def test_both_curves_against_scikit_learn(self, objective):
        path = ensembles.greedy(PROBS, LABELS, steps=5, replace=True, objective=objective)
        measure = {
            "accuracy": lambda p, y: (p.argmax(1) == y).mean(),
            "balanced-accuracy": lambda p, y: balanced_accuracy_score(y, p.argmax(1)),
            "nll": lambda p, y: log_loss(y, p, labels=range(5)),
            "brier": lambda p, y: brier_score_loss(y, p, labels=range(5)),
        }[objective]
        selection, test = ensembles.stratified_split(LABELS, 0.5, 0)
        for step in range(5):
            p = PROBS[path.members[: step + 1]].astype(np.float64).mean(0)
            p /= p.sum(1, keepdims=True)
            assert_allclose(path.score[step], measure(p[selection], LABELS[selection]), rtol=1e-6)
            assert_allclose(path.test_score[step], measure(p[test], LABELS[test]), rtol=1e-6)
        sign = 1 if "accuracy" in objective else -1
        assert_allclose(path.gain, sign * (path.best_test_score - path.test_score[0]), atol=1e-12)
        assert "-0.000" not in str(path).splitlines()[1]

    def test_a_custom_objective_is_evaluated_on_both_splits(self):
        def macro(p, y):
            return float(np.mean([(p[y == k].argmax(1) == k).mean() for k in np.unique(y)]))

        own = ensembles.greedy(PROBS, LABELS, steps=4, objective=macro, resamples=60)
        built_in = ensembles.greedy(PROBS, LABELS, steps=4, objective="balanced-accuracy", resamples=400)
        assert own.objective == "macro"
        assert own.members == built_in.members
        assert_allclose(own.test_score, built_in.test_score)
        assert_allclose(own.interval, built_in.interval, atol=0.05)
        assert own.intervals[1 if own.best != 2 else 2] is None

    def test_intervals_agree_with_the_normal_approximation(self):
        # The exact bootstrap of a mean of -1, 0, 1 is a multinomial, whose normal limit gives the ends.
        path = ensembles.greedy(PROBS, LABELS, steps=5, resamples=4000)
        _, test = ensembles.stratified_split(LABELS, 0.5, 0)
        start, best = (PROBS[path.members[:k]].astype(float).mean(0)[test].argmax(1) == LABELS[test] for k in (1, path.best))
        difference = best.astype(float) - start
        half = 1.96 * difference.std() / np.sqrt(len(test))
        assert_allclose(path.interval, [path.gain - half, path.gain + half], atol=0.012)

    def test_a_gain_within_noise_is_a_warning(self):
        """With models at chance the selection score rises, but the test score does not."""
        rng = np.random.default_rng(5)
        labels = rng.integers(0, 10, 600)
        probs = softmax(rng.standard_normal((40, 600, 10)) * 3)
        with pytest.warns(ZooWarning, match="within noise"):
            path = ensembles.greedy(probs, labels, steps=15, replace=True)
        assert path.best_score > path.score[0] + 0.02 > 0.14
        assert abs(path.best_test_score - 0.1) < 0.05
        assert path.interval[0] <= 0
        assert path.within_noise
        assert "within noise" in str(path)

    def test_a_real_gain_and_no_addition_give_no_warning(self):
        z, labels = logits_of(8, 2000)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ensembles.greedy(softmax(z), labels, steps=5).interval[0] > 0
            same = ensembles.greedy(np.repeat(PROBS[:1], 3, 0), LABELS, steps=3)
        assert (same.best, same.gain, same.interval) == (1, 0.0, (0.0, 0.0))

    def test_text_frame_and_plain_types(self):
        names = [f"a-model-with-quite-a-long-name-number-{i}.in1k" for i in range(6)]
        path = ensembles.greedy(runs_of(Z, LABELS, names), steps=3, budget=100, cost=dict.fromkeys(names, 7))
        text = str(path)
        assert all(len(line) <= 80 for line in text.splitlines())
        assert f"{100 * path.gain:+.1f}" in text
        frame = path.to_frame()
        assert list(frame["model"]) == path.members
        assert_allclose(frame["cost"], [7, 14, 21, 28])
        assert "<table" in path._repr_html_()
        shared = [f"efficientnet-lite{i}-linear.cifar10" for i in range(6)]
        lines = str(ensembles.greedy(runs_of(Z, LABELS, shared), steps=2)).splitlines()
        assert "model (.cifar10)" in lines[0]
        found = {line.split()[1] for line in lines[1:4]}  # which is which can be seen, though the names are too long
        assert len(found) == 3
        assert found <= {name.removesuffix(".cifar10") for name in shared}
        from zoo.app.terminal import plain

        assert plain(path)["weights"] == path.weights

    def test_the_smallest_sufficient_ensemble_is_not_significantly_worse(self):
        z, labels = logits_of(8, 3000, skill=0.9)
        path = ensembles.greedy(softmax(z).astype(np.float32), labels, steps=6)
        _, test = ensembles.stratified_split(labels)
        correct = [softmax(z)[path.members[: k + 1]].mean(0)[test].argmax(1) == labels[test] for k in range(path.best)]
        for level in (0.01, 0.05, 0.5):
            sizes = []
            for size, one in enumerate(correct, 1):
                lost, won = int((correct[-1] & ~one).sum()), int((one & ~correct[-1]).sum())
                p = binomtest(won, won + lost).pvalue if won + lost else 1.0
                if one.mean() >= correct[-1].mean() or p >= level:
                    sizes.append(size)
            assert path.smallest_sufficient(level) == sizes[0]
        assert 1 < path.smallest_sufficient() < path.best  # the case that the text reports
        assert f"the first {path.smallest_sufficient()} are not significantly worse" in str(path)
        assert path.to_dict()["smallest_sufficient"] == path.smallest_sufficient()
        assert path.smallest_sufficient(0.9) > path.smallest_sufficient(1e-9)
        with pytest.raises(InputError, check=fields(argument="level", found=0)):
            path.smallest_sufficient(0)
        assert ensembles.greedy(PROBS, LABELS, steps=2, test_fraction=0).smallest_sufficient() is None
        based = ensembles.greedy(PROBS, LABELS, base=[0, 1], steps=2)
        assert based.smallest_sufficient() >= 2


def charted(chart):
    """Return {(start, split): scores by size}, and the sizes with a ring, from a chart's data."""
    rows = [row for rows in chart.to_dict()["datasets"].values() for row in rows]
    rows = sorted(rows, key=lambda row: row["members"])
    lines = {(row["start"], row["split"]): [] for row in rows}
    for row in rows:
        lines[row["start"], row["split"]].append(row["score"])
    return lines, {(row["start"], row["members"]) for row in rows if row["best"]}


def test_a_chart_shows_both_curves_and_a_ring_at_the_best():
    path = ensembles.greedy(runs_of(Z, LABELS), steps=4)
    lines, rings = charted(path.chart())
    assert lines == {(path.members[0], "selection"): path.score, (path.members[0], "test"): path.test_score}
    assert rings == {(path.members[0], path.best)}


def test_one_chart_of_several_paths():
    from ensembles.charts import path_chart

    first, second = (ensembles.greedy(PROBS, LABELS, base=base, steps=3) for base in (0, 1))
    lines, rings = charted(path_chart([first, second]))
    assert lines == {
        ("0", "selection"): first.score, ("0", "test"): first.test_score,
        ("1", "selection"): second.score, ("1", "test"): second.test_score,
    }  # fmt: skip
    assert rings == {("0", first.best), ("1", second.best)}
    alone = ensembles.greedy(PROBS, LABELS, steps=3, test_fraction=0)
    assert charted(path_chart({"mine": alone})) == ({("mine", "selection"): alone.score}, {("mine", alone.best)})


class TestCandidates:
    def test_base_and_pattern(self):
        names = ["resnet-a", "resnet-b", "clip-a", "clip-b", "clip-c", "vit"]
        path = ensembles.greedy(runs_of(Z, LABELS, names), base="resnet-a", candidates="clip-*", steps=5)
        assert path.members[0] == "resnet-a"
        assert len(path.members) == 4  # the base and the three there are
        assert all(name.startswith("clip-") for name in path.members[1:])
        assert path.start == 1
        expected = brute_force(PROBS, LABELS, 5, replace=False, base=0, candidates=[2, 3, 4])
        everything = ensembles.greedy(
            dict(zip(names, PROBS, strict=True)), LABELS, base="resnet-a", candidates="clip-*", steps=5, test_fraction=0
        )
        assert everything.members == [names[m] for m in expected[0]]

    def test_several_models_to_start_from(self):
        path = ensembles.greedy(PROBS, LABELS, base=[1, 0], steps=2, test_fraction=0)
        assert path.members[:2] == [1, 0]
        assert path.start == 2
        assert path.best >= 2
        p = PROBS[[1, 0]].astype(float).sum(0)
        assert_allclose(path.score[1], (p.argmax(1) == LABELS).mean())

    @pytest.mark.parametrize(
        ("candidates", "expected"),
        [
            ([1, 4], {1, 4}),
            (2, {2}),
            (np.array([False, True, True, False, False, False]), {1, 2}),
            (torch.tensor([0, 5]), {0, 5}),
            ({"accuracy": (None, 0.7)}, None),
            ({"accuracy": (0.7, None), "name": [4, 5]}, None),
        ],
    )
    def test_candidates_by_index_mask_and_accuracy(self, candidates, expected):
        path = ensembles.greedy(PROBS, LABELS, candidates=candidates, steps=6, test_fraction=0)
        alone = (PROBS.argmax(2) == LABELS).mean(1)
        if expected is None:
            low, high = candidates["accuracy"]
            expected = {m for m in range(6) if (low or 0) <= alone[m] <= (high or 2)} & set(candidates.get("name", range(6)))
            assert 0 < len(expected) < 6
        assert set(path.members) == expected

    def test_candidates_by_card(self):
        names = list("abcdef")
        cards = [card(n, framework="contrastive" if n in "bd" else "supervised") for n in names]
        runs = runs_of(Z, LABELS, names, cards)
        path = ensembles.greedy(runs, base="a", candidates={"framework": "contrastive"})
        assert set(path.members) == {"a", "b", "d"}
        assert path.categories == [None, "fwork", "fwork"]
        assert set(ensembles.greedy(runs, candidates={"framework": ["contrastive", "distilled"]}).members) == {"b", "d"}
        assert set(ensembles.greedy(runs, candidates="framework=contrastive").members) == {"b", "d"}
        assert set(ensembles.greedy(runs, candidates=["[ab]", "framework=contrastive"]).members) == {"b"}
        with pytest.raises(InputError, check=fields(argument="candidates", where="m0", problem="architecture")):
            ensembles.greedy(runs_of(Z, LABELS), candidates={"name": "m0", "architecture": "resnet50"})
        with pytest.raises(UnknownName, check=fields(kind="field", name="framwork", suggestions=("framework",))):
            ensembles.greedy(runs, candidates={"framwork": "contrastive"})

    @pytest.mark.parametrize(
        ("candidates", "expected"),
        [
            ("*-cosine", {"a-cosine.digits", "b-cosine.digits"}),
            (["a-softmax", "b-cosine.digits"], {"a-softmax.digits", "b-cosine.digits"}),
            (["*-so*", "b-cosine"], {"a-softmax.digits", "b-softmax.digits", "b-cosine.digits"}),
        ],
    )
    @pytest.mark.parametrize("runs", [True, False])
    def test_candidates_by_pattern_and_list(self, candidates, expected, runs):
        names = [f"{a}-{b}.digits" for a in "ab" for b in ("cosine", "softmax", "sigmoid")]
        arrays = dict(zip(names, PROBS, strict=True))
        path = ensembles.greedy(runs_of(Z, LABELS, names) if runs else arrays, LABELS, candidates=candidates)
        assert set(path.members) == expected

    @pytest.mark.parametrize("candidates", ["*-cosine", ["a", "b"], 7, [-1], True])
    def test_unknown_candidates_of_arrays(self, candidates):
        with pytest.raises(InputError, check=fields(argument="candidates")):
            ensembles.greedy(PROBS, LABELS, candidates=candidates)

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"base": "rasnet"}, {"name": "rasnet", "suggestions": ("resnet",)}),
            ({"candidates": "nothing-*"}, {"found": "nothing-*"}),
            ({"candidates": ["resnet", "clap"]}, {"name": "clap", "suggestions": ("clip",)}),
            ({"candidates": {"accuracy": (0, 78)}}, {"expected": "between 0 and 1", "found": (0, 78)}),
            ({"candidates": {"accuracy": 0.5}}, {"expected": "range", "found": 0.5}),
            ({"candidates": [True]}, {"expected": "6", "found": 1}),
            ({"candidates": [False] * 6}, {"expected": "at least one"}),
            ({"candidates": []}, {"expected": "at least one", "found": []}),
            ({"objective": "acuracy"}, {"expected": "balanced-accuracy", "found": "acuracy"}),
            ({"steps": 0}, {"expected": "at least 1", "found": 0}),
            ({"steps": 1.5}, {"expected": "whole number", "found": 1.5}),
            ({"init": 0}, {"expected": "at least 1", "found": 0}),
            ({"init": 2, "base": "vit"}, {"problem": "base"}),
            ({"bags": 2.5}, {"expected": "whole number", "found": 2.5}),
            ({"bag_fraction": 0.0, "bags": 2}, {"found": 0.0}),
            ({"bags": 2, "budget": 1.0}, {"problem": "budget"}),
            ({"resamples": 0}, {"found": 0}),
            ({"cost": {"vit": 1}, "budget": 5}, {"problem": ["resnet", "5 of 6"]}),
            ({"cost": [1, 2], "budget": 5}, {"expected": "6 numbers", "found": 2}),
            ({"cost": [1, 1, 1, 1, 1, -1], "budget": 5}, {"where": "swin", "found": -1}),
            ({"cost": [np.nan, 1, 1, 1, 1, 1], "budget": 5}, {"where": "resnet", "expected": "finite"}),
            ({"cost": [1, np.inf, 1, 1, 1, 1], "budget": 5}, {"where": "clip", "found": np.inf}),
            ({"cost": [1, 1, "dear", 1, 1, 1], "budget": 5}, {"where": "vit", "found": "dear"}),
            ({"cost": "watts", "budget": 5}, {"expected": "params", "found": "watts"}),
            ({"budget": 5, "cost": [6, 7, 8, 9, 10, 11]}, {"expected": "cheapest candidate, 6", "found": 5}),
            ({"budget": 5, "cost": [6, 1, 1, 1, 1, 1], "base": "resnet"}, {"expected": "base, 6", "found": 5}),
            ({"budget": "many"}, {"found": "many"}),
        ],
    )
    def test_bad_options(self, options, error):
        names = ["resnet", "clip", "vit", "bit", "simclr", "swin"]
        costs = {"cost": [1] * 6} if "cost" not in options else {}
        with pytest.raises(InputError, check=fields(argument=next(iter(options)), **error)):
            ensembles.greedy(runs_of(Z, LABELS, names), **costs | options)


class TestOptions:
    @pytest.mark.parametrize("replace", [False, True])
    def test_steps_counts_what_is_added_with_and_without_a_base(self, replace):
        free = ensembles.greedy(PROBS, LABELS, steps=2, replace=replace, test_fraction=0)
        alone = (PROBS.argmax(2) == LABELS).mean(1)
        assert len(free.members) == 3
        assert alone[free.members[0]] == alone.max()
        based = ensembles.greedy(PROBS, LABELS, base=free.members[0], steps=2, replace=replace, test_fraction=0)
        assert based.members == free.members
        assert (free.start, free.settings["ended"]) == (based.start, based.settings["ended"]) == (1, "steps")

    def test_why_nothing_was_added(self):
        def ended(**options):
            path = ensembles.greedy(options.pop("probs", PROBS), LABELS, base=0, **options)
            assert path.members == [0]
            return path.settings["ended"], "nothing was added" in str(path)

        assert ended(candidates=[0]) == ("candidates", True)
        assert ended(budget=3, cost=[1, 5, 5, 5, 5, 5]) == ("budget", True)
        same = np.repeat(PROBS[:1], 3, 0)
        assert ended(probs=same, stop_early=True) == ("gain", True)
        tried = ensembles.greedy(same, LABELS, base=0, steps=1)
        assert (tried.best, tried.settings["ended"]) == (1, "steps")

    def test_a_search_answers_several_questions_as_the_functions_do(self):
        search = ensembles.Search(PROBS, LABELS, base=1, candidates=[0, 2, 3, 5], objective="nll", seed=3)
        options = {"base": 1, "candidates": [0, 2, 3, 5], "objective": "nll", "seed": 3}
        costs = [1, 2, 3, 4, 5, 6]
        assert search.greedy(3).to_dict() == ensembles.greedy(PROBS, LABELS, steps=3, **options).to_dict()
        assert search.best_subset(2) == ensembles.best_subset(PROBS, LABELS, size=2, **options)
        assert search.best_within(9, costs) == ensembles.best_within(PROBS, LABELS, budget=9, cost=costs, **options)
        assert search.best_partners().equals(ensembles.best_partners(PROBS, LABELS, **options))
        assert search.pareto(costs).equals(ensembles.pareto(PROBS, LABELS, cost=costs, **options))
        plain = {**options, "objective": "accuracy"}
        one = ensembles.Search(PROBS, LABELS, **plain).cascade(cost=costs).to_dict()
        assert one == ensembles.cascade(PROBS, LABELS, cost=costs, **plain).to_dict()
        assert search.greedy(3).to_dict() == search.greedy(3).to_dict()  # no state is left over
        with pytest.raises(TypeError, match="unexpected keyword argument 'sed'"):
            ensembles.greedy(PROBS, LABELS, sed=3)

    @pytest.mark.parametrize(
        ("method", "options"),
        [
            ("greedy", search.GreedyOptions), ("cascade", search.CascadeOptions), ("best_partners", search.PartnerOptions),
            ("best_subset", search.SubsetOptions), ("best_within", search.BudgetOptions), ("pareto", search.ParetoOptions),
        ],
    )  # fmt: skip
    def test_functions_take_the_options_of_search_and_its_method(self, method, options):
        setup = set(inspect.signature(ensembles.Search).parameters) - {"runs", "labels"}
        question = set(inspect.signature(getattr(ensembles.Search, method)).parameters) - {"self"}
        assert options.__required_keys__ | options.__optional_keys__ == setup | question

    def test_stop_early_is_the_path_up_to_the_first_standstill(self):
        whole = ensembles.greedy(PROBS, LABELS, steps=20, replace=True, test_fraction=0)
        early = ensembles.greedy(PROBS, LABELS, steps=20, replace=True, stop_early=True, test_fraction=0)
        first = next(i for i in range(1, 20) if whole.score[i] <= whole.score[i - 1] + 1e-10)
        assert early.members == whole.members[:first]

    def test_sorted_start_takes_the_best_single_models_then_searches(self):
        path = ensembles.greedy(PROBS, LABELS, steps=5, init=3, replace=True, test_fraction=0)
        alone = (PROBS.argmax(2) == LABELS).mean(1)
        assert sorted(alone)[-3:] == sorted(alone[path.members[:3]])
        assert alone[path.members[0]] >= alone[path.members[1]] >= alone[path.members[2]]
        total = PROBS[path.members[:3]].astype(float).sum(0)
        with_each = [((total + p).argmax(1) == LABELS).mean() for p in PROBS]
        assert with_each[path.members[3]] == max(with_each)
        assert_allclose(path.score[3], max(with_each))

    def test_bags_average_the_weights_of_searches_on_samples(self):
        path = ensembles.greedy(PROBS, LABELS, steps=4, replace=True, bags=5, bag_fraction=0.5, seed=2)
        assert len(path.bags) == 5
        assert len({tuple(bag.weights) for bag in path.bags}) > 1
        for bag in path.bags:
            assert len(set(bag.members)) <= 3
        assert_allclose(path.weights, np.mean([bag.weights for bag in path.bags], 0))
        assert_allclose(path.weights[path.members], sorted(path.weights[path.members])[::-1])
        assert path.best == len(path.members)
        selection, test = ensembles.stratified_split(LABELS, 0.5, 2)
        mean = ensembles.average(PROBS.astype(np.float64), path.weights)
        assert_allclose(path.best_score, (mean[selection].argmax(1) == LABELS[selection]).mean())
        assert_allclose(path.best_test_score, (mean[test].argmax(1) == LABELS[test]).mean())

    def test_bags_do_not_depend_on_the_order_of_models(self):
        names = [f"m{i}" for i in range(6)]
        by_name = dict(zip(names, PROBS, strict=True))
        one = ensembles.greedy(by_name, LABELS, steps=3, bags=4, seed=1)
        other = ensembles.greedy(dict(reversed(by_name.items())), LABELS, steps=3, bags=4, seed=1)
        assert one.weights == other.weights
        assert one.members == other.members

    def test_budget_is_kept_and_a_model_is_paid_once(self):
        costs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        path = ensembles.greedy(PROBS, LABELS, steps=12, replace=True, budget=9, cost=costs, test_fraction=0)
        assert path.costs[-1] <= 9
        for step, cost in enumerate(path.costs):
            assert cost == sum(costs[m] for m in set(path.members[: step + 1]))
        total = np.zeros(PROBS.shape[1:])
        for step, member in enumerate(path.members):
            spent = set(path.members[:step])
            allowed = [m for m in range(6) if sum(costs[i] for i in spent | {m}) <= 9]
            scores = {m: ((total + PROBS[m]).argmax(1) == LABELS).mean() for m in allowed}
            assert scores[member] == max(scores.values())
            total = total + PROBS[member]


class TestInputs:
    def test_runs_are_calibrated_and_aligned(self):
        temperatures = [0.5, 2.0, 1.0, 3.0, 0.2, 1.0]
        order, columns = np.random.default_rng(1).permutation(240), [3, 0, 4, 1, 2]
        classes = np.array(list("abcde"))
        outputs = [
            Outputs.from_arrays(f"m{i}", logits=Z[i], labels=LABELS, classes=classes, temperature=t)
            for i, t in enumerate(temperatures)
        ]
        outputs[2] = Outputs.from_arrays(
            "m2", logits=Z[2][order][:, columns], labels=np.argsort(columns)[LABELS[order]], classes=classes[columns],
            ids=order, temperature=1.0,
        )  # fmt: skip
        path = ensembles.greedy(Runs(outputs), steps=6)
        calibrated = np.stack([softmax(z / t) for z, t in zip(Z, temperatures, strict=True)]).astype(np.float32)
        plain = ensembles.greedy(calibrated, LABELS, steps=6)
        assert path.members == [f"m{m}" for m in plain.members]
        assert_allclose(path.test_score, plain.test_score)

    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    def test_mapped_files_in_several_blocks(self, tmp_path, kind):
        values = Z.astype(np.float16) if kind == "logits" else softmax(Z).astype(np.float16)
        outputs = []
        for i, value in enumerate(values):
            blocks = []
            for j, part in enumerate(np.array_split(value, 3 if i % 2 else 1)):
                np.save(tmp_path / f"{i}-{j}.npy", part)
                blocks.append(np.load(tmp_path / f"{i}-{j}.npy", mmap_mode="r"))
            ids, classes = np.arange(240).astype(str), tuple("abcde")
            outputs.append(Outputs(f"m{i}", kind, Column(blocks), ids, classes, LABELS))
        path = ensembles.greedy(Runs(outputs), steps=8, replace=True)
        probs = values if kind == "probabilities" else softmax(values).astype(np.float32)
        plain = ensembles.greedy(probs, LABELS, steps=8, replace=True)
        assert path.members == [f"m{m}" for m in plain.members]
        assert_allclose(path.score, plain.score)
        one_block = ensembles.greedy(outputs[::2], steps=3)
        assert set(one_block.members) == {"m0", "m2", "m4"}

    def test_bfloat16_tensors(self):
        p = torch.from_numpy(PROBS).to(torch.bfloat16)
        path = ensembles.greedy(p, torch.from_numpy(LABELS), steps=4, test_fraction=0)
        assert path.members == brute_force(p.float().numpy(), LABELS, 4, replace=False)[0]

    @pytest.mark.parametrize("classes", [1, 2])
    def test_one_and_two_classes(self, classes):
        probs = softmax(Z[:, :20, :classes])
        path = ensembles.greedy(probs, LABELS[:20] % classes, steps=3, test_fraction=0)
        assert path.members == brute_force(probs, LABELS[:20] % classes, 3, replace=False)[0]

    def test_a_class_absent_from_a_split(self):
        rows = np.flatnonzero(LABELS < 4), np.flatnonzero(LABELS == 4)
        path = ensembles.greedy(PROBS, LABELS, steps=2, split=rows, objective="balanced-accuracy")
        assert np.isfinite([*path.score, *path.test_score]).all()

    def test_twenty_one_thousand_classes(self):
        rng = np.random.default_rng(0)
        probs = rng.dirichlet(np.full(21_000, 0.01), (3, 8)).astype(np.float32)
        labels = probs[0].argmax(1)
        path = ensembles.greedy(probs, labels, steps=3, test_fraction=0)
        assert path.members[0] == 0
        assert path.score[0] == 1

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            (lambda p, y: (np.where(np.arange(5) == 2, np.nan, p), y), {"where": "model 0: row 0"}),
            (lambda p, y: (_with(p, (3, 17, 1), np.nan), y), {"where": "model 3: row 17", "problem": "sum nan"}),
            (lambda p, y: (_with(p, (2, 9, 1), np.inf), y), {"where": "model 2: row 9"}),
            (lambda p, y: (_with(p, (1, 5), [0.5, 0.6, -0.1, 0, 0]), y), {"where": "model 1: row 5", "problem": "-0.1"}),
            (lambda p, y: (Z, y), {"hint": "link"}),
            (lambda p, y: (p * 1.1, y), {"problem": "sum 1.1"}),
            (lambda p, y: (p[:0], y), {"argument": "runs", "found": [0, 240, 5]}),
            (lambda p, y: (p[:, :0], y[:0]), {"argument": "runs", "found": [6, 0, 5]}),
            (lambda p, y: ([], y), {"argument": "runs", "found": 0}),
            (lambda p, y: (p[0], y), {"expected": "[M, N, K]", "found": [240, 5]}),
            (lambda p, y: ([p[0], p[1, :9]], y), {"where": "probabilities of 1", "found": [9, 5]}),
            (lambda p, y: ((p * 100).astype(int), y), {"expected": "floating-point", "found": torch.int64}),
            (lambda p, y: (p, y[:-1]), {"argument": "labels", "expected": "240"}),
            (lambda p, y: (p, y.astype(float)), {"argument": "labels", "expected": "whole"}),
            (lambda p, y: (p, y - 1), {"argument": "labels"}),
            (lambda p, y: (p, y + 3), {"argument": "labels"}),
            (lambda p, y: (p, np.eye(5, dtype=int)[y]), {"argument": "labels", "hint": "one-hot"}),
            (lambda p, y: (p, None), {"argument": "labels", "expected": "class indices"}),
        ],
    )
    def test_bad_arrays(self, change, error):
        probs, labels = change(PROBS, LABELS)
        with pytest.raises(InputError, check=fields(**error)):
            ensembles.greedy(probs, labels, test_fraction=0)

    def test_a_bad_row_of_the_test_split_is_named(self):
        _, test = ensembles.stratified_split(LABELS, 0.5, 0)
        broken = PROBS.copy()
        broken[:, test[3], 0] = np.nan
        with pytest.raises(InputError, check=fields(where=f"row {test[3]}")):
            ensembles.greedy(broken, LABELS, steps=2)

    def test_bad_logits_of_runs(self):
        values = Z.copy()
        values[4, 33] = np.nan
        outputs = Outputs("m", "logits", Column([values[4]]), np.arange(240).astype(str), tuple("abcde"), LABELS)
        with pytest.raises(InputError, match="'33'"):
            ensembles.greedy([outputs], test_fraction=0)

    def test_masked_classes_and_extreme_logits_work(self):
        z = Z.copy()
        z[:, :, 3] = -np.inf
        z[1] *= 400  # +-800 and beyond
        labels = np.where(LABELS == 3, 0, LABELS)
        path = ensembles.greedy(runs_of(z, labels), steps=4, test_fraction=0)
        assert path.members == [f"m{m}" for m in brute_force(softmax(z).astype(np.float32), labels, 4, replace=False)[0]]

    def test_outputs_that_cannot_be_used(self):
        predictions = Outputs.from_arrays("p", predictions=LABELS, labels=LABELS)
        with pytest.raises(InputError, check=fields(where="p", problem="predictions")):
            ensembles.greedy([predictions])
        unlabelled = Outputs.from_arrays("u", logits=Z[0])
        with pytest.raises(InputError, check=fields(where="u", problem="labels")):
            ensembles.greedy([unlabelled])
        with pytest.raises(InputError, match="different examples"):
            ensembles.greedy([Outputs.from_arrays("a", logits=Z[0]), Outputs.from_arrays("b", logits=Z[1][:9])])
        with pytest.raises(InputError, check=fields(argument="device", found="cpu")):
            ensembles.greedy(PROBS, LABELS, device="cpu")


def _with(probs, where, value):
    changed = probs.copy()
    changed[where] = value
    return changed
