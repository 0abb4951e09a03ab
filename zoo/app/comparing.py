"""Commands that compare models: `zoo compare`, `zoo calibrate`."""

from typing import Annotated

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.charting import ChartOption, check_chart, save_chart
from zoo.app.finding import DataOption, SplitOption, calibrated, find_runs, population
from zoo.app.printing import JsonOption, note, plain, print_json, print_table

PANEL = "Compare and combine"


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("compare", rich_help_panel=PANEL)(takes_bare_files(compare))
    app.command("calibrate", rich_help_panel=PANEL)(takes_bare_files(calibrate))


def compare(
    first: Annotated[str, typer.Argument(help="A model.", metavar="A")],
    second: Annotated[str, typer.Argument(help="The other model.", metavar="B")],
    data: DataOption = None,
    split: SplitOption = None,
    uncalibrated: Annotated[bool, typer.Option("--uncalibrated", help="Leave temperatures at 1.")] = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples for the intervals.")] = 1000,
    chart: ChartOption = None,
    json: JsonOption = False,
) -> None:
    """Do two models make different mistakes, and what would their ensemble gain?

    Error overlap, agreement, ensemble and specialization, each with its bootstrap interval.

    [dim]zoo compare resnet8-softmax resnet8-cosine --data digits:test[/dim]
    """
    from diversity import compare as compare_outputs
    from zoo.errors import InputError

    check_chart(chart)
    runs = find_runs([first, second], data)
    if len(runs) > 2:
        raise InputError(f"expected two models, found {len(runs)}: {', '.join(runs)}")
    predictions_only = any(outputs.kind == "predictions" for outputs in runs.values())
    if not (uncalibrated or predictions_only):
        runs = calibrated(runs, split)
    names = list(runs)
    result = compare_outputs(runs[names[0]], runs[names[-1]], resamples=resamples)
    if json:
        print_json({**plain(result), "population": population(runs)})
    else:
        print(result)
    if chart is not None:
        save_chart(result.chart(), chart)


def calibrate(
    names: Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")],
    data: DataOption = None,
    split: SplitOption = None,
    temperature_space: Annotated[
        str, typer.Option(help="Of models with sigmoids: T divides their logits, or their distribution's logarithm.")
    ] = "logits",
    json: JsonOption = False,
) -> None:
    """Fit each model's temperature on examples that are not reported on, and record it beside its outputs.

    NLL and ECE are of the rows reported, which no temperature was fitted on. Other commands fit their own; `--split stored`
    makes them take the recorded ones.

    [dim]zoo calibrate 'resnet8-*' --data digits:test[/dim]
    """
    runs = calibrated(find_runs(names, data), split, temperature_space)
    rows = runs.to_frame().to_dict("records")
    if json:
        fits = {name: fit.to_dict() for name, fit in runs.fits.items()}
        print_json([row | {"population": runs.population, "fit": fits.get(row["model"])} for row in rows])
        return
    columns = {
        "T": "temperature", "NLL": "nll_before", "NLL at T": "nll_after", "ECE": "ece_before", "ECE at T": "ece_after",
    }  # fmt: skip
    print_table({"model": row["model"]} | {title: row[field] for title, field in columns.items()} for row in rows)
    kept = [outputs.path for outputs in runs.values() if outputs.path is not None]
    if "share" in next(iter(runs.values())).details["calibration"]:
        note(f"fitted on {len(runs.calibration_ids)} rows of the same outputs, so not recorded")
    else:
        note(f"recorded beside the outputs of {len(kept)} models" if kept else "not recorded: these outputs are not stored")
