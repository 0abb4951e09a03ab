"""The sentences of the findings that the page states again when models are hidden.

Their templates are in `sentences.json`, which the page's script `findings.js` fills in too.
"""

import json
import math
from functools import cache

import numpy as np

import diversity
import ensembles
from diversity.intervals import wilson
from diversity.summary import Line
from zoo.app.report.analysis import ACCURACY_BAND, Analysis
from zoo.app.report.assets import asset
from zoo.app.report.document import Finding, shown

MAX_NAMED = 4  # members that a sentence names; tables name all


@cache
def templates() -> dict[str, str]:
    """Return the templates by name, with `{field}` for each value."""
    found: dict[str, str] = json.loads(asset("sentences.json"))
    return found


def sentence(template: str, **values: object) -> str:
    return templates()[template].format_map(values)


def percent(fraction: float) -> str:
    return shown(float(fraction), percent=True)


def ends(interval: tuple[float, float], signed: bool = True) -> dict[str, str]:
    """Return the ends of an interval as the fields `low` and `high`: of differences in points, else in percent."""
    low, high = (f"{100 * end:z.1f}" if signed else percent(end) for end in interval)
    return {"low": low, "high": high}


def best_model(analysis: Analysis) -> Finding:
    """Return the headline on the best single model."""
    best = analysis.test[analysis.best]
    low, high = wilson(best.accuracy, len(best))
    text = sentence(
        "best_model", model=analysis.short(best.name), models=len(analysis.runs), accuracy=percent(best.accuracy),
        examples=f"{len(best):,}", **ends((float(low), float(high)), signed=False),
    )  # fmt: skip
    return Finding("Best single model", percent(best.accuracy), text, headline=True)


def best_pair(analysis: Analysis, comparison: diversity.Comparison) -> Finding:
    """Return the headline on the best pair; of predictions alone, on the pair that differs most."""
    first, second = (analysis.short(name) for name in analysis.pair)
    examples = f"{len(analysis.test.labels):,}"
    if comparison.ensemble_accuracy is None:
        inconsistency = percent(comparison.inconsistency)
        text = sentence("most_different_pair", first=first, second=second, inconsistency=inconsistency, examples=examples)
        return Finding("Most different pair", inconsistency, text, headline=True)
    accuracy, gain = percent(comparison.ensemble_accuracy), float(comparison.gain_over_best)
    text = sentence(
        "best_pair", first=first, second=second, accuracy=accuracy, examples=examples, gain=f"{abs(100 * gain):.1f}",
        side="below" if gain < 0 else "above", **ends(comparison.interval("gain_over_best")),
    )  # fmt: skip
    return Finding("Best pair", accuracy, text, headline=True)


def smallest_sufficient(analysis: Analysis) -> Finding:
    """Return the headline on the smallest ensemble that is not significantly less accurate than the best one."""
    path, title = analysis.path, "Smallest sufficient ensemble"
    start = " + ".join(analysis.short(str(name)) for name in path.members[: path.start])
    if path.best == path.start:
        text = sentence("no_gain", start=start, selection=f"{len(analysis.splits[0]):,}")
        return Finding(title, _models(path.start), text, warning=True, headline=True)
    assert path.test_score is not None
    size = path.smallest_sufficient() or path.best
    values = {
        "best_size": path.best,
        "best_accuracy": percent(path.test_score[path.best - 1]),
        "examples": f"{len(analysis.splits[1]):,}",
        "members": named([analysis.short(str(name)) for name in path.members[:size]]),
        "accuracy": percent(path.test_score[size - 1]),
        "p": f"{_p_value(path, size):.2g}",
        "start": start,
        "gain": f"{100 * (path.gain or 0.0):+z.1f}",
    }
    text = sentence("sufficient" if size < path.best else "all_needed", **values)
    text += " " + sentence("gain_over_start", **values, **ends(path.interval or (math.nan, math.nan)))
    if path.within_noise:
        text += " " + sentence("within_noise")
    return Finding(title, _models(size), text, path.within_noise, headline=True)


def diversity_of_errors(analysis: Analysis, over_mean: Line, over_best: Line) -> Finding:
    """Return the finding on error inconsistency and the ensemble's gain, among models of comparable accuracy."""
    values = {
        "band": f"{ACCURACY_BAND:g}",
        "pairs": over_mean.points,
        "examples": f"{len(analysis.runs.labels):,}",
    }
    title = "Different errors and gain"
    if math.isnan(over_mean.correlation):
        return Finding(title, "undefined", sentence("no_diversity", **values))
    text = sentence("diversity", **values, correlation=_correlation(over_mean), correlation_best=_correlation(over_best))
    return Finding(title, str(over_mean), text)


def named(names: list[str]) -> str:
    """Return the members of an ensemble as a phrase.

    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e", "f"])
    ('a + b', 'a + b + c + d + 2 more')
    """
    more = [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    return " + ".join(names[:MAX_NAMED] + more)


def _models(count: int) -> str:
    return f"{count} model{'s' * (count != 1)}"


def _p_value(path: ensembles.Path, size: int) -> float:
    """Return McNemar's p-value that the first `size` members are as accurate as the best ensemble."""
    assert path.test_correct is not None
    first, best = path.test_correct[[size - 1, path.best - 1]].astype(np.int64)
    return diversity.mcnemar(first, best, np.ones_like(first))


def _correlation(line: Line) -> str:
    low, high = line.interval
    return str(line) if math.isnan(low) else f"{line}, 95% CI {low:.2f} to {high:.2f}"
