"""`zoo trust`: how far the predictions of models can be trusted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from zoo.app.example_groups import Groups, read_groups
from zoo.app.options import (
    CHARTS,
    NUMBERS,
    TABLE,
    TRUST,
    Calibration,
    Ensemble,
    Inputs,
    OptionalModels,
    Results,
    Seed,
    command,
    population,
)
from zoo.app.terminal import note, print_table
from zoo.core.units import estimate, interval, percent
from zoo.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    import diversity
    from zoo.calibration.conformal import SetReport
    from zoo.calibration.selective import RiskCoverage, Threshold
    from zoo.core.arrays import Array
    from zoo.core.prediction_sets import Method
    from zoo.outputs.outputs import Runs

Certainty = Literal["confidence", "margin", "entropy", "disagreement"]
Conditioning = Literal["marginal", "class", "cluster"]

ENSEMBLE = "(ensemble)"  # its name in the tables
METHODS: "tuple[Method, ...]" = ("lac", "aps", "raps")
RESAMPLES = 200


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("trust", rich_help_panel=TRUST)(command(trust))


def trust(
    *,
    models: OptionalModels = None,
    score: Annotated[
        Certainty,
        typer.Option(
            help="Certainty: largest probability, its lead over the second, minus the entropy, or for --ensemble minus the "
            "disagreement of its members."
        ),
    ] = "confidence",
    coverage: Annotated[float, typer.Option(help="Report the accuracy on this fraction of the examples.")] = 0.8,
    min_accuracy: Annotated[float, typer.Option(help="Report the largest fraction of examples with this accuracy.")] = 0.95,
    alpha: Annotated[float, typer.Option(help="Accepted probability that a set misses the true class.")] = 0.1,
    conditioning: Annotated[
        Conditioning,
        typer.Option(
            "--set-threshold",
            help="Threshold of sets: one for all classes, per class, or per cluster of classes.",
        ),
    ] = "marginal",
    groups: Groups = None,
    ensemble: Ensemble = False,
    seed: Seed = 0,
    inputs: Inputs,
    calibration: Calibration,
    results: Results,
) -> None:
    """Measure how far to trust predictions: calibration, when to abstain, and sets that hold the true class.

    A model that abstains accepts its most certain examples first; risk is the error rate among the accepted ones. AURC is
    the mean risk over all coverages, excess AURC what a perfect order would save, AUGRC the same area with errors counted
    among all examples. Thresholds and conformal sets (LAC, APS, RAPS) are fitted on half of the reported examples, and
    judged on the other half.

    [dim]zoo trust resnet7-softmax.cifar10 r7x2.cifar10 --ensemble[/dim]

    [dim]zoo trust 'resnet8-*' --data digits:test --coverage 0.9 -o trust.csv -o risk.svg[/dim]

    [dim]zoo trust r7x2.cifar10 --groups class --set-threshold class[/dim]

    [dim]zoo trust 'resnet8-*' --data digits:test --groups photos.csv:camera[/dim]
    """
    from zoo.calibration.calibrated_runs import refit_for_selection
    from zoo.core.pages import kept_pages
    from zoo.core.splits import stratified_split

    results.check(TABLE, NUMBERS, *CHARTS)
    if score == "disagreement" and not ensemble:
        raise InputError("disagreement is that of an ensemble's members", argument="score", hint="Add --ensemble")
    _check_fractions(coverage, min_accuracy, alpha)
    read = None if groups is None else read_groups(groups)
    calibrated = calibration.apply(inputs.runs(models))
    runs = calibrated.aligned()
    check_ensemble(runs, ensemble)
    first = next(iter(runs.values()))
    if len(first) < 2:
        raise InputError("thresholds and sets need at least two examples", where=first.dataset)
    fitted = stratified_split(runs.labels, 0.5, seed, first.ids)
    runs = refit_for_selection(runs, fitted, seed)  # no label that judges a threshold fits a temperature
    with kept_pages():  # the arrays of one model after another have the same size
        found = [
            _judge(
                name, probabilities, members, runs.labels, fitted, score, coverage, min_accuracy, alpha, conditioning, seed
            )
            for name, probabilities, members in named_probabilities(runs, ensemble)
        ]

    grouped = set_coverage = None
    if read is not None:
        import diversity

        group_of = read(runs)
        grouped = diversity.groups(runs, group_of, seed=seed)
        single = [one for one in found if one.model != ENSEMBLE]
        set_coverage = _coverage_by_group(single, [group_of[row_id] for row_id in first.ids[~fitted]], seed)

    def show() -> None:
        _print(found, coverage, min_accuracy, alpha)
        note(f"thresholds and sets: fitted on {fitted.sum():,} examples, judged on {(~fitted).sum():,} others")
        if score == "disagreement":
            note(f"{ENSEMBLE} abstains where its members disagree, a single model where its confidence is low")
        if grouped is not None and set_coverage is not None:
            _print_groups(grouped)
            _print_set_coverage(set_coverage)

    settings = {
        "score": score, "coverage": coverage, "min_accuracy": min_accuracy, "alpha": alpha, "conditioning": conditioning,
        "seed": seed,
    }  # fmt: skip
    value = {
        "models": [one.to_dict() for one in found],
        "groups": grouped
        and {"groups": grouped.frame, "models": grouped.models, "worst": grouped.worst, "set_coverage": set_coverage},
        "settings": settings,
        "population": population(calibrated),
    }
    results.deliver(value, show, table=_long_table(found), chart=lambda: _risk_chart(found))


def _check_fractions(coverage: float, min_accuracy: float, alpha: float) -> None:
    """Raise an error, before any work begins, for numbers that are no such fractions: 95 in place of 0.95."""
    if not 0 < coverage <= 1:
        raise InputError(argument="coverage", expected="above 0 and at most 1", found=coverage)
    if not 0 <= min_accuracy <= 1:
        raise InputError(argument="min_accuracy", expected="between 0 and 1", found=min_accuracy)
    if not 0 < alpha < 1:
        raise InputError(argument="alpha", expected="between 0 and 1", found=alpha)


def check_ensemble(runs: "Runs", ensemble: bool) -> None:
    """Raise an error if an ensemble is asked for and there is only one model."""
    if ensemble and len(runs) < 2:
        raise InputError("needs at least two models", argument="ensemble", found=len(runs))


def named_probabilities(runs: "Runs", ensemble: bool) -> "Iterator[tuple[str, Array, Iterable[Array]]]":
    """Yield name, probabilities [N, K] and those of the members: of each model, and of the ensemble with equal weights."""
    for name, outputs in runs.items():
        yield name, outputs.probabilities, ()
    if ensemble:
        from ensembles import average

        yield ENSEMBLE, average(runs), (outputs.probabilities for outputs in runs.values())


@dataclass(frozen=True)
class _Trust:
    """The measures of one model. Each interval is a 95% confidence interval."""

    model: str
    examples: int
    accuracy: float
    accuracy_interval: tuple[float, float]
    confidence: float  # mean
    calibration_error: float  # smooth
    calibration_interval: tuple[float, float] | None
    curve: "RiskCoverage"
    at_coverage: "Threshold"
    at_accuracy: "Threshold"
    sets: "dict[Method, SetReport]"
    conditioning: Conditioning

    def measures(self) -> dict[str, tuple[float, tuple[float, float] | None]]:
        """Return every number with its confidence interval, if it has one."""
        curve = self.curve
        numbers: dict[str, tuple[float, tuple[float, float] | None]] = {
            "accuracy": (self.accuracy, self.accuracy_interval),
            "confidence": (self.confidence, None),
            "smooth_calibration_error": (self.calibration_error, self.calibration_interval),
            **{name: (getattr(curve, name), ends) for name, ends in curve.intervals.items()},
        }
        for place, threshold in (("at_coverage", self.at_coverage), ("at_accuracy", self.at_accuracy)):
            numbers |= {
                f"{place}.threshold": (threshold.value, None),
                f"{place}.coverage": (threshold.coverage, None),
                f"{place}.accuracy": (threshold.accuracy, threshold.accuracy_interval),
            }
        for method, report in self.sets.items():
            numbers[f"{method}.coverage"] = (report.coverage, _coverage_interval(report))
            numbers[f"{method}.mean_size"] = (report.mean_size, report.mean_size_interval)
            numbers[f"{method}.worst_size_coverage"] = (report.size_stratified_coverage, None)
            numbers[f"{method}.empty"] = (report.empty, None)
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, and the expected coverage of valid sets, in plain types."""
        values = {
            name: {"value": value, "interval": ends} if ends else value for name, (value, ends) in self.measures().items()
        }
        expected = {
            f"{method}.expected_coverage": report.expected if self.conditioning == "marginal" else None
            for method, report in self.sets.items()
        }
        return {"model": self.model, "examples": self.examples, **values, **expected}


