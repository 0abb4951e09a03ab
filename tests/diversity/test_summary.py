"""Pairs by category, and the papers' own figures."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress, pearsonr, sem

import diversity
from diversity import summary
from diversity.measures import names
from zoo.cards.card import Card, Training, read
from zoo.errors import InputError, UnknownName
from zoo.outputs.outputs import Outputs, Runs

CARDS = Path(__file__).parents[2] / "model_cards"


def card(name, dataset="in1k", framework="supervised", family="resnet", **hyperparameters):
    training = Training(dataset, framework, "softmax", hyperparameters)
    return Card(name, "reference", family, family, "digits", "softmax", "trained", training)


@pytest.fixture
def runs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 700)
    cards = [
        card("base"),
        card("again"),
        card("wide", width=2),
        card("vgg", family="vgg"),
        card("clip", "wit", "contrastive"),
    ]
    logits = rng.normal(size=(5, 700, 5)) + 1.5 * np.eye(5)[y]
    return Runs(Outputs.from_arrays(c.name, logits=z, labels=y, card=c) for c, z in zip(cards, logits, strict=True))


def test_pairs_with_a_base(runs):
    frame = diversity.pair_frame(runs, base="base")
    assert frame["second"].tolist() == ["again", "wide", "vgg", "clip"]
    assert frame["category"].tolist() == ["reinit", "hparam", "arch", "dataset"]
    for row in frame.itertuples():
        pair = diversity.compare(runs["base"], runs[row.second])
        for measure in (
            "inconsistency",
            "kappa",
            "ensemble_accuracy",
            "gain_over_mean",
            "gain_over_best",
            "conversion_rate",
        ):
            assert getattr(row, measure) == pytest.approx(getattr(pair, measure)), measure


def test_all_pairs_in_any_chunks(runs, monkeypatch):
    frame = diversity.pair_frame(runs)
    assert len(frame) == 10
    monkeypatch.setattr(summary, "CHUNK", 33)
    pd.testing.assert_frame_equal(diversity.pair_frame(runs), frame)
    matrices = diversity.pairwise(runs)
    assert frame["kappa"].tolist() == pytest.approx(matrices.to_frame()["kappa"].tolist())


def test_by_category(runs):
    frame = pd.concat([diversity.pair_frame(runs, base=name) for name in runs], ignore_index=True)
    table = diversity.by_category(frame).set_index("category")
    assert table.index.tolist() == [kind for kind in diversity.CATEGORIES if kind in set(frame["category"])]
    for kind, row in table.iterrows():
        values = frame[frame["category"] == kind]["gain_over_mean"]
        assert row["pairs"] == len(values)
        assert row["gain_over_mean"] == pytest.approx(values.mean())
        assert row["gain_over_mean_se"] == pytest.approx(sem(values))


def test_pairs_without_cards_have_no_category(runs):
    bare = Runs(Outputs.from_arrays(n, logits=o.logits, labels=o.labels) for n, o in runs.items())
    frame = diversity.pair_frame(bare)
    assert frame["category"].isna().all()
    assert len(diversity.by_category(frame)) == 0


def test_predictions_only(runs):
    hard = Runs(Outputs.from_arrays(n, predictions=o.predictions, labels=o.labels, card=o.card) for n, o in runs.items())
    frame, full = diversity.pair_frame(hard), diversity.pair_frame(runs)
    pd.testing.assert_frame_equal(frame, full[list(frame)])
    assert set(full) - set(frame) == set(names("ensemble"))
    table = diversity.by_category(frame)
    assert "gain_over_mean" not in table
    assert len(table) == len(diversity.by_category(full))


def test_no_correlation_where_nothing_varies():
    """Gains that are equal up to rounding: their correlation is that of the rounding errors."""
    gains = np.array([0.03, 0.03 + 4e-18, 0.3 - 0.27, 0.01 + 0.02])
    line = diversity.regression([0.1, 0.2, 0.3, 0.4], gains)
    assert np.isnan(line.correlation)
    assert (line.slope, line.intercept) == (0, pytest.approx(0.03))
    assert str(line) == "r is not defined: all points have the same height"
    for last, said in ((3.0, "r = 1.000"), (3.2, "r = 0.999"), (4.0, "r = 0.98")):  # what is less is not rounded to one
        assert str(diversity.regression([0.0, 1.0, 2.0], [1.0, 2.0, last])) == said


def test_regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y = 2 * x + rng.normal(size=50)
    line, expected = diversity.regression(x, y), linregress(x, y)
    assert (line.slope, line.intercept, line.correlation) == pytest.approx(
        (expected.slope, expected.intercept, pearsonr(x, y)[0])
    )
    assert line.interval == pytest.approx(pearsonr(x, y).confidence_interval(0.95))
    with_gap = diversity.regression([*x, np.nan], [*y, 3.0])
    assert with_gap == line


def test_the_papers_correlation_of_inconsistency_and_gain():
    """Gontijo-Lopes et al. 2021, Table 1 (models of 74-78% against a base of 76.20%): Fig. 2's line has r = 0.98."""
    models = [model for path in sorted(CARDS.glob("*.md")) for model in read(path).expand()]
    rows = [row for model in models for row in model.reference if row.paper == "Gontijo-Lopes 2021" and row.table == "1"]
    assert len(rows) == 50
    gain = [row.ensemble_accuracy - (row.accuracy + 76.20) / 2 for row in rows]
    line = diversity.regression([row.inconsistency for row in rows], gain)
    assert line.correlation == pytest.approx(0.98, abs=0.005)
    assert line.slope > 0
    frame = pd.DataFrame(
        {
            "category": [row.category for row in rows],
            "inconsistency": [row.inconsistency for row in rows],
            "gain_over_mean": gain,
        }
    )
    table = diversity.by_category(frame).set_index("category")
    assert table.loc["dataset", "inconsistency"] > table.loc["arch", "inconsistency"] > table.loc["hparam", "inconsistency"]


def test_faults(runs):
    with pytest.raises(InputError, match="at least two models"):
        diversity.pair_frame(Runs([runs["base"]]))
    with pytest.raises(UnknownName, match=r"no outputs of 'bas'.*did you mean base"):
        diversity.pair_frame(runs, base="bas")
    with pytest.raises(InputError, match="at least two different values"):
        diversity.regression([1.0, 1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="two lists of one length"):
        diversity.regression([1.0, 2.0], [1.0])


def test_answers_do_not_change_where_sigmoids_saturate() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 5, 300)
    runs = []
    for name in "ab":
        logits = 3 * rng.normal(size=(300, 5)) + 2 * np.eye(5)[labels]
        outputs = Outputs.from_arrays(name, logits=logits.astype(np.float32), labels=labels, link="sigmoid")
        runs.append(dataclasses.replace(outputs, temperature=1e-3))
    frame = diversity.pair_frame(Runs(runs)).iloc[0]
    right = [outputs.predictions == labels for outputs in runs]
    assert (np.asarray(runs[0].probabilities).argmax(1) != runs[0].predictions).any()  # several round to 1
    assert frame["inconsistency"] == pytest.approx((right[0] != right[1]).mean())
    assert frame["inconsistency"] == pytest.approx(diversity.compare(*runs).inconsistency)
