"""`zoo list`, `zoo show` and `zoo datasets`: the known models, the facts about one, and the known datasets."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.completion import complete_datasets
from zoo.app.options import FIND, Json, ModelFiles, OnlyData, OptionalModels, command, model_argument
from zoo.app.terminal import cell, fill, note, print_json, print_table, print_text
from zoo.core.units import MISSING, count
from zoo.errors import InputError, UnknownName

if TYPE_CHECKING:
    from zoo.cards.card import Card, Reference
    from zoo.models.trained import Record
    from zoo.outputs.stored_names import Stored

ON_THIS_MACHINE = ("shipped", "local")
MAX_CLASSES = 10  # that `zoo datasets` lists
OUTPUTS_ONLY = "outputs only"  # imported under a name that no model has
AVAILABLE = {"here": ON_THIS_MACHINE} | {
    state: (state,) for state in (*ON_THIS_MACHINE, "to download", "to train", "never published", OUTPUTS_ONLY)
}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("list", rich_help_panel=FIND)(command(list_models))
    app.command("show", rich_help_panel=FIND)(command(show_model))
    app.command("datasets", rich_help_panel=FIND)(command(datasets))


def list_models(
    *,
    models: OptionalModels = None,
    available: Annotated[
        list[str] | None,
        typer.Option(
            "--available",
            help="Only models whose weights are: shipped, local, here (either), to download, to train, ... May be repeated.",
        ),
    ] = None,
    data: OnlyData = None,
    json: Json = False,
) -> None:
    """List models, and where their weights are.

    [dim]zoo list 'clip-*' accuracy=74..78[/dim]

    [dim]zoo list @cifar10 objective=cosine --available here[/dim]
    """
    rows = _rows(models or ["*"])
    if available:
        for choice in available:
            if choice not in AVAILABLE:
                raise InputError(argument="available", expected=f"one of {', '.join(AVAILABLE)}", found=choice)
        wanted = {state for choice in available for state in AVAILABLE[choice]}
        rows = [row for row in rows if row["weights"] in wanted]
    if data is not None:
        from zoo.datasets import canonical
        from zoo.runs.model_list import with_outputs

        there = with_outputs(canonical(data))
        rows = [row for row in rows if row["name"] in there]
    if json:
        print_json(rows)
        return
    if not rows:
        note("no model matches")
        return
    print_table(map(_columns, rows), formats={"acc %": str}, cut=("family", "data", "by"))
    here = sum(row["weights"] in ON_THIS_MACHINE for row in rows)
    note(
        f"{count(len(rows), 'model')}, {here} with weights on this machine. Accuracy in percent; m: measured with these "
        "weights, l: stated by their library, p: by the paper"
    )


def _rows(selectors: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each selected model, sorted by name; an unknown name is an error, an empty match is not."""
    from zoo.cards.selection import is_filter, is_pattern, select
    from zoo.models import registry
    from zoo.outputs.stored_names import stored_names

    known = registry.known_models()
    imported: dict[str, Card | None] = {
        name: next((one.card for one in outputs if one.card is not None), None)
        for name, outputs in stored_names().items()
        if ":" not in name and name not in known
    }
    filters = [selector for selector in selectors if is_filter(selector)]
    rows: dict[str, dict[str, Any]] = {}
    for selector in [one for one in selectors if not is_filter(one)] or ["*"]:
        found: dict[str, Card] = registry.matching([selector, *filters])
        rows |= {name: _row(card, registry.available(card)) for name, card in found.items()}
        try:
            names = select([selector, *filters], imported)
        except UnknownName as error:
            if error.kind != "model":  # an unknown field or set
                raise
            if not found and not is_pattern(selector) and not (filters and registry.is_name(registry.resolve(selector))):
                registry.card(selector)  # raises the error that suggests similar names
            continue
        rows |= {name: _imported_row(name, imported[name]) for name in names}
    return [rows[name] for name in sorted(rows)]


def _row(card: "Card", weights: str) -> dict[str, Any]:
    fields = ("name", "family", "dataset", "framework", "objective", "source", "license", "accuracy", "accuracy_by")
    return {field: getattr(card, field) for field in fields} | {"weights": weights}


