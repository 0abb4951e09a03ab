"""Figures of synthetic outputs, each compared with an independent computation of the same numbers."""

import dataclasses
import itertools
import json
import math
import re
import shlex
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_studies import CLASSES, TASK, made, names, study
from raised import fields
from scipy import stats
from typer.testing import CliRunner, Result

import probes
from zoo import training
from zoo.app import figures
from zoo.app.figure import _print, in_markdown
from zoo.app.figures import FIGURES, PAPERS, behaviour, find, papers, sized
from zoo.app.figures.needs import LONG_DECAY
from zoo.app.figures.predictions import majority_vote
from zoo.app.figures.result import by_row
from zoo.app.main import app
from zoo.cards import published
from zoo.cards.recipe_names import OBJECTIVES
from zoo.core.splits import hold_out
from zoo.errors import InputError, UnknownName
from zoo.models import registry
from zoo.outputs.outputs import Outputs, Runs

README = (Path(figures.__file__).parent / "README.md").read_text()
BASE = names()[0]

pytestmark = pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # synthetic models gain little from ensembling


def cell(frame: pd.DataFrame, row: str, column: str) -> pd.Series:
    (found,) = (cells for _, cells in frame[(frame["row"] == row) & (frame["column"] == column)].iterrows())
    return found


def right(name: str, spec: str = "digits:test") -> np.ndarray:
    one = made(name, spec)
    return one.values.array().argmax(1) == one.labels


def kept(known: object) -> np.ndarray:
    """Return the rows that were not used to fit the temperatures."""
    return known.calibrated[BASE].ids.astype(int)


