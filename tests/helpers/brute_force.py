"""The search written the slow way, in NumPy with whole arrays, and instances made to trip up a fast one."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

TIE = 1e-10


def exact_score(total, count, labels, objective):
    """The score of the ensemble total / count, more is better."""
    rows = np.arange(len(labels))
    if objective in ("accuracy", "balanced-accuracy"):
        right = total.argmax(1) == labels
        if objective == "accuracy":
            return Fraction(int(right.sum()), len(labels))
        classes = np.unique(labels)
        return sum(Fraction(int(right[labels == k].sum()), int((labels == k).sum())) for k in classes) / len(classes)
    p = total / count
    if objective == "nll":
        return np.log(np.maximum(p[rows, labels], np.finfo(np.float32).tiny)).mean()
    truth = np.zeros_like(p)
    truth[rows, labels] = 1
    return -((p - truth) ** 2).sum(1).mean()


def brute_force(probs, labels, steps, objective="accuracy", replace=True, base=None, candidates=None):
    """Members and scores of the greedy search: every candidate's ensemble formed and scored at every step.

    `steps` models are added to the base, or without one to the best single model.
    """
    probs = np.asarray(probs).astype(np.float64)
    left = list(range(len(probs)) if candidates is None else candidates)
    total, members, scores = np.zeros(probs.shape[1:]), [], []

    def add(model):
        nonlocal total
        total = total + probs[model]
        members.append(model)
        scores.append(abs(float(exact_score(total, len(members), labels, objective))))

    if base is not None:
        add(base)
        left = left if replace else [m for m in left if m != base]
    for _ in range(steps + (base is None)):
        if not left:
            break
        with_each = {m: exact_score(total + probs[m], len(members) + 1, labels, objective) for m in left}
        top = max(with_each.values())
        tied = [m for m in left if with_each[m] >= top - (0 if isinstance(top, Fraction) else TIE)]
        losses = {m: -exact_score(total + probs[m], len(members) + 1, labels, "nll") for m in tied}
        tied = [m for m in tied if losses[m] <= min(losses.values()) + TIE]
        add(min(tied))
        if not replace:
            left.remove(members[-1])
    return members, scores


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@st.composite
def instances(draw, max_models=6, max_examples=14, max_classes=5, dtypes=(np.float16, np.float32, np.float64)):
    """(probs [M, N, K], labels): flat or peaky, full of exact ties or not, with duplicates or not, maybe one class only."""
    models, examples = draw(st.integers(1, max_models)), draw(st.integers(1, max_examples))
    classes = draw(st.integers(2, max_classes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["flat", "peaky", "eighths", "one-hot"]))
    if kind in ("flat", "peaky"):
        probs = softmax(rng.standard_normal((models, examples, classes)) * (0.2 if kind == "flat" else 8))
    elif kind == "eighths":  # sums of these are exact, so equal sums are everywhere
        probs = rng.multinomial(8, np.ones(classes) / classes, (models, examples)) / 8
    else:
        probs = np.eye(classes)[rng.integers(0, classes, (models, examples))]
    if draw(st.booleans()):
        probs = probs[rng.integers(0, models, models)]
    labels = rng.integers(0, classes, examples)
    if draw(st.booleans()):
        labels[:] = labels[0]
    return probs.astype(draw(st.sampled_from(dtypes))), labels
