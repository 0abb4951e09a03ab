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
from zoo.app.report.analysis import ACCURACY_BAND, MAX_ALL_PAIRS, Analysis
from zoo.app.report.assets import asset
from zoo.app.report.document import Finding
from zoo.core.units import compared, count, interval, percent

MAX_NAMED = 4  # members that a sentence names; tables name all


@cache
def templates() -> dict[str, str]:
    """Return the templates by name, with `{field}` for each value."""
    found: dict[str, str] = json.loads(asset("sentences.json"))
    return found


def sentence(template: str, **values: object) -> str:
    return templates()[template].format_map(values)


def best_model(analysis: Analysis) -> Finding:
    """Return the headline on the best single model."""
    best = analysis.test[analysis.best]
    text = sentence(
        "best_model", model=analysis.short(best.name), models=len(analysis.runs), accuracy=percent(best.accuracy),
        examples=f"{len(best):,}", interval=interval(wilson(best.accuracy, len(best)), None),
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
    accuracy = percent(comparison.ensemble_accuracy)
    text = sentence(
        "best_pair", first=first, second=second, accuracy=accuracy, examples=examples,
        gain=compared(float(comparison.gain_over_best)), interval=interval(comparison.interval("gain_over_best"), None),
    )  # fmt: skip
    return Finding("Best pair", accuracy, text, headline=True)


def smallest_sufficient(analysis: Analysis) -> Finding:
    """Return the headline on the smallest ensemble that is not significantly less accurate than the best one."""
    path, title = analysis.path, "Smallest sufficient ensemble"
    start = " + ".join(analysis.short(str(name)) for name in path.members[: path.start])
    if path.best == path.start:
        text = sentence("no_gain", start=start, selection=f"{len(analysis.splits[0]):,}")
        return Finding(title, count(path.start, "model"), text, warning=True, headline=True)
    assert path.test_score is not None
    size = path.smallest_sufficient() or path.best
    text = sentence(
        "sufficient" if size < path.best else "all_needed",
        size=size,
        best_size=path.best,
        best_accuracy=percent(path.test_score[path.best - 1]),
        examples=f"{len(analysis.splits[1]):,}",
        members=named([analysis.short(str(name)) for name in path.members[:size]]),
        accuracy=percent(path.test_score[size - 1]),
        p=f"{_p_value(path, size):.2g}",
        start=start,
        gain=compared(path.gain or 0.0),
        interval=interval(path.interval, None),
    )
    if path.within_noise:
        text += " " + sentence("within_noise")
    return Finding(title, count(size, "model"), text, path.within_noise, headline=True)


def diversity_of_errors(analysis: Analysis, over_mean: Line, over_best: Line) -> Finding:
    """Return the finding on error inconsistency and the ensemble's gain, among models of comparable accuracy."""
    base = f" with {analysis.short(analysis.best)}" if len(analysis.runs) > MAX_ALL_PAIRS else ""
    values = {
        "band": f"{ACCURACY_BAND:g}",
        "pairs": over_best.points,
        "base": base,
        "examples": f"{len(analysis.runs.labels):,}",
    }
    title = "Different errors and gain"
    if math.isnan(over_best.correlation) or math.isnan(over_mean.correlation):
        return Finding(title, "undefined", sentence("no_diversity", **values))
    text = sentence("diversity", **values, over_best=_correlation(over_best), over_mean=_correlation(over_mean))
    return Finding(title, str(over_best), text)


def named(names: list[str]) -> str:
    """Return the members of an ensemble as a phrase.

    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e", "f"])
    ('a + b', 'a + b + c + d + 2 more')
    """
    more = [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    return " + ".join(names[:MAX_NAMED] + more)


def _p_value(path: ensembles.Path, size: int) -> float:
    """Return McNemar's p-value that the first `size` members are as accurate as the best ensemble."""
    assert path.test_correct is not None
    first, best = path.test_correct[[size - 1, path.best - 1]].astype(np.int64)
    return diversity.mcnemar(first, best, np.ones_like(first))


def _correlation(line: Line) -> str:
    low, high = line.interval
    return str(line) if math.isnan(low) else f"{line} (95% CI {low:.2f} to {high:.2f})"
