"""Fitting temperatures: against SciPy and scikit-learn, through every edge case, and on the stand-in device."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from accelerator import DEVICE, DEVICES, Accelerator, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, log_softmax, logsumexp
from sklearn.calibration import _TemperatureScaling
from sklearn.metrics import log_loss

from zoo.calibration import expected_calibration_error, fit_temperature, fit_temperatures, to_probabilities
from zoo.core.columns import Column
from zoo.errors import InputError, ZooWarning


def drawn(rows, classes, seed=0, scale=1.0):
    """Logits of which the labels are a sample, so that T = `scale` is right up to chance."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, (rows, classes))
    p = np.exp(log_softmax(z, 1)).cumsum(1)
    y = (rng.random((rows, 1)) * p[:, -1:] > p).sum(1).clip(max=classes - 1)
    return z * scale, y


def log_probabilities(z, temperature, link):
    v = z / temperature
    v = v if link == "softmax" else log_expit(v)
    return v - logsumexp(v, 1, keepdims=True)


def nll(z, y, temperature, link="softmax", weights=None):
    return np.average(-log_probabilities(z, temperature, link)[np.arange(len(y)), y], weights=weights)


def scipy_optimum(z, y, link="softmax", weights=None):
    """The best of bounded searches around every point of a fine grid: slow, global, in float64."""
    grid = np.linspace(math.log(1e-4), math.log(1e4), 161)
    values = [nll(z, y, math.exp(t), link, weights) for t in grid]
    best = int(np.argmin(values))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda t: nll(z, y, math.exp(t), link, weights), bounds=bounds, options={"xatol": 1e-10})
    return math.exp(found.x), found.fun


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize("classes", [2, 3, 10, 200])
def test_equals_scipy(link, classes):
    z, y = drawn(700, classes, seed=classes)
    z -= 2.0 if link == "sigmoid" else 0.0
    fit = fit_temperature(z, y, link)
    temperature, least = scipy_optimum(z, y, link)
    assert fit.temperature == pytest.approx(temperature, rel=1e-5)
    assert fit.nll_after == pytest.approx(least, abs=1e-10)
    assert fit.nll_before == pytest.approx(nll(z, y, 1.0, link), abs=1e-10)


def test_equals_scikit_learn():
    z, y = drawn(3000, 20, scale=3.0)
    fit = fit_temperature(z, y)
    beta = _TemperatureScaling().fit(z, y).beta_
    assert fit.temperature == pytest.approx(1 / beta, rel=1e-5)
    assert fit.nll_after == pytest.approx(log_loss(y, to_probabilities(z, fit.temperature)), abs=1e-12)


