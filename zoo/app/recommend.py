"""`zoo recommend`: which model to add next."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.app import options
from zoo.app.candidates import candidate_cards
from zoo.app.terminal import note, print_text
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.cards.card import Card
    from zoo.outputs.outputs import Outputs, Runs


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("recommend", rich_help_panel=options.ENSEMBLE)(options.command(recommend))


def recommend(
    *,
    base: Annotated[list[str], options.models_option("--base", "The model to add one to; several: the ensemble.")],
    candidates: Annotated[list[str], options.models_option("--candidates", "Models to choose from.")],
    known: Annotated[
        list[str] | None,
        options.models_option(
            "--known", "Models to learn from, with outputs on all examples. Default: all that have stored outputs."
        ),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="Run each candidate on this many labelled examples; 0: on none.")
    ] = 256,
    download: Annotated[bool, typer.Option("--download", help="Also run candidates that must be downloaded first.")] = False,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    inputs: options.ModelInputs,
    calibration: options.Calibration,
    results: options.Results,
) -> None:
    """Predict which model would improve an ensemble most, before it is run on everything, or even downloaded.

    The gain of each candidate with its confidence interval, from its card and from a few hundred examples. The more models
    have outputs already, the narrower the intervals.

    [dim]zoo recommend --base resnet8-softmax --candidates 'resnet8-*' --data digits:test[/dim]
    """
    from ensembles import recommend as predict_gains
    from zoo.runs.resolver import infer_dataset

    results.check(options.TABLE, options.NUMBERS)
    base = inputs.named(base)
    spec = inputs.data or infer_dataset(base, None)
    runs = calibration.apply(inputs.runs(list(dict.fromkeys([*base, *(known or _stored(spec))]))))
    members = [runs[name].name for name in base]
    cards = candidate_cards(candidates, runs, members[0])
    evidence = _evidence(cards, runs, spec, examples, download, seed)
    found = predict_gains(runs, evidence, members, level=level, seed=seed, examples=max(examples, 1))
    value = {**found.to_dict(), "population": options.population(runs)}
    results.deliver(value, lambda: print_text(found), table=found.table)


def _stored(spec: str | None) -> list[str]:
    """Return the models with stored logits or probabilities on a dataset."""
    from zoo.datasets import canonical
    from zoo.outputs.store.lookup import on_dataset, stored

    if spec is None:
        raise InputError("is needed, because the models' dataset is unknown", argument="data")
    found = {run.identity.name: run.identity.kind for run in on_dataset(stored(), canonical(spec))}
    usable = sorted(name for name, kind in found.items() if kind in ("logits", "probabilities"))
    if len(usable) < len(found):
        note(f"skipped models without probabilities: {', '.join(sorted({*found} - {*usable}))}")
    return usable


def _evidence(
    cards: "Sequence[Card]", runs: "Runs", spec: str | None, examples: int, download: bool, seed: int
) -> "list[Outputs | Card]":
    """Return each candidate's outputs on a random sample of the examples, or its card if it cannot be run."""
    import numpy as np

    from zoo.datasets import load
    from zoo.errors import ZooError
    from zoo.models import registry
    from zoo.runs.resolver import shipped_outputs
    from zoo.runs.runner import run

    usable = {"shipped", "local", *(["to download"] if download else [])}
    ready = [card for card in cards if examples and registry.available(card) in usable]
    if examples and len(ready) < len(cards):
        note(f"{len(cards) - len(ready)} candidates are judged by their cards only: their weights are not on this machine")
    if not ready or spec is None:
        return list(cards)
    ids = next(iter(runs.values())).ids
    rng = np.random.default_rng(seed)
    try:
        dataset = load(spec)
    except ZooError as error:
        sample = rng.choice(ids, min(examples, len(ids)), replace=False)
        shipped = {card.name: shipped_outputs(card.name, spec) for card in cards}
        found = [one.select(np.isin(one.ids, sample)) for one in shipped.values() if one is not None]
        if len(found) < len(cards):
            note(f"{len(cards) - len(found)} candidates are judged by their cards only, because images are missing: {error}")
        return [*found, *(card for card in cards if shipped[card.name] is None)]
    reported = np.flatnonzero(np.isin(np.asarray(dataset.ids), ids))
    rows = np.sort(rng.choice(reported, min(examples, len(reported)), replace=False))
    sampled = run([card.name for card in ready], data=dataset.select(rows))
    return [*sampled.values(), *(card for card in cards if card not in ready)]
