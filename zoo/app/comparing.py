"""Commands that compare models: `zoo compare`, `zoo calibrate`."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.app.printing import JsonOption, note, print_json, print_table

if TYPE_CHECKING:
    from zoo.calibration import CalibratedRuns
    from zoo.outputs import Runs

PANEL = "Compare and combine"
CHART_TYPES = (".html", ".json", ".pdf", ".png", ".svg")
DataOption = Annotated[str | None, typer.Option(help="Dataset to report on: digits:test, folder:PATH, ...")]
SplitOption = Annotated[
    str | None,
    typer.Option(
        help="Where temperatures come from: a dataset, or a share such as 0.5 of the rows, which are then not reported. "
        "Default: digits:calibration for digits:test, else 0.5."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("compare", rich_help_panel=PANEL)(compare)
    app.command("calibrate", rich_help_panel=PANEL)(calibrate)


def compare(
    first: Annotated[str, typer.Argument(help="A model.", metavar="A")],
    second: Annotated[str, typer.Argument(help="The other model.", metavar="B")],
    data: DataOption = None,
    split: SplitOption = None,
    uncalibrated: Annotated[bool, typer.Option("--uncalibrated", help="Leave temperatures at 1.")] = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples for the intervals.")] = 1000,
    chart: Annotated[Path | None, typer.Option(help="Write the chart: .html, .svg, .png, .pdf or .json.")] = None,
    json: JsonOption = False,
) -> None:
    """Do two models make different mistakes, and what would their ensemble gain?

    Error overlap, agreement, ensemble and specialization, each with its bootstrap interval.

    [dim]zoo compare resnet8-softmax resnet8-cosine --data digits:test[/dim]
    """
    from diversity import compare as compare_outputs
    from zoo.errors import InputError

    if chart is not None and chart.suffix not in CHART_TYPES:
        raise InputError(f"--chart {chart}: expected a name that ends in {', '.join(CHART_TYPES)}")
    with _warnings_as_notes():
        runs = find_runs([first, second], data)
        if len(runs) > 2:
            raise InputError(f"expected two models, found {len(runs)}: {', '.join(runs)}")
        predictions_only = any(outputs.kind == "predictions" for outputs in runs.values())
        if not (uncalibrated or predictions_only):
            runs = calibrated(runs, split)
        names = list(runs)
        result = compare_outputs(runs[names[0]], runs[names[-1]], resamples=resamples)
    if json:
        print_json(result)
    else:
        print(result)
    if chart is not None:
        result.chart().save(str(chart))
        note(f"wrote {chart}")


def calibrate(
    names: Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")],
    data: DataOption = None,
    split: SplitOption = None,
    json: JsonOption = False,
) -> None:
    """Fit each model's temperature on examples that are not reported on, and keep it with its outputs.

    [dim]zoo calibrate 'resnet8-*' --data digits:test[/dim]
    """
    with _warnings_as_notes():
        runs = calibrated(find_runs(names, data), split)
    if json:
        print_json([{"model": name} | fit.to_dict() for name, fit in runs.fits.items()])
        return
    columns = {
        "T": "temperature", "NLL": "nll_before", "NLL at T": "nll_after", "ECE": "ece_before", "ECE at T": "ece_after",
    }  # fmt: skip
    print_table(
        {"model": name} | {title: getattr(fit, field) for title, field in columns.items()} for name, fit in runs.fits.items()
    )
    kept = [outputs.path for outputs in runs.values() if outputs.path is not None]
    if "share" in next(iter(runs.values())).details["calibration"]:
        note(f"fitted on {len(runs.calibration_ids)} rows of the same outputs, so not kept with them")
    else:
        note(f"kept with the outputs of {len(kept)} models" if kept else "not kept: these outputs are not stored")


def find_runs(names: Sequence[str], data: str | None) -> "Runs":
    """Outputs of the models named: run here where they are not stored, or imported under a name no model has."""
    from zoo import registry
    from zoo.datasets import canonical
    from zoo.errors import MissingWeights, UnknownName
    from zoo.outputs import Outputs, Runs
    from zoo.runner import resolve, run
    from zoo.store import open_runs

    data = None if data is None else canonical(data)
    found: dict[str, Outputs] = {}
    for name in names:
        try:
            for model in resolve(name):
                registry.card(str(model))  # before the dataset, which imported outputs can do without
            found |= run(name, data=data)
        except (UnknownName, MissingWeights) as error:
            try:
                found |= open_runs(name, data)
            except UnknownName:
                raise error from None
    return Runs(found)


def calibrated(runs: "Runs", split: str | None) -> "CalibratedRuns":
    """The runs with temperatures from `split`, or from where the dataset suggests."""
    from zoo.calibration import calibrate as calibrate_runs
    from zoo.errors import UnknownName

    spec = next(iter(runs.values())).dataset or ""
    if split is not None:
        share = _number(split)
        return calibrate_runs(runs, find_runs(runs.names, split) if share is None else share)
    if spec.startswith("digits:test"):
        try:
            return calibrate_runs(runs, find_runs(runs.names, "digits:calibration"))
        except UnknownName:  # imported outputs of a model that cannot be run here
            note("no outputs on digits:calibration; half of the rows are used for the temperatures instead")
    return calibrate_runs(runs, 0.5)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """What happened on the way as lines on standard error, without the source line Python would show."""
    from zoo.errors import ZooWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ZooWarning)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(f"zoo: {message}")
