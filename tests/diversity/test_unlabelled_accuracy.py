"""Accuracy without labels, against simulations and against the equations in plain loops."""

import itertools

import numpy as np
import pytest
from raised import fields
from scipy.stats import linregress, norm

from diversity import unlabelled_accuracy as module
from diversity.unlabelled_accuracy import accuracy_without_labels, agreement_line, agreement_with_vote
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


def naive(shifted: Runs, source: Runs) -> tuple[float, np.ndarray]:
    """Slope and ALine-S by loops."""
    names = source.names

    def agree(runs: Runs, i: str, j: str) -> float:
        return norm.ppf(np.mean(runs[i].predictions == runs[j].predictions))

    here, there = ([agree(runs, i, j) for i, j in itertools.combinations(names, 2)] for runs in (source, shifted))
    fit = linregress(here, there)
    x = norm.ppf([source[name].accuracy for name in names])
    return float(fit.slope), norm.cdf(fit.slope * x + fit.intercept)


def naive_parts(shifted: Runs, source: Runs) -> tuple[np.ndarray, np.ndarray]:
    """By agreement and by confidence, on the probit scale, one example at a time."""
    weights = {name: np.log((len(o.classes) - 1) * o.accuracy / (1 - o.accuracy)) for name, o in source.items()}

    def agree(runs: Runs, name: str) -> float:
        hits = 0
        for row in range(len(runs[name])):
            tally: dict[int, float] = {}
            for other, outputs in runs.items():
                if other != name:
                    predicted = int(outputs.predictions[row])
                    tally[predicted] = tally.get(predicted, 0.0) + weights[other]
            hits += max(tally, key=lambda label: tally[label]) == runs[name].predictions[row]
        return norm.ppf(hits / len(runs[name]))

    def confidences(outputs: Outputs, temperature: float) -> np.ndarray:
        p = np.exp(np.asarray(outputs.logits, np.float64) / temperature)
        return p.max(1) / p.sum(1)

    agreement, confidence = [], []
    for name, known in source.items():
        agreement.append(norm.ppf(known.accuracy) - agree(source, name) + agree(shifted, name))
        before, after = (confidences(o, known.temperature or 1.0) for o in (known, shifted[name]))
        threshold = np.sort(before)[round((1 - known.accuracy) * len(before))]
        confidence.append(norm.ppf((after >= threshold).mean()))
    return np.array(agreement), np.array(confidence)


def test_equal_to_the_equations_one_example_at_a_time() -> None:
    source, shifted = simulated(6, 500, 0, 1, temperature=1.3), simulated(6, 400, 0.4, 2)
    found = accuracy_without_labels(shifted, source, max_half_width=1)
    a, c = naive_parts(shifted, source)
    assert norm.ppf(found.frame["by_agreement"]) == pytest.approx(a)
    assert norm.ppf(found.frame["by_confidence"]) == pytest.approx(c)
    e, u = (a + c) / 2, norm.ppf([o.accuracy for o in source.values()])
    p = norm.cdf(e)
    sampling = p * (1 - p) * (1 / 500 + 1 / 400) / norm.pdf(e) ** 2
    variance = sampling + (0.15 * (u - e)) ** 2 + (1.25 * (a - c) / 2) ** 2 + (0.4 * np.std(u - e)) ** 2
    assert found.frame["accuracy"].to_numpy() == pytest.approx(p)
    for end, sign in (("low", -1), ("high", 1)):
        expected = norm.cdf(e + sign * 2.4469 * np.sqrt(variance)) + sign * 0.5 / 400
        assert found.frame[end].to_numpy() == pytest.approx(expected, abs=1e-4)
    assert found.half_width == pytest.approx(((found.frame["high"] - found.frame["low"]) / 2).mean())


def test_the_line_is_that_of_the_equations_in_loops() -> None:
    source, shifted = simulated(6, 500, 0, 1), simulated(6, 400, 0.7, 2)
    found = accuracy_without_labels(shifted, source)
    slope, on_line = naive(shifted, source)
    assert found.slope == pytest.approx(slope)
    assert found.frame["on_line"].to_numpy() == pytest.approx(on_line)
    assert (found.pairs, found.examples) == (15, (500, 400))


@pytest.mark.parametrize("seed", range(3))
def test_data_like_the_labelled_data_have_about_the_labelled_accuracy(seed: int) -> None:
    source, same = simulated(7, 3000, 0, 100 + seed), simulated(7, 1500, 0, 200 + seed)
    found = accuracy_without_labels(same, source)
    true = np.array([same[name].accuracy for name in found.frame["model"]])
    assert found.refusal is None
    assert np.abs(found.frame["accuracy"] - found.frame["source_accuracy"]).max() < 0.03
    assert ((found.frame["low"] <= true) & (true <= found.frame["high"])).all()
    assert found.half_width < 0.06


