"""Class overlap against the paper's assignment problem with copied targets, and against all assignments."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.optimize import linear_sum_assignment

from probes import overlap
from zoo.core.columns import Column
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs


def _matching(preds, labels):
    counts = np.zeros((max(preds) + 1, max(labels) + 1), int)
    np.add.at(counts, (preds, labels), 1)
    return counts


def _paper(preds, labels):
    """Return the accuracy by section F: copy the targets until one more copy gains nothing."""
    counts, values = _matching(preds, labels), [-1, 0]
    while values[-1] != values[-2]:
        copied = np.tile(counts, len(values) - 1)
        values.append(copied[linear_sum_assignment(-copied)].sum())
    return values[-1] / len(labels)


pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=60)


@settings(max_examples=150, deadline=None)
@given(pairs)
def test_accuracy_is_the_limit_of_the_papers_assignment_problems(examples):
    preds, labels = map(list, zip(*examples, strict=True))
    assert overlap.assign_classes(preds, labels).accuracy == pytest.approx(_paper(preds, labels))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30), st.integers(1, 4))
def test_limited_assignment_is_the_best_of_all(examples, limit):
    preds, labels = map(list, zip(*examples, strict=True))
    counts = _matching(preds, labels)
    unused = counts.shape[1]
    counts = np.hstack([counts, np.zeros((len(counts), 1), int)])
    best = max(
        sum(counts[s, t] for s, t in enumerate(mapping))
        for mapping in itertools.product(range(unused + 1), repeat=len(counts))
        if all(mapping.count(t) <= limit for t in range(unused))
    )
    found = overlap.assign_classes(preds, labels, limit)
    assert found.accuracy == pytest.approx(best / len(labels))
    assert found.score(preds, labels) == pytest.approx(found.accuracy)
    taken = found.targets[found.targets >= 0]
    assert not len(taken) or np.bincount(taken).max() <= limit


@given(pairs, st.permutations(range(8)), st.permutations(range(4)))
def test_accuracy_does_not_depend_on_class_numbers(examples, sources, targets):
    preds, labels = map(np.array, zip(*examples, strict=True))
    renamed = overlap.assign_classes(np.array(sources)[preds], np.array(targets)[labels]).accuracy
    assert renamed == overlap.assign_classes(preds, labels).accuracy
    assert overlap.assign_classes(preds, labels).accuracy >= np.bincount(labels).max() / len(labels)


def test_class_numbers_may_be_large_and_tensors():
    preds, labels = torch.tensor([10**9, 10**9, 5]), torch.tensor([2, 2, 10**8])
    found = overlap.assign_classes(preds, labels)
    assert found.sources.tolist() == [5, 10**9]
    assert found.targets.tolist() == [10**8, 2]
    assert found.accuracy == 1.0
    assert overlap.assign_classes(preds, labels, limit=1).accuracy == 1.0


def test_overlap_of_a_model_that_predicts_other_classes():
    outputs = Outputs(
        "m", "predictions", Column([np.array([0, 1, 2, 2, 2])]), np.array(list("abcde")), ("tabby", "lynx", "pug"),
        labels=np.array([1, 1, 0, 0, 1]), label_classes=("dog", "cat"),
    )  # fmt: skip
    frame = overlap.class_overlap(outputs).set_index("class")
    assert frame.loc["cat", "sources"] == ["tabby", "lynx"]
    assert frame.loc["dog", "sources"] == ["pug"]
    assignment = overlap.assign_classes(outputs.predictions, outputs.labels)
    assert np.average(frame.accuracy, weights=frame.examples) == assignment.accuracy


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: overlap.assign_classes([], np.array([], int)), {"argument": "labels", "found": 0}),
        (lambda: overlap.assign_classes([1, 2], [1]), {"argument": "predictions"}),
        (lambda: overlap.assign_classes([1, -2], [1, 1]), {"argument": "predictions"}),
        (lambda: overlap.assign_classes([0.5], [1]), {"argument": "predictions"}),
        (lambda: overlap.assign_classes([1], [1], limit=0), {"argument": "limit", "found": 0}),
        (lambda: overlap.class_overlap(Outputs.from_arrays("m", predictions=[0])), {"where": "m", "problem": "labels"}),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises(InputError, check=fields(**error)):
        call()