def probabilities(known: object, name: str) -> np.ndarray:
    """Return the probabilities at the fitted temperature, through the model's link."""
    outputs = known.calibrated[name]
    z = made(name, "digits:test").values.array()[kept(known)] / outputs.temperature
    p = 1 / (1 + np.exp(-z)) if "sigmoid" in name else np.exp(z - z.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def test_tables_have_means_standard_errors_and_published_numbers() -> None:
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


def test_only_networks_of_a_recipe_have_published_numbers() -> None:
    head = dataclasses.replace(registry.card("resnet8-cosine.digits"), name="head", source="fitted", head="linear")
    known = study()
    known.cards["head"] = head
    known.__dict__["names"] = [*known.names, "head"]
    frame = by_row(known, [(name, "top1", 90.0) for name in known.names], papers.loss_table("1")).frame.set_index("row")
    assert frame["paper"].notna().to_dict() == {"softmax": True, "sigmoid": True, "squared-error": True, "head": False}


def naive_separation(outputs: object) -> float:
    """Evaluate equation 11 pair by pair."""
    x = np.asarray(outputs.require_embeddings()[:], float)
    unit, y = x / np.linalg.norm(x, axis=1, keepdims=True), outputs.labels
    distance = 1 - unit @ unit.T
    block = np.array([[distance[np.ix_(y == a, y == b)].mean() for b in range(CLASSES)] for a in range(CLASSES)])
    return 1 - block.diagonal().mean() / block.mean()


def test_values_not_significantly_different_from_the_best_are_bold() -> None:
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
    single = by_row(study(names(seeds=1)), values[::5])
    assert single.frame["best"].isna().all()
    assert "±" not in single.markdown()


def test_no_value_is_bold_with_two_seeds() -> None:
    known = study(names(seeds=2))
    values = [
        (name, column, 90.0 + seed / 10 - 5 * (known.objective(name) == "sigmoid"))
        for column in ("linear-food101", "linear-cars")
        for seed, name in enumerate(known.names)
    ]
    result = by_row(known, values, average=["linear-food101", "linear-cars"])
    assert set(result.frame["column"]) == {"linear-food101", "linear-cars", "average"}
    assert result.frame["best"].isna().all()
    assert "**" not in result.markdown()


def test_latex_escapes_and_marks_the_best() -> None:
    known = study(names(seeds=5))
    values = [
        (name, "a_b %", 90.0 + i % 5 - 20 * (known.objective(name) == "sigmoid")) for i, name in enumerate(known.names)
    ]
    lines = by_row(known, values).latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[2] == r" & a\_b \% \\"
    (softmax,) = (line for line in lines if line.startswith("softmax"))
    assert softmax == r"softmax & \textbf{92.0 $\pm$ 0.7} \\"
    assert not any(line.startswith("sigmoid") and "textbf" in line for line in lines)


def test_averages_over_tasks_are_tested_by_analysis_of_variance() -> None:
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


def test_row_names_contain_the_settings_that_differ() -> None:
    seeds = study(
        ["resnet8-softmax.digits", "resnet8-softmax-s1.digits", "resnet20-softmax.digits", "resnet20-cosine.digits"]
    )
    assert set(seeds.rows.values()) == {"softmax resnet8", "softmax resnet20", "cosine resnet20"}
    assert seeds.members["softmax resnet8"] == ["resnet8-softmax.digits", "resnet8-softmax-s1.digits"]


@pytest.mark.parametrize("base", [None, BASE])
def test_errors_by_category_have_jackknife_standard_errors(base: str | None) -> None:
    known = study(base=base)
    pairs = [p for p in itertools.combinations(known.names, 2) if base is None or base in p]
    frame = find("representation/8").of(known, {"band": "0"}).frame.set_index(["measure", "category"])
    for kind, alike in (("reinit", True), ("hparam", False)):
        chosen = [(a, b) for a, b in pairs if (known.objective(a) == known.objective(b)) == alike]
        apart = {pair: 100 * np.mean(right(pair[0]) != right(pair[1])) for pair in chosen}
        found = frame.loc[("inconsistency", kind)]
        assert found["mean"] == pytest.approx(np.mean(list(apart.values())))
        assert found["error"] == pytest.approx(jackknife(apart))
        assert (found["pairs"], found["models"]) == (len(chosen), len({name for pair in chosen for name in pair}))
        both = {pair: 100 * np.mean(right(pair[0]) & right(pair[1])) for pair in chosen}
        assert frame.loc[("both_right", kind), "mean"] == pytest.approx(np.mean(list(both.values())))
        assert frame.loc[("both_right", kind), "error"] == pytest.approx(jackknife(both))
    assert frame.loc[("inconsistency", "reinit"), "paper"] == 8.5
    first = find("representation/1").of(known, {"band": "0"})
    assert first.frame["mean"].tolist() == frame.loc["inconsistency", "mean"].tolist()
    assert not any("rests on two models" in note for note in first.notes)


def test_a_category_of_two_models_is_named() -> None:
    known = study(["resnet8-softmax.digits", "resnet8-softmax-s1.digits", "resnet8-sigmoid.digits"])
    for key in ("representation/1", "representation/8"):
        result = find(key).of(known, {"band": "0"})
        (note,) = (note for note in result.notes if "two models" in note)
        assert note.endswith(": same recipe, other seed")
        assert math.isnan(result.frame.set_index("category").loc["reinit", ["error"]].iloc[0].item())


def jackknife(values: dict[tuple[str, str], float]) -> float:
    """Return the jackknife standard error over models; a model that is in every pair is never deleted."""
    models = sorted({name for pair in values for name in pair})
    rest = [[value for pair, value in values.items() if name not in pair] for name in models]
    means = np.array([np.mean(part) for part in rest if part])
    return math.sqrt((len(means) - 1) / len(means) * np.square(means - means.mean()).sum())


@pytest.mark.parametrize("base", [None, BASE])
def test_pairs_of_different_accuracy_are_left_out(base: str | None) -> None:
    known = study(base=base)
    accuracies = {name: 100 * right(name).mean() for name in known.names}
    pairs = [p for p in itertools.combinations(known.names, 2) if base is None or base in p]
    near = [(a, b) for a, b in pairs if abs(accuracies[a] - accuracies[b]) <= (4 if base is None else 2) + 1e-9]
    assert 1 < len(near) < len(pairs)
    result = find("representation/1").of(known)
    assert result.frame["pairs"].sum() == len(near)
    assert f"{len(near)} pairs" in result.notes[0]
    if base is not None:  # two of the other models are equally accurate
        with pytest.raises(InputError, check=fields(argument="band", where="representation/8", hint="{band=0}")):
            find("representation/8").of(known, {"band": "1e-6"})


def test_the_base_is_printed_once_and_names_omit_the_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    known = study(base=BASE)
    wanted = find("representation/2")
    _print(wanted, wanted.of(known), known.data)
    title, _, table = capsys.readouterr().out.partition("second")
    assert title.split()[-1] == BASE.removesuffix(".digits")
    assert all(word in table for word in ("inconsistency", "gain", "ensemble"))  # not split over two lines
    assert ".digits" not in table


def test_gains_against_inconsistency() -> None:
    known = study(names(OBJECTIVES[:6], seeds=2), base=BASE)
    result = find("representation/2").of(known, {"band": "0"})
    rows, y = kept(known), made(BASE, "digits:test").labels[kept(known)]
    for found in result.frame.to_dict("records"):
        together = (probabilities(known, BASE) + probabilities(known, found["second"])).argmax(1) == y
        members = right(BASE)[rows], right(found["second"])[rows]
        apart, both, none = members[0] != members[1], members[0] & members[1], ~members[0] & ~members[1]
        assert found["inconsistency"] == pytest.approx(100 * apart.mean())
        assert found["ensemble_accuracy"] == pytest.approx(100 * together.mean())
        assert found["gain_over_mean"] == pytest.approx(100 * (together.mean() - np.mean(members)))
        assert found["gain_over_best"] == pytest.approx(100 * (together.mean() - max(m.mean() for m in members)))
        assert found["conversion_rate"] == pytest.approx(100 * together[apart].mean())
        assert found["gain_from_conversion"] == pytest.approx(100 * (together[apart].sum() - apart.sum() / 2) / len(y))
        assert found["loss_both_right"] == pytest.approx(100 * (both & ~together).mean())
        assert found["gain_both_wrong"] == pytest.approx(100 * (none & together).mean())
    for measure in ("gain_over_mean", "ensemble_accuracy"):
        r = stats.pearsonr(result.frame["inconsistency"], result.frame[measure]).statistic
        assert any(f"r = {r:.2f} (95% CI" in note for note in result.notes)
    assert any("r = 0.98 over 50 models" in note for note in result.notes)


def test_figures_of_pairs_keep_models_of_an_accuracy_range() -> None:
    known = study()
    accuracies = sorted(100 * right(name).mean() for name in known.names)
    low, high = str(accuracies[2] - 1e-6), str(accuracies[-2] + 1e-6)
    for key in ("representation/1", "representation/8", "representation/2"):
        result = find(key).of(known, {"band": "0", "low": low, "high": high})
        count = len([one for one in accuracies if float(low) <= one <= float(high)])
        assert count < len(accuracies)
        assert f"{count * (count - 1) // 2} pairs of the {count} models" in result.notes[0]
    with pytest.raises(InputError, check=fields(argument="low", where="representation/1")):
        find("representation/1").of(known, {"low": "99.9"})


def test_intervals_of_correlations_resample_recipes_not_pairs() -> None:
    """Pairs share models, so Fisher's interval for independent pairs is too narrow; recipes are resampled instead."""
    assert "95% CI" not in find("representation/2").of(study(), {"band": "0"}).notes[1]  # three recipes are too few
    result = find("representation/2").of(study(names(OBJECTIVES[:5], seeds=2)), {"band": "0"})
    (note,) = (note for note in result.notes if note.startswith("gain over the mean member against"))
    low, high = (float(text) for text in re.search(r"CI (-?[\d.]+) to (-?[\d.]+)", note).groups())
    fisher = stats.pearsonr(result.frame["inconsistency"], result.frame["gain_over_mean"]).confidence_interval()
    assert high - low > 1.2 * (fisher.high - fisher.low)


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


def test_the_band_of_majority_predictions_is_drawn() -> None:
    import diversity

    known = study(names(seeds=1), base=BASE)
    result = find("representation/3").of(known)
    for name in known.names[1:]:
        band = diversity.compare(known.calibrated[BASE], known.calibrated[name]).band
        part = result.frame[result.frame["pair"] == f"{BASE}, {name}"]
        assert (part["lower"].iloc[0], part["upper"].iloc[0]) == (band.lower, band.upper)
    drawn = json.dumps(result.chart.to_dict())
    assert "mean(upper)" in drawn or '"aggregate": "mean", "field": "upper"' in drawn
    assert "confidence of" in drawn


def test_specialization_by_class() -> None:
    known = study(names(seeds=1)[:2], base=BASE)
    frame = find("representation/4").of(known).frame
    rows = kept(known)
    y = made(BASE, "digits:test").labels[rows]
    for found in frame.to_dict("records"):
        assert found["accuracy_first"] == pytest.approx(right(BASE)[rows][y == int(found["class"])].mean())
    grouped = find("representation/4").of(known, {"groups": "low:0-4,high:5-9"})
    accuracies = [right(name)[rows][y < 5].mean() for name in known.names]
    assert any("low" in note and all(f"{value:.1%}" in note for value in accuracies) for note in grouped.notes)
    with pytest.raises(InputError, check=fields(argument="groups", found="low:0-10")):
        find("representation/4").of(known, {"groups": "low:0-10"})


def test_the_chart_by_class_groups_many_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    known = study(names(seeds=1)[:2], base=BASE)

    def columns() -> dict[str, Counter[str]]:
        """Return the number of drawn examples by panel (group) and by class, or by group."""
        spec = find("representation/4").of(known, {"groups": "low:0-4,high:5-8"}).chart.to_dict()
        rows = [row for data in spec["datasets"].values() for row in data]
        counts = {name: Counter[str]() for name in ("class", "group") if name in rows[0]}
        for row in rows:
            for name, count in counts.items():
                count[row[name]] += row["examples"]
        return counts

    rows = kept(known)
    inconsistent = right(known.names[0])[rows] != right(known.names[1])[rows]
    y = made(BASE, "digits:test").labels[rows][inconsistent]
    groups = Counter("low" if label < 5 else "high" if label < 9 else "other" for label in y)
    assert columns() == {"class": Counter(map(str, y)), "group": groups}
    monkeypatch.setattr(behaviour, "MAX_NAMED", 9)
    assert columns() == {"group": groups}


def test_models_compared_with_the_base() -> None:
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
    note = find("representation/table-1").of(known).notes[1]
    apart = {
        (BASE, name): 100 * np.mean(right(BASE)[kept(known)] != right(name)[kept(known)])
        for name in known.names
        if known.objective(name) != "softmax"
    }
    assert f"hparam {np.mean(list(apart.values())):.2f} ± {jackknife(apart):.2f} (6 pairs, 7 models)" in note
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
    with pytest.raises(InputError, check=fields(argument="below", where="representation/5")):
        find("representation/5").of(known, {"below": "1"})


def test_subsets_of_the_embeddings_of_two_models() -> None:
    known = study(names(seeds=1)[:2], base=BASE)
    result = find("representation/6").of(known, {"draws": "2", "multiples": "4"})
    (row,) = result.frame.to_dict("records")
    train, test = known.train, known.runs
    for name, column in ((BASE, "100/0"), (row["with"], "0/100")):
        probe = probes.LinearProbe().fit(train[name].embeddings, train[name].labels)
        assert row[column] == pytest.approx(100 * probe.score(test[name].embeddings, test[name].labels))
    assert row["dimensions"] is None or row["dimensions"] % 4 == 0
    assert row["dimensions, paper"] == 2057  # the objective is a hyper-parameter
    drawn = json.dumps(result.chart.to_dict())
    assert "means by category" in drawn


def test_concatenated_embeddings_of_two_models() -> None:
    known = study(names(seeds=1)[:2])
    result = find("representation/7").of(known)
    frame, trend = result.frame, result.chart.to_dict()["concat"][0]
    assert any(layer["mark"].get("strokeDash") for layer in trend["layer"])  # the least-squares line
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
    means = points.frame.groupby("row")[["top1", "transfer"]].mean()  # seeds are not independent observations
    rho = stats.spearmanr(means["top1"], means["transfer"]).statistic
    assert f"{rho:.2f} (p = {exact_p(means['top1'], means['transfer']):.3f}, 3 rows" in points.notes[0]
    by_task = find("loss/D.1").of(known).frame
    assert by_task["transfer"].tolist() == points.frame["transfer"].tolist()


def test_separation_against_transfer() -> None:
    result = find("loss/5a").of(study(names(seeds=2)))
    wide = result.frame.pivot(index="row", columns="column", values="mean")
    rho = stats.spearmanr(wide["class-separation"], wide["linear-digits-rotated"]).statistic
    assert f"{rho:.2f}" in result.notes[0]
    assert "-0.93" in result.notes[1]


def test_a_correlation_of_nine_points_has_an_exact_p_value_and_a_leave_one_out_range() -> None:
    result = find("loss/5a").of(study(names(OBJECTIVES, seeds=1)))
    table = papers.loss_table("1"), papers.loss_table("3")
    x = np.array([table[1][one]["class-separation"][0] for one in OBJECTIVES])
    y = np.array([np.mean([v[0] for k, v in table[0][one].items() if k.startswith("linear-")]) for one in OBJECTIVES])
    rho = stats.spearmanr(x, y).statistic
    without = [stats.spearmanr(np.delete(x, row), np.delete(y, row)).statistic for row in range(9)]
    assert f"{rho:.2f} (p = 0.001, 9 objectives" in result.notes[1]
    ends = re.findall(r"(-[\d.]+) without (\S+) \[p = ([\d.]+)\]", result.notes[1])
    for (correlation, name, p), expected in zip(ends, (min(without), max(without)), strict=True):
        row = OBJECTIVES.index(name)
        assert (f"{without[row]:.2f}", without[row]) == (correlation, pytest.approx(expected))
        assert float(p) == pytest.approx(exact_p(np.delete(x, row), np.delete(y, row)), abs=0.002)
    assert result.notes[0].count(" without ") == 2
    assert "[p" not in find("loss/table-3").of(study(names(OBJECTIVES, seeds=1))).notes[-1]  # several columns are tested


def test_the_order_of_rows_is_compared_with_the_published_order() -> None:
    result = find("loss/table-3").of(study(names(OBJECTIVES, seeds=1)))
    columns = ["top1", "class-separation"]
    tests = []
    for column in columns:
        cells = result.frame[result.frame["column"] == column]
        tests.append((stats.spearmanr(cells["mean"], cells["paper"]).statistic, exact_p(cells["mean"], cells["paper"])))
    adjusted = stats_holm([p for _, p in tests])
    for column, (rho, _), p in zip(columns, tests, adjusted, strict=True):
        found = re.search(rf"{column} {rho:.2f} \(p = ([\d.]+), {len(OBJECTIVES)} rows", result.notes[-1])
        assert float(found[1]) == pytest.approx(p, abs=0.005)
    assert find("loss/table-3").of(study(names(seeds=1))).notes == ()  # three rows have no order to compare


def exact_p(x: pd.Series, y: pd.Series) -> float:
    """Return the two-sided p-value of a rank correlation, estimated from many random permutations."""
    rng, ranks = np.random.default_rng(0), [stats.rankdata(values) for values in (x, y)]
    centred = [r - r.mean() for r in ranks]
    drawn = np.array([rng.permutation(centred[1]) for _ in range(200_000)]) @ centred[0]
    return float(np.mean(np.abs(drawn) >= abs(centred[0] @ centred[1]) - 1e-9))


def stats_holm(p: list[float]) -> list[float]:
    low, high = sorted(p)
    larger = max(min(1, 2 * low), high)
    return [min(1, 2 * low) if value == low else larger for value in p]


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
    binned = find("loss/table-D.1").of(known, {"bins": "1000"}).frame
    p = 1 / (1 + np.exp(-np.asarray(probe.decision_function(test.embeddings)[:, 1], float)))
    expected = 100 * roc_auc_score(test.targets[:, 1], np.floor(1000 * p))
    assert cell(binned, "softmax", "chexpert-pleural-effusion")["mean"] == pytest.approx(expected, abs=0.02)
    assert (
        cell(binned, "softmax", "chexpert-pleural-effusion")["mean"]
        != cell(frame, "softmax", "chexpert-pleural-effusion")["mean"]
    )


def test_transfer_over_training() -> None:
    epochs = [f"{name}@epoch{epoch}" for name in names(seeds=1)[:2] for epoch in (3, 12)]
    known = study(epochs, outputs=lambda models, data, **o: Runs(_renamed(name, data) for name in models))
    result = find("loss/D.2").of(known)
    frame = result.frame
    assert result.chart.to_dict()["spec"]["encoding"]["color"]["field"] == "objective"
    assert frame["epoch"].tolist() == [3, 12, 3, 12]
    assert set(frame["objective"]) == {"softmax", "sigmoid"}
    train, test = _renamed(epochs[1], "digits-rotated:train"), _renamed(epochs[1], "digits-rotated:test")
    score = float(probes.probe(train, test)["score"].iloc[0])
    assert frame.loc[(frame["model"] == BASE) & (frame["epoch"] == 12), "transfer"].item() == pytest.approx(100 * score)


def _renamed(name: str, data: str) -> Outputs:
    """Return stand-in outputs for a model at an epoch: those of one of its seeds."""
    model, _, epoch = name.partition("@epoch")
    return dataclasses.replace(made(model.replace(".digits", f"-s{epoch}.digits"), data), name=name)


def test_relearning_uses_the_same_held_out_examples() -> None:
    known = study(names(seeds=3))
    result = find("loss/6").of(known, {"test": "0.25"})
    frame, drawn = result.frame, result.chart.to_dict()
    lines, points, text = drawn["layer"]
    assert lines["encoding"]["detail"]["field"] == "row"  # a line connects the two classifiers of an objective
    assert points["encoding"]["color"]["field"] == "classifier"
    labelled = drawn["datasets"][text["data"]["name"]]
    assert sorted(point["row"] for point in labelled) == sorted(known.members)
    expected = probes.relearn(known.runs, test=0.25).set_index("model")
    members = known.members["softmax"]
    for column in ("original", "relearned", "gap"):
        assert cell(frame, "softmax", column)["mean"] == pytest.approx(100 * expected.loc[members, column].mean())
    assert frame.loc[(frame["column"] == "gap") & (frame["best"] == True), "mean"].min() == pytest.approx(  # noqa: E712
        frame.loc[frame["column"] == "gap", "mean"].min()
    )


def test_relearning_trains_on_training_images_and_tests_on_others() -> None:
    known = study(names(seeds=2))
    result = find("demystifying/table-3").of(known, {"examples": "60"})
    cells = result.frame[result.frame["column"] == "in50k"].set_index("row")
    assert cells.loc["softmax", "paper"] == 71.1
    scores = []
    for name in known.members["softmax"]:
        train, test = made(name, "digits:train"), made(name, "digits:test")
        _, sample = hold_out(train.labels, 60 / 200, 0)
        assert len(sample) == 60
        classes = np.array([str(k) for k in range(CLASSES)])
        x, y = np.asarray(train.embeddings[sample]), classes[train.labels[sample]]
        scores.append(100 * probes.LinearProbe().fit(x, y).score(np.asarray(test.embeddings[:]), classes[test.labels]))
    assert cells.loc["softmax", "mean"] == pytest.approx(np.mean(scores))
    with pytest.raises(InputError, check=fields(argument="examples", found=200)):
        find("demystifying/5a").of(known, {"examples": "200"})


def test_class_overlap_is_the_best_mapping() -> None:
    known = study([BASE])
    found = find("loss/table-F.1").of(known).frame.iloc[0]
    train = made(BASE, "digits-rotated:train")
    predicted = train.values.array().argmax(1)
    mapping = {s: np.bincount(train.labels[predicted == s]).argmax() for s in np.unique(predicted)}
    assert found["assignment"] == pytest.approx(
        100 * np.mean([mapping[s] == t for s, t in zip(predicted, train.labels, strict=True)])
    )
    assert found["classes"] == len(TASK)


def test_three_distances() -> None:
    frame = find("loss/table-E.1").of(study()).frame
    x = [made(name, "digits:train") for name in names() if "softmax" in name]
    assert cell(frame, "softmax", "separation-cosine")["mean"] == pytest.approx(
        np.mean([naive_separation(o) for o in x]), rel=1e-5
    )
    assert cell(frame, "softmax", "separation-euclidean")["paper"] == 0.3366


def test_calibration_is_evaluated_on_held_out_rows() -> None:
    known = study()
    result = find("loss/table-C.3").of(known)
    rows = kept(known)
    nll = []
    for name in known.members["squared-error"]:
        y = made(name, "digits:test").labels[rows]
        nll.append(-np.log(probabilities(known, name)[np.arange(len(rows)), y]).mean())
    assert cell(result.frame, "squared-error", "nll-calibrated")["mean"] == pytest.approx(np.mean(nll), rel=1e-5)
    assert all(count in result.notes[0] for count in ("120", "240"))


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


def voted(models: list[str]) -> np.ndarray:
    """Return the majority vote; ties go to the tied class with the highest mean probability."""
    outputs = [made(name, "digits:test") for name in models]
    counts = sum(np.eye(CLASSES)[one.predictions] for one in outputs)
    mean = np.mean([one.probabilities for one in outputs], axis=0)
    return np.where(counts == counts.max(1, keepdims=True), mean, -1).argmax(1)


@pytest.mark.parametrize("seeds", [2, 4])
def test_votes_over_seeds(seeds: int) -> None:
    known = study(names(seeds=seeds))
    y, half = made(BASE, "digits:test").labels, seeds // 2
    members = known.members
    agreement = find("loss/C.6").of(known).frame.set_index("row")
    assert agreement.loc["softmax", "sigmoid"] == pytest.approx(
        100 * np.mean(voted(members["softmax"]) == voted(members["sigmoid"]))
    )
    mixed = find("loss/C.7").of(known).frame.set_index("row")
    a, b = members["softmax"], members["squared-error"]
    accuracies = [np.mean(voted(a[:half] + b[half:]) == y), np.mean(voted(b[:half] + a[half:]) == y)]
    assert mixed.loc["softmax", "squared-error"] == pytest.approx(100 * np.mean(accuracies))


def test_ties_between_votes_are_broken_by_mean_probability_and_counted() -> None:
    """Two models agree on one of four examples; the second model is more confident on two of the others."""
    first = Outputs.from_arrays("a", probabilities=[[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.9, 0.1]])
    second = Outputs.from_arrays("b", probabilities=[[0.8, 0.2], [0.1, 0.9], [0.3, 0.7], [0.4, 0.6]])
    vote, tied = majority_vote([first, second])
    assert vote.tolist() == [0, 1, 1, 0]
    assert tied == 0.75
    classes = [Outputs.from_arrays(n, predictions=p, classes=["x", "y"]) for n, p in (("a", [0, 1]), ("b", [0, 0]))]
    assert majority_vote(classes)[0].tolist() == [0, 0]


def test_the_colour_scale_of_agreement_ignores_the_diagonal() -> None:
    drawn = find("loss/C.5").of(study(names(seeds=1))).chart.to_dict()
    for cells in drawn["datasets"].values():
        assert all((cell["value"] is None) == (cell["first"] == cell["second"]) for cell in cells)


def test_the_pareto_front_of_cost_and_accuracy() -> None:
    known = study(["resnet8-softmax.digits", "resnet20-softmax.digits"])
    frame = find("ensemble/pareto").of(known, {"size": "2"}).frame
    assert frame["cost"].is_monotonic_increasing
    assert frame["selection"].is_monotonic_increasing
    assert frame.iloc[0]["members"] == "resnet8-softmax.digits"


def test_robustness_lists_missing_datasets() -> None:
    known = study(names(seeds=2), outputs=lambda models, data, **options: study().outputs(models, "digits:test"))
    result = find("loss/table-C.2").of(known, {"sets": "digits-holes,in-v2"})
    assert set(result.frame["column"]) == {"digits-holes"}
    accuracies = [100 * right(name).mean() for name in known.members["softmax"]]
    assert cell(result.frame, "softmax", "digits-holes")["mean"] == pytest.approx(np.mean(accuracies))
    assert result.notes[0].startswith("in-v2")
    with pytest.raises(InputError, check=fields(argument="sets", where="loss/table-C.2")):
        find("loss/table-C.2").of(known, {"sets": "in-v2"})


def test_training_images() -> None:
    frame = find("loss/table-C.1").of(study()).frame
    values = [100 * right(name, "digits:train").mean() for name in names() if "sigmoid" in name]
    assert cell(frame, "sigmoid", "train-top1")["mean"] == pytest.approx(np.mean(values))
    assert cell(frame, "sigmoid", "train-top1")["paper"] == 93.22


def test_settings_of_objectives() -> None:
    frame = find("loss/table-A.1").of(study(["resnet50-cosine.in1k", "resnet50-softmax.in1k"])).frame.set_index("row")
    assert frame.loc["cosine", ["settings", "epochs", "epochs, paper"]].tolist() == ["tau = 0.05", 158, 158]
    assert "*0.05*" in frame.loc["cosine", "settings, paper"]
    assert frame.loc["softmax", ["settings", "settings, paper"]].tolist() == ["none", "none"]


# Keys, settings and requirements


@pytest.mark.parametrize(
    ("key", "models", "reason"),
    [
        ("loss/C.7", names(seeds=1), ["two seeds", "softmax"]),
        ("loss/table-3", names(["softmax"]), ["two training objectives"]),
        ("loss/table-4", names(), ["several tau", "0"]),
        ("loss/table-B.1", names(), ["inception_v3", "resnet8-softmax.digits"]),
        ("loss/table-C.5", names(), ["AutoAugment"]),
        ("loss/C.1", names(), ["training logs"]),
        ("loss/D.2", names(), ["NAME@epochN", "--snapshots-every"]),
        ("loss/table-D.1", names(), ["--transfer", "chexpert"]),
        ("representation/2", names(seeds=1)[:2], ["3", "2"]),
    ],
)
def test_an_unavailable_figure_gives_the_reason(key: str, models: list[str], reason: list[str]) -> None:
    with pytest.raises(InputError, check=fields(where=key, problem=reason)):
        find(key).of(study(models))


def test_unknown_keys_and_settings() -> None:
    with pytest.raises(UnknownName, check=fields(kind="figure", hint="loss/5a")):
        find("loss/5")
    with pytest.raises(UnknownName, check=fields(kind="setting", name="stepz", suggestions=("steps",))):
        find("representation/5").of(study(), {"stepz": "1"})
    with pytest.raises(InputError, check=fields(argument="steps", found="many", where="representation/5")):
        find("representation/5").of(study(), {"steps": "many"})


def test_every_table_and_figure_of_both_papers_is_registered() -> None:
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
    earlier = {"5a", "5b", "table-3", "table-4"}
    assert keys == {"representation": first, "loss": second, "demystifying": earlier, "ensemble": {"pareto"}}
    assert all(one.example is not None or one.why_not for one in FIGURES.values())


def test_the_readme_contains_the_printed_list() -> None:
    block = re.search(r"<!-- figures -->\n(.*?)<!-- end of figures -->", README, re.DOTALL)
    assert block is not None
    assert block[1] == in_markdown()


# What the papers state about their ImageNet models, by section or table
PAPER_SETTINGS = {
    "loss/table-4": {"scale_below": "1"},  # footnote 1: the loss is scaled by tau
    "loss/5b": {"scale_below": "1"},
    "demystifying/table-4": {"scale_below": "1"},
    "demystifying/5b": {"scale_below": "1"},
    "loss/table-B.1": {"holdout": "50046"},  # B: the epoch is chosen on a holdout
    "loss/table-C.3": {"holdout": "50046"},  # caption: temperatures are fitted on the holdout
    "loss/C.1": {"holdout": "50046"},  # captions: curves end at the epoch that is best on the holdout
    "loss/C.2": {"holdout": "50046"},
    "loss/C.3": {"holdout": "50046"},
    "loss/E.4": {"holdout": "50046"},
    "loss/table-C.4": {"holdout": "50046"},
    "loss/table-C.5": {"holdout": "50046", "auto_augment": "imagenet"},
    "loss/table-E.3": {"holdout": "50046", "auto_augment": "imagenet"},
    "loss/table-C.6": {"decay": "0.985", "epochs": "308", "auto_augment": "imagenet"},
}


@pytest.mark.parametrize("key", PAPER_SETTINGS)
def test_imagenet_commands_have_the_published_settings(key: str) -> None:
    _, _, before = FIGURES[key].imagenet.partition(" after ")
    first = before.partition("&&")[0]
    assert dict(re.findall(r"--set (\w+)=(\S+)", first)).items() >= PAPER_SETTINGS[key].items()
    assert "--split" not in FIGURES[key].imagenet


def test_imagenet_commands_have_the_other_published_numbers() -> None:
    taus = re.search(r"for tau in ([\d. ]+);", FIGURES["loss/table-4"].imagenet)[1].split()
    quoted = {name.split("-")[1] for name in papers.loss_table("4")["cosine"]}
    assert set(taus) == quoted
    for key in ("loss/2a", "loss/2b", "loss/D.3"):  # 10 passes over the validation set
        assert "-O epochs=10" in FIGURES[key].imagenet
    assert "--snapshots-every 6" in FIGURES["loss/D.2"].imagenet
    assert "--measure-every 8" in FIGURES["loss/E.4"].imagenet
    assert "-O bandwidth=5e-6" in FIGURES["loss/E.1"].imagenet
    assert "-O bins=1000" in FIGURES["loss/table-D.1"].imagenet
    for key in ("demystifying/table-3", "demystifying/5a", "demystifying/table-4", "demystifying/5b"):
        assert "-O examples=50046" in FIGURES[key].imagenet
    for key, count in (("loss/table-C.5", 2), ("loss/table-E.3", 1), ("loss/table-B.1", 1)):
        final = [command for command in FIGURES[key].imagenet.split("&&") if "--set epochs=BEST" in command]
        assert len(final) == count
        assert not any("holdout=5" in command for command in final)  # trained on all images, as stated in A.1
    alphas = re.search(r"for alpha in ([\d. ]+); do (.*?); done", FIGURES["loss/table-C.5"].imagenet)
    assert alphas[1].split() == ["0.1", "0.2", "0.3", "0.4"]  # caption: chosen on the holdout
    assert "--set mixup=$alpha --set holdout=50046" in alphas[2]
    mixed = FIGURES["loss/table-C.6"].imagenet.partition("&&")[2]
    assert "--set mixup=ALPHA --set epochs=348" in mixed
    assert LONG_DECAY == 0.985


def test_recipes_have_the_published_numbers_of_epochs() -> None:
    for objective, numbers in papers.loss_table("C.6").items():
        assert published.LONG_EPOCHS[objective] == numbers.get("long-autoaugment-epochs", (None,))[0]
        if "long-autoaugment-mixup-epochs" in numbers:
            assert published.LONG_MIXUP_EPOCHS[objective] == numbers["long-autoaugment-mixup-epochs"][0]
    assert published.recipe("inception_v3", "softmax", "in1k").holdout == 50_046


VERSIONS = (papers.LOSS, papers.EARLIER)


def test_numbers_of_the_earlier_paper_version_have_standard_errors() -> None:
    relearnt = papers.loss_table("3", paper=papers.EARLIER)
    for objective in OBJECTIVES:
        for model in (f"all-cnn-c-{objective}.cifar10", f"wrn-16-8-{objective}.cifar100"):
            (row,) = (row for row in registry.card(model).reference if row.paper == "Demystifying 2021")
            assert 0.02 <= row.errors["accuracy"] <= 0.06  # the range in Table 1 of that version
        final, earlier = (papers.loss_table("B.1", "inception_v3", version)[objective] for version in VERSIONS)
        for column in ("top1", "top5"):
            assert final[column] == (earlier[column][0], None)
            assert 0.01 <= earlier[column][1] <= 0.11  # the range in Table B.1 of that version
        assert relearnt[objective]["in50k"][0] < papers.loss_table("1")[objective]["top1"][0]
    by_tau = papers.loss_table("4", paper=papers.EARLIER)["cosine"]
    in_order = [by_tau[f"tau-{tau}-in50k"][0] for tau in np.arange(1, 9) / 100]
    assert in_order == sorted(in_order)  # a higher temperature makes the classes easier to relearn


def test_training_commands_are_valid() -> None:
    """Every training command of the list plans a model, with BEST and NAME replaced."""
    for one in FIGURES.values():
        _, _, before = one.imagenet.partition(" after ")
        text = before.replace("BEST", "100").replace("NAME", "my-model").replace("ALPHA", "0.2")
        text = text.replace("$tau", "0.05").replace("$alpha", "0.1")
        for command in re.findall(r"zoo train (resnet50-[a-z+-]+\.in1k.*?)(?=&&|;|\Z)", text):
            name, *options = shlex.split(command)
            changes = {k: number(v) for k, v in re.findall(r"--set (\w+)=(\S+)", command)}
            save_as = options[options.index("--name") + 1] if "--name" in options else None
            assert training.plan(name, save_as=save_as, **changes).name == (save_as or name)


def number(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return float(text) if re.fullmatch(r"[\d.e-]+", text) else text


@pytest.mark.parametrize("key", ["loss/table-3", "loss/1", "loss/C.5", "representation/3"])
def test_charts_fit_a_column(key: str) -> None:
    import vl_convert

    chart = find(key).of(study(names(seeds=1))).chart
    for width, font_size in (("3.3in", 6), ("6.75in", None)):
        fitted = sized(chart, width, font_size).to_dict()
        svg = vl_convert.vegalite_to_svg(fitted)
        assert float(re.search(r'<svg[^>]*? width="([\d.]+)"', svg)[1]) == pytest.approx(96 * float(width[:-2]), rel=0.02)
    sizes = {
        float(size)
        for size in re.findall(r"font-size=\"([\d.]+)px", vl_convert.vegalite_to_svg(sized(chart, None, 6).to_dict()))
    }
    assert sizes == {8.0}


def test_invalid_widths() -> None:
    chart = find("loss/table-3").of(study(names(seeds=1))).chart
    for width in ("0in", "wide", "-2in"):
        with pytest.raises(InputError, check=fields(argument="width", found=width)):
            sized(chart, width)
    with pytest.raises(InputError, check=fields(argument="width", hint="font_size")):
        sized(chart, "20px")
    with pytest.raises(InputError, check=fields(argument="font_size", found=0)):
        sized(chart, None, 0)


def zoo(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_the_list_gives_reasons() -> None:
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
    """Return names of imported outputs, which have labels and no card."""
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
    assert files["md"].read_text().startswith(f"# loss/C.5: {FIGURES['loss/C.5'].title}\n\n| row | other | agreement |")
    assert files["svg"].read_text().startswith("<svg")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert "vega" in files["html"].read_text()
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert json.loads(zoo("figure", "loss/C.5", *imported, "--data", "mine", "--json").stdout)["rows"] == written["rows"]


def test_errors_are_reported_before_any_computation(imported: list[str], tmp_path: Path) -> None:
    for arguments, expected in (
        (["-o", str(tmp_path / "x.txt")], {"argument": "output", "expected": ".csv"}),
        (["-o", str(tmp_path / "none" / "x.csv")], {"argument": "output"}),
        (["-O", "steps"], {"argument": "option", "found": "steps"}),
        (["--base", "four"], {"found": "four"}),
    ):
        error = zoo("figure", "loss/C.5", *imported, "--data", "mine", *arguments).exception
        assert isinstance(error, InputError)
        assert fields(**expected)(error)
    without = zoo("figure", "representation/1", *imported, "--data", "mine")
    assert fields(where="representation/1", problem=["one", "card"])(without.exception)
