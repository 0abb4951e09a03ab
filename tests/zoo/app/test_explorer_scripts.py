"""The explorer's scripts under node, compared with NumPy, SciPy and the package."""

import json
import os
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from report_pages import made_runs

import diversity
import ensembles
import zoo
from diversity import MEASURES
from diversity.specialization import holm
from zoo.app.report import analysis, page_arrays
from zoo.app.report.document import shown
from zoo.app.report.findings import templates
from zoo.app.report.inputs import ReportInputs
from zoo.errors import ZooWarning
from zoo.outputs.outputs import Outputs, Runs

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "zoo" / "app" / "report" / "scripts"


@pytest.fixture
def node():
    found = shutil.which("node")
    if not found:
        pytest.skip("node is not installed")
    return found


ALL_PAIRS = 4  # maximum number of models for which all pairs are compared in this test
# Pairs of the models shown and the base.
SHOWN = (([0, 1, 2, 3, 4, 5], None), ([0, 2, 3, 5], None), ([1, 2, 4, 5], 4), ([0, 1, 3], 4), ([5, 2], None))


def of_shown(runs: Runs, kind: str, monkeypatch) -> list[dict[str, object]]:
    """Return the best model, pair and ensemble of subsets of the models, as computed by the package."""
    halves = ensembles.stratified_split(runs.labels)
    found = []
    for models, base in SHOWN:
        left = Runs(runs[runs.names[i]] for i in models)
        start = runs.names[base] if base in models else None
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", ZooWarning)
            patch.setattr(analysis, "MAX_ALL_PAIRS", ALL_PAIRS)
            known = analysis.Analysis(left, "", ReportInputs(left))
            path = ensembles.greedy(left, base=start, steps=4, split=halves, kind=kind)
            found.append(
                {
                    "shown": models,
                    "base": base,
                    "best": places(runs, [known.best])[0],
                    "pair": places(runs, known.pair),
                    "path": {
                        "members": places(runs, path.members),
                        "size": path.best,
                        "selection": [shown(score, True) for score in path.score],
                        "test": [shown(score, True) for score in path.test_score],
                        "interval": path.interval,
                        "sufficient": path.smallest_sufficient(),
                    },
                    **pairs_of(runs, known.all_pairs),
                }
            )
    return found


def places(runs, names) -> list[int]:
    return [runs.names.index(name) for name in names]


def pairs_of(runs, frame) -> dict[str, object]:
    """Return the measures averaged by category for each pair, and the regression line of the gains."""
    measured = [name for name, measure in MEASURES.items() if measure.by_category and name in frame]
    rows = [
        {side: runs.names.index(row[side]) for side in ("first", "second")} | {name: row[name] for name in measured}
        for row in frame.to_dict(orient="records")
    ]
    if "gain_over_mean" not in frame or len(frame) < 3:
        return {"pairs": rows, "line": None}
    comparable = frame[frame["comparable"]]
    if len(comparable) < 3 or comparable["inconsistency"].round(9).nunique() < 2:
        return {"pairs": rows, "line": None}
    line = diversity.regression(frame, resamples=2)
    return {"pairs": rows, "line": f"{line}, {line.points} pairs"}


def stores(monkeypatch) -> list[dict[str, object]]:
    """Return the same outputs in each encoding that a page may use, with ensembles of them."""
    runs = zoo.calibrate(made_runs(6, 300, 7), 0.5, 0)
    bare = Runs(
        Outputs.from_arrays(n, predictions=np.where(np.arange(len(o)) % 17 == i, -1, o.predictions), labels=o.labels)
        for i, (n, o) in enumerate(runs.items())
    )
    searches = {
        "probabilities": of_shown(runs, "probabilities", monkeypatch),
        "predictions": of_shown(bare, "predictions", monkeypatch),
    }
    rng = np.random.default_rng(0)
    chosen_members = [sorted(rng.choice(6, rng.integers(1, 7), replace=False).tolist()) for _ in range(8)]
    found = []
    for kind, planes, top in (("all", 3, 7), ("all", 2, 7), ("top", 2, 6), ("top", 2, 4), ("top", 2, 2), ("votes", 0, 0)):
        ways = [
            one
            for one in page_arrays._encoders(7)
            if (one[0]["kind"], one[0]["planes"], one[0]["top"]) == (kind, planes, top)
        ]
        monkeypatch.setattr(page_arrays, "_encoders", lambda _, ways=ways: iter(ways))
        used = bare if kind == "votes" else runs
        kept, blocks = page_arrays.prediction_arrays(used, kind != "votes")
        monkeypatch.undo()
        combined = []
        for members in chosen_members:
            chosen = Runs(used[used.names[m]] for m in members)
            if kind == "votes":
                combined.append({"members": members, "predicted": ensembles.vote(chosen).tolist(), "nll": None})
                continue
            mean = ensembles.average(chosen)
            nll = zoo.calibration.negative_log_likelihood(mean, runs.labels)
            combined.append({"members": members, "predicted": mean.argmax(1).tolist(), "nll": nll})
        found.append(
            {
                "kept": kept,
                "blocks": blocks,
                "labels": runs.labels.tolist(),
                "classes": 7,
                "models": 6,
                "ensembles": combined,
                "searches": searches["predictions" if kind == "votes" else "probabilities"],
            }
        )
    return found


