"""Greedy search takes exactly the path of a brute-force search."""

import numpy as np
import pytest
import torch
from brute_force import brute_force, instances, softmax
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raised import fields

import ensembles
from ensembles import growing_ensemble, model_library
from zoo.errors import InputError

OBJECTIVES = ["accuracy", "balanced-accuracy", "nll", "brier"]
many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def search(probs, labels, **options):
    return ensembles.greedy(probs, labels, test_fraction=0, **options)


@pytest.mark.parametrize("objective", OBJECTIVES)
@given(instance=instances(), steps=st.integers(1, 8), replace=st.booleans(), with_base=st.booleans())
@many
def test_same_path_as_brute_force(objective, instance, steps, replace, with_base):
    probs, labels = instance
    base = len(probs) - 1 if with_base and (replace or len(probs) > 1) else None
    found = search(probs, labels, steps=steps, replace=replace, base=base, objective=objective)
    members, scores = brute_force(probs, labels, steps, objective, replace, base)
    assert found.members == members
    np.testing.assert_allclose(found.score, scores, rtol=0, atol=1e-9)


@given(instance=instances(max_models=4), steps=st.integers(1, 4))
@many
def test_a_custom_objective_gives_the_same_path(instance, steps):
    probs, labels = instance

    def accuracy(p, y):
        assert isinstance(p, np.ndarray)
        return float((p.argmax(1) == y).mean())

    own = search(probs, labels, steps=steps, replace=True, objective=accuracy)
    assert own.members == brute_force(probs, labels, steps)[0]


@pytest.mark.parametrize("temperature", [1.0, 5.0])
@pytest.mark.parametrize("objective", ["accuracy", "balanced-accuracy"])
def test_same_path_on_a_larger_workload_in_small_pieces(temperature, objective, monkeypatch):
    """Partly shared errors, many steps; chunks and blocks so small that every loop has several iterations."""
    monkeypatch.setattr(model_library, "CACHE_ELEMENTS", 700)
    monkeypatch.setattr(growing_ensemble, "BLOCK_ELEMENTS", 500)
    rng = np.random.default_rng(7)
    models, examples, classes = 15, 400, 30
    labels = rng.integers(0, classes, examples)
    z = 0.7 * rng.standard_normal((examples, classes)) + 0.75 * rng.standard_normal((models, examples, classes))
    z[:, np.arange(examples), labels] += 2 + rng.standard_normal(examples)
    probs = softmax(2.5 * z / temperature).astype(np.float32)
    found = search(probs, labels, steps=25, replace=True, objective=objective)
    members, scores = brute_force(probs, labels, 25, objective)
    assert found.members == members
    np.testing.assert_allclose(found.score, scores, atol=1e-12)


def test_differences_below_single_precision_count():
    """In float32, 4e-8 - 1 would be rounded; the bounds must not be."""
    probs = np.array([[[1.0, 5e-8]], [[4e-8, 1.0]]], np.float32)
    assert brute_force(probs, np.array([0]), 1, base=0, replace=False)[1] == [1, 0]
    assert search(probs, [0], steps=1, base=0).score == [1, 0]


@given(instance=instances(), steps=st.integers(1, 5), replace=st.booleans(), order=st.randoms(use_true_random=False))
@many
def test_order_of_candidates_does_not_matter(instance, steps, replace, order):
    probs, labels = instance
    names = [f"m{i}" for i in range(len(probs))]
    shuffled = names.copy()
    order.shuffle(shuffled)
    by_name = dict(zip(names, probs, strict=True))
    one = search(by_name, labels, steps=steps, replace=replace)
    other = search({name: by_name[name] for name in shuffled}, labels, steps=steps, replace=replace)
    assert one.members == other.members
    assert one.score == other.score


@given(instance=instances(), steps=st.integers(1, 6), objective=st.sampled_from(OBJECTIVES))
@many
def test_best_prefix_never_scores_below_its_start(instance, steps, objective):
    probs, labels = instance
    path = search(probs, labels, steps=steps, replace=True, objective=objective)
    sign = 1 if "accuracy" in objective else -1
    assert sign * path.best_score >= sign * path.score[0] - 1e-9
    assert sign * path.best_score >= max(sign * score for score in path.score) - 1e-9


@given(instance=instances(max_models=1), copies=st.integers(2, 9))
@many
def test_identical_members_change_nothing(instance, copies):
    probs, labels = instance
    if probs.dtype == np.float64:  # thrice a float64 is rounded; sums of the narrower ones are exact
        probs = probs.astype(np.float32)
    path = search(np.repeat(probs, copies, 0), labels, steps=copies)
    assert len(set(path.score)) == 1
    assert path.best == 1


@given(instance=instances(dtypes=(np.float32,)), steps=st.integers(1, 5), replace=st.booleans())
@many
def test_lists_tensors_and_arrays_agree(instance, steps, replace):
    probs, labels = instance
    whole = search(probs, labels, steps=steps, replace=replace).members
    assert search(list(probs), labels, steps=steps, replace=replace).members == whole
    assert search(torch.from_numpy(probs), torch.from_numpy(labels), steps=steps, replace=replace).members == whole


@given(instance=instances(), seed=st.integers(0, 5))
@many
def test_weights_are_the_best_prefix(instance, seed):
    probs, labels = instance
    path = search(probs, labels, steps=6, replace=True, seed=seed)
    counted = np.bincount(path.members[: path.best], minlength=len(probs)) / path.best
    np.testing.assert_allclose(path.weights, counted)
    mean = ensembles.average(probs.astype(np.float64), path.weights)
    # The mean of the weights found is the ensemble scored: same predictions but for rounding of equal sums.
    top = np.sort(mean, 1)[:, -2:]
    clear = top[:, 1] - top[:, 0] > 1e-9
    right = mean.argmax(1) == labels
    low = (right & clear).sum() / len(labels)
    assert low - 1e-9 <= path.best_score <= low + (~clear).mean() + 1e-9


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_negative_number_is_found_in_every_precision(dtype):
    p = torch.tensor([[[0.0, 1.0], [6e-8, 1.0]]], dtype=dtype)
    assert search(p, [1, 1], steps=1).score == [1.0]
    p[0, 1, 0] = -6e-8
    with pytest.raises(InputError, check=fields(where="row 1", problem="distribution")):
        search(p, [1, 1], steps=1)


@pytest.mark.parametrize("witnesses", [1, 2, 5])
def test_weak_models_of_few_classes_give_the_same_path(witnesses, monkeypatch):
    """Flat probabilities of independent models: most pairs stay in doubt, with as many witnesses as classes, or fewer."""
    monkeypatch.setattr(growing_ensemble, "WITNESSES", witnesses)
    rng = np.random.default_rng(witnesses)
    for classes in (2, 3, 40):
        labels = rng.integers(0, classes, 300)
        z = rng.standard_normal((12, 300, classes))
        z[:, np.arange(300), labels] += 0.8
        probs = softmax(z).astype(np.float32)
        found = search(probs, labels, steps=9, replace=True)
        members, scores = brute_force(probs, labels, 9)
        assert found.members == members
        np.testing.assert_allclose(found.score, scores, atol=1e-12)


def test_minus_zero_is_a_probability_and_a_negative_number_is_not():
    p = np.array([[[-0.0, 1.0], [1.0, 0.0]]])
    assert ensembles.greedy(p, [1, 0], steps=1, test_fraction=0).score == [1.0]
    with pytest.raises(InputError, check=fields(where="row 0", problem="distribution")):
        ensembles.greedy(p - [[[0.1, -0.1]]], [1, 0], steps=1, test_fraction=0)
