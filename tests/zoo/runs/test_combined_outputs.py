"""Saved ensembles and cascades whose members' outputs exist: combined, with the numbers of running them on images."""

import dataclasses
import warnings

import numpy as np
import pytest
from raised import fields
from small_models import save_images

import zoo
from zoo.cards import labels
from zoo.cards.card import Card, EnsembleMember, Training
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.models import registry
from zoo.outputs import bundle
from zoo.outputs.combined import combine
from zoo.outputs.outputs import Outputs

DATA = "digits:test[:60]"
NAMES = ["resnet8-softmax.digits", "resnet8-sigmoid.digits", "all-cnn-c-cosine.digits"]
MEMBERS = [
    EnsembleMember(NAMES[0], 1.0, 0.4),
    EnsembleMember(NAMES[1], 2.5, 0.3, "distribution"),
    EnsembleMember(NAMES[2], 0.5, 1.7),
]


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def ensemble(members=MEMBERS, name="together", label_set="digits", **details):
    training = Training(label_set, "supervised", "mixed")
    return zoo.register(
        Card(name, "ensemble", "ensemble", "ensemble", label_set, "softmax", "trained", training, members=members,
             details=details)
    )  # fmt: skip


def run(names, data=DATA, **options):
    return zoo.run(names, data=data, pretrained=False, progress=False, **options)


def calibrated(runs, members=MEMBERS):
    """The members' probabilities [M, N, K] in float64, computed here."""
    found = []
    for member in members:
        z = np.asarray(runs[member.name].logits, np.float64)
        if runs[member.name].link == "sigmoid":
            z = -np.log1p(np.exp(-z))
            assert member.temperature_space == "distribution"
        p = np.exp((z - z.max(1, keepdims=True)) / member.temperature)
        found.append(p / p.sum(1, keepdims=True))
    return np.stack(found)


def evaluated_members(p, weights, threshold):
    """The number of members that a cascade by confidence evaluates on each example, one after the other."""
    counts = []
    for row in range(p.shape[1]):
        total, weight = np.zeros(p.shape[2]), 0.0
        for number in range(len(p)):
            total += weights[number] * p[number, row]
            weight += weights[number]
            if total.max() / weight >= threshold:
                break
        counts.append(number + 1)
    return np.array(counts)


def test_an_ensemble_of_stored_outputs_equals_the_ensemble_on_images():
    ensemble(temperature=0.7)
    runs = run(NAMES)
    combined = run("together")["together"]
    p = np.average(calibrated(runs), axis=0, weights=[1.0, 2.5, 0.5]) ** (1 / 0.7)
    np.testing.assert_allclose(combined.probabilities, p / p.sum(1, keepdims=True), atol=1e-5)
    assert combined.path is None  # nothing was run
    on_images = run("together", fresh=True)["together"]
    np.testing.assert_allclose(combined.logits, on_images.logits, atol=1e-4)
    assert combined.ids.tolist() == on_images.ids.tolist()
    assert combined.labels.tolist() == on_images.labels.tolist()
    assert (combined.classes, combined.dataset, combined.card.name) == (on_images.classes, DATA, "together")
    for field in ("weights", "precision", "fingerprint"):
        assert combined.details[field] == on_images.details[field]
    assert run("together")["together"].path == on_images.path  # a stored run comes first
    assert len(np.unique(combined.predictions)) > 1  # else the test could not fail


@pytest.mark.parametrize("rule", ["confidence", "margin", "agreement"])
def test_a_cascade_of_stored_outputs_stops_where_the_cascade_stops_on_images(rule):
    runs = run(NAMES)
    p = calibrated(runs)
    threshold = float(np.median(p[0].max(1)))
    ensemble(cascade={"rule": rule, "thresholds": [threshold, threshold]}, temperature=1.5)
    combined, on_images = run("together")["together"], run("together", fresh=True)["together"]
    assert (combined.path is None, on_images.path is None) == (True, False)
    np.testing.assert_allclose(combined.logits, on_images.logits, atol=1e-4)
    assert combined.details["weights"] == on_images.details["weights"]
    if rule == "confidence":
        weights = np.array([1.0, 2.5, 0.5])
        counts = evaluated_members(p, weights, threshold)
        assert 0 < (counts == 1).sum() < len(counts)
        means = [np.average(p[:k, row], axis=0, weights=weights[:k]) for row, k in enumerate(counts)]
        expected = np.stack(means) ** (1 / 1.5)
        np.testing.assert_allclose(combined.probabilities, expected / expected.sum(1, keepdims=True), atol=1e-5)


