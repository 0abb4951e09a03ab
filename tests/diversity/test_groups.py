"""Measures by group: against the measures of the selected rows, loops, simulated coverage, and their invariants."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.stats import binomtest, bootstrap

import diversity
from diversity.groups import COLUMNS, MEASURES, groups
from zoo.calibration import expected_calibration_error
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

CLASSES = 4


def made(seed=0, rows=600, models=3, harder=None):
    """Runs of models that are worse on the rows in `harder`, with those rows' labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, rows)
    skill = np.where(np.zeros(rows, bool) if harder is None else harder, 0.7, 2.0)
    z = skill[:, None] * np.eye(CLASSES)[y] + 0.7 * rng.normal(size=(rows, CLASSES))
    z = 1.5 * (z + rng.normal(size=(models, rows, CLASSES)))
    return Runs(Outputs.from_arrays(f"m{i}", logits=values, labels=y) for i, values in enumerate(z))


@pytest.fixture(scope="module")
def condition():
    return np.random.default_rng(9).choice(["day", "fog", "night"], 600, p=[0.5, 0.3, 0.2])


@pytest.fixture(scope="module")
def runs(condition):
    return made(harder=condition == "fog")


@pytest.fixture(scope="module")
def result(runs, condition):
    return groups(runs, condition)


def test_each_measure_is_that_of_the_groups_rows(runs, condition, result):
    assert result.frame["group"].tolist() == ["day", "fog", "night"]
    best = max(runs, key=lambda name: runs[name].accuracy)
    assert result.best_model == best
    for row in result.frame.itertuples():
        part = runs.select(condition == row.group)
        y = part.labels
        right = np.stack([outputs.correct for outputs in part.values()])
        joint = np.mean([outputs.probabilities for outputs in part.values()], 0).argmax(1) == y
        pairs = itertools.combinations(right, 2)
        assert row.examples == len(y)
        assert row.accuracy == pytest.approx(right.mean())
        assert row.inconsistency == pytest.approx(np.mean([(a != b).mean() for a, b in pairs]))
        assert row.calibration_error == pytest.approx(
            np.mean([expected_calibration_error(outputs.probabilities, y) for outputs in part.values()])
        )
        confidence = np.mean([outputs.probabilities.max(1).mean() for outputs in part.values()])
        assert row.overconfidence == pytest.approx(confidence - right.mean())
        assert row.ensemble_accuracy == pytest.approx(joint.mean())
        assert row.gain_over_mean == pytest.approx(joint.mean() - right.mean())
        assert row.gain_over_best == pytest.approx(joint.mean() - part[best].accuracy)
        rest = runs.select(condition != row.group)
        assert row.gap == pytest.approx(right.mean() - np.mean([outputs.accuracy for outputs in rest.values()]))
    assert result.worst == "fog"


def test_each_models_measures_are_those_of_its_rows(runs, condition, result):
    assert len(result.models) == 9
    for row in result.models.itertuples():
        part = runs[row.model].select(condition == row.group)
        assert row.accuracy == pytest.approx(part.accuracy)
        expected = binomtest(int(part.correct.sum()), len(part)).proportion_ci(method="wilson")
        assert (row.accuracy_low, row.accuracy_high) == pytest.approx((expected.low, expected.high))
        assert row.calibration_error == pytest.approx(expected_calibration_error(part.probabilities, part.labels))
        assert row.overconfidence == pytest.approx(part.probabilities.max(1).mean() - part.accuracy)
        assert row.overconfidence_low < row.overconfidence < row.overconfidence_high


