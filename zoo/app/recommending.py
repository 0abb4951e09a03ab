"""Which model to add next: `zoo recommend`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.comparing import PANEL
from zoo.app.finding import DataOption, SplitOption, calibrated, find_runs, population
from zoo.app.printing import JsonOption, note, print_json
from zoo.cards.names import default_dataset

if TYPE_CHECKING:
    from zoo.cards.card import Card
    from zoo.outputs.outputs import Outputs, Runs


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("recommend", rich_help_panel=PANEL)(takes_bare_files(recommend))


def recommend(
    base: Annotated[list[str], typer.Option(help="The model, or models, to add one to.")],
    candidates: Annotated[list[str], typer.Option(help="Models to choose from: names or patterns.")],
    data: DataOption = None,
    known: Annotated[
        list[str] | None,
        typer.Option(help="Models to learn from, known in full. Default: all whose outputs on the dataset are stored."),
    ] = None,
    examples: Annotated[int, typer.Option(help="Run candidates on so many labelled examples; 0: cards alone.")] = 256,
    download: Annotated[bool, typer.Option("--download", help="Run also those whose weights are not here yet.")] = False,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the draw of examples.")] = 0,
    split: SplitOption = None,
    uncalibrated: Annotated[bool, typer.Option("--uncalibrated", help="Leave temperatures at 1.")] = False,
    json: JsonOption = False,
) -> None:
    """Which model to add next, before it is run on everything, or even downloaded.

    The gain of each candidate with its interval: from its card alone, or from a few hundred examples as well. The more
    models are known in full, the narrower.

    [dim]zoo recommend --base resnet8-softmax --candidates 'resnet8-*' --data digits:test[/dim]
    """
    from ensembles import recommend as predict
    from zoo.errors import InputError

    if examples < 0:
        raise InputError(f"--examples: expected 0 or more, found {examples}")
    runs = find_runs(list(dict.fromkeys([*base, *(known or _stored(data))])), data)
    runs = runs if uncalibrated else calibrated(runs, split)
    members = [runs[name].name for name in base]
    chosen = candidate_cards(candidates, runs, members[0])
    found = predict(runs, _shown(chosen, runs, data, examples, download, seed), members, level=level, seed=seed,
                    examples=max(examples, 1))  # fmt: skip
    if json:
        print_json({**found.to_dict(), "population": population(runs)})
    else:
        print(found)


def _stored(data: str | None) -> list[str]:
    """The models whose outputs on the dataset are stored."""
    from zoo.datasets import canonical
    from zoo.outputs.store.lookup import on_dataset, stored

    return sorted({run.identity.name for run in on_dataset(stored(), canonical(data or default_dataset()))})


def candidate_cards(patterns: Sequence[str], runs: "Runs", first: str) -> "list[Card]":
    """The cards of the models meant that are not known in full, of the base's label set."""
    from zoo.errors import InputError
    from zoo.models import registry
    from zoo.runs.runner import resolve

    found = [registry.card(str(name)) for name in resolve(list(patterns))]
    there = [card.name for card in found if card.name in runs.names]
    new = [card for card in found if card.name not in runs.names]
    if there:
        note(f"{len(there)} candidates are known in full and learnt from; `zoo ensemble --base {first}` measures their gain")
    own = runs[first].card
    fitting = [card for card in new if own is None or card.labels == own.labels]
    if len(fitting) < len(new):
        note(f"{len(new) - len(fitting)} candidates predict other classes than {first}; left out")
    if not fitting:
        raise InputError(f"--candidates: none of {', '.join(patterns)} is left; expected models that are not known in full")
    return fitting


def _shown(
    chosen: "Sequence[Card]", runs: "Runs", data: str | None, examples: int, download: bool, seed: int
) -> "list[Outputs | Card]":
    """Candidates' outputs on a draw of the examples reported, where their weights are here; else their cards."""
    import numpy as np

    from zoo.datasets import load
    from zoo.errors import ZooError
    from zoo.models import registry
    from zoo.runs.runner import run

    at_hand = {"shipped", "local", *(["to download"] if download else [])}
    ready = [card for card in chosen if examples and registry.available(card) in at_hand]
    if examples and len(ready) < len(chosen):
        note(f"{len(chosen) - len(ready)} candidates are judged by their cards alone: their weights are not here")
    if not ready:
        return list(chosen)
    try:
        dataset = load(data or default_dataset())
    except ZooError as error:
        note(f"all candidates are judged by their cards alone: their images are not here ({error})")
        return list(chosen)
    reported = np.flatnonzero(np.isin(np.asarray(dataset.ids), next(iter(runs.values())).ids))
    rows = np.sort(np.random.default_rng(seed).choice(reported, min(examples, len(reported)), replace=False))
    sampled: Any = run([card.name for card in ready], data=dataset.select(rows))
    return [*sampled.values(), *(card for card in chosen if card not in ready)]
