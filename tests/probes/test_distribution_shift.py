"""Robustness: mCE by its formula, and accuracies on images in the folders of these sets."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from raised import fields

import zoo
from probes import distribution_shift
from zoo.cards import labels
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning

MODEL = "timm:test_resnet"
OPTIONS = {"pretrained": False, "progress": False, "workers": 0, "device": "cpu"}


def _images(folder: Path, classes: list[str], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(folder / name / f"{number}.png")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    return tmp_path


@given(arrays(float, (15, 5), elements=st.floats(0, 1)), st.randoms())
def test_mce_is_the_mean_of_the_ratios_of_sums(errors, random):
    names = list(distribution_shift.ALEXNET_ERRORS)
    expected = np.mean([errors[i].sum() / (5 * distribution_shift.ALEXNET_ERRORS[name]) for i, name in enumerate(names)])
    items = list(zip(names, errors, strict=True))
    random.shuffle(items)
    assert distribution_shift.mean_corruption_error(dict(items)) == pytest.approx(expected)


def test_mce_of_alexnet_is_one_and_of_resnet50_the_published_one():
    alexnet = distribution_shift.ALEXNET_ERRORS
    assert distribution_shift.mean_corruption_error({name: [e] * 5 for name, e in alexnet.items()}) == pytest.approx(1)
    # ResNet-50 in Hendrycks and Dietterich (2019), Table 1: corruption errors in per cent of AlexNet's, and mCE 76.7.
    published = [80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77]
    errors = {name: [e * ce / 100] * 5 for (name, e), ce in zip(alexnet.items(), published, strict=True)}
    assert distribution_shift.mean_corruption_error(errors) == pytest.approx(0.767, abs=0.003)


def test_accuracies_equal_the_networks_and_missing_sets_are_named(data):
    thousand, of_a = labels.classes("imagenet-1k"), labels.classes("imagenet-a")
    _images(data / "in-a", list(of_a[:3]))
    _images(data / "in-v2" / "test", list(thousand[:2]), seed=1)
    with pytest.warns(ZooWarning, match=r"in-r, in-c-mce: .*75 of 75"):
        frame = distribution_shift.robustness(MODEL, sets=("in-v2", "in-a", "in-r", "in-c"), **OPTIONS)
    assert list(frame.columns) == ["in-v2", "in-a", "in-r", "in-c-mce"]
    assert list(frame.index) == [MODEL]
    assert set(frame.attrs["missing"]) == {"in-r", "in-c-mce"}
    assert frame[["in-r", "in-c-mce"]].isna().all(axis=None)

    # The network itself, without the runner: among 1,000 classes for V2, among the 200 of A for A.
    model = zoo.load(MODEL, pretrained=False, device="cpu")
    for name, classes in (("in-v2", thousand), ("in-a", of_a)):
        dataset = zoo.datasets.load(name)
        columns = labels.indices(classes, thousand)
        logits = model.predict(list(dataset)).numpy()[:, columns]
        assert frame.loc[MODEL, name] == pytest.approx(np.mean(logits.argmax(1) == dataset.labels))


def test_models_are_listed_if_all_sets_are_missing(data):
    with pytest.warns(ZooWarning, match="in-v2"):
        frame = distribution_shift.robustness([MODEL], sets=["in-v2"], **OPTIONS)
    assert frame.isna().all(axis=None)
    assert list(frame.index) == [MODEL]


def test_corrupted_images_are_scored_by_corruption_and_severity(data):
    """All 75 datasets are real; outputs with known accuracies replace 75 runs of a network."""
    names = labels.classes("imagenet-1k")[:2]
    for corruption in distribution_shift.ALEXNET_ERRORS:
        for severity in distribution_shift.SEVERITIES:
            _images(data / "in-c" / corruption / str(severity), list(names))

    def run(models, data, embeddings):
        severity = int(data.spec.partition(":")[0][-1])
        wrong = severity == 5 if models == "good" else severity > 1
        predictions = (data.labels + 1) % 2 if wrong else data.labels
        outputs = zoo.Outputs.from_arrays(models, predictions=predictions, labels=data.labels, classes=data.classes)
        return zoo.Runs([outputs])

    inverse = np.mean([1 / e for e in distribution_shift.ALEXNET_ERRORS.values()])
    for name, error in (("good", 0.2), ("poor", 0.8)):
        frame = distribution_shift.robustness(name, sets=["in-c"], run=run)
        assert frame.loc[name, "in-c-mce"] == pytest.approx(error * inverse)
    errors = distribution_shift.corruption_errors("good", run=run)
    assert len(errors) == 75
    assert errors.groupby("severity").error.mean().tolist() == [0, 0, 0, 0, 1]


def test_one_corruption_scores_as_the_network(data, monkeypatch):
    monkeypatch.setattr(distribution_shift, "ALEXNET_ERRORS", {"fog": 0.5})
    for severity in distribution_shift.SEVERITIES:
        _images(data / "in-c" / "fog" / str(severity), list(labels.classes("imagenet-1k")[:2]), severity)
    frame = distribution_shift.robustness([MODEL], sets=["in-c"], **OPTIONS)
    errors = distribution_shift.corruption_errors([MODEL], **OPTIONS)
    assert frame.loc[MODEL, "in-c-mce"] == pytest.approx(errors.error.mean() / 0.5)
    assert errors.error.between(0, 1).all()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"fog": None}, {"problem": "fog"}),
        ({"spatter": [0.1] * 5}, {"name": "spatter", "kind": "corruption"}),
        ({"fog": [0.1] * 4}, {"where": "fog", "found": [4]}),
        ({"fog": [10.0] * 5}, {"where": "fog", "found": [10.0] * 5}),
        ({"fog": [float("nan")] * 5}, {"where": "fog", "expected": "from 0 to 1"}),
    ],
)
def test_bad_errors_are_named(change, error):
    errors = {name: [value] * 5 for name, value in distribution_shift.ALEXNET_ERRORS.items()} | change
    with pytest.raises(InputError, check=fields(argument="errors", **error)):
        distribution_shift.mean_corruption_error({name: values for name, values in errors.items() if values is not None})


def test_bad_sets_are_errors_not_missing_data(data):
    with pytest.raises(UnknownName, check=fields(name="in-b")):
        distribution_shift.robustness(MODEL, sets=["in-b"], **OPTIONS)
    with pytest.raises(InputError, check=fields(argument="sets", found="in-a")):
        distribution_shift.robustness(MODEL, sets="in-a", **OPTIONS)
    with pytest.raises(ZooError, check=fields(problem=["75 of 75", "gaussian_noise/1"])):
        distribution_shift.corruption_errors(MODEL, **OPTIONS)