def test_intervals_equal_scipys_bootstrap(runs, condition, result):
    part = runs.select(condition == "fog")
    y = part.labels
    right = np.stack([outputs.correct for outputs in part.values()])
    joint = np.mean([outputs.probabilities for outputs in part.values()], 0).argmax(1) == y
    row = result.frame.set_index("group").loc["fog"]
    hits = right.sum(0)
    for name, values in (
        ("accuracy", right.mean(0)),
        ("inconsistency", hits * (3 - hits) / 3),
        ("gain_over_mean", joint - right.mean(0)),
    ):
        ends = bootstrap((values,), np.mean, method="percentile", n_resamples=4000, rng=0).confidence_interval
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(tuple(ends), abs=0.006)
    rest = runs.select(condition != "fog")
    others = np.mean([outputs.correct for outputs in rest.values()], 0)
    ends = bootstrap(
        (right.mean(0), others), lambda a, b: a.mean(-1) - b.mean(-1), method="percentile", n_resamples=4000, rng=0
    ).confidence_interval
    assert (row["gap_low"], row["gap_high"]) == pytest.approx(tuple(ends), abs=0.01)
    p = part["m0"].probabilities
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(1000):
        rows = rng.integers(0, len(y), len(y))
        draws.append(expected_calibration_error(p[rows], y[rows]))
    error = expected_calibration_error(p, y)
    low, high = 2 * error - np.quantile(draws, [0.975, 0.025])
    model = result.models.set_index(["group", "model"]).loc[("fog", "m0")]
    assert model["calibration_error_low"] == pytest.approx(max(low, 0), abs=0.01)
    assert model["calibration_error_high"] == pytest.approx(max(high, error), abs=0.01)


def test_intervals_of_the_calibration_error_of_an_overconfident_model_cover_it():
    """Confidence 0.9 at accuracy 0.75: the calibration error is 0.15."""
    covered, runs_count = 0, 120
    for seed in range(runs_count):
        rng = np.random.default_rng(seed)
        right = rng.random(300) < 0.75
        p = np.where(right[:, None], [0.1, 0.9], [0.9, 0.1])
        outputs = Outputs.from_arrays("a", probabilities=p, labels=np.ones(300, int))
        row = groups(Runs([outputs]), np.arange(300) < 200, resamples=200).models.iloc[1]
        covered += row["calibration_error_low"] <= 0.15 <= row["calibration_error_high"]
    assert covered / runs_count >= 0.89


def test_groups_by_id_do_not_depend_on_the_order_of_rows_or_models(runs, condition, result):
    ids = runs["m0"].ids
    mapping = dict(zip(ids.tolist(), condition.tolist(), strict=True)) | {"elsewhere": "snow"}
    order = np.random.default_rng(0).permutation(600)
    again = groups(Runs([runs["m2"].select(order), runs["m1"], runs["m0"]]), mapping)
    points = ["group", "examples", *MEASURES]
    for name in points[1:]:
        assert again.frame[name].to_numpy() == pytest.approx(result.frame[name].to_numpy()), name
    assert again.frame["group"].tolist() == result.frame["group"].tolist()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 5))
def test_invariants(seed, models, count):
    rng = np.random.default_rng(seed)
    which = np.concatenate([np.arange(count), rng.integers(0, count, 80)])
    runs = made(seed, len(which), models)
    found = groups(runs, which, resamples=40)
    frame = found.frame
    assert list(frame.columns) == COLUMNS
    assert frame["examples"].sum() == len(which)
    overall = np.mean([outputs.accuracy for outputs in runs.values()])
    assert frame["accuracy"] @ frame["examples"] / len(which) == pytest.approx(overall)
    assert found.frame["accuracy"].min() == frame.set_index("group")["accuracy"][found.worst]
    assert (frame["calibration_error"] >= abs(frame["overconfidence"]) - 1e-12).all()
    for name in MEASURES:
        low, high = (frame.loc[frame[name + "_low"].notna(), name + end].to_numpy() for end in ("_low", "_high"))
        assert (low <= high).all(), name
    for name in ("ensemble_accuracy", "calibration_error"):
        low, high = frame[name + "_low"].fillna(0), frame[name + "_high"].fillna(1)
        assert ((low <= frame[name] + 1e-12) & (frame[name] <= high + 1e-12)).all()
        assert low.between(0, 1).all()
        assert high.between(0, 1 + 1e-12).all()
    if models == 1:
        assert frame["inconsistency"].isna().all()
        assert frame["gain_over_mean"].to_numpy() == pytest.approx(0)
    means = found.models.groupby("group", sort=False)["accuracy"].mean()
    assert means.to_numpy() == pytest.approx(frame["accuracy"].to_numpy())


