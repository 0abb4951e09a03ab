"""`zoo ensemble`: search for an ensemble, judge one, keep to a budget, stop early in a cascade."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from zoo.app import options
from zoo.app.options import CHARTS, NUMBERS, TABLE, Base, Candidates, OptionalModels, Steps, command, population
from zoo.app.terminal import Format, fill, note, print_table, print_text, records
from zoo.cards.names import shared_ending
from zoo.core.units import short_number
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ensembles import Search
    from ensembles.ensemble_sets import EnsembleSets
    from zoo.cards.card import Card
    from zoo.outputs.outputs import Runs

_DETAILS, _SETS = "Details of the search", "Prediction sets"
Cost = Annotated[
    Literal["params", "flops", "latency"],
    typer.Option(help="params: parameters; flops: operations per image; latency: milliseconds per image, measured here."),
]
Objective = Annotated[
    Literal["accuracy", "balanced-accuracy", "nll", "brier"], typer.Option(help="The score that the search improves.")
]
Votes = Annotated[bool, typer.Option("--votes", help="Let predicted classes vote instead of averaging probabilities.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(cls=options.CommandGroup, no_args_is_help=True, help="Search, judge and save ensembles.")
    for function in (search, combine, partners, budget, cascade):
        group.command(function.__name__)(command(function))
    app.add_typer(group, name="ensemble", rich_help_panel=options.ENSEMBLE)


@dataclass(frozen=True, kw_only=True)
class Members(options.Inputs, options.Calibration, options.Results):
    """From models to calibrated outputs, and from a result to what is printed and written."""

    def read(
        self, models: Sequence[str] | None, base: str | None = None, votes: bool = False, candidates: Sequence[str] = ()
    ) -> "tuple[Runs, str | None]":
        """Return calibrated outputs of models, base and candidates that are named, and the full name of the base.

        If predictions vote, the outputs are not calibrated.
        """
        from zoo.cards.selection import is_filter, is_pattern

        named = [*(models or ()), *([base] if base else [])]
        if named:  # else these are all models in the files
            named += [one for one in candidates if not (is_pattern(one) or is_filter(one))]
        runs = self.runs(list(dict.fromkeys(named)))
        full = None if base is None else runs[self.registered(base)].name
        if votes:
            return runs, full
        for outputs in runs.values():
            if outputs.kind == "predictions":
                raise InputError("only predictions are stored", where=outputs.name, hint="Use {votes}, which needs no more")
        return self.apply(runs), full


@dataclass(frozen=True, kw_only=True)
class Split:
    """How examples are divided into those that a search sees and those that it is tested on."""

    test_fraction: Annotated[
        float, typer.Option(rich_help_panel=_DETAILS, help="Fraction of the examples that the search does not see; 0: none.")
    ] = 0.5
    seed: Annotated[int, typer.Option(rich_help_panel=_DETAILS, help="Seed of random splits and samples.")] = 0

    def search(self, runs: "Runs", base: str | None = None, votes: bool = False, **settings: Any) -> "Search":
        """Return a search among the models of `runs`."""
        from ensembles import Search

        return Search(
            runs,
            kind="predictions" if votes else "probabilities",
            base=base,
            test_fraction=self.test_fraction,
            seed=self.seed,
            **settings,
        )


@dataclass(frozen=True, kw_only=True)
class NewModel:
    """The ensemble as a model with a name, and maybe with prediction sets."""

    name: options.NewName = None
    overwrite: Annotated[bool, typer.Option("--replace", help="Replace an ensemble that has this name.")] = False
    alpha: Annotated[
        float | None,
        typer.Option(
            "--sets",
            metavar="ALPHA",
            rich_help_panel=_SETS,
            help="Fit sets of classes that miss the true one with this probability, e.g. 0.1, on half of the test split.",
        ),
    ] = None
    method: Annotated[
        Literal["lac", "aps", "raps"],
        typer.Option("--set-method", rich_help_panel=_SETS, help="lac: smallest sets; aps, raps: adapt to the example."),
    ] = "lac"
    conditioning: Annotated[
        Literal["marginal", "class", "cluster"],
        typer.Option(
            "--set-threshold", rich_help_panel=_SETS, help="One for all classes, or one per class or cluster of classes."
        ),
    ] = "marginal"

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 < self.alpha < 1:  # before the search begins
            raise InputError(argument="alpha", expected="between 0 and 1", found=self.alpha)

    def deliver(
        self,
        result: Any,
        value: dict[str, Any],
        show: Callable[[], None],
        members: Members,
        table: "pd.DataFrame",
        chart: Callable[[], Any] | None = None,
    ) -> None:
        """Save a result as a model if a name is given, then print and write it; it is printed even if saving fails."""
        card: Card | None = None
        sets: EnsembleSets | None = None

        def show_all() -> None:
            show()
            if sets is not None:
                print(fill(str(sets), "  "))

        try:
            found: Any = None if self.name is None and self.alpha is None else result()
            if self.alpha is not None:
                sets = found.prediction_sets(self.alpha, self.method, self.conditioning)
            if self.name is not None:
                card = found.to_model(self.name, overwrite=self.overwrite, sets=sets)
        finally:
            about = ({} if sets is None else sets.details()) | ({"saved": str(card.path)} if card else {})
            members.deliver(value | about, show_all, table=table, chart=chart)
        if card is not None:
            note(f"wrote {card.path}; all commands and `zoo.load({card.name!r})` accept {card.name}")


def search(
    *,
    models: OptionalModels = None,
    base: Base = None,
    steps: Steps = 10,
    replace: Annotated[
        bool, typer.Option("--with-replacement", help="Let a model be added more than once, which raises its weight.")
    ] = False,
    candidates: Candidates = None,
    objective: Objective = "accuracy",
    votes: Votes = False,
    accuracy: Annotated[
        str | None,
        typer.Option(
            metavar="LOW..HIGH", rich_help_panel=_DETAILS, help="Add only models in this range of accuracy, in percent."
        ),
    ] = None,
    stop_early: Annotated[
        bool, typer.Option("--stop-early", rich_help_panel=_DETAILS, help="Stop when no model improves the score.")
    ] = False,
    init: Annotated[int, typer.Option(rich_help_panel=_DETAILS, help="Start with this many of the best single models.")] = 1,
    bags: Annotated[
        int, typer.Option(rich_help_panel=_DETAILS, help="Average the weights of this many searches on random candidates.")
    ] = 0,
    split: Split,
    new_model: NewModel,
    members: Members,
) -> None:
    """Search greedily: start from the base (default: the best model), add the model that helps most, step by step.

    The table shows scores on the selection split, which the search sees, and on the test split, which it does not see.

    [dim]zoo ensemble search @cifar10 --base r7x2.cifar10 --steps 5[/dim]

    [dim]zoo ensemble search 'resnet8-*' --name my-ensemble --sets 0.1[/dim]
    """
    members.check(TABLE, NUMBERS, *CHARTS)
    fields: dict[str, Any] = {"name": members.named(candidates)} if candidates else {}
    if accuracy is not None:
        fields["accuracy"] = _accuracy_range(accuracy)
    runs, base = members.read(models, base, votes, candidates or ())
    setup = split.search(runs, base, votes, candidates=fields or None, objective=objective, progress=not members.json)
    path = setup.greedy(steps, replace=replace, init=init, stop_early=stop_early, bags=bags)
    value = {**path.to_dict(), "population": population(runs)}
    new_model.deliver(lambda: path, value, lambda: print_text(path), members, path.to_frame(), path.chart)


def combine(*, models: OptionalModels = None, votes: Votes = False, new_model: NewModel, members: Members) -> None:
    """Combine all MODELS with equal weights: is the ensemble better than its best member?

    [dim]zoo ensemble combine resnet7-softmax.cifar10 r7x2.cifar10[/dim]

    [dim]zoo ensemble combine resnet8-softmax resnet8-cosine --name my-pair[/dim]
    """
    import pandas as pd

    from ensembles import improvement

    members.check(TABLE, NUMBERS)
    read, _ = members.read(models, votes=votes)
    runs = read.aligned()
    found = improvement(runs, combine="predictions" if votes else "probabilities")
    table = pd.DataFrame({"model": found.members, "accuracy": found.accuracies}).sort_values("accuracy", ascending=False)
    value = {**found.to_dict(), "population": population(read)}
    fraction = 0.0 if new_model.alpha is None else 0.5
    new_model.deliver(lambda: _equal_weights(runs, runs.names, fraction), value, lambda: print_text(found), members, table)


def partners(
    *,
    models: OptionalModels = None,
    base: Base = None,
    candidates: Candidates = None,
    objective: Objective = "accuracy",
    votes: Votes = False,
    split: Split,
    members: Members,
) -> None:
    """Find the best partner of the base, or of every model: the one that makes the best ensemble of two.

    Partners are chosen on the selection split; scores and gains are those on the test split.

    [dim]zoo ensemble partners @cifar10 --base r7x2.cifar10[/dim]
    """
    from diversity.categories import category_title

    members.check(TABLE, NUMBERS)
    runs, base = members.read(models, base, votes, candidates or ())
    fields = {"name": members.named(candidates)} if candidates else None
    setup = split.search(runs, votes=votes, candidates=fields, objective=objective, progress=not members.json)
    frame = setup.best_partners(None if base is None else [base])

    def show() -> None:
        rows = records(frame)
        titles = {"base": "base", "partner": "partner", "category": "differs in", "alone": "alone", "pair": "pair"}
        if "gain" in rows[0]:
            titles |= {"test_alone": "alone", "test_pair": "pair", "gain": "gain", "interval": "95% CI"}
            titles = {key: title for key, title in titles.items() if key not in ("alone", "pair")}
        named = [row | {"category": category_title(row["category"])} for row in rows]
        _print_scores([{title: row[key] for key, title in titles.items()} for row in named], objective)

    value = {"partners": frame, "objective": objective, "population": population(runs)}
    members.deliver(value, show, table=frame)


def budget(
    *,
    models: OptionalModels = None,
    cost: Cost = "params",
    limit: Annotated[
        str | None, typer.Option("--max-cost", metavar="COST", help="Find the best ensemble up to this cost: 2M, 1.5G, 300.")
    ] = None,
    max_size: Annotated[int, typer.Option(help="Largest number of members.")] = 10,
    base: Base = None,
    objective: Objective = "accuracy",
    votes: Votes = False,
    split: Split,
    new_model: NewModel,
    members: Members,
) -> None:
    """Find the best ensembles for their cost: the Pareto front, and with --max-cost the best one up to that cost.

    [dim]zoo ensemble budget 'resnet8-*' --cost params[/dim]

    [dim]zoo ensemble budget @cifar10 --cost flops --max-cost 200M --name my-ensemble[/dim]
    """
    from ensembles.costs import COST_TITLES, parse_budget
    from ensembles.text_table import score_text

    members.check(TABLE, NUMBERS, *CHARTS)
    most = parse_budget(limit, "limit")
    for argument in ("name", "alpha"):
        if getattr(new_model, argument) is not None and limit is None:
            raise InputError("needs a cost, which decides for one of the ensembles", argument=argument, hint="Pass {limit}")
    runs, base = members.read(models, base, votes)
    setup = split.search(runs, base, votes, objective=objective, progress=not members.json)
    front = setup.pareto(cost, max_size)
    best = None if limit is None else setup.best_within(limit, cost, max_size)

    def show() -> None:
        columns = ["cost", "size", "selection", "test"]
        ending = shared_ending(list(front["members"].explode()))
        title = f"members ({ending})" if ending else "members"
        rows = [
            {key: row[key] for key in columns}
            | {"cost": short_number(row["cost"]), title: " + ".join(name.removesuffix(ending) for name in row["members"])}
            for row in records(front)
        ]
        _print_scores(rows, objective)
        if best is not None:
            on, score = ("selection", best.score) if best.test_score is None else ("test", best.test_score)
            text = (
                f"The best ensemble up to {short_number(most)} {COST_TITLES[cost]}: {' + '.join(map(str, best.members))}. "
                f"It costs {short_number(best.cost or 0)}; its {objective} on the {on} split is "
                f"{score_text(objective)(score)}."
            )
            print("\n" + fill(text))

    def chart() -> Any:
        from ensembles.charts import front_chart

        return front_chart(front)

    value = {"cost": cost, "front": front, "best": best and vars(best), "population": population(runs)}
    chosen = [] if best is None else list(map(str, best.members))
    fraction = 0.0 if new_model.alpha is None else split.test_fraction  # the split on which the members were chosen
    made = functools.partial(_equal_weights, runs, chosen, fraction, split.seed)
    new_model.deliver(made, value, show, members, front, chart)


def cascade(
    *,
    models: OptionalModels = None,
    all_members: Annotated[
        bool, typer.Option("--all", help="Use all MODELS as members instead of searching for them.")
    ] = False,
    steps: Steps = 10,
    cost: Cost = "flops",
    budget: Annotated[
        str | None, typer.Option("--max-cost", metavar="COST", help="Highest mean cost per image: 2M, 1.5G, 300.")
    ] = None,
    loss: Annotated[
        float, typer.Option("--max-loss", help="Accuracy that may be lost against the whole ensemble, as a fraction.")
    ] = 0.001,
    base: Base = None,
    split: Split,
    new_model: NewModel,
    members: Members,
) -> None:
    """Turn an ensemble into a cascade: evaluate members one by one, and stop as soon as they are confident.

    [dim]zoo ensemble cascade 'resnet8-*' --name my-cascade[/dim]

    [dim]zoo ensemble cascade resnet8-softmax resnet20-softmax --all --max-loss 0.002[/dim]
    """
    from ensembles.costs import parse_budget

    members.check(TABLE, NUMBERS, *CHARTS)
    parse_budget(budget)
    runs, base = members.read(models, base)
    setup = split.search(runs, base, progress=not members.json)
    found = setup.cascade(steps, members=runs.names if all_members else None, cost=cost, loss=loss, budget=budget)
    value = {**found.to_dict(), "population": population(runs)}
    new_model.deliver(lambda: found, value, lambda: print_text(found), members, found.to_frame(), found.chart)


def _equal_weights(runs: "Runs", names: list[str], test_fraction: float, seed: int = 0) -> Any:
    """Return the ensemble of these models with equal weights, which can be saved.

    Its temperature is fitted on all examples but the test split, which prediction sets need.
    """
    from ensembles import Search

    return Search(runs.subset(names), base=names, test_fraction=test_fraction, seed=seed).greedy(1)


def _print_scores(rows: list[dict[str, Any]], objective: str) -> None:
    from ensembles.text_table import ends_text, gain_text, score_text

    formats: dict[str, Format] = dict.fromkeys(("alone", "pair", "selection", "test"), score_text(objective))
    formats |= {"gain": gain_text(objective), "95% CI": lambda ends: ends_text(ends, objective)}
    print_table(rows, formats={key: form for key, form in formats.items() if key in rows[0]})


def _accuracy_range(text: str) -> tuple[float | None, float | None]:
    """Return the fractions that a range in percent stands for."""
    from zoo.cards.selection import parse_filter

    try:
        low, high = parse_filter(f"accuracy={text}")[1]
    except (InputError, TypeError, ValueError):
        raise InputError(argument="accuracy", expected="LOW..HIGH in percent, such as 70..78", found=text) from None
    return low and low / 100, high and high / 100