def _imported_row(name: str, card: "Card | None") -> dict[str, Any]:
    unknown = dict.fromkeys(("family", "dataset", "framework", "objective", "license"), "unknown")
    facts = _row(card, OUTPUTS_ONLY) if card else unknown | {"source": "import", "accuracy": None}
    return facts | {"name": name, "weights": OUTPUTS_ONLY}


def _columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a model in the printed list, as short as they can be."""
    return {
        "name": row["name"],
        "family": row["family"],
        "data": row["dataset"].replace("imagenet-", "in"),
        "by": row["objective"] if row["framework"] == "supervised" else row["framework"],
        "weights": row["weights"].removeprefix("to ").removesuffix(" published"),
        "acc %": MISSING if row["accuracy"] is None else f"{row['accuracy']:.2f} {row['accuracy_by'][0]}",
    }


def show_model(
    *,
    model: Annotated[str, model_argument("One model.")],
    model_files: ModelFiles,
    card: Annotated[bool, typer.Option("--card", help="Print the model card as it is written.")] = False,
    json: Json = False,
) -> None:
    """Show the facts about a model: weights, licence, training, published and local results, stored outputs.

    [dim]zoo show resnet50-cosine.in1k[/dim]

    [dim]zoo show timm:convnext_tiny --json[/dim]
    """
    from zoo.cards import card as cards
    from zoo.core import typed
    from zoo.models import registry, trained
    from zoo.outputs.stored_names import stored_names

    (name,) = model_files.named([model])
    stored = stored_names()
    outputs = stored.get(name, [])
    try:
        entry = registry.card(name)
        outputs = stored.get(entry.name, outputs)
        state: str = registry.available(entry)
    except UnknownName:
        imported = next((one.card for one in outputs if one.card is not None), None)
        if not outputs or (imported is None and card):
            raise
        if imported is None:
            _show_outputs(name, outputs, json)
            return
        entry, state = imported, OUTPUTS_ONLY
    file = trained.path(entry.name) if ":" not in entry.name else None
    record = trained.describe(file) if file and file.exists() else None
    if json:
        facts = typed.plain(entry) | {"accuracy": entry.accuracy, "accuracy_by": entry.accuracy_by, "path": entry.path}
        training = record and {key: value for key, value in typed.plain(record).items() if key != "card"}
        print_json(facts | {"weights": state, "trained_here": training, "outputs": _output_rows(outputs)})
    elif card:
        shipped = entry.path is not None and not entry.sweep and entry.name == entry.path.stem
        text = entry.path.read_text(encoding="utf-8") if shipped and entry.path else cards.write(entry)
        print_text(text.removesuffix("\n"))
    else:
        _print_summary(entry, state, record, outputs)


def _show_outputs(name: str, outputs: "Sequence[Stored]", json: bool) -> None:
    """Print what is known about a name that has outputs and no card."""
    if json:
        print_json({"name": name, "weights": OUTPUTS_ONLY, "outputs": _output_rows(outputs)})
        return
    print(fill(f"{name}: {OUTPUTS_ONLY}, imported without facts about the model (`zoo import --meta` adds them)") + "\n")
    _print_outputs(outputs)


def _output_rows(outputs: "Sequence[Stored]") -> list[dict[str, Any]]:
    return [{key: value for key, value in vars(one).items() if key not in ("name", "card", "text")} for one in outputs]


def _print_outputs(outputs: "Sequence[Stored]") -> None:
    for one in outputs:
        _print_fact("outputs", f"{one.kind} of {one.examples} examples, {one.classes} classes, on {one.dataset}")


def _print_fact(label: str, value: str) -> None:
    print(fill(value, f"  {label:<13}"))


def _print_summary(card: "Card", state: str, record: "Record | None", outputs: "Sequence[Stored]") -> None:
    """Print the facts one per line, then published and local results, then the text of the card."""
    print(fill(f"{card.name}: {card.title or card.name}") + "\n")
    for label, value in _facts(card, state).items():
        if value:
            _print_fact(label, value)
    for reference in card.reference:
        _print_fact("published", _published(reference))
    if record is not None:
        results = ", ".join(f"{name.replace('_', ' ')} {cell(value)}" for name, value in record.results.items())
        _print_fact(
            "local run",
            f"`{record.command}`, epoch {record.epoch} after {record.steps} steps on {record.data}: {results}",
        )
    _print_outputs(outputs)
    print_text("\n" + "\n\n".join(_paragraphs(card.body)))


def _facts(card: "Card", state: str) -> dict[str, str]:
    from zoo.core.prediction_sets import read_rule

    training = card.training
    size = " x ".join(map(str, card.input_size[1:])) if card.input_size else ""
    origin = f"{card.source} {card.id or ''}".strip() + (f" @ {card.revision}" if card.revision else "")
    return {
        "weights": f"{state} ({origin})",
        "licence": card.license,
        "architecture": f"{card.architecture} ({card.family} family)",
        "input": f"{size} pixels, {card.transform.interpolation}" if card.transform else "",
        "classes": f"{card.labels} by a {card.head} head, {card.link}" if card.head != "none" else "none: embeddings only",
        "trained on": training.dataset,
        "by": f"{training.framework}, {training.objective}" + (f", seed {training.seed}" if training.seed else ""),
        "settings": ", ".join(f"{key} {value}" for key, value in training.hyperparameters.items()),
        "models": ", ".join(member.name for member in card.sweep),
        "members": ", ".join(f"{m.name} (weight {m.weight:g}, T {m.temperature:g})" for m in card.members),
        "sets": str(read_rule(card.details, card.name) or ""),
    }


def _published(row: "Reference") -> str:
    """Return a row of a paper's table as one sentence."""
    results = {
        "": None if row.accuracy is None else f"{row.accuracy:g}%",
        "temperature ": row.temperature,
        "error inconsistency ": row.inconsistency,
        "with ResNet-50 ": None if row.ensemble_accuracy is None else f"{row.ensemble_accuracy:g}%",
        "category ": row.category,
        **{f"{name} ": value for name, value in row.results.items()},
    }
    errors = {f"{name} " if name != "accuracy" else "": f" ± {error:g}" for name, error in row.errors.items()}
    text = ", ".join(f"{name}{cell(value)}{errors.get(name, '')}" for name, value in results.items() if value is not None)
    return f"{row.paper}, {row.place}, {row.row}: {text}"