def test_the_labelled_data_themselves_have_the_labelled_accuracy() -> None:
    source = simulated(5, 800, 0, 31)
    frame = accuracy_without_labels(source, source).frame
    assert frame["accuracy"].to_numpy() == pytest.approx(frame["source_accuracy"].to_numpy())


def test_the_order_of_models_and_examples_changes_nothing() -> None:
    source, shifted = simulated(6, 500, 0, 32), simulated(6, 400, 0.3, 33)
    expected = accuracy_without_labels(shifted, source, max_half_width=1)
    rng = np.random.default_rng(0)
    mixed = [
        Runs(
            Outputs.from_arrays(name, logits=np.asarray(runs[name].logits)[order], labels=runs.labels[order])
            for name in ("m3", "m0", "m5", "m1", "m4", "m2")
        )
        for runs, order in ((shifted, rng.permutation(400)), (source, rng.permutation(500)))
    ]
    found = accuracy_without_labels(*mixed, max_half_width=1)
    columns = ["accuracy", "low", "high", "by_agreement", "by_confidence", "on_line", "average_confidence", "atc"]
    one, two = (frame.set_index("model").sort_index()[columns] for frame in (expected.frame, found.frame))
    assert two.to_numpy() == pytest.approx(one.to_numpy(), rel=1e-6)
    assert found.half_width == pytest.approx(expected.half_width)


def test_a_stronger_shift_has_wider_intervals_until_there_is_no_estimate() -> None:
    source = simulated(8, 3000, 0, 34)
    found = [accuracy_without_labels(simulated(8, 3000, loss, 35), source) for loss in (0, 0.3, 0.8, 1.6)]
    widths = [one.half_width for one in found]
    assert widths == sorted(widths)
    assert found[0].refusal is None
    assert found[-1].refusal is not None
    assert f"{100 * widths[-1]:.2f}" in found[-1].refusal
    again = accuracy_without_labels(simulated(8, 3000, 1.6, 35), source, max_half_width=1)
    assert again.refusal is None
    assert again.half_width == pytest.approx(widths[-1])


def test_the_interval_of_a_model_without_errors_holds_an_accuracy_of_one() -> None:
    y = np.arange(60) % 3
    rng = np.random.default_rng(0)
    said = np.stack([np.where(rng.random(60) < 0.02 * i, (y + 1) % 3, y) for i in range(5)])
    runs = Runs(Outputs.from_arrays(f"m{i}", predictions=row, labels=y) for i, row in enumerate(said))
    frame = accuracy_without_labels(runs, runs, max_half_width=1).frame.set_index("model")
    assert frame.loc["m0", "high"] == 1
    assert ((frame["low"] >= 0) & (frame["low"] < frame["accuracy"]) & (frame["accuracy"] < frame["high"])).all()


def test_votes_of_the_others_by_hand() -> None:
    rng = np.random.default_rng(3)
    predictions, votes = rng.integers(-1, 3, (5, 200)), np.array([1, 2, 3, 4, 5])  # -1 is a missing prediction
    hits = np.zeros(5)
    for column in predictions.T:
        for i, own in enumerate(column):
            tally = [sum(votes[j] for j in range(5) if j != i and column[j] == label) for label in range(3)]
            hits[i] += own >= 0 and all(tally[own] > tally[label] for label in range(3) if label != own)
    assert agreement_with_vote(list(predictions), votes, 3) == pytest.approx(hits / 200)


def test_estimates_under_a_simulated_shift_beat_the_average_confidence() -> None:
    source, shifted = simulated(10, 4000, 0, 3), simulated(10, 4000, 0.5, 4)
    found = accuracy_without_labels(shifted, source)
    true = np.array([shifted[name].accuracy for name in found.frame["model"]])
    off = {name: np.abs(found.frame[name] - true).mean() for name in ("accuracy", "average_confidence", "source_accuracy")}
    assert found.refusal is None
    assert off["accuracy"] < 0.03
    assert off["accuracy"] < off["average_confidence"] < off["source_accuracy"]
    assert ((found.frame["low"] < true) & (true < found.frame["high"])).mean() >= 0.9
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
    fits = [accuracy_without_labels(shifted, source).r2 for source, shifted in (few, many)]
    assert raw[0] < 0.98 < raw[1]
    assert 1 - fits[0] < (1 - raw[0]) / 2
    assert raw[1] <= fits[1] <= 1


