"""Predicted gains: the regression against refitting without each model, features against loops, coverage of intervals."""

import dataclasses
import functools

import numpy as np
import pytest
from made_runs import card, runs_of, softmax
from numpy.testing import assert_allclose
from raised import fields
from scipy.stats import spearmanr

import ensembles
import zoo
from diversity.categories import CATEGORIES, category
from ensembles import recommendation
from zoo.core.columns import Column
from zoo.errors import InputError, ZooWarning
from zoo.outputs import bundle
from zoo.outputs.outputs import Outputs, Runs


def zoo_of(models=30, examples=3000, classes=5, seed=0):
    """Return logits of models that differ in skill and in how many errors they share with the base, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    common = rng.standard_normal((examples, classes))
    shared, skill = rng.uniform(0.2, 0.95, models), rng.uniform(1.3, 1.9, models)
    shared[0], skill[0] = 0.9, 1.7
    own = rng.standard_normal((models, examples, classes))
    z = np.sqrt(shared)[:, None, None] * common + np.sqrt(1 - shared)[:, None, None] * own
    z[:, np.arange(examples), labels] += skill[:, None]
    return (2 * z).astype(np.float32), labels


Z, LABELS = zoo_of()
RUNS = runs_of(Z, LABELS, temperatures=[1.0] * len(Z))
P = softmax(Z)
BASE = P[0].argmax(1) == LABELS
TRUE = np.array([((P[0] + p).argmax(1) == LABELS).mean() for p in P]) - BASE.mean()
ROWS = np.sort(np.random.default_rng(7).choice(3000, 256, replace=False))


def leave_one_out(x, y, penalty):
    """Return the squared error of predicting each from the others, refitted with the standardisation of all."""
    x = (x - x.mean(0)) / x.std(0)
    errors = []
    for out in range(len(y)):
        rest = np.arange(len(y)) != out
        design = np.column_stack([np.ones(rest.sum()), x[rest]])
        shrink = np.diag([0.0] + [penalty] * x.shape[1])
        beta = np.linalg.solve(design.T @ design + shrink, design.T @ y[rest])
        errors.append(y[out] - beta[0] - x[out] @ beta[1:])
    return np.mean(np.square(errors))


def test_the_ridge_is_that_of_refitting_without_each_model():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 6)) * [1, 10, 0.1, 1, 1, 1]
    y = x[:, 0] - 0.05 * x[:, 1] + 0.5 * rng.standard_normal(20)
    new = rng.standard_normal((3, 6))
    found = recommendation.ridge(x, y, new)
    penalty = min(recommendation.PENALTIES, key=lambda one: leave_one_out(x, y, one))
    z, z_new = (x - x.mean(0)) / x.std(0), (new - x.mean(0)) / x.std(0)
    inverse = np.linalg.inv(z.T @ z + penalty * np.eye(6))
    assert_allclose(found.gain, y.mean() + z_new @ inverse @ z.T @ (y - y.mean()))
    typical = 1 + np.mean([row @ inverse @ row for row in z]) + 1 / 20
    far = 1 + np.array([row @ inverse @ row for row in z_new]) + 1 / 20
    assert_allclose(found.error, np.sqrt(leave_one_out(x, y, penalty) * far / typical), rtol=1e-9)


def test_features_of_a_sample_are_those_of_a_loop():
    found = recommendation.sample_features(P[:3, ROWS].mean(0), P[3:9, ROWS], LABELS[ROWS], members=3)
    for model in range(6):
        right, answers, soft, likelihood, base_right = [], [], [], [], []
        for row in ROWS:
            base, own, y = P[:3, row].mean(0), P[3 + model, row], LABELS[row]
            joined = (P[:3, row].sum(0) + own) / 4
            leads = [p[y] - max(p[k] for k in range(5) if k != y) for p in (joined, base)]
            soft.append(1 / (1 + np.exp(-leads[0] / 0.1)) - 1 / (1 + np.exp(-leads[1] / 0.1)))
            likelihood.append(np.log(joined[y] / base[y]))
            right.append(int(joined.argmax() == y) - int(base.argmax() == y))
            base_right.append(base.argmax() == y)
            answers.append((own.argmax() == y, own.argmax() != base.argmax()))
        accuracy, disagreement = np.mean(answers, 0)
        assert_allclose(found.features[model, :2], [np.mean(soft), np.mean(likelihood)])
        assert_allclose(found.features[model, 2], accuracy - np.mean(base_right), atol=1e-12)
        assert_allclose([found.gain[model], found.changed[model]], [np.mean(right), np.mean(np.abs(right))], atol=1e-12)
        mean_error = (2 - accuracy - np.mean(base_right)) / 2
        assert_allclose(found.ratio[model], disagreement / (mean_error + 0.5 / 256))


def test_gains_are_ranked_from_few_examples_and_intervals_cover_them():
    """Each model in turn is known on 256 examples. Predictions rank better than accuracy, disagreement and sample gain."""
    runs = Runs(Outputs.from_arrays(f"m{i}", probabilities=p.astype(np.float32), labels=LABELS) for i, p in enumerate(P))
    few = runs.select(ROWS)
    rows = [ensembles.recommend(runs, few[f"m{i}"], base="m0").table.iloc[0] for i in range(1, 30)]
    gain, true = np.array([row["gain"] for row in rows]), TRUE[1:]
    assert {row["by"] for row in rows} == {"28 known models"}
    ours = spearmanr(gain, true).statistic
    accuracy, different = (
        (P[1:, ROWS].argmax(2) == LABELS[ROWS]).mean(1),
        (P[1:, ROWS].argmax(2) != P[0, ROWS].argmax(1)).mean(1),
    )
    naive = ((P[:1] + P[1:])[:, ROWS].argmax(2) == LABELS[ROWS]).mean(1)
    assert ours > 0.85
    assert ours > max(spearmanr(one, true).statistic for one in (accuracy, different, naive)) + 0.02
    assert true[gain.argmax()] >= 0.9 * true.max()
    inside = np.mean([row["low"] <= t <= row["high"] for row, t in zip(rows, true, strict=True)])
    assert 0.86 <= inside <= 1.0


def test_a_card_alone_gives_wider_intervals():
    made = [card(f"m{i}", family="resnet" if i % 2 else "vit") for i in range(30)]
    runs = runs_of(Z, LABELS, cards=made, temperatures=[1.0] * 30)
    told = dataclasses.replace(made[3], details={"results": {"test_accuracy": float((P[3].argmax(1) == LABELS).mean())}})
    untold = dataclasses.replace(made[5], name="never-seen")
    sampled = runs.select(ROWS)["m4"]
    found = ensembles.recommend(runs, [told, untold, sampled], base="m0").table.set_index("model")
    width = found["high"] - found["low"]
    assert found["examples"].to_dict() == {"m3": 0, "never-seen": 0, "m4": 256}
    assert found["category"].to_dict() == {"m3": "arch", "never-seen": "arch", "m4": "reinit"}
    assert width["m4"] < width["never-seen"]
    assert np.isnan(found["ratio"]["m3"])
    assert list(found["gain"]) == sorted(found["gain"], reverse=True)


def test_without_known_models_published_pairs_are_the_prior():
    """Two gains of the paper's pairs, from category and accuracy, in units of the base's error."""
    base = runs_of(Z[:1], LABELS, ["mine"], [card("mine", dataset="imagenet-1k")])
    error = 1 - base["mine"].accuracy
    known = {"reinit": 0.0466, "dataset": 0.25}  # ResNet-50 trained again; CLIP, ALIGN and BiT of about its accuracy
    other = {"reinit": card("again", dataset="imagenet-1k"), "dataset": card("other", dataset="wit-400m")}
    for kind, expected in known.items():
        told = dataclasses.replace(other[kind], details={"results": {"test_accuracy": 1 - error}})
        row = ensembles.recommend(base, told, base="mine").table.iloc[0]
        assert row["by"].startswith("59 published pairs")
        assert row["category"] == kind
        assert row["low"] < expected * error < row["high"]
    assert_allclose(row["gain"] / error, known["dataset"], atol=0.12)


def test_few_known_models_shrink_the_gain_on_the_examples():
    few = runs_of(Z[:3], LABELS, temperatures=[1.0] * 3)
    row = ensembles.recommend(few, RUNS.select(ROWS)["m9"], base="m0").table.iloc[0]
    measured = ((P[0] + P[9])[ROWS].argmax(1) == LABELS[ROWS]).mean() - BASE[ROWS].mean()
    wide = ensembles.recommend(few, card("m9"), base="m0").table.iloc[0]
    assert row["high"] - row["low"] < wide["high"] - wide["low"]
    assert min(measured, wide["low"]) <= row["gain"] <= max(measured, wide["high"])
    assert row["low"] <= TRUE[9] <= row["high"]


def test_order_of_rows_and_classes_does_not_matter():
    few = RUNS.select(ROWS)["m4"]
    turned = dataclasses.replace(
        few, values=type(few.values)([np.asarray(few.logits)[:, ::-1].copy()]), classes=few.classes[::-1]
    )
    turned = dataclasses.replace(turned, labels=4 - few.labels).select(np.arange(256)[::-1])
    first, second = (ensembles.recommend(RUNS, one, base="m0").table.iloc[0] for one in (few, turned))
    assert_allclose([first["gain"], first["low"]], [second["gain"], second["low"]])


def test_an_uncalibrated_candidate_is_calibrated_on_its_examples():
    few = RUNS.select(ROWS)["m4"]
    hot = dataclasses.replace(few, values=Column([20 * np.asarray(few.logits)]), temperature=None)
    cool = dataclasses.replace(few, temperature=None)
    first, second = (ensembles.recommend(RUNS, one, base="m0").table.iloc[0] for one in (hot, cool))
    assert_allclose(first["gain"], second["gain"], atol=1e-4)


@pytest.mark.parametrize(
    ("candidates", "options", "error"),
    [
        ([], {}, {"argument": "candidates", "expected": "at least one"}),
        (["m3"], {}, {"argument": "candidates", "found": "m3", "hint": "zoo.card"}),
        (["m0"], {}, {"argument": "candidates", "found": "m0"}),
        (["m1", "m1"], {}, {"where": "candidates"}),
        (["m1"], {"examples": 0}, {"argument": "examples", "found": 0}),
        (["m1"], {"examples": 2.5}, {"argument": "examples", "expected": "whole number"}),
        (["m1"], {"level": 1.5}, {"argument": "level", "found": 1.5}),
        (["m1"], {"base": []}, {"argument": "base", "expected": "at least one"}),
        (["m1"], {"base": "m99"}, {"argument": "base", "name": "m99"}),
    ],
)
def test_bad_input(candidates, options, error):
    few = RUNS.select(ROWS)
    outputs = candidates if candidates == ["m3"] else [few[name] for name in candidates]
    with pytest.raises(InputError, check=fields(**error)):
        ensembles.recommend(RUNS, outputs, **{"base": "m0"} | options)


def test_too_few_common_examples_and_arrays():
    few = RUNS.select(ROWS)["m1"]
    with pytest.raises(InputError, check=fields(where="m1", expected=["at least 16", "3000", "m0"], found=8)):
        ensembles.recommend(RUNS, few.select(slice(0, 8)), base="m0")
    with pytest.raises(InputError, check=fields(argument="runs", found="ndarray")):
        ensembles.recommend(P, few, base=0)


def test_the_text_fits_in_eighty_columns():
    found = ensembles.recommend(RUNS, Runs([RUNS.select(ROWS)[name] for name in ("m3", "m7")]), base=["m0", "m1"])
    lines = str(found).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert f"m0 + m1, {found.base_accuracy:.1%} accuracy" in " ".join(lines)
    assert found.best == lines[1].split()[0] == found.to_dict()["candidates"][0]["model"]


@pytest.fixture
def known_architectures():
    """Return runs of 30 models whose categories relative to m0 are reinit and arch."""
    cards = [card(f"m{i}", family="resnet" if i % 2 else "vit") for i in range(30)]
    return runs_of(Z, LABELS, cards=cards, temperatures=[1.0] * 30)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_category_that_no_known_model_has_widens_the_interval_and_warns(sampled, known_architectures, monkeypatch):
    few = known_architectures.select(ROWS)

    def interval(dataset):
        made = card("m4", dataset=dataset)
        candidate = dataclasses.replace(few["m4"], card=made) if sampled else made
        found = ensembles.recommend(known_architectures, candidate, base="m0")
        row = found.table.iloc[0]
        return row["high"] - row["low"], row, str(found)

    seen, row, text = interval("in1k")
    assert (row["category"], row["new_category"], "training data" in text) == ("arch", False, False)
    with pytest.warns(ZooWarning, match="m4"):
        new, row, text = interval("wit-400m")
    assert (row["category"], row["new_category"], "m4" in text.splitlines()[-1]) == ("dataset", True, True)
    assert new > seen
    monkeypatch.setattr(recommendation, "NEW_CATEGORY_WIDTH", 1.0)
    with pytest.warns(ZooWarning):
        unwidened, *_ = interval("wit-400m")
    if sampled:  # combined with the gain on the examples, which needs no known model
        assert unwidened < new < 3 * unwidened
    else:
        assert_allclose(new, 3 * unwidened)


@functools.cache
def shipped_runs():
    """Return the shipped outputs on CIFAR-10, calibrated on one half of the examples, on the other half."""
    return zoo.calibrate(bundle.study("cifar10:test"), temperatures_from=0.5)


def in_memory(runs):
    """Return runs whose probabilities are computed once."""
    return Runs(
        Outputs.from_arrays(
            one.name, probabilities=np.asarray(one.probabilities), labels=one.labels, ids=one.ids, classes=one.classes,
            card=one.card, dataset=one.dataset,
        )
        for one in runs.values()
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:no known model has the category:zoo.errors.ZooWarning")
def test_intervals_hold_if_no_model_of_the_candidates_category_is_known():
    """For each base, each category in turn is left out of the known models. 51 shipped models, 95% intervals."""
    runs = in_memory(shipped_runs().aligned())
    p = {name: np.asarray(one.probabilities, np.float64) for name, one in runs.items()}
    few = runs.select(np.sort(np.random.default_rng(0).choice(len(runs.labels), 256, replace=False)))
    bases = ["r7-mixup", "resnet7-sigmoid-half-linear", "efficientnet-lite1-linear", "vit-mini-softmax", "resnet7-simclr"]
    inside = {"card": [], "examples": []}
    for base in (f"{name}.cifar10" for name in bases):
        kinds = {name: category(runs[base].card, one.card) for name, one in runs.items() if name != base}
        alone = (p[base].argmax(1) == runs.labels).mean()
        true = {name: ((p[base] + p[name]).argmax(1) == runs.labels).mean() - alone for name in kinds}
        for left_out in sorted(set(kinds.values()), key=CATEGORIES.index):
            known = Runs([runs[base], *(runs[name] for name, kind in kinds.items() if kind != left_out)])
            names = [name for name, kind in kinds.items() if kind == left_out]
            for evidence, candidates in {"card": [runs[n].card for n in names], "examples": [few[n] for n in names]}.items():
                table = ensembles.recommend(known, candidates, base=base, use_shipped=False).table
                assert table["new_category"].all()
                inside[evidence] += [row["low"] <= true[row["model"]] <= row["high"] for _, row in table.iterrows()]
    for each in inside.values():
        assert len(each) == 305
        assert np.mean(each) >= 0.9


@pytest.mark.filterwarnings("ignore:no known model has the category:zoo.errors.ZooWarning")
def test_training_data_that_no_known_model_has_widens_the_interval():
    """Other models differ from the base in their training data, but none was trained on ImageNet."""
    runs = in_memory(shipped_runs().aligned())
    p = {name: np.asarray(one.probabilities, np.float64) for name, one in runs.items()}
    few = runs.select(np.sort(np.random.default_rng(0).choice(len(runs.labels), 256, replace=False)))
    names = [name for name in runs if runs[name].card.dataset == "imagenet-1k"]
    known = Runs(one for name, one in runs.items() if name not in names)
    for base in ("r7x2.cifar10", "resnet7-softmax.cifar10", "resnet7-cosine.cifar10"):
        alone = (p[base].argmax(1) == runs.labels).mean()
        for candidates in ([runs[name].card for name in names], [few[name] for name in names]):
            table = ensembles.recommend(known, candidates, base=base, use_shipped=False).table
            assert (table["category"] == "dataset").all()
            assert table["new_category"].all()
            true = [((p[base] + p[name]).argmax(1) == runs.labels).mean() - alone for name in table["model"]]
            assert ((table["low"] <= true) & (true <= table["high"])).all()
    learnt = ensembles.recommend(known, runs["resnet7-cifar10-grey-linear.cifar10"].card, base="r7x2.cifar10").table
    assert learnt["new_category"].all()  # it is the only one that was trained on grey images


def test_shipped_outputs_count_as_known_in_a_fresh_home():
    """As if they had been passed: calibrated on the examples that the base is not evaluated on."""
    runs = shipped_runs()
    base, candidates = "r7x2.cifar10", [zoo.card("vit-mini-softmax.cifar10"), zoo.card("r7-mixup.cifar10")]
    found = ensembles.recommend(runs.subset([base]), candidates, base=base)
    assert (found.settings["known"], found.settings["shipped"]) == (59, 59)
    assert set(found.table["by"]) == {"59 known models"}
    passed = ensembles.recommend(runs, candidates, base=base)
    assert passed.settings["shipped"] == 0
    assert passed.settings["known"] == 59
    assert_allclose(found.table[["gain", "low", "high"]], passed.table[["gain", "low", "high"]], atol=1e-4)
    without = ensembles.recommend(runs.subset([base]), candidates, base=base, use_shipped=False)
    assert (without.settings["known"], without.settings["shipped"]) == (0, 0)
    assert all(by.startswith("59 published pairs") for by in without.table["by"])


def test_models_with_predictions_only_are_skipped():
    few = RUNS.select(ROWS)
    votes = Outputs.from_arrays("votes", predictions=Z[1].argmax(1), labels=LABELS, classes=RUNS["m0"].classes)
    mixed = Runs([*RUNS.values(), votes])
    with pytest.warns(ZooWarning, match="votes"):
        found = ensembles.recommend(mixed, few["m4"], base="m0")
    assert_allclose(found.table["gain"], ensembles.recommend(RUNS, few["m4"], base="m0").table["gain"])
    with pytest.warns(ZooWarning, match="votes"):
        found = ensembles.recommend(RUNS, [few["m4"], votes.select(ROWS)], base="m0")
    assert found.table["model"].tolist() == ["m4"]
    with pytest.warns(ZooWarning), pytest.raises(InputError, check=fields(argument="candidates")):
        ensembles.recommend(RUNS, votes.select(ROWS), base="m0")
    with pytest.warns(ZooWarning), pytest.raises(InputError, check=fields(argument="base", where="votes")):
        ensembles.recommend(mixed, few["m4"], base="votes")
