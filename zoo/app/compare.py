"""`zoo compare` and `zoo calibrate`."""

from typing import Annotated, Any

import typer

from zoo.app.options import (
    CHARTS,
    COMPARE,
    NUMBERS,
    TRUST,
    Calibration,
    Inputs,
    Json,
    ModelInputs,
    Models,
    OptionalModels,
    Results,
    TemperaturesFrom,
    calibrate,
    command,
    population,
)  # fmt: skip
from zoo.app.terminal import note, plain, print_json, print_table, print_text
from zoo.core.units import count
from zoo.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("compare", rich_help_panel=COMPARE)(command(compare))
    app.command("calibrate", rich_help_panel=TRUST)(command(calibrate_models))


def compare(
    *,
    models: OptionalModels = None,
    inputs: Inputs,
    calibration: Calibration,
    results: Results,
    resamples: Annotated[int, typer.Option("--resamples", help="Bootstrap resamples of the confidence intervals.")] = 1000,
) -> None:
    """Compare two models: do they make different mistakes, and what would their ensemble gain?

    Error overlap, agreement, ensemble and specialization, each with a 95% confidence interval.

    [dim]zoo compare resnet7-softmax.cifar10 r7x2.cifar10[/dim]

    [dim]zoo compare resnet8-softmax mine --from mine.npz --data digits:test -o angles.svg[/dim]
    """
    from diversity import compare as compare_outputs

    results.check(NUMBERS, *CHARTS)
    runs = inputs.runs(models)
    if len(runs) > 2 or (len(runs) == 1 and len(models or ()) != 2):
        raise InputError(argument="models", expected="two models", found=", ".join(runs))
    if all(outputs.kind in ("logits", "probabilities") for outputs in runs.values()):
        runs = calibration.apply(runs)
    first, second = runs.names[0], runs.names[-1]  # the same if a model is compared with itself
    result = compare_outputs(runs[first], runs[second], resamples=resamples)
    results.deliver({**plain(result), "population": population(runs)}, lambda: print_text(result), chart=result.chart)


def calibrate_models(
    models: Models,
    inputs: ModelInputs,
    temperatures_from: TemperaturesFrom = None,
    temperature_space: Annotated[
        str,
        typer.Option(
            "--temperature-space", help="What T divides in models with sigmoids: their logits, or the log distribution."
        ),
    ] = "logits",
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, cuda:0, ... Default: an accelerator for large outputs, if present.")
    ] = None,
    json: Json = False,
) -> None:
    """Fit the temperature of each model, and store it with the model's outputs.

    NLL and ECE are measured on examples that the temperature was not fitted on. Temperatures are stored only if they were
    fitted on another dataset. Other commands fit their own unless they are given --temperatures-from stored.

    [dim]zoo calibrate 'resnet8-*' --data digits:test[/dim]
    """
    found = inputs.runs(models)
    runs = calibrate(found, temperatures_from, temperature_space, device)
    rows: list[dict[str, Any]] = runs.to_frame().to_dict("records")  # type: ignore[assignment]
    if json:
        fits = {name: fit.to_dict() for name, fit in runs.fits.items()}
        print_json([row | {"population": runs.population, "fit": fits.get(row["model"])} for row in rows])
        return
    columns = {
        "T": "temperature", "NLL": "nll_before", "NLL at T": "nll_after", "ECE": "ece_before", "ECE at T": "ece_after",
    }  # fmt: skip
    print_table({"model": row["model"]} | {title: row[field] for title, field in columns.items()} for row in rows)
    stored = [outputs.path for outputs in runs.values() if outputs.path is not None]
    if set(runs.calibration_ids.tolist()) & set(next(iter(found.values())).ids.tolist()):
        note("not stored, because the temperatures were fitted on examples of the same outputs")
    elif runs.fits:
        note(
            f"stored with the outputs of {count(len(stored), 'model')}" if stored else "not stored: neither are the outputs"
        )
