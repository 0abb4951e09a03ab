"""Accuracy without labels, against a simulation and against the paper's equations solved one pair at a time."""

import itertools

import numpy as np
import pytest
from raised import fields
from scipy.stats import linregress, norm

from diversity import unlabelled_accuracy as module
from diversity.unlabelled_accuracy import accuracy_without_labels, agreement_line
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs


def simulated(models: int, rows: int, loss: float, seed: int, classes: int = 5, **options: object) -> Runs:
    """Models of different skill that share the difficulty of examples; `loss` takes from the skill of all."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    shared = rng.normal(size=(rows, classes))
    skill = np.linspace(1.5, 4, models) - loss
    z = np.eye(classes)[y] * skill[:, None, None] + shared + rng.normal(size=(models, rows, classes))
    return Runs(Outputs.from_arrays(f"m{i}", logits=2 * z[i], labels=y, **options) for i in range(models))


def naive(shifted: Runs, source: Runs) -> tuple[float, np.ndarray, np.ndarray]:
    """Slope, ALine-S and ALine-D by loops and `lstsq`."""
    names = source.names
    pairs = list(itertools.combinations(range(len(names)), 2))

    def agree(runs: Runs, i: int, j: int) -> float:
        return norm.ppf(np.mean(runs[names[i]].predictions == runs[names[j]].predictions))

    here, there = ([agree(runs, i, j) for i, j in pairs] for runs in (source, shifted))
    x = [norm.ppf(source[name].accuracy) for name in names]
    fit = linregress(here, there)
    matrix, right = np.zeros((len(pairs), len(names))), []
    for row, (i, j) in enumerate(pairs):
        matrix[row, [i, j]] = 0.5
        right.append(there[row] + fit.slope * ((x[i] + x[j]) / 2 - here[row]))
    found, *_ = np.linalg.lstsq(matrix, np.array(right), rcond=None)
    return float(fit.slope), norm.cdf(fit.slope * np.array(x) + fit.intercept), norm.cdf(found)


def test_equal_to_the_equations_solved_pair_by_pair() -> None:
    source, shifted = simulated(6, 500, 0, 1), simulated(6, 400, 0.7, 2)
    found = accuracy_without_labels(shifted, source, min_r2=0)
    slope, on_line, of_pairs = naive(shifted, source)
    assert found.slope == pytest.approx(slope)
    assert found.frame["on_line"].to_numpy() == pytest.approx(on_line)
    assert found.frame["accuracy"].to_numpy() == pytest.approx(of_pairs)
    assert (found.pairs, found.examples) == (15, (500, 400))


def test_estimates_under_a_simulated_shift_beat_the_average_confidence() -> None:
    source, shifted = simulated(10, 4000, 0, 3), simulated(10, 4000, 0.5, 4)
    found = accuracy_without_labels(shifted, source)
    true = np.array([shifted[name].accuracy for name in found.frame["model"]])
    off = {name: np.abs(found.frame[name] - true).mean() for name in ("accuracy", "average_confidence", "source_accuracy")}
    assert found.refusal is None
    assert off["accuracy"] < 0.03
    assert off["accuracy"] < off["average_confidence"] < off["source_accuracy"]
    # The least accurate lie off the line here: chance agreement holds theirs up.
    good = true > 0.5
    assert ((found.frame["low"] < true) & (true < found.frame["high"]))[good].mean() >= 0.8
    assert (found.frame["high"] - found.frame["low"]).max() < 0.25


def test_how_well_a_line_fits_does_not_depend_on_how_many_examples_there_are() -> None:
    """Seen through few examples, a line fits worse than 0.98 by sampling alone; beyond that it fits as well as with many."""
    few, many = ((simulated(8, rows, 0, 21), simulated(8, rows, 0.3, 22)) for rows in (250, 8000))
    raw = []
    for source, shifted in (few, many):
        first, second = np.triu_indices(8, 1)
        x, y = (
            norm.ppf([np.mean(a == b) for a, b in zip(said[first], said[second], strict=True)])
            for said in (np.stack([o.predictions for o in runs.values()]) for runs in (source, shifted))
        )
        raw.append(np.corrcoef(x, y)[0, 1] ** 2)
    fits = [accuracy_without_labels(shifted, source, min_r2=0).r2 for source, shifted in (few, many)]
    assert raw[0] < 0.98 < raw[1]
    assert 1 - fits[0] < (1 - raw[0]) / 2
    assert raw[1] <= fits[1] <= 1


def test_labels_of_the_unlabelled_data_are_ignored() -> None:
    source, shifted = simulated(5, 300, 0, 5), simulated(5, 300, 0.5, 6)
    bare = Runs(Outputs.from_arrays(name, logits=np.asarray(o.logits)) for name, o in shifted.items())
    one, two = (accuracy_without_labels(runs, source, min_r2=0) for runs in (shifted, bare))
    assert one.frame.equals(two.frame)


def test_without_a_line_there_is_no_estimate() -> None:
    source = simulated(6, 400, 0, 7)
    rng = np.random.default_rng(0)
    noise = Runs(Outputs.from_arrays(f"m{i}", logits=rng.normal(size=(400, 5))) for i in range(6))
    found = accuracy_without_labels(noise, source)
    assert found.refusal is not None
    assert "line" in found.refusal or "slope" in found.refusal
    assert str(found).startswith("No estimate: ")
    assert found.frame[["accuracy", "low", "high", "on_line"]].isna().all(axis=None)
    assert found.frame["average_confidence"].notna().all()


def test_the_same_model_many_times_makes_no_line() -> None:
    one = simulated(2, 300, 0, 8)["m0"]
    runs = Runs(Outputs.from_arrays(f"m{i}", logits=np.asarray(one.logits), labels=one.labels) for i in range(5))
    found = accuracy_without_labels(runs, runs)
    assert "agree equally often" in str(found.refusal)


def test_atc_and_average_confidence_by_hand() -> None:
    source, shifted = simulated(4, 300, 0, 9, temperature=1.7), simulated(4, 200, 0.5, 10)
    frame = accuracy_without_labels(shifted, source, min_r2=0).frame.set_index("model")
    for name, known in source.items():
        p, q = (np.exp(np.asarray(o.logits) / 1.7) for o in (known, shifted[name]))
        p, q = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
        assert frame.loc[name, "average_confidence"] == pytest.approx(q.max(1).mean())
        before, after = ((d * np.log(d)).sum(1) for d in (p, q))
        threshold = np.quantile(before, 1 - known.accuracy, method="higher")
        assert frame.loc[name, "atc"] == pytest.approx((after >= threshold).mean(), abs=0.011)


def test_predictions_alone_are_enough_for_agreement() -> None:
    source, shifted = simulated(5, 300, 0, 11), simulated(5, 300, 0.5, 12)
    plain = [
        Runs(Outputs.from_arrays(n, predictions=o.predictions, labels=o.labels) for n, o in runs.items())
        for runs in (shifted, source)
    ]
    found, full = accuracy_without_labels(*plain, min_r2=0), accuracy_without_labels(shifted, source, min_r2=0)
    assert found.frame["accuracy"].to_numpy() == pytest.approx(full.frame["accuracy"].to_numpy())
    assert found.frame[["average_confidence", "atc"]].isna().all(axis=None)


def test_many_models_have_partners_instead_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    source, shifted = simulated(30, 600, 0, 13), simulated(30, 600, 0.5, 14)
    every = accuracy_without_labels(shifted, source, resamples=2, min_r2=0)
    monkeypatch.setattr(module, "ALL_PAIRS", 10)
    some = accuracy_without_labels(shifted, source, resamples=2, min_r2=0)
    assert (every.pairs, some.pairs) == (435, 240)
    assert np.abs(every.frame["accuracy"] - some.frame["accuracy"]).max() < 0.02


def test_fractions_of_zero_and_one_have_finite_estimates() -> None:
    pairs = np.triu_indices(4, 1)
    line = agreement_line(
        [0.5, 1.0, 0.9, 0.8], [1.0, 0.9, 0.8, 0.9, 0.8, 0.7], [0.9, 0.8, 0.7, 0.8, 0.7, 0.0], pairs, (100, 100)
    )
    assert np.isfinite(line.aline_d).all()


def test_invalid_arguments_are_named() -> None:
    source = simulated(5, 100, 0, 15)
    with pytest.raises(InputError, check=fields(argument="shifted", found=3)):
        accuracy_without_labels(source.subset(["m0", "m1", "m2"]), source)
    with pytest.raises(InputError, check=fields(where="m0", problem=["5 classes", "4 different"])):
        accuracy_without_labels(simulated(5, 100, 0, 16, classes=4), source)
    with pytest.raises(InputError, check=fields(argument="level", found=2)):
        accuracy_without_labels(source, source, level=2)
    bare = Runs(Outputs.from_arrays(name, logits=np.asarray(o.logits)) for name, o in source.items())
    with pytest.raises(InputError, check=fields(problem="no labels")):
        accuracy_without_labels(source, bare)