@pytest.mark.parametrize("scale", [0.005, 0.01, 0.3, 1.0, 7.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaling_the_logits_scales_the_temperature(scale, dtype):
    z, y = drawn(2000, 15)
    base = fit_temperature(z, y).temperature
    assert fit_temperature((z * scale).astype(dtype), y).temperature == pytest.approx(base * scale, rel=1e-4)


@pytest.mark.parametrize("scale", [0.005, 0.2, 30.0])
def test_a_start_from_a_sample_ends_at_the_optimum_of_everything(scale):
    # More than two million numbers, and the sampled rows are unlike the rest: the first ones are much too confident.
    z, y = drawn(3000, 1000, seed=5, scale=scale)
    z[::7] *= 3
    z = z.astype(np.float32)
    fit = fit_temperature(z, y)
    logits = z.astype(np.float64)
    found = minimize_scalar(
        lambda t: nll(logits, y, math.exp(t)),
        bounds=(math.log(fit.temperature) - 0.3, math.log(fit.temperature) + 0.3),
        options={"xatol": 1e-9},
    )
    assert fit.temperature == pytest.approx(math.exp(found.x), rel=3e-5)
    assert fit.nll_after == pytest.approx(found.fun, abs=1e-7)
    assert fit.passes <= 6


def test_rows_in_blocks_are_one_column():
    z, y = drawn(999, 12)
    blocks = Column([z[:1], z[1:500], z[500:]])
    assert fit_temperature(blocks, y).temperature == pytest.approx(fit_temperature(z, y).temperature, rel=1e-12)


def test_memory_map_is_streamed(tmp_path):
    z, y = drawn(500, 10)
    np.save(tmp_path / "z.npy", z.astype(np.float32))
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    assert fit_temperature(mapped, y).temperature == fit_temperature(np.array(mapped), y).temperature


def test_extra_memory_is_that_of_a_chunk():
    z, y = drawn(20_000, 100)
    z = z.astype(np.float16)
    blocks = Column(np.array_split(z, 7))
    tracemalloc.start()
    fit_temperature(blocks, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * z.nbytes  # NumPy's memory: torch's is the buffers of one chunk


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    z, y = drawn(2000, 30, scale=4.0)
    half = torch.from_numpy(z).to(dtype)
    fit = fit_temperature(half, y)
    assert fit.temperature == pytest.approx(fit_temperature(half.double(), y).temperature, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_large_logits(dtype):
    z = np.array([[800.0, -800.0], [800.0, -800.0], [-800.0, 800.0]] * 5, dtype)
    y = np.array([0, 1, 1] * 5)
    # Two times in three the gap of 1600 is right, so gap / T = log 2.
    assert fit_temperature(z, y).temperature == pytest.approx(1600 / math.log(2), rel=1e-5)


def test_float16_logits_at_the_end_of_their_range():
    z = np.array([[65504.0, -65504.0], [65504.0, -65504.0], [-65504.0, 65504.0]] * 5, np.float16)
    with pytest.warns(ZooWarning, match="above the upper bound"):
        fit = fit_temperature(z, np.array([0, 1, 1] * 5))
    assert math.isfinite(fit.nll_after)
    assert fit.nll_after < fit.nll_before


def test_twenty_one_thousand_classes():
    z, y = drawn(100, 21_000, seed=2, scale=0.5)
    fit = fit_temperature(z.astype(np.float32), y)
    found = minimize_scalar(lambda t: nll(z, y, math.exp(t)), bounds=(-2, 1), options={"xatol": 1e-7})
    assert fit.temperature == pytest.approx(math.exp(found.x), rel=1e-4)


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
def test_masked_classes_are_as_if_absent(link):
    z, y = drawn(400, 8)
    wide = np.full((400, 11), -np.inf)
    wide[:, [0, 2, 3, 4, 6, 7, 8, 10]] = z
    columns = np.array([0, 2, 3, 4, 6, 7, 8, 10])
    fit, plain = fit_temperature(wide, columns[y], link), fit_temperature(z, y, link)
    assert fit.temperature == pytest.approx(plain.temperature, rel=1e-9)
    assert fit.ece_after == pytest.approx(plain.ece_after, abs=1e-9)
    assert fit.brier_after == pytest.approx(plain.brier_after, abs=1e-9)


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize("scale", [0.01, 1.0])
@pytest.mark.parametrize("rows", [3, 60, 3000])
def test_separable_data_stop_at_the_rule_of_succession(link, scale, rows):
    y = np.arange(rows) % 3
    z = (np.eye(3)[y] * 2 - 1) * scale * np.random.default_rng(0).uniform(0.5, 1, (rows, 1))
    with pytest.warns(ZooWarning, match=f"{rows} examples without an error"):
        fit = fit_temperature(z, y, link)
    assert fit.at_bound
    assert 1e-4 < fit.temperature < 1
    assert fit.nll_after == pytest.approx(math.log((rows + 2) / (rows + 1)), rel=1e-5)
    assert fit.nll_after == pytest.approx(nll(z, y, fit.temperature, link), rel=1e-6)
    assert fit.nll_after < fit.nll_before


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
def test_separable_data_that_are_sure_enough_keep_one(link):
    y = np.arange(60) % 3
    with pytest.warns(ZooWarning, match="without an error"):
        fit = fit_temperature((np.eye(3)[y] * 2 - 1) * 400, y, link)
    assert fit.at_bound
    assert fit.temperature == 1
    assert fit.nll_after == fit.nll_before


def test_tiny_logits_stop_at_the_end_of_the_search():
    y = np.arange(60) % 3
    with pytest.warns(ZooWarning, match="below the lower bound"):
        fit = fit_temperature(np.eye(3)[y] * 1e-9, y)
    assert fit.at_bound
    assert fit.temperature == 1e-4


def test_labels_worse_than_chance_stop_at_the_other_bound():
    y = np.arange(60) % 3
    with pytest.warns(ZooWarning, match="above the upper bound"):
        fit = fit_temperature(-np.eye(3)[y], y)
    assert fit.temperature == 1e4
    assert fit.at_bound


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize("classes", [1, 4])
def test_constant_logits_keep_one(link, classes):
    z = np.full((20, classes), 3.0)
    with pytest.warns(ZooWarning, match="left at 1"):
        fit = fit_temperature(z, np.arange(20) % classes, link)
    assert (fit.temperature, fit.at_bound) == (1.0, False)
    assert fit.nll_after == fit.nll_before == pytest.approx(math.log(classes))


def test_several_saturated_sigmoids_have_a_proper_minimum():
    # Every label is on top, yet other positive logits saturate too: the coldest temperature is not the best.
    z = np.tile([[3.0, 1.0, -2.0]], (10, 1))
    fit = fit_temperature(z, np.zeros(10, int), "sigmoid")
    temperature, least = scipy_optimum(z, np.zeros(10, int), "sigmoid")
    assert 0.01 < temperature < 100
    assert fit.nll_after == pytest.approx(least, abs=1e-9)
    assert not fit.at_bound


def test_one_row_and_an_absent_class():
    fit = fit_temperature([[1.0, 2.0, 0.0], [3.0, 1.0, 0.0]], [0, 0])
    assert fit.examples == 2
    with pytest.warns(ZooWarning):
        assert fit_temperature([[1.0, 2.0]], [1]).at_bound


def test_metrics_are_those_of_the_probabilities():
    z, y = drawn(1500, 25, scale=2.5)
    fit = fit_temperature(z, y)
    for when, temperature in (("before", 1.0), ("after", fit.temperature)):
        p = to_probabilities(z, temperature)
        assert getattr(fit, f"ece_{when}") == pytest.approx(expected_calibration_error(p, y), abs=1e-12)
        assert getattr(fit, f"brier_{when}") == pytest.approx(((p - np.eye(25)[y]) ** 2).sum(1).mean(), abs=1e-12)
    frame = fit.reliability()
    assert frame.groupby("when")["count"].sum().tolist() == [1500, 1500]
    assert set(fit.to_dict()) >= {"temperature", "nll_before", "nll_after", "ece_before", "ece_after", "note"}


def test_equal_maxima_count_for_the_first_class():
    z = np.array([[1.0, 1.0, 0.0]] * 4)
    fit = fit_temperature(z, [0, 1, 1, 2])
    assert fit.ece_after == pytest.approx(expected_calibration_error(to_probabilities(z, fit.temperature), [0, 1, 1, 2]))


def test_many_models_in_one_call():
    z, y = drawn(300, 6)
    stack = np.stack([z, 2 * z, 0.1 * z])
    by_number = fit_temperatures(stack, y)
    assert list(by_number) == ["0", "1", "2"]
    assert by_number["1"].temperature == pytest.approx(2 * by_number["0"].temperature, rel=1e-6)
    by_name = fit_temperatures({"a": stack[0], "b": torch.from_numpy(stack[2])}, y)
    assert by_name["b"].temperature == by_number["2"].temperature


class TestFaults:
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("link", ["softmax", "sigmoid"])
    def test_a_row_that_is_not_finite_is_named(self, value, link):
        z, y = drawn(50, 4)
        z[17, 2] = value
        with pytest.raises(InputError, check=fields(argument="resnet logits", problem="row 17")):
            fit_temperature(z, y, link, "resnet logits")

    def test_it_is_named_by_its_own_number_when_a_sample_meets_it_first(self):
        z, y = drawn(3000, 1000)
        z[2996] = np.nan
        with pytest.raises(InputError, check=fields(problem="row 2996")):
            fit_temperature(z, y)

    def test_all_rows(self):
        with pytest.raises(InputError, check=fields(problem="3 such rows")):
            fit_temperature(np.full((3, 2), np.nan), [0, 1, 1])

    def test_logits_beyond_all_measure(self):
        with pytest.raises(InputError, check=fields(argument="logits", found="3e+37")):
            fit_temperature(np.array([[3e37, 1.0], [1.0, 2.0]], np.float32), [0, 0], "sigmoid")

    def test_masked_label(self):
        with pytest.raises(InputError, check=fields(problem="row 1 has a logit of -inf")):
            fit_temperature([[0.0, 1.0], [-np.inf, 1.0]], [0, 0])

    @pytest.mark.parametrize(
        ("z", "y", "facts"),
        [
            (np.zeros((2, 3)), [0, 3], {"argument": "labels", "problem": "entry 1 is 3"}),
            (np.zeros((2, 3)), [0, -1], {"argument": "labels", "problem": "entry 1 is -1"}),
            (np.zeros((2, 3)), [0.0, 1.0], {"argument": "labels", "expected": "whole-number"}),
            (np.zeros((2, 3)), np.eye(3)[:2], {"argument": "labels"}),
            (np.zeros((2, 3)), [0], {"argument": "labels", "found": 1}),
            (np.zeros((0, 3)), [], {"argument": "logits", "found": [0, 3]}),
            (np.zeros(3), [0], {"argument": "logits", "found": [3]}),
            (np.zeros((2, 3), int), [0, 1], {"argument": "logits", "expected": "floating-point"}),
        ],
    )
    def test_shapes_and_labels(self, z, y, facts):
        with pytest.raises(InputError, check=fields(**facts)):
            fit_temperature(z, np.asarray(y, int) if len(y) == 0 else y)

    def test_probabilities_instead_of_logits(self):
        z, y = drawn(50, 4)
        with pytest.raises(InputError, check=fields(argument="logits", problem="probabilities")):
            fit_temperature(to_probabilities(z), y)

    def test_unknown_link(self):
        with pytest.raises(InputError, check=fields(argument="link", found="probit")):
            fit_temperature(np.zeros((2, 3)), [0, 1], "probit")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 9), st.integers(1, 40), st.integers(0, 10**6), st.floats(-3, 3), st.sampled_from(["softmax", "sigmoid"])
)
@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # small draws are often separable
def test_invariants(classes, rows, seed, log_scale, link):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, math.exp(log_scale), (rows, classes)).astype(rng.choice([np.float32, np.float64]))
    y = rng.integers(0, classes, rows)
    fit = fit_temperature(z, y, link)
    assert fit.nll_after <= fit.nll_before
    assert 1e-4 <= fit.temperature <= 1e4
    if not fit.at_bound:
        assert fit.nll_after <= scipy_optimum(z.astype(float), y, link)[1] + 1e-6
    p = to_probabilities(z, fit.temperature, link)
    top = z.argmax(1)
    assert (p[np.arange(rows), top] == p.max(1)).all()  # the same top-1, where rounding has not made two classes equal
    order = rng.permutation(rows)
    assert fit_temperature(z[order], y[order], link).nll_after == pytest.approx(fit.nll_after, abs=1e-6)


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
def test_stays_on_the_stand_in_device(link):
    z, y = drawn(300, 7)
    z[:, 0] = -np.inf
    keep = y != 0
    z, y = z[keep], y[keep]
    with Accelerator():
        remote = fit_temperature(upload(z), upload(y), link)
        assert fit_temperature(upload(z), y, link).temperature == remote.temperature
        frame = remote.reliability()
    local = fit_temperature(torch.from_numpy(z), y, link)
    assert remote == local
    assert frame.equals(local.reliability())


def hostile(kind):
    """Logits and labels of a kind that is hard for rounding or has no best temperature."""
    z, y = drawn(400, 6, seed=3)
    rows = np.arange(len(y))
    if kind == "masked":
        z[:, 2] = -np.inf
        y[y == 2] = 0
    elif kind == "ties":
        z = np.round(z)
    elif kind == "all correct":
        z[rows, y] = z.max(1) + 1
    elif kind == "plateau":  # two sigmoids saturate at 1, and each of the two is the label of one row of a pair
        z = np.concatenate([abs(z[:, :2]), -abs(z[:, 2:])], 1)
        z[1::2], y = z[::2], rows % 2
    elif kind == "constant":
        z[:] = 2.0
    elif kind == "no better than chance":
        y = np.random.default_rng(4).integers(0, 6, len(y))
        z = -z
    return z * {"tiny": 1e-3, "huge": 1e4}.get(kind, 1.0), y


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")
@pytest.mark.parametrize("make", [np.array, torch.from_numpy])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize("kind", ["ordinary", "masked", "ties", "tiny", "huge", "plateau"])
def test_a_start_from_a_sample_ends_at_scipys_optimum(monkeypatch, kind, link, weighted, make):
    monkeypatch.setattr("zoo.calibration.likelihood.SMALL_ELEMENTS", 0)
    z, y = hostile(kind)
    weights = np.repeat(np.random.default_rng(5).uniform(0.5, 2, len(y) // 2), 2) if weighted else None
    temperature, least = scipy_optimum(z, y, link, weights)
    exact = fit_temperature(make(z), y, link, weights=weights)
    assert exact.nll_after == pytest.approx(least, abs=1e-9)
    assert exact.at_bound or exact.temperature == pytest.approx(temperature, rel=2e-5)
    single = fit_temperature(make(z.astype(np.float32)), y, link, weights=weights)
    assert single.nll_after == pytest.approx(least, abs=1e-7 * max(1, least))
    assert nll(z, y, single.temperature, link, weights) == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize("make", [np.array, torch.from_numpy])
def test_ties_in_many_chunks_and_blocks_count_for_the_first_class(monkeypatch, make):
    monkeypatch.setattr("zoo.calibration.likelihood.CACHE_ELEMENTS", 100)
    z, y = hostile("ties")
    fit = fit_temperature(Column([make(z[:1]), make(z[1:150]), make(z[150:])]), y)
    for ece, temperature in ((fit.ece_before, 1.0), (fit.ece_after, fit.temperature)):
        assert ece == pytest.approx(expected_calibration_error(to_probabilities(z, temperature), y), abs=1e-12)


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")
@pytest.mark.parametrize("space", ["logits", "distribution"])
@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize(
    "kind", ["ordinary", "masked", "ties", "tiny", "huge", "all correct", "plateau", "constant", "no better than chance"]
)
def test_numpy_and_torch_agree(kind, link, space):
    z, y = hostile(kind)
    weights = np.random.default_rng(5).uniform(0.5, 2, len(y))
    for options in ({}, {"weights": weights}):
        ours = fit_temperature(z, y, link, temperature_space=space, **options)
        theirs = fit_temperature(torch.from_numpy(z), y, link, temperature_space=space, **options)
        assert (ours.note == "") == (theirs.note == "")
        assert ours.temperature == pytest.approx(theirs.temperature, rel=1e-9)
        for name in ("nll_before", "nll_after", "brier_before", "brier_after", "ece_before", "ece_after"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_numpy_and_torch_agree_on_narrow_logits(dtype):
    z, y = drawn(3000, 9)
    ours, theirs = (fit_temperature(make(z.astype(dtype)), y) for make in (np.array, torch.from_numpy))
    assert ours.temperature == pytest.approx(theirs.temperature, rel=1e-9)


def test_many_logits_are_computed_by_torch(monkeypatch):
    z, y = drawn(400, 6)
    fit = fit_temperature(z, y)
    assert isinstance(fit.bins[0], np.ndarray)
    monkeypatch.setattr("zoo.core.arrays.MAX_NUMPY", 2399)
    large = fit_temperature(z, y)
    assert isinstance(large.bins[0], torch.Tensor)
    assert large.temperature == pytest.approx(fit.temperature, rel=1e-12)


def test_an_iteration_of_many_models_waits_for_the_device_once():
    z, y = drawn(400, 6)
    logits = np.stack([z * scale for scale in (0.3, 1.0, 2.0, 5.0)]).astype(np.float32)
    counts = []
    for models in (1, 4):
        with Accelerator() as device:
            fits = fit_temperatures(list(logits[:models]), upload(y), device=DEVICE)
        counts.append(device)
        for i, fit in enumerate(fits.values()):
            assert fit.temperature == pytest.approx(fit_temperature(logits[i], y).temperature, rel=1e-9)
    one, four = counts
    # One wait per iteration, of all models together, of which there are about seven. Beyond these, a fit reads whether rows
    # are tied and its two calibration errors for its report.
    per_model = 4
    assert one.synchronisations <= 10 + per_model
    assert four.synchronisations <= 10 + 4 * per_model
    assert four.uploaded_bytes == 4 * logits[0].nbytes  # once


def test_logits_too_large_for_the_device_are_streamed(monkeypatch):
    monkeypatch.setattr("zoo.calibration.temperature.MAX_RESIDENT_BYTES", 1)
    z, y = drawn(400, 6)
    with Accelerator():
        remote = fit_temperature(z, upload(y), device=DEVICE)
    assert remote == fit_temperature(torch.from_numpy(z), y)


def test_models_that_are_fitted_together_share_the_memory_of_the_device(monkeypatch):
    z, y = drawn(400, 6)
    monkeypatch.setattr("zoo.calibration.temperature.MAX_RESIDENT_BYTES", z.nbytes)
    uploaded = []
    for models in (1, 2):
        with Accelerator() as device:
            fit_temperatures([z] * models, upload(y), device=DEVICE)
        uploaded.append(device.uploaded_bytes)
    assert uploaded[0] == z.nbytes  # resident
    assert uploaded[1] > 4 * z.nbytes  # streamed in every pass


@pytest.mark.parametrize("device", DEVICES)
def test_on_each_device(device):
    z, y = drawn(2000, 40, scale=2.0)
    fit = fit_temperature(torch.from_numpy(z).float().to(device), torch.from_numpy(y).to(device))
    assert fit.temperature == pytest.approx(fit_temperature(z, y).temperature, rel=1e-4)


TEMPERATURES = np.exp(np.linspace(math.log(1e-4), math.log(1e4), 1201))


def dense(z, y, link):
    """The NLL [1201] on a dense grid of temperatures, in float64."""
    v = z[None] / TEMPERATURES[:, None, None]
    v = v if link == "softmax" else log_expit(v)
    v = v - v.max(2, keepdims=True)
    return (np.log(np.exp(v).sum(2)) - v[:, np.arange(len(y)), y]).mean(1)


def small_problem(seed):
    """Few rows and classes, every scale, half of the time with labels that mostly follow the logits."""
    rng = np.random.default_rng(seed)
    rows, classes = int(rng.integers(1, rng.choice([6, 40]))), int(rng.integers(2, 9))
    z = rng.normal(0, math.exp(rng.uniform(-3, 3)), (rows, classes)).astype(np.float32)
    y = rng.integers(0, classes, rows)
    if rng.random() < 0.5:
        y = np.where(rng.random(rows) < 0.8, z.argmax(1), y)
    return z, y, ("sigmoid", "softmax")[int(rng.random() < 0.3)]


@pytest.mark.parametrize("seeds", [range(500), pytest.param(range(500, 10_000), marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # most small draws end at a bound
def test_no_temperature_of_a_dense_grid_is_better_and_every_bound_is_flagged(seeds):
    for seed in seeds:
        z, y, link = small_problem(seed)
        exact = z.astype(np.float64)
        fit = fit_temperature(z, y, link)
        curve = dense(exact, y, link)
        all_right = (exact[np.arange(len(y)), y] == exact.max(1)).all()
        if not (fit.at_bound and all_right):  # then T stops at what so few examples vouch for
            assert nll(exact, y, fit.temperature, link) <= curve.min() + 1e-9, seed
        ends_lowest = min(curve[0], curve[-1]) <= curve.min() + 1e-12
        assert fit.at_bound or not ends_lowest, seed
        assert fit.at_bound == bool(fit.note), seed
        if seed % 4 == 0:
            assert fit_temperature(exact, y, link).temperature == pytest.approx(fit.temperature, rel=1e-3), seed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saturated_plateau_is_not_taken_for_constant_logits(dtype):
    rng = np.random.default_rng(20)
    z = rng.normal(0, math.exp(0.376958350215733), (4, 2))
    rng.choice([0, 1])
    y = rng.integers(0, 2, 4)
    with pytest.warns(ZooWarning, match=r"saturates.* T = 0\.000927"):
        fit = fit_temperature(z.astype(dtype), y, "sigmoid")
    assert fit.nll_before == pytest.approx(0.588, abs=1e-3)
    assert fit.nll_after == pytest.approx(math.log(2) / 4, abs=1e-9)  # one row in four is a tie of two classes
    assert fit.at_bound


def test_large_float32_and_float64_give_the_same_temperature():
    z, y = drawn(2500, 1000, seed=9, scale=3.0)  # more numbers than are widened
    z = z.astype(np.float32)
    for link in ("softmax", "sigmoid"):
        narrow, wide = fit_temperature(z, y, link).temperature, fit_temperature(z.astype(np.float64), y, link).temperature
        assert narrow == pytest.approx(wide, rel=1e-3)


@pytest.mark.parametrize("temperature_space", ["logits", "distribution"])
def test_both_temperature_spaces_of_a_sigmoid_equal_scipy(temperature_space):
    z, y = drawn(3000, 6, seed=3, scale=2.5)

    def p_at(temperature):
        if temperature_space == "logits":
            p = expit(z / temperature)
        else:
            p = (expit(z) / expit(z).sum(1, keepdims=True)) ** (1 / temperature)
        return p / p.sum(1, keepdims=True)

    best = minimize_scalar(lambda s: -np.log(p_at(np.exp(s))[np.arange(len(y)), y]).mean(), bounds=(-4, 4), method="bounded")
    fit = fit_temperature(z, y, "sigmoid", temperature_space=temperature_space)
    assert (fit.link, fit.temperature_space) == ("sigmoid", temperature_space)
    assert fit.nll_after == pytest.approx(best.fun, abs=1e-9)
    assert fit.temperature == pytest.approx(np.exp(best.x), rel=1e-3)
    np.testing.assert_allclose(
        to_probabilities(z, fit.temperature, "sigmoid", temperature_space=temperature_space),
        p_at(fit.temperature),
        rtol=1e-9,
    )
    other = fit_temperature(z, y, "sigmoid", temperature_space="distribution" if temperature_space == "logits" else "logits")
    assert other.temperature != pytest.approx(fit.temperature, rel=0.05)
    assert other.nll_before == pytest.approx(fit.nll_before)


def test_a_softmax_has_one_temperature_space():
    z, y = drawn(500, 4)
    assert fit_temperature(z, y, temperature_space="distribution") == fit_temperature(z, y)
    with pytest.raises(InputError, check=fields(argument="temperature_space", found="odds")):
        fit_temperature(z, y, temperature_space="odds")