def _judge(
    name: str,
    probabilities: "Array",
    members: "Iterable[Array]",
    labels: "np.ndarray",
    fitted: "np.ndarray",
    score: Certainty,
    coverage: float,
    min_accuracy: float,
    alpha: float,
    conditioning: Conditioning,
    seed: int,
) -> _Trust:
    """Return the measures of one model.

    Args:
        name: of the model.
        probabilities: [N, K].
        members: [N, K] probabilities of each member of an ensemble; none of a single model.
        labels: [N].
        fitted: [N] mask of the examples that thresholds and sets are fitted on.
        score: how certainty is measured; `disagreement` is confidence for a single model.
        coverage: at which the accuracy is reported.
        min_accuracy: at which the coverage is reported.
        alpha: of the conformal sets.
        conditioning: which classes share a threshold of the sets.
        seed: of resamples and randomised sets.
    """
    import numpy as np

    from zoo.calibration.conformal import fit_and_evaluate
    from zoo.calibration.selective import binomial_interval, certainty, choose_threshold, judge_threshold, risk_coverage
    from zoo.calibration.smooth import smooth_calibration_error
    from zoo.core.prediction_sets import parts

    correct = np.concatenate([p.argmax(1) for _, p in parts(probabilities)]) == labels
    alone = score == "disagreement" and name != ENSEMBLE
    scores = certainty(probabilities, "confidence" if alone else score, members)
    confidence = certainty(probabilities).clip(0, 1)
    curve = risk_coverage(scores, correct, RESAMPLES, seed)
    error, error_interval = smooth_calibration_error(confidence, correct, RESAMPLES, seed)

    def judged(**aim: float) -> "Threshold":
        return judge_threshold(choose_threshold(scores[fitted], correct[fitted], **aim), scores[~fitted], correct[~fitted])

    return _Trust(
        model=name,
        examples=len(labels),
        accuracy=curve.accuracy,
        accuracy_interval=binomial_interval(int(correct.sum()), len(labels)),
        confidence=float(confidence.mean()),
        calibration_error=error,
        calibration_interval=error_interval,
        curve=curve,
        at_coverage=judged(coverage=coverage),
        at_accuracy=judged(accuracy=min_accuracy),
        sets=fit_and_evaluate(probabilities, labels, fitted, alpha, seed, conditioning),
        conditioning=conditioning,
    )


