"""Pairs of models by training category, their standard errors and correlations, and the papers' figures."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from raised import fields
from scipy.stats import linregress, pearsonr, sem, t

import diversity
from diversity import summary
from diversity.measures import names
from diversity.summary import GAIN_PARTS, fit_line, jackknife_error
from zoo.cards.card import Card, Training, read
from zoo.errors import InputError, UnknownName, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

CARDS = Path(__file__).parents[2] / "model_cards"


def card(name, dataset="in1k", framework="supervised", family="resnet", **hyperparameters):
    training = Training(dataset, framework, "softmax", hyperparameters)
    return Card(name, "reference", family, family, "digits", "softmax", "trained", training)


@pytest.fixture
def runs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 700)
    cards = [
        card("base"),
        card("again"),
        card("wide", width=2),
        card("vgg", family="vgg"),
        card("clip", "wit", "contrastive"),
    ]
    logits = rng.normal(size=(5, 700, 5)) + 1.5 * np.eye(5)[y]
    return Runs(Outputs.from_arrays(c.name, logits=z, labels=y, card=c) for c, z in zip(cards, logits, strict=True))


def made_pairs(models, seed=0, of_model=1.0, of_pair=0.3, category="hparam"):
    """All pairs of models, with x and y that depend on the models of a pair and on the pair itself."""
    rng = np.random.default_rng(seed)
    pairs = np.array(list(itertools.combinations(range(models), 2)))
    effects = of_model * rng.normal(size=(models, 2))
    x, y = (effects[pairs].sum(1) + of_pair * rng.normal(size=(len(pairs), 2))).T
    columns = {"first": [f"m{i}" for i in pairs[:, 0]], "second": [f"m{j}" for j in pairs[:, 1]]}
    return pd.DataFrame(columns | {"category": category, "inconsistency": x, "gain_over_mean": y})


class TestPairFrame:
    def test_pairs_with_a_base(self, runs):
        frame = diversity.pair_frame(runs, base="base")
        assert frame["second"].tolist() == ["again", "wide", "vgg", "clip"]
        assert frame["category"].tolist() == ["reinit", "hparam", "arch", "dataset"]
        for row in frame.itertuples():
            pair = diversity.compare(runs["base"], runs[row.second])
            for measure in (*names("errors", "ensemble"), *GAIN_PARTS):
                assert getattr(row, measure) == pytest.approx(getattr(pair, measure)), measure

    def test_all_pairs_in_any_chunks(self, runs, monkeypatch):
        frame = diversity.pair_frame(runs)
        assert len(frame) == 10
        monkeypatch.setattr(summary, "CHUNK", 33)
        pd.testing.assert_frame_equal(diversity.pair_frame(runs), frame)
        matrices = diversity.pairwise(runs)
        assert frame["kappa"].tolist() == pytest.approx(matrices.to_frame()["kappa"].tolist())

    def test_the_gain_over_the_mean_is_the_sum_of_its_parts(self, runs):
        frame = diversity.pair_frame(runs)
        parts = frame["gain_from_conversion"] - frame["loss_both_right"] + frame["gain_both_wrong"]
        np.testing.assert_allclose(parts, frame["gain_over_mean"], atol=1e-15)
        expected = frame["inconsistency"] * (frame["conversion_rate"] - 0.5)
        np.testing.assert_allclose(frame["gain_from_conversion"], expected, atol=1e-15)
        assert (frame["gain_over_best"] <= frame["gain_over_mean"]).all()

    @pytest.mark.parametrize(("base", "fraction_of_band"), [(None, 1.0), ("base", 0.5)])
    def test_pairs_of_comparable_accuracy_are_marked(self, runs, base, fraction_of_band):
        for band in (0.6, 2.1, 3.9):
            frame = diversity.pair_frame(runs, base, accuracy_band=band)
            gap = 100 * (frame["accuracy_first"] - frame["accuracy_second"]).abs()
            assert frame["comparable"].tolist() == (gap <= fraction_of_band * band).tolist()
        assert 0 < diversity.pair_frame(runs, accuracy_band=2.1)["comparable"].sum() < 10
        assert diversity.pair_frame(runs, base, accuracy_band=None)["comparable"].all()

    def test_pairs_without_cards_have_no_category(self, runs):
        bare = Runs(Outputs.from_arrays(n, logits=o.logits, labels=o.labels) for n, o in runs.items())
        frame = diversity.pair_frame(bare)
        assert frame["category"].isna().all()
        assert len(diversity.by_category(frame)) == 0

    def test_predictions_only(self, runs):
        hard = Runs(Outputs.from_arrays(n, predictions=o.predictions, labels=o.labels, card=o.card) for n, o in runs.items())
        frame, full = diversity.pair_frame(hard), diversity.pair_frame(runs)
        pd.testing.assert_frame_equal(frame, full[list(frame)])
        assert set(full) - set(frame) == {*names("ensemble"), *GAIN_PARTS}
        table = diversity.by_category(frame)
        assert "gain_over_mean" not in table
        assert len(table) == len(diversity.by_category(full))

    def test_pairs_that_share_their_initialisation_are_left_out(self, runs):
        def recipe(name, seed, initialisation=None):
            training = Training("digits", "supervised", "softmax", seed=seed, initialisation=initialisation)
            return Card(name, "recipe", "resnet", "resnet8", "digits", "softmax", "trained", training)

        cards = [recipe("base", 0), recipe("again", 0), recipe("wide", 1), recipe("vgg", 0, "name and seed"), None]
        mixed = Runs(dataclasses.replace(o, card=c) for o, c in zip(runs.values(), cards, strict=True))
        with pytest.warns(ZooWarning, match=r"1 of 10 pairs .*base and again"):
            frame = diversity.pair_frame(mixed)
        assert len(frame) == 9
        assert frame.index.tolist() == list(range(9))
        assert ("base", "again") not in set(zip(frame["first"], frame["second"], strict=True))
        with pytest.warns(ZooWarning, match="1 of 1 pairs"):
            assert len(diversity.pair_frame(mixed.subset(["base", "again"]))) == 0

    def test_predictions_do_not_change_where_sigmoids_saturate(self):
        rng = np.random.default_rng(3)
        labels = rng.integers(0, 5, 300)
        runs = []
        for name in "ab":
            logits = 3 * rng.normal(size=(300, 5)) + 2 * np.eye(5)[labels]
            outputs = Outputs.from_arrays(name, logits=logits.astype(np.float32), labels=labels, link="sigmoid")
            runs.append(dataclasses.replace(outputs, temperature=1e-3))
        frame = diversity.pair_frame(Runs(runs)).iloc[0]
        right = [outputs.predictions == labels for outputs in runs]
        assert (np.asarray(runs[0].probabilities).argmax(1) != runs[0].predictions).any()  # several round to 1
        assert frame["inconsistency"] == pytest.approx((right[0] != right[1]).mean())
        assert frame["inconsistency"] == pytest.approx(diversity.compare(*runs).inconsistency)

    def test_invalid_arguments_are_named(self, runs):
        with pytest.raises(InputError, check=fields(argument="runs", found=1)):
            diversity.pair_frame(Runs([runs["base"]]))
        with pytest.raises(UnknownName, check=fields(name="bas", suggestions=("base",))):
            diversity.pair_frame(runs, base="bas")
        with pytest.raises(InputError, check=fields(argument="accuracy_band", found=0)):
            diversity.pair_frame(runs, accuracy_band=0)


def jackknife_by_a_loop(values, units):
    """Means without one unit at a time, of the units without which a pair remains."""
    means = []
    for unit in set(units.flat):
        kept = [value for value, pair in zip(values, units, strict=True) if unit not in pair and np.isfinite(value)]
        if kept:
            means.append(np.mean(kept))
    m = len(means)
    return np.sqrt((m - 1) / m * np.sum((np.array(means) - np.mean(means)) ** 2)) if m > 1 else np.nan


class TestByCategory:
    def test_means_and_standard_errors(self, runs):
        frame = diversity.pair_frame(runs)
        table = diversity.by_category(frame).set_index("category")
        assert table.index.tolist() == [kind for kind in diversity.CATEGORIES if kind in set(frame["category"])]
        for kind, row in table.iterrows():
            pairs = frame[frame["category"] == kind]
            models = sorted({*pairs["first"], *pairs["second"]})
            units = pairs[["first", "second"]].map(models.index).to_numpy()
            assert (row["pairs"], row["models"], row["two_models"]) == (len(pairs), len(models), len(models) == 2)
            assert row["gain_over_mean"] == pytest.approx(pairs["gain_over_mean"].mean())
            expected = jackknife_by_a_loop(pairs["gain_over_mean"], units)
            assert row["gain_over_mean_se"] == pytest.approx(expected, nan_ok=True)
        assert table.loc["reinit", "two_models"]
        assert np.isnan(table.loc["reinit", "inconsistency_se"])
        assert table.loc["dataset", "shared_model"] == "clip"
        assert table.loc["arch", "shared_model"] == "vgg"

    def test_with_a_base_the_standard_error_is_that_of_independent_pairs(self):
        pairs = made_pairs(9)
        pairs = pairs[pairs["first"] == "m0"]
        row = diversity.by_category(pairs).iloc[0]
        assert row["inconsistency_se"] == pytest.approx(sem(pairs["inconsistency"]))
        assert row["shared_model"] == "m0"

    @pytest.mark.parametrize("seed", range(5))
    def test_any_graph_of_pairs_equals_the_loop(self, seed):
        rng = np.random.default_rng(seed)
        units = rng.integers(0, 6, (14, 2))  # pairs within a unit, and pairs of the same two units, included
        values = np.where(rng.random((14, 2)) < 0.2, np.nan, rng.normal(size=(14, 2)))
        expected = [jackknife_by_a_loop(column, units) for column in values.T]
        np.testing.assert_allclose(jackknife_error(values, units), expected)

    def test_groups_are_deleted_as_a_whole(self):
        pairs = made_pairs(8)
        groups = {f"m{i}": f"recipe {i // 2}" for i in range(8)}
        units = np.array([[int(groups[name][-1]) for name in pair] for pair in pairs[["first", "second"]].to_numpy()])
        row = diversity.by_category(pairs, groups).iloc[0]
        assert row["inconsistency_se"] == pytest.approx(jackknife_by_a_loop(pairs["inconsistency"], units))
        assert row["models"] == 8
        with pytest.raises(InputError, check=fields(argument="groups", problem="m7")):
            diversity.by_category(pairs, {name: group for name, group in groups.items() if name != "m7"})

    def test_jackknife_intervals_cover_the_mean_and_those_of_independent_pairs_do_not(self):
        """Of 400 sets of 12 models; the mean over all models is 0."""
        covered = np.zeros(2)
        for seed in range(400):
            values = made_pairs(12, seed)["inconsistency"].to_numpy()
            units = np.array(list(itertools.combinations(range(12), 2)))
            halves = t.ppf(0.975, 11) * jackknife_error(values[:, None], units)[0], t.ppf(0.975, 65) * sem(values)
            covered += [abs(values.mean()) <= half for half in halves]
        jackknife, naive = covered / 400
        assert 0.92 <= jackknife <= 0.98
        assert naive < 0.6

    def test_a_frame_without_names_is_refused(self):
        with pytest.raises(InputError, check=fields(argument="frame", expected="'first'")):
            diversity.by_category(pd.DataFrame({"category": ["reinit"], "inconsistency": [0.1]}))


class TestFitLine:
    def test_equals_scipy(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=50)
        y = 2 * x + rng.normal(size=50)
        line, expected = fit_line(x, y), linregress(x, y)
        found = line.slope, line.intercept, line.correlation
        assert found == pytest.approx((expected.slope, expected.intercept, pearsonr(x, y)[0]))
        assert line.interval == pytest.approx(pearsonr(x, y).confidence_interval(0.95))
        assert fit_line([*x, np.nan], [*y, 3.0]) == line

    def test_there_is_no_correlation_if_nothing_varies(self):
        """Gains that are equal up to rounding have the correlation of rounding errors."""
        gains = np.array([0.03, 0.03 + 4e-18, 0.3 - 0.27, 0.01 + 0.02])
        line = fit_line([0.1, 0.2, 0.3, 0.4], gains)
        assert np.isnan(line.correlation)
        assert (line.slope, line.intercept) == (0, pytest.approx(0.03))
        assert "undefined" in str(line)

    @pytest.mark.parametrize(("last", "text"), [(3.0, "r = 1.000"), (3.2, "r = 0.999"), (4.0, "r = 0.98")])
    def test_a_correlation_below_one_is_not_printed_as_one(self, last, text):
        assert str(fit_line([0.0, 1.0, 2.0], [1.0, 2.0, last])) == text

    def test_invalid_arguments_are_named(self):
        with pytest.raises(InputError, check=fields(argument="x")):
            fit_line([1.0, 1.0], [1.0, 2.0])
        with pytest.raises(InputError, check=fields(argument="y")):
            fit_line([1.0, 2.0], [1.0])


def resampled_by_a_loop(frame, units, resamples, seed):
    """Correlations over resamples of units, each resample written out pair by pair."""
    rng = np.random.default_rng(seed)
    number = units.max() + 1
    found = []
    for _ in range(resamples):
        drawn = rng.integers(0, number, number).tolist()
        rows = []
        for row, (one, other) in enumerate(units):
            times = drawn.count(one) if one == other else drawn.count(one) * drawn.count(other)
            rows += [row] * times
        sample = frame.iloc[rows]
        if sample["inconsistency"].nunique() > 1:
            found.append(np.corrcoef(sample["inconsistency"], sample["gain_over_mean"])[0, 1])
    return np.quantile(found, [0.025, 0.975])


class TestRegression:
    def test_slope_and_correlation_equal_those_of_the_points(self):
        pairs = made_pairs(7)
        line, points = diversity.regression(pairs), fit_line(pairs["inconsistency"], pairs["gain_over_mean"])
        assert dataclasses.replace(line, interval=points.interval) == points
        assert line.interval[0] <= line.correlation <= line.interval[1]

    @pytest.mark.parametrize("grouped", [False, True])
    def test_the_interval_equals_a_bootstrap_over_models_written_out(self, grouped):
        pairs = made_pairs(12)
        numbers = {f"m{i}": i // 2 if grouped else i for i in range(12)}
        units = pairs[["first", "second"]].map(numbers.get).to_numpy()
        groups = {name: str(number) for name, number in numbers.items()} if grouped else None
        found = diversity.regression(pairs, groups=groups, resamples=4000).interval
        np.testing.assert_allclose(found, resampled_by_a_loop(pairs, units, 800, 1), atol=0.06)

    def test_the_interval_is_wider_than_that_of_independent_pairs_and_covers(self):
        """Of 150 sets of 12 models whose two effects are independent, so that the correlation is 0."""
        covered = np.zeros(2)
        for seed in range(150):
            pairs = made_pairs(12, seed)
            lines = diversity.regression(pairs, resamples=300), fit_line(pairs["inconsistency"], pairs["gain_over_mean"])
            covered += [line.interval[0] <= 0 <= line.interval[1] for line in lines]
        over_models, independent = covered / 150
        assert over_models >= 0.85
        assert independent < 0.75

    def test_a_base_is_part_of_every_resample(self):
        """So that the interval is that of a bootstrap over the other models."""
        pairs = made_pairs(30)
        pairs = pairs[pairs["first"] == "m0"]
        found = diversity.regression(pairs, resamples=4000).interval
        rng = np.random.default_rng(0)
        points = pairs[["inconsistency", "gain_over_mean"]].to_numpy()
        draws = [np.corrcoef(points[rng.integers(0, 29, 29)].T)[0, 1] for _ in range(4000)]
        np.testing.assert_allclose(found, np.quantile(draws, [0.025, 0.975]), atol=0.04)

    def test_only_comparable_pairs_count_unless_asked(self):
        pairs = made_pairs(6)
        marked = pairs.assign(comparable=np.arange(15) % 3 > 0)
        kept = marked[marked["comparable"]]
        assert diversity.regression(marked).correlation == pytest.approx(
            pearsonr(kept["inconsistency"], kept["gain_over_mean"])[0]
        )
        everything = diversity.regression(marked, comparable_only=False)
        assert everything.correlation == diversity.regression(pairs).correlation
        with pytest.raises(InputError, check=fields(argument="frame", found="0 pairs", hint="comparable_only")):
            diversity.regression(pairs.assign(comparable=False))

    def test_the_same_seed_gives_the_same_interval_in_any_blocks(self, monkeypatch):
        pairs = made_pairs(8)
        line = diversity.regression(pairs, seed=3)
        assert diversity.regression(pairs, seed=4).interval != line.interval
        monkeypatch.setattr(summary, "_BLOCK", 100)
        assert diversity.regression(pairs, seed=3).interval == pytest.approx(line.interval, rel=1e-12)

    def test_three_models_have_no_interval(self):
        assert np.isnan(diversity.regression(made_pairs(3)).interval).all()

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"x": "nope"}, {"argument": "frame", "expected": "'nope'"}),
            ({"level": 2}, {"argument": "level", "found": 2}),
            ({"resamples": 0}, {"argument": "resamples", "found": 0}),
            ({"groups": {"m0": "a"}}, {"argument": "groups"}),
        ],
    )
    def test_invalid_arguments_are_named(self, options, expected):
        with pytest.raises(InputError, check=fields(**expected)):
            diversity.regression(made_pairs(5), **options)


def test_the_papers_correlation_of_inconsistency_and_gain():
    """Gontijo-Lopes et al. 2021, Table 1 (models of 74-78% against a base of 76.20%): Fig. 2's line has r = 0.98."""
    models = [model for path in sorted(CARDS.glob("[!R]*.md")) for model in read(path).expand()]
    named = [(model.name, row) for model in models for row in model.reference]
    named = [(name, row) for name, row in named if row.paper == "Gontijo-Lopes 2021" and row.table == "1"]
    assert len(named) == 50
    rows = [row for _, row in named]
    frame = pd.DataFrame(
        {
            "first": "resnet50-ra",
            "second": [name for name, _ in named],
            "category": [row.category for row in rows],
            "inconsistency": [row.inconsistency for row in rows],
            "gain_over_mean": [row.ensemble_accuracy - (row.accuracy + 76.20) / 2 for row in rows],
        }
    )
    line = diversity.regression(frame)
    assert line.correlation == pytest.approx(0.98, abs=0.005)
    assert line.slope > 0
    table = diversity.by_category(frame).set_index("category")
    assert table.loc["dataset", "inconsistency"] > table.loc["arch", "inconsistency"] > table.loc["hparam", "inconsistency"]
