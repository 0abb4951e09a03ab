"""`zoo shift` and `zoo accuracy`: models on data unlike their training data."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.ood import check_apart, run_on
from zoo.app.options import NUMBERS, TABLE, TRUST, Fresh, Level, ModelFiles, Models, Results, command, spec_option
from zoo.app.terminal import note, print_table
from zoo.core.units import interval, percent, points
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.outputs.outputs import Runs


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("shift", rich_help_panel=TRUST)(command(shift))
    app.command("accuracy", rich_help_panel=TRUST)(command(accuracy))


def shift(
    *,
    models: Models,
    inside: Annotated[str, spec_option("--in", "Labelled dataset like the models' training data.")],
    outside: Annotated[str, spec_option("--out", "Labelled shifted dataset.")],
    fresh: Fresh = False,
    model_files: ModelFiles,
    results: Results,
) -> None:
    """Compare accuracy on two datasets: the drop, the line that models lie on, and the models that lie off it.

    [dim]zoo shift 'resnet8-*' --in digits:test --out digits-holes:test[/dim]
    """
    from probes.accuracy_line import LEVEL, accuracy_line

    results.check(TABLE, NUMBERS)
    names = model_files.named(models)
    before, after = run_on(names, inside, "inside", fresh=fresh), run_on(names, outside, "outside", fresh=fresh)
    check_apart(before, after, "outside")
    both = [name for name in before if name in after]
    if not both:
        raise InputError(f"no model has outputs on both {inside} and {outside}")
    line = accuracy_line(
        both,
        [before[name].accuracy for name in both],
        [after[name].accuracy for name in both],
        (_examples(before, both, inside), _examples(after, both, outside)),
    )
    about = {key: value for key, value in vars(line).items() if key != "frame"}

    def show() -> None:
        titles = {
            "model": "model",
            "first": "in",
            "second": "out",
            "drop": "drop",
            "expected": "expected",
            "off": "off",
        }
        formats = dict.fromkeys(("in", "out", "expected"), percent) | {"drop": lambda value: points(-value)}
        print_table(line.frame[list(titles)].rename(columns=titles), formats=formats)
        if line.slope != line.slope or line.frame["second"].nunique() == 1:
            note("no line: at least three models with different accuracies are needed")
            return
        off = list(line.frame["model"][line.frame["off"]])
        low, high = line.slope_interval
        note(
            f"Line on the probit scale: slope {line.slope:.3g} ({LEVEL:.0%} CI {low:.3g} to {high:.3g}), correlation "
            f"{line.correlation:.3g}. Off the line: {', '.join(off) or 'none'}"
        )

    results.deliver({"in": inside, "out": outside, **about, "models": line.frame}, show, table=line.frame)


def accuracy(
    *,
    models: Models,
    inside: Annotated[str, spec_option("--in", "Labelled dataset like the models' training data.")],
    unlabelled: Annotated[str, spec_option("--unlabelled", "Dataset in question; labels that it has are not used.")],
    min_r2: Annotated[
        float, typer.Option("--min-r2", help="How well agreements must fit a line, else no estimate is given.")
    ] = 0.0,
    max_half_width: Annotated[
        float,
        typer.Option(
            "--max-half-width", help="Mean half-width of the confidence intervals above which no estimate is given."
        ),
    ] = 0.08,
    level: Level = 0.95,
    fresh: Fresh = False,
    model_files: ModelFiles,
    results: Results,
) -> None:
    """Estimate accuracy on data without labels, from how often the models agree there and how confident they are.

    If the confidence intervals would be too wide, no estimate is given. For comparison: average confidence, and average
    thresholded confidence (ATC).

    [dim]zoo accuracy 'resnet8-*' --in digits:test --unlabelled digits:test~noise3[/dim]
    """
    from diversity import accuracy_without_labels
    from diversity.unlabelled_accuracy import MIN_MODELS

    results.check(TABLE, NUMBERS)
    names = model_files.named(models)
    before = run_on(names, inside, "inside", fresh=fresh)
    after = run_on(names, unlabelled, "unlabelled", fresh=fresh)
    check_apart(before, after, "unlabelled")
    both = [name for name in before if name in after]
    if len(both) < MIN_MODELS:
        expected = f"at least {MIN_MODELS} models with outputs on both datasets"
        raise InputError(argument="models", expected=expected, found=", ".join(both) or "none")
    estimate = accuracy_without_labels(after, before, level=level, min_r2=min_r2, max_half_width=max_half_width)

    def show() -> None:
        frame = estimate.frame.sort_values("accuracy", ascending=False, kind="stable")
        rows: list[dict[str, Any]] = [
            {
                "model": row["model"],
                "estimate": row["accuracy"],
                f"{level:.0%} CI": interval((row["low"], row["high"]), level=None),
                "in": row["source_accuracy"],
                "confidence": row["average_confidence"],
                "ATC": row["atc"],
            }
            for row in frame.to_dict("records")
        ]
        print_table(rows, formats=dict.fromkeys(("estimate", "in", "confidence", "ATC"), percent))
        note(str(estimate))

    value = {"in": inside, "unlabelled": unlabelled, **estimate.to_dict()}
    results.deliver(value, show, table=estimate.frame)


def _examples(runs: "Runs", models: list[str], spec: str) -> int:
    """Return the number of examples, which must be the same for all models."""
    numbers = sorted({len(runs[name]) for name in models})
    if len(numbers) > 1:
        raise InputError(f"models have outputs on different numbers of examples ({numbers[0]} to {numbers[-1]})", where=spec)
    return numbers[0]