def resampled(counts: list[int]) -> dict[str, object]:
    """Return the cumulative distribution of each cell count of a bootstrap resample at five quantiles."""
    cells = [scipy.stats.binom(sum(counts), count / sum(counts)) for count in counts]
    quantiles = [[int(cell.ppf(q)) for q in (0.025, 0.2, 0.5, 0.8, 0.975)] for cell in cells]
    return {
        "counts": counts,
        "quantiles": quantiles,
        "fractions": [cell.cdf(at).tolist() for cell, at in zip(cells, quantiles, strict=True)],
        "covariance": np.asarray(scipy.stats.multinomial(sum(counts), np.array(counts) / sum(counts)).cov()).tolist(),
    }


def expected_results(monkeypatch) -> dict[str, object]:
    values = np.random.default_rng(0).normal(size=101)
    p = np.array([0.01, 0.04, 0.03, 0.9, 0.2])
    kept = stores(monkeypatch)
    selection, test = ensembles.stratified_split(np.array(kept[0]["labels"]))
    numbers = [0.125, 0.1225, 0.0005, 1 / 3, 0.99999, 1e-7, 0.00012345, 1.005, 12.345, 0.0, -0.06125, 1.0, 0.9995, 123.45]
    return {
        "seed": {"seed": 0, "draws": 200},
        "resamples": [resampled(counts) for counts in ([3, 1, 3], [250, 80, 0, 69, 1], [0, 30_000, 5, 19_995], [7, 0])],
        "mcnemar": [
            {"first": a, "second": b, "p": scipy.stats.binomtest(a, a + b).pvalue}
            for a, b in ((0, 6), (3, 3), (10, 2), (120, 80), (1200, 1300), (1, 0))
        ],
        "wilson": [
            {"share": k / n, "count": n, "ends": list(scipy.stats.binomtest(k, n).proportion_ci(method="wilson"))}
            for k, n in ((0, 5), (5, 5), (1, 3), (812, 1000))
        ],
        "holm": {"p": p.tolist(), "adjusted": holm(p).tolist()},
        "percentiles": {"values": values.tolist(), "ends": np.quantile(values, [0.025, 0.975]).tolist()},
        "format": [
            {"value": x, "percent": shown(x, True), "digits": shown(x), "two": f"{x:.2f}", "points": shown(x, points=True),
             "general": f"{abs(x):.2g}"} for x in numbers
        ],
        "stores": kept,
        "setup": {
            "selection": selection.tolist(), "test": test.tolist(), "byName": list(range(6)),
            "allPairs": ALL_PAIRS, "band": analysis.ACCURACY_BAND, "sentences": templates(),
        },
        "ranks": {"x": [3, 1, 2, 5], "y": [1, 1, 2, 4], "rho": scipy.stats.spearmanr([3, 1, 2, 5], [1, 1, 2, 4]).statistic},
    }  # fmt: skip


def test_scripts_under_node(node, tmp_path, monkeypatch):
    place = tmp_path / "truth.json"
    place.write_text(json.dumps(expected_results(monkeypatch)))
    done = subprocess.run(
        [node, "--test", *map(str, sorted((ROOT / "tests" / "zoo" / "app" / "scripts").glob("*.test.js")))],
        env=os.environ | {"TRUTH": str(place), "SCRIPTS": str(SCRIPTS)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_pages_beyond_the_budget_keep_top_classes(monkeypatch):
    runs = zoo.calibrate(made_runs(3, 200, 30), 0.5, 0)
    assert page_arrays.prediction_arrays(runs, True)[0] == {"kind": "all", "planes": 3, "top": 30}
    sizes = []
    for budget in (30_000, 5_000, 1_000):
        monkeypatch.setattr(page_arrays, "MAX_CHARACTERS", budget)
        kept, blocks = page_arrays.prediction_arrays(runs, True)
        sizes.append(sum(map(len, blocks.values())))
        assert kept["kind"] == ("all" if budget == 30_000 else "top")
    assert sizes == sorted(sizes, reverse=True)