def test_an_ensemble_that_holds_an_ensemble_is_combined_from_the_innermost_outputs():
    ensemble(MEMBERS[:2], "inner", temperature=0.5)
    ensemble([EnsembleMember("inner", 1.0), MEMBERS[2]], "outer")
    run(NAMES)
    combined, on_images = run("outer")["outer"], run("outer", fresh=True)["outer"]
    assert combined.path is None
    np.testing.assert_allclose(combined.logits, on_images.logits, atol=1e-4)


def test_an_ensemble_is_run_if_outputs_of_a_member_or_its_embeddings_are_missing():
    ensemble()
    run(NAMES[:2])
    assert run("together")["together"].path is not None
    ensemble(name="other")
    run(NAMES)
    assert run("other", embeddings=True)["other"].embeddings is not None


def test_a_slice_is_combined_from_outputs_on_the_whole():
    ensemble(MEMBERS[:2])
    run(NAMES[:2], "digits:test")
    whole, part = run("together", "digits:test")["together"], run("together", "digits:test[5:9]")["together"]
    assert (whole.path, part.path, len(part)) == (None, None, 4)
    np.testing.assert_allclose(part.logits, np.asarray(whole.logits)[5:9], atol=1e-6)


SHIPPED = ["resnet7-cosine.cifar10", "resnet7-softmax.cifar10"]


def test_without_images_the_stored_outputs_of_the_members_are_combined_with_a_warning(monkeypatch, tmp_path):
    save_images(tmp_path / "data/cifar10/test", 1, labels.classes("cifar10"), size=(32, 32))
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(bundle, "_shipped", lambda spec: [])
    members = [EnsembleMember(SHIPPED[0], 3.0, 2.0), EnsembleMember(SHIPPED[1], 1.0, 0.5)]
    ensemble(members, label_set="cifar10")
    ensemble([*members, EnsembleMember("resnet7-dropout.cifar10", 1.0)], "without-outputs", "cifar10")
    runs = zoo.run(SHIPPED, data="cifar10:test", progress=False)
    (tmp_path / "data/cifar10").rename(tmp_path / "elsewhere")
    with pytest.warns(ZooWarning, match="combining outputs of its members"):
        combined = zoo.run("together", data="cifar10:test")["together"]
    np.testing.assert_allclose(
        combined.probabilities, np.average(calibrated(runs, members), axis=0, weights=[3, 1]), atol=1e-5
    )
    with pytest.raises(ZooError, match="cifar10"):
        zoo.run("without-outputs", data="cifar10:test")


def shipped(monkeypatch, tmp_path, names, kind="logits"):
    rng = np.random.default_rng(0)
    outputs = []
    for name in names:
        values = rng.normal(size=(30, 10)).astype(np.float32)
        given = {"logits": values, "predictions": values.argmax(1)}[kind]
        outputs.append(
            Outputs.from_arrays(
                name, **{kind: given}, labels=np.arange(30) % 10, dataset="cifar10:test", card=registry.card(name),
                classes=labels.classes("cifar10"), ids=[f"image-{n}" for n in range(30)],
            )
        )  # fmt: skip
    bundle.export_outputs(outputs, tmp_path / "study.outputs.safetensors")
    runs = bundle.read(tmp_path / "study.outputs.safetensors")
    monkeypatch.setattr(bundle, "_shipped", lambda spec: [runs] if spec == "cifar10:test" else [])
    return runs