def _paragraphs(markdown: str) -> list[str]:
    """Return the text of a card without its title: paragraphs filled to the terminal, blocks of code unchanged."""
    parts = []
    for number, part in enumerate(markdown.split("```")):
        if number % 2:
            parts.append("\n".join(f"    {line}" for line in part.strip("\n").splitlines() if line))
        else:
            texts = (text.strip() for text in part.split("\n\n"))
            parts += [fill(text) for text in texts if text and not text.startswith("# ")]
    return parts


def datasets(
    *,
    spec: Annotated[
        str | None,
        typer.Argument(help="One dataset: digits:test, folder:PATH, ...", autocompletion=complete_datasets),
    ] = None,
    ids: Annotated[bool, typer.Option("--list-ids", help="Print the ids of its examples, one per line.")] = False,
    json: Json = False,
) -> None:
    """List the known datasets and where they are, or show one of them.

    [dim]zoo datasets digits:test --list-ids[/dim]
    """
    from zoo.datasets import load
    from zoo.datasets.listing import list_datasets

    if spec is None:
        if ids:
            raise InputError("needs a dataset", argument="ids", hint="`zoo datasets digits:test --list-ids`")
        listed = list_datasets()
        if json:
            print_json(listed)
        else:
            print_table(
                {"name": one.name, "state": one.state, "splits": " ".join(one.splits), "place": one.place} for one in listed
            )
        return
    dataset = load(spec)
    if json:
        about = {"dataset": dataset.spec, "examples": len(dataset), "classes": dataset.classes, "metric": dataset.metric}
        print_json(about | ({"ids": list(dataset.ids)} if ids else {}))
    elif ids:
        for row_id in dataset.ids:
            print_text(row_id)
    else:
        listed_classes = ", ".join(dataset.classes[:MAX_CLASSES]) or "no labels"
        more = f" and {len(dataset.classes) - MAX_CLASSES} more" if len(dataset.classes) > MAX_CLASSES else ""
        print(fill(f"{dataset.spec}: {len(dataset)} examples, {len(dataset.classes)} classes: {listed_classes}{more}"))
        note("--list-ids prints the ids of its examples")