def _coverage_interval(report: "SetReport") -> tuple[float, float]:
    from zoo.calibration.selective import binomial_interval

    return binomial_interval(round(report.coverage * report.examples), report.examples)


def _print(found: list[_Trust], coverage: float, min_accuracy: float, alpha: float) -> None:
    # The same for all models and methods. With a threshold per class or cluster, coverage varies less.
    expected = found[0].sets["lac"].expected if found[0].conditioning == "marginal" else None
    valid = f"; 95% of valid sets: {interval(expected, None)}" if expected else ""
    tables: dict[str, list[dict[str, str]]] = {
        "Calibration: does confidence equal accuracy? (95% CI)": [
            {
                "model": one.model,
                "accuracy": estimate(one.accuracy, one.accuracy_interval),
                "confidence": percent(one.confidence),
                "smooth calibration error": estimate(one.calibration_error, one.calibration_interval),
            }
            for one in found
        ],
        "Abstention: area under the risk-coverage curve in percent, smaller is better (95% CI)": [
            {"model": one.model}
            | {
                title: estimate(getattr(one.curve, name), one.curve.intervals[name], digits=2).replace("%", "")
                for name, title in (("aurc", "AURC"), ("excess_aurc", "excess AURC"), ("augrc", "AUGRC"))
            }
            for one in found
        ],
        "Thresholds: accuracy on the accepted examples (95% CI)": [
            {
                "model": one.model,
                f"at {100 * coverage:g}% coverage": estimate(one.at_coverage.accuracy, one.at_coverage.accuracy_interval),
                f"coverage for {100 * min_accuracy:g}%": percent(one.at_accuracy.coverage),
                "accuracy there": estimate(one.at_accuracy.accuracy, one.at_accuracy.accuracy_interval),
            }
            for one in found
        ],
        f"Conformal sets for {100 * (1 - alpha):g}% coverage (95% CI{valid}; worst size: lowest coverage of any set size)": [
            {
                "model": one.model,
                "sets": method.upper(),
                "coverage": estimate(report.coverage, _coverage_interval(report)),
                "mean size": _size(report),
                "worst size": percent(report.size_stratified_coverage),
            }
            for one in found
            for method, report in one.sets.items()
        ],
    }
    for number, (title, rows) in enumerate(tables.items()):
        if number:
            print()
        print_table(rows, title=title, formats={key: str for key in rows[0] if key not in ("model", "sets")})