def test_small_or_uniform_groups_get_no_interval_without_width():
    y = np.zeros(60, int)
    p = np.tile([0.8, 0.2], (60, 1))
    p[30:33] = [0.3, 0.7]
    runs = Runs(Outputs.from_arrays(name, probabilities=p, labels=y) for name in "ab")
    found = groups(runs, np.repeat(["even", "mixed", "tiny"], [30, 25, 5])).frame.set_index("group")
    assert found.loc["even", "accuracy"] == found.loc["even", "accuracy_high"] == 1
    assert found.loc["even", "accuracy_low"] == pytest.approx(binomtest(30, 30).proportion_ci(method="wilson").low)
    assert found.loc["mixed", "accuracy_low"] < 22 / 25 < found.loc["mixed", "accuracy_high"]
    assert np.isnan(found.loc["tiny", ["gap_low", "gain_over_mean_high", "calibration_error_low"]].astype(float)).all()


def test_models_with_predictions_only_have_accuracy_and_inconsistency(runs, condition, result):
    bare = Outputs.from_arrays("m2", predictions=runs["m2"].predictions, labels=runs.labels, classes=runs["m2"].classes)
    found = groups(Runs([runs["m0"], runs["m1"], bare]), condition)
    for name in ("accuracy", "inconsistency", "gap"):
        assert found.frame[name].to_numpy() == pytest.approx(result.frame[name].to_numpy())
    for name in ("calibration_error", "ensemble_accuracy", "gain_over_mean", "gain_over_best", "overconfidence"):
        assert found.frame[name].isna().all()
    by_model = found.models.groupby("model")["calibration_error"].count()
    assert by_model.to_dict() == {"m0": 3, "m1": 3, "m2": 0}
    assert "fog" in str(found)


def test_the_printed_table_names_the_worst_group(result):
    lines = str(result).splitlines()
    assert len(lines) == 5
    row = result.frame.iloc[1]
    assert f"{100 * row['accuracy']:.1f}% ({100 * row['accuracy_low']:.1f} to {100 * row['accuracy_high']:.1f})" in lines[2]
    assert "fog" in lines[-1]
    assert f"{abs(100 * row['gap']):.1f} points below" in lines[-1]


def test_numbers_are_sorted_as_numbers(runs):
    assert groups(runs, np.arange(600) % 12, resamples=2).frame["group"].tolist() == [str(i) for i in range(12)]
    assert diversity.groups(runs, [i % 2 == 0 for i in range(600)], resamples=2).frame["group"].tolist() == [
        "False", "True",
    ]  # fmt: skip


def test_invalid_arguments_are_named(runs, condition):
    ids = runs["m0"].ids.tolist()
    some = dict(zip(ids[:-2], condition, strict=False))
    for call, expected in (
        (lambda: groups(runs, condition[:10]), {"argument": "groups", "expected": "600"}),
        (lambda: groups(runs, ["x"] * 600), {"argument": "groups", "found": 1}),
        (lambda: groups(runs, some), {"argument": "groups", "problem": ["2 examples", "'598'"]}),
        (lambda: groups(runs, [*condition[:-1], None]), {"argument": "groups", "problem": "'599'"}),
        (lambda: groups(runs, [float("nan"), *range(599)]), {"argument": "groups", "problem": "'0'"}),
        (lambda: groups(runs, np.zeros((600, 2))), {"argument": "groups"}),
        (lambda: groups(runs, condition, resamples=0), {"argument": "resamples", "found": 0}),
        (lambda: groups(runs, condition, level=0), {"argument": "level", "found": 0}),
        (lambda: groups(runs, condition, seed=-1), {"argument": "seed"}),
    ):
        with pytest.raises(InputError, check=fields(**expected)):
            call()
