"""Figures of made-up outputs, each against the same numbers computed another way."""

import dataclasses
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_studies import CLASSES, TASK, made, names, study
from scipy import stats
from typer.testing import CliRunner, Result

import probes
from zoo.app.figures import FIGURES, PAPERS, find, papers
from zoo.app.figures.result import by_row
from zoo.app.figuring import _print, in_markdown
from zoo.app.main import app
from zoo.cards.recipe_names import OBJECTIVES
from zoo.errors import InputError, UnknownName
from zoo.outputs.outputs import Outputs, Runs

README = (Path(__file__).resolve().parents[3] / "README.md").read_text()
BASE = names()[0]

pytestmark = pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # made-up models gain little


def cell(frame: pd.DataFrame, row: str, column: str) -> pd.Series:
    (found,) = (cells for _, cells in frame[(frame["row"] == row) & (frame["column"] == column)].iterrows())
    return found


def right(name: str, spec: str = "digits:test") -> np.ndarray:
    one = made(name, spec)
    return one.values.array().argmax(1) == one.labels


def kept(known: object) -> np.ndarray:
    """The rows that are reported, where others fitted the temperatures."""
    return known.calibrated[BASE].ids.astype(int)


def probabilities(known: object, name: str) -> np.ndarray:
    """Through the link, at the temperature that was fitted."""
    outputs = known.calibrated[name]
    z = made(name, "digits:test").values.array()[kept(known)] / outputs.temperature
    p = 1 / (1 + np.exp(-z)) if "sigmoid" in name else np.exp(z - z.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def test_tables_are_means_with_errors_and_the_papers_numbers() -> None:
    known = study()
    frame = find("loss/table-3").of(known).frame
    assert list(dict.fromkeys(frame["row"])) == ["softmax", "sigmoid", "squared-error"]
    for objective in ("softmax", "squared-error"):
        models = [name for name in known.names if objective in name]
        accuracies = np.array([100 * right(name).mean() for name in models])
        found = cell(frame, objective, "top1")
        assert found["mean"] == pytest.approx(accuracies.mean())
        assert found["error"] == pytest.approx(accuracies.std(ddof=1) / math.sqrt(3))
        assert cell(frame, objective, "class-separation")["mean"] == pytest.approx(
            np.mean([naive_separation(made(name, "digits:train")) for name in models]), rel=1e-5
        )
    assert cell(frame, "softmax", "class-separation")["paper"] == 0.349
    assert cell(frame, "squared-error", "class-separation")["paper_error"] == 0.0002


def naive_separation(outputs: object) -> float:
    """Equation 11, pair by pair."""
    x = outputs.embeddings.astype(float)
    unit, y = x / np.linalg.norm(x, axis=1, keepdims=True), outputs.labels
    distance = 1 - unit @ unit.T
    block = np.array([[distance[np.ix_(y == a, y == b)].mean() for b in range(CLASSES)] for a in range(CLASSES)])
    return 1 - block.diagonal().mean() / block.mean()


def test_bold_is_what_a_t_test_cannot_tell_from_the_best() -> None:
    known, rng = study(names(seeds=5)), np.random.default_rng(3)
    level = {"softmax": 90.0, "sigmoid": 90.4, "squared-error": 88.0}
    values = [(name, "x", level[known.objective(name)] + rng.normal(0, 0.5)) for name in known.names]
    found = by_row(known, values)
    groups = {row: [v for n, _, v in values if known.rows[n] == row] for row in level}
    best = max(groups, key=lambda row: np.mean(groups[row]))
    expected = {row for row in groups if stats.ttest_ind(groups[row], groups[best], equal_var=False).pvalue >= 0.05}
    assert {best} <= expected < set(level)
    assert set(found.frame.loc[found.frame["best"] == True, "row"]) == expected  # noqa: E712
    lines = found.markdown().splitlines()
    assert {line.split(" | ")[0][2:] for line in lines if "**" in line} == expected
    worst = min(groups, key=lambda row: np.mean(groups[row]))
    assert bool(cell(by_row(known, values, lower=["x"]).frame, worst, "x")["best"])
    alone = by_row(study(names(seeds=1)), values[::5])
    assert alone.frame["best"].isna().all()
    assert "±" not in alone.markdown()


def test_an_average_is_over_tasks_and_tested_by_analysis_of_variance() -> None:
    known, rng = study(), np.random.default_rng(0)
    shift = {"softmax": 0.0, "sigmoid": 0.05, "squared-error": -3.0}
    values = [
        (name, task, level + shift[known.objective(name)] + rng.normal(0, 0.3))
        for task, level in (("linear-food101", 70.0), ("linear-cars", 40.0))
        for name in known.names
    ]
    frame = by_row(known, values, papers.loss_table("1"), average=["linear-food101", "linear-cars"]).frame
    both = [np.mean([v for n, _, v in values if n == name]) for name in known.names if "softmax" in name]
    assert cell(frame, "softmax", "average")["mean"] == pytest.approx(np.mean(both))
    assert cell(frame, "softmax", "average")["paper"] == pytest.approx((74.6 + 60.3) / 2)
    assert not cell(frame, "squared-error", "average")["best"]


def test_rows_are_told_apart_by_what_differs() -> None:
    seeds = study(
        ["resnet8-softmax.digits", "resnet8-softmax-s1.digits", "resnet20-softmax.digits", "resnet20-cosine.digits"]
    )
    assert set(seeds.rows.values()) == {"softmax resnet8", "softmax resnet20", "cosine resnet20"}
    assert seeds.members["softmax resnet8"] == ["resnet8-softmax.digits", "resnet8-softmax-s1.digits"]


@pytest.mark.parametrize("base", [None, BASE])
def test_errors_by_category(base: str | None) -> None:
    known = study(base=base)
    rows = kept(known)
    pairs = [p for p in itertools.combinations(known.names, 2) if base is None or base in p]
    frame = find("representation/8").of(known).frame.set_index(["measure", "category"])
    for kind, alike in (("reinit", True), ("hparam", False)):
        chosen = [(a, b) for a, b in pairs if (known.objective(a) == known.objective(b)) == alike]
        apart = np.array([100 * np.mean(right(a)[rows] != right(b)[rows]) for a, b in chosen])
        assert frame.loc[("inconsistency", kind), "mean"] == pytest.approx(apart.mean())
        assert frame.loc[("inconsistency", kind), "error"] == pytest.approx(apart.std(ddof=1) / math.sqrt(len(apart)))
        both = [100 * np.mean(right(a)[rows] & right(b)[rows]) for a, b in chosen]
        assert frame.loc[("both_right", kind), "mean"] == pytest.approx(np.mean(both))
    assert frame.loc[("inconsistency", "reinit"), "paper"] == 8.5
    first = find("representation/1").of(known).frame
    assert first["mean"].tolist() == frame.loc["inconsistency", "mean"].tolist()


@pytest.mark.parametrize("base", [None, BASE])
def test_a_band_of_accuracies_leaves_out_who_errs_more(base: str | None) -> None:
    known = study(base=base)
    accuracies = {name: 100 * right(name).mean() for name in known.names}
    low = sorted(map(float, accuracies.values()))[3]
    band = {"low": repr(low)}
    inside = {name for name in known.names if accuracies[name] >= low or name == base}
    assert 3 < len(inside) < len(known.names)
    frame = find("representation/2").of(known, band).frame
    assert {*frame["first"], *frame["second"]} == inside
    counts = find("representation/1").of(known, band).frame["pairs"]
    assert counts.sum() == len(frame) == (math.comb(len(inside), 2) if base is None else len(inside) - 1)
    with pytest.raises(InputError, match=r"leave . of 9 models"):
        find("representation/8").of(known, {"low": "100.5"})


def test_a_base_is_said_once_and_names_go_without_their_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    known = study(base=BASE)
    wanted = find("representation/2")
    _print(wanted, wanted.of(known), known.data)
    title, _, table = capsys.readouterr().out.partition("second")
    assert title.split()[-2:] == ["beside", BASE.removesuffix(".digits")]
    assert "gain_over_mean" in table  # there is room for it
    assert ".digits" not in table


def test_gains_against_inconsistency() -> None:
    known = study(base=BASE)
    result = find("representation/2").of(known)
    rows, y = kept(known), made(BASE, "digits:test").labels[kept(known)]
    for found in result.frame.to_dict("records"):
        together = (probabilities(known, BASE) + probabilities(known, found["second"])).argmax(1) == y
        members = right(BASE)[rows], right(found["second"])[rows]
        apart = members[0] != members[1]
        assert found["inconsistency"] == pytest.approx(100 * apart.mean())
        assert found["ensemble_accuracy"] == pytest.approx(100 * together.mean())
        assert found["gain_over_mean"] == pytest.approx(100 * (together.mean() - np.mean(members)))
        assert found["conversion_rate"] == pytest.approx(100 * together[apart].mean())
    r = stats.pearsonr(result.frame["inconsistency"], result.frame["gain_over_mean"])
    interval = r.confidence_interval(0.95)
    said = f"r = {r.statistic:.2f}, 95% interval {interval.low:.2f} to {interval.high:.2f}"
    assert f"gain over the mean member against error inconsistency: {said}" in result.notes
    assert "r = 0.98 over 50 models" in result.notes[-1]


def test_specialization_on_one_population() -> None:
    known = study(names(seeds=1), base=BASE)
    frame = find("representation/3").of(known, {"bins": "4"}).frame
    rows = kept(known)
    own, others = right(BASE)[rows], {name: right(name)[rows] for name in known.names[1:]}
    population = np.any([own != other for other in others.values()], axis=0)
    confidence = {name: probabilities(known, name).max(1) for name in known.names}
    for name, other in others.items():
        theta = np.arctan2(confidence[BASE], confidence[name])[population] - np.pi / 4
        only = (own & ~other)[population]
        expected = np.histogram(theta[only], 4, (-np.pi / 4, np.pi / 4))[0]
        part = frame[(frame["pair"] == f"{BASE}, {name}") & (frame["outcome"] == "only first right")]
        assert part.sort_values("low")["count"].tolist() == expected.tolist()
        assert frame.loc[frame["pair"] == f"{BASE}, {name}", "count"].sum() == population.sum()


def test_specialization_by_class() -> None:
    known = study(names(seeds=1)[:2], base=BASE)
    frame = find("representation/4").of(known).frame
    rows = kept(known)
    y = made(BASE, "digits:test").labels[rows]
    for found in frame.to_dict("records"):
        assert found["accuracy_first"] == pytest.approx(right(BASE)[rows][y == int(found["class"])].mean())


def test_models_beside_the_base() -> None:
    known = study(base=BASE)
    accuracies = {name: 100 * right(name).mean() for name in known.names}
    limit = float(np.median(list(accuracies.values())))
    frame = find("representation/table-2").of(known, {"low": str(limit)}).frame
    assert set(frame["model"]) == {name for name, value in accuracies.items() if value >= limit}
    found = frame[frame["model"] != BASE].iloc[0]
    assert found["accuracy"] == pytest.approx(accuracies[found["model"]])
    assert found["inconsistency"] == pytest.approx(
        100 * np.mean(right(BASE)[kept(known)] != right(found["model"])[kept(known)])
    )
    assert found["temperature"] == known.calibrated[found["model"]].temperature
    other = find("representation/table-4").of(known).frame.set_index("model")
    assert other["category"].to_dict() == {n: "reinit" if "softmax" in n else "hparam" for n in known.names}


def test_low_accuracy_models_added_to_high_accuracy_ones() -> None:
    from ensembles import stratified_split

    known = study(base=BASE)
    found = find("representation/5").of(known, {"steps": "2"}).frame.iloc[0]
    y = made(BASE, "digits:test").labels[kept(known)]
    choose, judge = stratified_split(y, seed=0)
    scores = {}
    for name in known.names[1:]:
        together = (probabilities(known, BASE) + probabilities(known, name)).argmax(1) == y
        scores[name] = together[choose].mean(), together[judge].mean()
    best = max(scores.values())[0]
    assert scores[found["first partner"]][0] == best
    assert found["pair"] == pytest.approx(100 * scores[found["first partner"]][1])
    with pytest.raises(InputError, match="leaves 1 models to start from and 0 to add"):
        find("representation/5").of(known, {"below": "1"})


def test_parts_of_two_models_features() -> None:
    known = study(names(seeds=1)[:2], base=BASE)
    result = find("representation/6").of(known, {"draws": "2", "multiples": "4"})
    (row,) = result.frame.to_dict("records")
    train, test = known.train, known.runs
    for name, column in ((BASE, "100/0"), (row["with"], "0/100")):
        probe = probes.LinearProbe().fit(train[name].embeddings, train[name].labels)
        assert row[column] == pytest.approx(100 * probe.score(test[name].embeddings, test[name].labels))
    assert row["dimensions"] is None or row["dimensions"] % 4 == 0
    assert row["dimensions, paper"] == 2057  # the objective is a hyper-parameter


def test_two_models_features_at_once() -> None:
    known = study(names(seeds=1)[:2])
    frame = find("representation/7").of(known).frame
    together = frame[frame["second"].notna()].iloc[0]
    sides = []
    for part in ("digits-rotated:train", "digits-rotated:test"):
        sides.append(np.concatenate([made(name, part).embeddings for name in known.names], 1).astype(float))
    mean, spread = sides[0].mean(0), sides[0].std(0)
    y, test_y = (made(BASE, part).labels for part in ("digits-rotated:train", "digits-rotated:test"))
    probe = probes.LinearProbe().fit(((sides[0] - mean) / spread).astype(np.float32), np.array(TASK)[y])
    score = probe.score(((sides[1] - mean) / spread).astype(np.float32), np.array(TASK)[test_y])
    assert together["score"] == pytest.approx(100 * score, abs=2.0)
    assert together["inconsistency"] == pytest.approx(100 * np.mean(right(known.names[0]) != right(known.names[1])))
    assert together["gain"] == pytest.approx(together["score"] - frame.loc[frame["second"].isna(), "score"].max())


def test_transfer_by_probes_and_neighbours() -> None:
    known = study(names(seeds=2))
    frame = find("loss/table-1").of(known).frame
    scores: dict[str, list[float]] = {"linear": [], "knn": []}
    for name in known.members["sigmoid"]:
        (x, y), (test_x, test_y) = (
            (one.embeddings, np.array(TASK)[one.labels])
            for one in (made(name, "digits-rotated:train"), made(name, "digits-rotated:test"))
        )
        scores["linear"].append(100 * probes.LinearProbe().fit(x, y).score(test_x, test_y))
        scores["knn"].append(100 * probes.KNNProbe().fit(x, y).score(test_x, test_y))
    for kind, values in scores.items():
        assert cell(frame, "sigmoid", f"{kind}-digits-rotated")["mean"] == pytest.approx(np.mean(values))
    assert cell(frame, "sigmoid", "top5")["mean"] > cell(frame, "sigmoid", "top1")["mean"]
    assert cell(frame, "sigmoid", "top5")["paper"] == 93.5
    points = find("loss/1").of(known)
    linear = frame[frame["column"] == "linear-digits-rotated"].set_index("row")["mean"]
    assert points.frame.groupby("row")["transfer"].mean().to_dict() == pytest.approx(linear.to_dict())
    rho = stats.spearmanr(points.frame["top1"], points.frame["transfer"]).statistic
    assert f"{rho:.2f}" in points.notes[0]
    by_task = find("loss/D.1").of(known).frame
    assert by_task["transfer"].tolist() == points.frame["transfer"].tolist()


def test_separation_against_transfer() -> None:
    result = find("loss/5a").of(study(names(seeds=2)))
    wide = result.frame.pivot(index="row", columns="column", values="mean")
    rho = stats.spearmanr(wide["class-separation"], wide["linear-digits-rotated"]).statistic
    assert f"{rho:.2f}" in result.notes[0]
    assert "-0.93" in result.notes[1]


def test_the_order_of_rows_is_compared_with_the_papers() -> None:
    result = find("loss/table-3").of(study(names(OBJECTIVES, seeds=1)))
    cells = result.frame[result.frame["column"] == "class-separation"]
    found = stats.spearmanr(cells["mean"], cells["paper"])
    assert f"class-separation {found.statistic:.2f} (p = {found.pvalue:.3f}, {len(cells)} rows)" in result.notes[-1]
    assert find("loss/table-3").of(study(names(seeds=1))).notes == ()  # three rows have no order worth a figure


def test_chest_x_rays_by_pathology() -> None:
    from sklearn.metrics import roc_auc_score

    models = names(seeds=1)[:2]
    classes, rng = ["Edema", "Pleural Effusion"], np.random.default_rng(0)
    y = {part: rng.integers(0, 2, (300, 2)) for part in ("chexpert:train", "chexpert:test")}

    def outputs(data: str) -> Runs:
        return Runs(
            Outputs.from_arrays(
                name, embeddings=(y[data] @ np.eye(2, 4) + rng.normal(size=(300, 4))).astype(np.float32), targets=y[data],
                classes=classes, dataset=data,
            )
            for name in models
        )  # fmt: skip

    made_once = {part: outputs(part) for part in y}
    known = study(models, transfer=["chexpert:test"], outputs=lambda names, data, **options: made_once[data])
    frame = find("loss/table-D.1").of(known).frame
    train, test = (made_once[part][BASE] for part in y)
    probe = probes.MultilabelProbe(metric="auc").fit(train.embeddings, train.targets)
    auc = roc_auc_score(test.targets[:, 1], probe.decision_function(test.embeddings)[:, 1])
    assert cell(frame, "softmax", "chexpert-pleural-effusion")["mean"] == pytest.approx(100 * auc, abs=0.5)
    assert cell(frame, "softmax", "chexpert-pleural-effusion")["paper"] == 86.4
    apart = find("loss/table-D.1").of(known, {"iid": "0.3"}).frame
    assert cell(apart, "softmax", "chexpert-iid-edema")["paper"] == 79.9


def test_transfer_over_training() -> None:
    epochs = [f"{name}@epoch{epoch}" for name in names(seeds=1)[:2] for epoch in (3, 12)]
    known = study(epochs, outputs=lambda models, data, **o: Runs(_renamed(name, data) for name in models))
    frame = find("loss/D.2").of(known).frame
    assert frame["epoch"].tolist() == [3, 12, 3, 12]
    train, test = _renamed(epochs[1], "digits-rotated:train"), _renamed(epochs[1], "digits-rotated:test")
    score = float(probes.probe(train, test)["score"].iloc[0])
    assert frame.loc[(frame["model"] == BASE) & (frame["epoch"] == 12), "transfer"].item() == pytest.approx(100 * score)


def _renamed(name: str, data: str) -> Outputs:
    """The outputs of a model at an epoch: those of a seed of the model."""
    model, _, epoch = name.partition("@epoch")
    return dataclasses.replace(made(model.replace(".digits", f"-s{epoch}.digits"), data), name=name)


def test_relearning_is_of_the_same_held_out_examples() -> None:
    known = study(names(seeds=2))
    frame = find("loss/6").of(known, {"test": "0.25"}).frame
    expected = probes.relearn(known.runs, test=0.25).set_index("model")
    members = known.members["softmax"]
    for column in ("original", "relearned", "gap"):
        assert cell(frame, "softmax", column)["mean"] == pytest.approx(100 * expected.loc[members, column].mean())
    assert frame.loc[(frame["column"] == "gap") & (frame["best"] == True), "mean"].min() == pytest.approx(  # noqa: E712
        frame.loc[frame["column"] == "gap", "mean"].min()
    )


def test_class_overlap_is_the_best_mapping() -> None:
    known = study([BASE])
    found = find("loss/table-F.1").of(known).frame.iloc[0]
    train = made(BASE, "digits-rotated:train")
    said = train.values.array().argmax(1)
    mapping = {s: np.bincount(train.labels[said == s]).argmax() for s in np.unique(said)}
    assert found["assignment"] == pytest.approx(
        100 * np.mean([mapping[s] == t for s, t in zip(said, train.labels, strict=True)])
    )
    assert found["classes"] == len(TASK)


def test_three_distances() -> None:
    frame = find("loss/table-E.1").of(study()).frame
    x = [made(name, "digits:train") for name in names() if "softmax" in name]
    assert cell(frame, "softmax", "separation-cosine")["mean"] == pytest.approx(
        np.mean([naive_separation(o) for o in x]), rel=1e-5
    )
    assert cell(frame, "softmax", "separation-euclidean")["paper"] == 0.3366


def test_calibration_is_on_rows_that_were_not_fitted() -> None:
    known = study()
    result = find("loss/table-C.3").of(known)
    rows = kept(known)
    nll = []
    for name in known.members["squared-error"]:
        y = made(name, "digits:test").labels[rows]
        nll.append(-np.log(probabilities(known, name)[np.arange(len(rows)), y]).mean())
    assert cell(result.frame, "squared-error", "nll-calibrated")["mean"] == pytest.approx(np.mean(nll), rel=1e-5)
    assert "120 of 240 examples" in result.notes[0]


def test_agreement_three_ways() -> None:
    known = study()
    frame = find("loss/C.5").of(known).frame.set_index(["row", "other"])
    expected: dict[tuple[str, str], list[list[float]]] = {}
    for a, b in itertools.combinations(known.rows, 2):
        first, second = (made(name, "digits:test").values.array().argmax(1) for name in (a, b))
        y = made(a, "digits:test").labels
        wrong = (first != y) & (second != y)
        three = [np.mean(first == second), np.mean((first == y) == (second == y)), np.mean((first == second)[wrong])]
        expected.setdefault((known.rows[a], known.rows[b]), []).append(three)
    for pair, values in expected.items():
        assert frame.loc[pair].tolist() == pytest.approx((100 * np.mean(values, axis=0)).tolist())
    alone = find("loss/C.4").of(known).frame.set_index(["row", "other"])
    assert alone["wrong_agreement"].to_dict() == pytest.approx(frame["wrong_agreement"].to_dict())


def test_votes_over_seeds() -> None:
    known = study(names(seeds=4))
    y = made(BASE, "digits:test").labels

    def vote(models: list[str]) -> np.ndarray:
        said = np.stack([made(name, "digits:test").values.array().argmax(1) for name in models])
        return np.array([np.bincount(column, minlength=CLASSES).argmax() for column in said.T])

    members = known.members
    agreement = find("loss/C.6").of(known).frame.set_index("row")
    assert agreement.loc["softmax", "sigmoid"] == pytest.approx(
        100 * np.mean(vote(members["softmax"]) == vote(members["sigmoid"]))
    )
    half = find("loss/C.7").of(known).frame.set_index("row")
    a, b = members["softmax"], members["squared-error"]
    mixed = [np.mean(vote(a[:2] + b[2:]) == y), np.mean(vote(b[:2] + a[2:]) == y)]
    assert half.loc["softmax", "squared-error"] == pytest.approx(100 * np.mean(mixed))


def test_the_front_of_cost_and_accuracy() -> None:
    known = study(["resnet8-softmax.digits", "resnet20-softmax.digits"])
    frame = find("ensemble/pareto").of(known, {"size": "2"}).frame
    assert frame["cost"].is_monotonic_increasing
    assert frame["selection"].is_monotonic_increasing
    assert frame.iloc[0]["members"] == "resnet8-softmax.digits"


def test_robustness_names_what_is_not_here() -> None:
    known = study(names(seeds=2), outputs=lambda models, data, **options: study().outputs(models, "digits:test"))
    result = find("loss/table-C.2").of(known, {"sets": "digits-holes,in-v2"})
    assert set(result.frame["column"]) == {"digits-holes"}
    accuracies = [100 * right(name).mean() for name in known.members["softmax"]]
    assert cell(result.frame, "softmax", "digits-holes")["mean"] == pytest.approx(np.mean(accuracies))
    assert result.notes[0].startswith("in-v2 is left out: ")
    with pytest.raises(InputError, match="-O sets=SPEC,SPEC names others"):
        find("loss/table-C.2").of(known, {"sets": "in-v2"})


def test_training_images() -> None:
    frame = find("loss/table-C.1").of(study()).frame
    values = [100 * right(name, "digits:train").mean() for name in names() if "sigmoid" in name]
    assert cell(frame, "sigmoid", "train-top1")["mean"] == pytest.approx(np.mean(values))
    assert cell(frame, "sigmoid", "train-top1")["paper"] == 93.22


def test_settings_of_objectives() -> None:
    frame = find("loss/table-A.1").of(study(["resnet50-cosine.in1k", "resnet50-softmax.in1k"])).frame.set_index("row")
    assert frame.loc["cosine"].tolist() == ["tau = 0.05", 158]
    assert frame.loc["softmax", "settings"] == "none"


# What is asked for and what is there


@pytest.mark.parametrize(
    ("key", "models", "reason"),
    [
        ("loss/C.7", names(seeds=1), "at least two seeds of every objective, and softmax has one"),
        ("loss/table-3", names(["softmax"]), "it compares training objectives, and the models have just one"),
        ("loss/table-4", names(), "it takes cosine models of several tau, found 0"),
        ("loss/table-B.1", names(), "it is about inception_v3, and resnet8-softmax.digits is none"),
        ("loss/table-C.5", names(), "none of the models was trained with AutoAugment"),
        ("loss/C.1", names(), "none of the models has a training log"),
        ("loss/D.2", names(), "named NAME@epochN"),
        ("loss/table-D.1", names(), "it is about chexpert; name it with --transfer"),
        ("representation/2", names(seeds=1)[:2], "at least 3 models, found 2"),
    ],
)
def test_what_cannot_be_made_says_why(key: str, models: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=f"{key}: cannot be made: .*{re.escape(reason)}"):
        find(key).of(study(models))


def test_keys_and_settings_that_are_not_there() -> None:
    with pytest.raises(UnknownName, match=r"did you mean .*loss/5a"):
        find("loss/5")
    with pytest.raises(InputError, match=r"no setting 'stepz'; did you mean steps"):
        find("representation/5").of(study(), {"stepz": "1"})
    with pytest.raises(InputError, match=r"steps=many: expected a value like 10"):
        find("representation/5").of(study(), {"steps": "many"})


def test_every_table_and_figure_of_both_papers_is_there() -> None:
    first = {*(str(n) for n in range(1, 9)), *(f"table-{n}" for n in range(1, 5))}
    tables = ["1", "2", "3", "4", "A.1", "A.2", "B.1", *(f"C.{n}" for n in range(1, 7)), "D.1", "E.1", "E.2", "E.3", "F.1"]
    charts = [
        "1",
        "2a",
        "2b",
        "3",
        "4",
        "5a",
        "5b",
        "6",
        "B.1a",
        "B.1b",
        *(f"C.{n}" for n in range(1, 8)),
        "D.1",
        "D.2",
        "D.3",
    ]
    second = {*(f"table-{n}" for n in tables), *charts, *(f"E.{n}" for n in range(1, 5))}
    keys = {paper: {key.partition("/")[2] for key in FIGURES if key.startswith(paper)} for paper in PAPERS}
    assert keys == {"representation": first, "loss": second, "ensemble": {"pareto"}}
    assert all(one.example is not None or one.why_not for one in FIGURES.values())


def test_the_list_of_the_readme_is_the_one_that_is_printed() -> None:
    block = re.search(r"<!-- figures -->\n(.*?)<!-- end of figures -->", README, re.DOTALL)
    assert block is not None
    assert block[1] == in_markdown()


def zoo(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_the_list_says_what_is_missing() -> None:
    found = json.loads(zoo("figure", "--list", "resnet8-softmax", "resnet8-cosine", "--json").stdout)
    missing = {row["figure"]: row["missing"] for row in found["figures"]}
    assert list(missing) == [one.key for one in sorted(FIGURES.values(), key=lambda one: one.order)]
    assert missing["loss/table-3"] is None
    assert "two seeds" in missing["loss/C.7"]
    assert "--transfer" in missing["loss/5a"]
    text = zoo("figure", "--list", "resnet8-softmax").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert zoo("figure", "--list", "--markdown").stdout == in_markdown()


@pytest.fixture
def imported(tmp_path: Path) -> list[str]:
    """Outputs under names that no card has, with labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    for name in ("one", "two", "three"):
        np.savez(tmp_path / f"{name}.npz", logits=rng.normal(size=(120, 3)) + 2 * np.eye(3)[y], labels=y)
    assert zoo("import", str(tmp_path), "--kind", "logits", "--data", "mine").exit_code == 0
    return ["one", "two", "three"]


def test_files_of_every_kind(imported: list[str], tmp_path: Path) -> None:
    files = {kind: tmp_path / f"c5.{kind}" for kind in ("svg", "png", "html", "csv", "json", "md")}
    wanted = [part for path in files.values() for part in ("-o", str(path))]
    found = zoo("figure", "loss/C.5", *imported, "--data", "mine", *wanted)
    assert found.exit_code == 0, found.output
    table = pd.read_csv(files["csv"])
    written = json.loads(files["json"].read_text())
    assert written["place"] == "Fig. C.5"
    assert written["rows"] == json.loads(table.to_json(orient="records", double_precision=15))
    assert files["md"].read_text().startswith("# loss/C.5: Agreement, three ways\n\n| row | other | agreement |")
    assert files["svg"].read_text().startswith("<svg")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert "vega" in files["html"].read_text()
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert json.loads(zoo("figure", "loss/C.5", *imported, "--data", "mine", "--json").stdout)["rows"] == written["rows"]


def test_mistakes_are_said_before_the_work(imported: list[str], tmp_path: Path) -> None:
    for arguments, said in (
        (["-o", str(tmp_path / "x.txt")], "expected a name that ends in .csv"),
        (["-o", str(tmp_path / "none" / "x.csv")], "there is no folder"),
        (["-O", "steps"], "expected NAME=VALUE"),
        (["--base", "four"], "four"),
    ):
        found = zoo("figure", "loss/C.5", *imported, "--data", "mine", *arguments)
        assert isinstance(found.exception, InputError)
        assert said in str(found.exception)
    without = zoo("figure", "representation/1", *imported, "--data", "mine")
    assert "no card says how one was trained" in str(without.exception)