def _size(report: "SetReport") -> str:
    low, high = report.mean_size_interval
    return f"{report.mean_size:.2f}" + (f" ({low:.2f} to {high:.2f})" if low == low else "")


def _print_groups(grouped: "diversity.Groups") -> None:
    from diversity.groups import measure_text

    tables = [
        {"accuracy": "accuracy", "overconfidence": "overconfidence"},
        {"inconsistency": "inconsistency", "ensemble_accuracy": "ensemble accuracy", "gain_over_mean": "ensemble gain"},
    ]
    alone = len(grouped.models["model"].unique()) == 1  # the ensemble is the model
    for titles, what in zip(tables[: 1 if alone else 2], ("mean over the models", "the models together"), strict=False):
        shown = {name: title for name, title in titles.items() if grouped.frame[name].notna().any()}
        rows = [
            {"group": row["group"]}
            | ({"examples": row["examples"]} if titles is tables[0] else {})
            | {title: measure_text(row, name) for name, title in shown.items()}
            for row in grouped.frame.to_dict("records")
        ]
        print()
        print_table(rows, title=f"Groups of examples: {what} (95% CI)", formats=dict.fromkeys(shown.values(), str))
    note(f"lowest accuracy: {grouped.worst}")


def _coverage_by_group(found: list[_Trust], group_of: list[str], seed: int) -> "pd.DataFrame":
    """Return one row per group and method: the coverage of the sets, mean over the models, with its confidence interval.

    The interval is a bootstrap, and missing for fewer than `MIN_EXAMPLES` examples. If the sets of equally many models cover
    each example, it is that of a binomial proportion, as in `diversity.groups`.
    """
    import numpy as np
    import pandas as pd

    from diversity.bootstrap import percentile_interval, resampled_means
    from diversity.groups import MIN_EXAMPLES
    from diversity.intervals import wilson

    rows, groups = [], np.array(group_of)
    for group in sorted(set(group_of)):
        inside = groups == group
        columns = np.stack(
            [np.mean([one.sets[method].covered[inside] for one in found], axis=0) for method in METHODS], axis=1
        )
        examples, coverage = len(columns), columns.mean(0)
        low, high = np.stack(percentile_interval(resampled_means(columns, seed=seed)))
        if examples < MIN_EXAMPLES:
            low[:] = high[:] = np.nan
        constant = np.ptp(columns, 0) == 0
        low[constant], high[constant] = wilson(coverage[constant], examples)
        rows += [[group, examples, *row] for row in zip(METHODS, coverage, low, high, strict=True)]
    return pd.DataFrame(rows, columns=["group", "examples", "method", "coverage", "coverage_low", "coverage_high"])


def _print_set_coverage(table: "pd.DataFrame") -> None:
    rows: dict[str, dict[str, Any]] = {}
    for row in table.to_dict("records"):
        shown = estimate(row["coverage"], (row["coverage_low"], row["coverage_high"]))
        rows.setdefault(row["group"], {"group": row["group"]})[row["method"].upper()] = shown
    titles = {method.upper(): str for method in METHODS}
    print()
    print_table(list(rows.values()), title="Coverage of the sets by group: mean over the models (95% CI)", formats=titles)


def _long_table(found: list[_Trust]) -> "pd.DataFrame":
    """Return one row per model and measure: value, low, high."""
    import pandas as pd

    return pd.DataFrame(
        [
            {"model": one.model, "measure": measure, "value": value, "low": low, "high": high}
            for one in found
            for measure, (value, ends) in one.measures().items()
            for low, high in [ends or (None, None)]
        ]
    )


def _risk_chart(found: list[_Trust]) -> Any:
    import altair as alt
    import pandas as pd

    frame = pd.concat([one.curve.to_frame().assign(model=one.model) for one in found], ignore_index=True)
    return (
        alt.Chart(frame)
        .mark_line()
        .encode(
            x=alt.X("coverage:Q", title="coverage", axis=alt.Axis(format="%")),
            y=alt.Y("risk:Q", title="error rate among the accepted", axis=alt.Axis(format=".1%")),
            color=alt.Color("model:N", sort=None, legend=alt.Legend(symbolLimit=10)),
            tooltip=["model", alt.Tooltip("coverage:Q", format=".1%"), alt.Tooltip("risk:Q", format=".2%")],
        )
        .properties(width=420, height=280)
    )