def test_shipped_outputs_are_combined_without_images_weights_and_warnings(monkeypatch, tmp_path):
    runs = shipped(monkeypatch, tmp_path, SHIPPED)
    members = [EnsembleMember(SHIPPED[0], 3.0, 2.0), EnsembleMember(SHIPPED[1], 1.0, 0.5)]
    ensemble(members, label_set="cifar10")

    def refuse(*arguments, **options):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(registry, "load", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        combined = zoo.run("together", data="cifar10:test")["together"]
        part = zoo.run("together", data="cifar10:test[3:7]")["together"]
    np.testing.assert_allclose(
        combined.probabilities, np.average(calibrated(runs, members), axis=0, weights=[3, 1]), atol=1e-5
    )
    assert part.ids.tolist() == ["image-3", "image-4", "image-5", "image-6"]
    np.testing.assert_allclose(part.probabilities, np.asarray(combined.probabilities)[3:7], atol=1e-6)


def test_shipped_outputs_of_other_weights_are_not_combined(monkeypatch, tmp_path):
    shipped(monkeypatch, tmp_path, SHIPPED)
    ensemble([EnsembleMember(name, 1.0) for name in SHIPPED], label_set="cifar10")
    card = registry.card
    monkeypatch.setattr(
        registry, "card", lambda name: dataclasses.replace(card(name), sha256="0" * 64) if name in SHIPPED else card(name)
    )
    with pytest.warns(ZooWarning, match="combining"):  # there are no images, so they are better than nothing
        zoo.run("together", data="cifar10:test")


def test_outputs_on_other_examples_are_not_combined_and_the_ensemble_is_run(monkeypatch, tmp_path):
    """One member has shipped outputs, the other was run on a folder of images with other names."""
    save_images(tmp_path / "data/cifar10/test", 1, labels.classes("cifar10"), size=(32, 32))
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    shipped(monkeypatch, tmp_path, SHIPPED[:1])
    local = zoo.run(SHIPPED[1], data="cifar10:test", progress=False)[SHIPPED[1]]
    ensemble([EnsembleMember(name, 1.0) for name in SHIPPED], label_set="cifar10")
    found = zoo.run("together", data="cifar10:test", progress=False)["together"]
    assert found.path is not None
    assert found.ids.tolist() == local.ids.tolist()


@pytest.mark.parametrize(
    "other",
    [
        {"ids": ["0", "2"]},
        {"labels": [1, 0]},
        {"classes": [*map(str, range(9)), "ten"]},
    ],
)
def test_members_that_do_not_match_are_not_combined(other):
    given = {"ids": ["0", "1"], "labels": [0, 1], "classes": labels.classes("digits")}
    values = {"logits": np.eye(10, dtype=np.float32)[:2]}
    first, same = (Outputs.from_arrays(name, **values, **given) for name in NAMES[:2])
    card = ensemble([EnsembleMember(name, 1.0) for name in NAMES[:2]])
    assert len(combine(card, [first, same])) == 2
    assert combine(card, [first, Outputs.from_arrays(NAMES[1], **values, **given | other)]) is None


def test_predictions_alone_do_not_determine_an_ensemble(monkeypatch, tmp_path):
    shipped(monkeypatch, tmp_path, SHIPPED, "predictions")
    ensemble([EnsembleMember(name, 1.0) for name in SHIPPED], label_set="cifar10")
    with pytest.raises(ZooError, match="cifar10"):
        zoo.run("together", data="cifar10:test")


def test_columns_of_a_part_of_the_classes_do_not_determine_an_ensemble():
    """The mean over all classes differs from the mean of what is normalised over a part of them."""
    card = ensemble([EnsembleMember("timm:test_vit", 1.0)], label_set="imagenet-1k")
    subset = labels.classes("imagenet-a")
    part = Outputs.from_arrays("timm:test_vit", logits=np.zeros((2, 200), np.float32), labels=[0, 1], classes=subset)
    assert combine(card, [part]) is None


def test_probabilities_and_logits_with_classes_in_another_order_are_combined():
    rng = np.random.default_rng(1)
    p, z = rng.dirichlet(np.ones(10), 25), rng.normal(size=(25, 10))
    classes = labels.classes("digits")
    order = rng.permutation(10)
    first = Outputs.from_arrays(NAMES[0], probabilities=p, labels=np.arange(25) % 10, classes=classes)
    second = Outputs.from_arrays(NAMES[2], logits=z[:, order], classes=[classes[k] for k in order])
    card = ensemble([EnsembleMember(NAMES[0], 1.0, 2.0), EnsembleMember(NAMES[2], 1.0)])
    tempered, q = p**0.5, np.exp(z)
    expected = (tempered / tempered.sum(1, keepdims=True) + q / q.sum(1, keepdims=True)) / 2
    np.testing.assert_allclose(combine(card, [first, second]).probabilities, expected, atol=1e-6)


def test_an_invalid_card_is_an_error_as_when_it_is_loaded():
    z = Outputs.from_arrays(NAMES[0], logits=np.eye(10, dtype=np.float32), classes=labels.classes("digits"))
    with pytest.raises(InputError, check=fields(argument="temperature", found=-1.0)):
        combine(ensemble([EnsembleMember(NAMES[0], 1.0)], temperature=-1.0), [z])
