"""Commands that combine models: `zoo ensemble`."""

from typing import Annotated, Any, Literal

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.charting import ChartOption, check_chart, save_chart
from zoo.app.comparing import PANEL
from zoo.app.finding import DataOption, SplitOption, calibrated, find_runs, population
from zoo.app.printing import JsonOption, note, print_json


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("ensemble", rich_help_panel=PANEL)(takes_bare_files(ensemble))


def ensemble(
    names: Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")],
    base: Annotated[str | None, typer.Option(help="The model to start from. Default: the best one.")] = None,
    steps: Annotated[int, typer.Option(help="How many models to add to the base, or to the best one.")] = 10,
    data: DataOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="A model may be added again, which gives weights.")] = False,
    candidates: Annotated[list[str] | None, typer.Option(help="Add only these: names or patterns.")] = None,
    above: Annotated[float | None, typer.Option(help="Add only models at least this accurate, as a fraction.")] = None,
    below: Annotated[float | None, typer.Option(help="Add only models at most this accurate.")] = None,
    objective: Annotated[
        Literal["accuracy", "balanced-accuracy", "nll", "brier"], typer.Option(help="What the search improves.")
    ] = "accuracy",
    stop_early: Annotated[bool, typer.Option("--stop-early", help="Stop where no model helps.")] = False,
    together: Annotated[bool, typer.Option("--together", help="All of NAMES as they are, without a search.")] = False,
    init: Annotated[int, typer.Option(help="Start with so many of the best single models.")] = 1,
    bags: Annotated[int, typer.Option(help="Average the weights of searches on so many samples of models.")] = 0,
    budget: Annotated[
        float | None, typer.Option(help="The members' cost together, at most; of a cascade, its mean for one image.")
    ] = None,
    cost: Annotated[
        Literal["params", "flops", "latency"] | None,
        typer.Option(help="How cost is counted. Default: params; of a cascade flops."),
    ] = None,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Ask members in turn and stop where they are certain, to save their cost.")
    ] = False,
    loss: Annotated[float, typer.Option(help="Share of the examples a cascade may lose against its ensemble.")] = 0.001,
    test_fraction: Annotated[float, typer.Option(help="Share of the examples kept for the test; 0: none.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the split into selection and test, and of the samples.")] = 0,
    split: SplitOption = None,
    votes: Annotated[bool, typer.Option("--votes", help="Let predicted classes vote; no probabilities needed.")] = False,
    uncalibrated: Annotated[bool, typer.Option("--uncalibrated", help="Leave temperatures at 1.")] = False,
    save: Annotated[str | None, typer.Option(help="Keep the ensemble as a model of this name.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Save over an ensemble of that name.")] = False,
    chart: ChartOption = None,
    json: JsonOption = False,
) -> None:
    """Which models to put together, and what it gains on examples the search never saw.

    Greedy search from a base, one model per step; the table shows the score on the selection split, which the search fits,
    and on the test split, which counts.

    [dim]zoo ensemble 'resnet8-*' --base resnet8-softmax --steps 5 --save my-ensemble[/dim]

    [dim]zoo ensemble resnet8-softmax resnet8-cosine --together --save my-pair[/dim]

    [dim]zoo ensemble 'resnet8-*' --cascade --save my-cascade[/dim]
    """
    from ensembles import Cascade, Path, Search
    from zoo.errors import InputError

    check_chart(chart)
    for option, given in {"replace": replace, "init": init > 1, "bags": bags, "stop-early": stop_early}.items():
        if cascade and given:
            raise InputError(f"--{option}: a cascade asks the members of a plain greedy search; leave it out")
    if together and base:
        raise InputError("--together: it takes all of NAMES, so there is no --base to start from")
    wanted: dict[str, Any] = {} if not candidates else {"name": candidates}
    if above is not None or below is not None:
        wanted["accuracy"] = (above, below)
    runs = find_runs(list(dict.fromkeys([*names, base] if base else names)), data)
    for outputs in () if votes else runs.values():
        if outputs.kind == "predictions":
            raise InputError(f"{outputs.name}: only predictions are stored; --votes lets predicted classes vote")
    runs = runs if uncalibrated or votes else calibrated(runs, split)
    search = Search(
        runs, kind="predictions" if votes else "probabilities", base=runs.names if together and not cascade else base,
        candidates=wanted or None, objective=objective, test_fraction=test_fraction, seed=seed, progress=not json,
    )  # fmt: skip
    path: Path | Cascade
    if cascade:
        path = search.cascade(
            steps, members=runs.names if together else None, cost=cost or "flops", loss=loss, budget=budget
        )
    else:
        path = search.greedy(
            steps, replace=replace, init=init, stop_early=stop_early, bags=bags, budget=budget, cost=cost or "params"
        )
    card = None
    try:
        card = path.to_model(save, overwrite=overwrite) if save else None
    finally:  # the table took all the work: it is printed whatever becomes of --save
        if json:
            print_json({**path.to_dict(), "population": population(runs)} | ({"saved": str(card.path)} if card else {}))
        else:
            print(path)
        if chart is not None:
            save_chart(path.chart(), chart)
    if card:
        note(f"wrote {card.path}; `zoo.load({card.name!r})` and `zoo run {card.name}` take it like any model")