def test_labels_of_the_unlabelled_data_are_ignored() -> None:
    source, shifted = simulated(5, 300, 0, 5), simulated(5, 300, 0.5, 6)
    bare = Runs(Outputs.from_arrays(name, logits=np.asarray(o.logits)) for name, o in shifted.items())
    one, two = (accuracy_without_labels(runs, source, max_half_width=1) for runs in (shifted, bare))
    assert one.frame["accuracy"].notna().all()
    assert one.frame.equals(two.frame)


def test_random_outputs_have_no_estimate() -> None:
    source = simulated(6, 400, 0, 7)
    rng = np.random.default_rng(0)
    noise = Runs(Outputs.from_arrays(f"m{i}", logits=rng.normal(size=(400, 5))) for i in range(6))
    found = accuracy_without_labels(noise, source)
    assert found.refusal is not None
    assert str(found).startswith("No estimate: ")
    assert found.frame[["accuracy", "low", "high"]].isna().all(axis=None)
    assert found.frame[["by_agreement", "by_confidence"]].notna().all(axis=None)
    assert found.frame["average_confidence"].notna().all()


def test_the_same_model_many_times_makes_no_line() -> None:
    one = simulated(2, 300, 0, 8)["m0"]
    runs = Runs(Outputs.from_arrays(f"m{i}", logits=np.asarray(one.logits), labels=one.labels) for i in range(5))
    found = accuracy_without_labels(runs, runs)
    assert "agree equally often" in str(found.refusal)


def test_atc_and_average_confidence_by_hand() -> None:
    source, shifted = simulated(4, 300, 0, 9, temperature=1.7), simulated(4, 200, 0.5, 10)
    frame = accuracy_without_labels(shifted, source).frame.set_index("model")
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
    found, full = (accuracy_without_labels(*runs, max_half_width=1) for runs in (plain, (shifted, source)))
    assert found.frame["accuracy"].to_numpy() == pytest.approx(full.frame["by_agreement"].to_numpy())
    assert found.frame[["average_confidence", "atc", "by_confidence"]].isna().all(axis=None)


def test_many_models_have_partners_instead_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    source, shifted = simulated(30, 600, 0, 13), simulated(30, 600, 0.5, 14)
    every = accuracy_without_labels(shifted, source, resamples=2)
    monkeypatch.setattr(module, "ALL_PAIRS", 10)
    some = accuracy_without_labels(shifted, source, resamples=2)
    assert (every.pairs, some.pairs) == (435, 240)
    assert np.abs(every.frame["on_line"] - some.frame["on_line"]).max() < 0.02
    assert every.frame["by_agreement"].equals(some.frame["by_agreement"])


def test_a_refusal_for_the_line_has_enough_digits() -> None:
    source, shifted = simulated(6, 2000, 0, 41), simulated(6, 2000, 0.1, 42)
    r2 = accuracy_without_labels(shifted, source).r2
    found = accuracy_without_labels(shifted, source, min_r2=r2 + 1e-3)
    assert found.frame["accuracy"].isna().all()
    assert f"{r2:.4f}" in str(found.refusal)
    assert accuracy_without_labels(shifted, source, min_r2=r2 - 1e-3).refusal is None


def test_fractions_of_zero_and_one_have_finite_estimates() -> None:
    line = agreement_line([0.5, 1.0, 0.9, 0.8], [1.0, 0.9, 0.8, 0.9, 0.8, 0.7], [0.9, 0.8, 0.7, 0.8, 0.7, 0.0], (100, 100))
    assert np.isfinite(line.aline_s).all()


def test_invalid_arguments_are_named() -> None:
    source = simulated(5, 100, 0, 15)
    with pytest.raises(InputError, check=fields(argument="shifted", found=3)):
        accuracy_without_labels(source.subset(["m0", "m1", "m2"]), source)
    with pytest.raises(InputError, check=fields(where="m0", problem=["5 classes", "4 different"])):
        accuracy_without_labels(simulated(5, 100, 0, 16, classes=4), source)
    with pytest.raises(InputError, check=fields(argument="level", found=2)):
        accuracy_without_labels(source, source, level=2)
    for width in (0, -1, float("nan")):
        with pytest.raises(InputError, check=fields(argument="max_half_width")):
            accuracy_without_labels(source, source, max_half_width=width)
    bare = Runs(Outputs.from_arrays(name, logits=np.asarray(o.logits)) for name, o in source.items())
    with pytest.raises(InputError, check=fields(problem="no labels")):
        accuracy_without_labels(source, bare)
