"""Every measure of representations runs where its input is: nothing crosses to the CPU but small results."""

import dataclasses

import numpy as np
import pytest
import torch
from accelerator import DEVICES, Accelerator, download, upload

from diversity.collapse import neural_collapse
from diversity.densities import angular_visual_hardness, distance_densities, kernel_density
from diversity.layerwise import SparsityMeter
from diversity.separation import METRICS, class_separation
from diversity.similarity import MinibatchCKA, kernel_cka, linear_cka
from diversity.spectra import singular_spectra

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 60)
X = (RNG.normal(size=(4, 5))[LABELS] + RNG.normal(size=(60, 5))).astype(np.float32)
Y = RNG.normal(size=(60, 7)).astype(np.float32)
WEIGHT, BIAS = RNG.normal(size=(4, 5)).astype(np.float32), RNG.normal(size=4).astype(np.float32)


def meter(x: object, y: object, kernel: str) -> float:
    cka = MinibatchCKA(kernel)  # type: ignore[arg-type]
    cka.update([x], [y])
    return float(cka.result().iloc[0, 0])


def sparsity(x: object) -> float:
    meter = SparsityMeter()
    meter.update(x)  # type: ignore[arg-type]
    return meter.nonzero_fraction


MEASURES = {
    "linear_cka": lambda x, y, labels, w, b: linear_cka(x, y),
    "linear_cka wide": lambda x, y, labels, w, b: linear_cka(x[:6], y[:6], unbiased=True),
    "kernel_cka": lambda x, y, labels, w, b: kernel_cka(x, y, "rbf"),
    "cosine cka": lambda x, y, labels, w, b: kernel_cka(x, y, "cosine"),
    "meter": lambda x, y, labels, w, b: [meter(x, y, kernel) for kernel in ("linear", "cosine", "rbf")],
    "separation": lambda x, y, labels, w, b: [class_separation(x, labels, metric) for metric in METRICS],
    "collapse": lambda x, y, labels, w, b: list(dataclasses.asdict(neural_collapse(x, labels, w, b)).values()),
    "hardness": lambda x, y, labels, w, b: angular_visual_hardness(x, labels, w),
    "sparsity": lambda x, y, labels, w, b: sparsity(x),
    "spectra": lambda x, y, labels, w, b: singular_spectra(x, labels, w, center=True).value.to_numpy(),
    "distances": lambda x, y, labels, w, b: distance_densities(x, labels, bins=9).to_numpy(),
    "drawn distances": lambda x, y, labels, w, b: distance_densities(x, labels, bins=9, rows=40).to_numpy(),
    "kernel density": lambda x, y, labels, w, b: kernel_density(x[:, 0]).to_numpy(),
}


@pytest.mark.parametrize("measure", MEASURES)
def test_nothing_leaves_the_device(measure: str) -> None:
    inputs = X, Y, LABELS, WEIGHT, BIAS
    expected = MEASURES[measure](*inputs)
    with Accelerator():
        result = MEASURES[measure](*(upload(values) for values in inputs))
    if isinstance(result, torch.Tensor):
        result = download(result)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("measure", MEASURES)
def test_every_device_gives_the_same(measure: str, device: str) -> None:
    inputs = X, Y, LABELS, WEIGHT, BIAS
    result = MEASURES[measure](*(torch.from_numpy(values).to(device) for values in inputs))
    if isinstance(result, torch.Tensor):
        assert result.device.type == device
        result = result.cpu()
    np.testing.assert_allclose(result, MEASURES[measure](*inputs), rtol=1e-4)


def test_labels_and_weights_on_the_cpu_follow_the_activations() -> None:
    with Accelerator():
        x = upload(X)
        assert class_separation(x, LABELS) == pytest.approx(class_separation(X, LABELS))
        assert neural_collapse(x, LABELS, WEIGHT, BIAS).variability > 0
        assert linear_cka(x, Y) == pytest.approx(linear_cka(X, Y))
