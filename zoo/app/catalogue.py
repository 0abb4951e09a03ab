"""`zoo list` and `zoo show`: which models there are, and what is known about one."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.printing import JsonOption, cell, note, print_json
from zoo.core.text import as_text

if TYPE_CHECKING:
    from zoo.cards.card import Card, Reference
    from zoo.models.trained import Record
    from zoo.outputs.stored_names import Stored

PANEL = "Find models"
HERE = ("shipped", "local")  # weights that are on this machine
OUTPUTS_ONLY = "outputs only"
_NARROWEST = 5


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("list", rich_help_panel=PANEL)(list_models)
    app.command("show", rich_help_panel=PANEL)(takes_bare_files(show_model))


def list_models(
    pattern: Annotated[str | None, typer.Argument(help="A name with * and ?, e.g. 'resnet50-*'.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", "-f", metavar="KEY=VALUE", help="Only models whose card says so; LOW..HIGH for numbers."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List models: those shipped and your own, and names that only outputs were imported for.

    [dim]zoo list 'clip-*'[/dim]

    [dim]zoo list -f objective=cosine -f accuracy=74..78[/dim]
    """
    from zoo.models import registry

    fields = dict(_condition(text) for text in field or ())
    rows = [_row(card, registry.available(card)) for card in registry.matching(pattern or "*", **fields).values()]
    rows += _outputs_only(registry.known_models(), pattern, fields)
    if json:
        print_json(rows)
        return
    if not rows:
        note(f"no model matches {pattern or ''} {' '.join(field or ())}".rstrip())
        return
    _print_rows(rows)
    here = sum(row["weights"] in HERE for row in rows)
    note(
        f"{len(rows)} model{'s' * (len(rows) != 1)}, {here} with weights on this machine; accuracy m: measured on these "
        "weights, l: their library's, p: the paper's"
    )


def show_model(
    name: Annotated[str, typer.Argument(help="A model's name, e.g. resnet50-cosine.in1k or timm:resnet18.")],
    card: Annotated[bool, typer.Option("--card", help="Print the whole card as it is written.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what is known about a model.

    [dim]zoo show resnet50-cosine.in1k[/dim]

    [dim]zoo show timm:convnext_tiny --json[/dim]
    """
    from zoo.cards import card as cards
    from zoo.errors import UnknownName
    from zoo.models import registry, trained
    from zoo.outputs.stored_names import stored_names

    every = stored_names()
    outputs = every.get(name, [])
    try:
        found = registry.card(name)
        outputs = every.get(found.name, outputs)
        state: str = registry.available(found)
    except UnknownName:
        own = next((one.card for one in outputs if one.card is not None), None)
        if not outputs or (own is None and card):
            raise
        if own is None:
            _show_outputs(name, outputs, json)
            return
        found, state = own, OUTPUTS_ONLY
    file = trained.path(found.name) if ":" not in found.name else None
    record = trained.describe(file) if file and file.exists() else None
    if json:
        about = {"weights": state, "trained_here": _trained_fields(record), "outputs": _output_rows(outputs)}
        print_json({**_card_fields(found), **about})
    elif card:
        shipped = found.path is not None and not found.sweep and found.name == found.path.stem
        print(found.path.read_text(encoding="utf-8") if shipped and found.path else cards.write(found), end="")
    else:
        _print_summary(found, state, record, outputs)


def _outputs_only(known: "Mapping[str, Card]", pattern: str | None, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of names that there are outputs of and no model: imported, or made by a program of one's own."""
    from zoo.cards.selection import matches
    from zoo.outputs.stored_names import stored_names

    rows = []
    for name, outputs in stored_names().items():
        card = next((one.card for one in outputs if one.card is not None), None)
        wanted = pattern is None or matches(name, pattern)
        if ":" in name or name in known or not wanted or (fields and (card is None or not card.matches(**fields))):
            continue
        unknown = dict.fromkeys(("family", "dataset", "framework", "objective", "license"), "unknown")
        about = _row(card, OUTPUTS_ONLY) if card else unknown | {"source": "import", "accuracy": None}
        rows.append(about | {"name": name, "weights": OUTPUTS_ONLY})
    return rows


def _show_outputs(name: str, outputs: "Sequence[Stored]", json: bool) -> None:
    """All there is to show of a name that has outputs and no card."""
    if json:
        print_json({"name": name, "weights": OUTPUTS_ONLY, "outputs": _output_rows(outputs)})
        return
    print(f"{as_text(name)}: {OUTPUTS_ONLY}, imported without a description (`zoo import --meta` adds one)\n")
    for one in outputs:
        print(_filled(as_text(_told(one)), f"  {'outputs':<13}"))


def _output_rows(outputs: "Sequence[Stored]") -> list[dict[str, Any]]:
    return [{key: value for key, value in vars(one).items() if key not in ("name", "card", "text")} for one in outputs]


def _told(outputs: "Stored") -> str:
    return f"{outputs.kind} of {outputs.examples} examples, {outputs.classes} classes, on {outputs.dataset}"


def _condition(text: str) -> tuple[str, Any]:
    """`key=value` as a field and what it must be: YAML's reading of the value, or a range `low..high`."""
    import yaml

    from zoo.errors import InputError

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"--field {text}: expected KEY=VALUE, e.g. objective=cosine")
    low, dots, high = value.partition("..")
    try:
        if dots:
            return key, (float(low) if low else None, float(high) if high else None)
        return key, _plain(yaml.safe_load(value))
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"--field {text}: the value cannot be read; expected a word, a number or LOW..HIGH") from error


def _plain(value: Any) -> Any:
    """A list as the tuple that cards hold."""
    return tuple(value) if isinstance(value, list) else value


def _row(card: "Card", weights: str) -> dict[str, Any]:
    return {
        "name": card.name,
        "family": card.family,
        "dataset": card.dataset,
        "framework": card.framework,
        "objective": card.objective,
        "source": card.source,
        "license": card.license,
        "accuracy": card.accuracy,
        "accuracy_by": card.accuracy_by,
        "pretrained": weights,
    }


def _print_rows(rows: list[dict[str, Any]]) -> None:
    """One line per model, names whole; the other columns are cut to what the terminal leaves them.

    Plain text rather than a drawn table: two hundred rows of one would take longer than all the rest of the command.
    """
    table = [("name", "family", "data", "by", "weights", "acc %")]
    for row in rows:
        by = row["objective"] if row["framework"] == "supervised" else row["framework"]
        accuracy = "" if row["accuracy"] is None else f"{row['accuracy']:.2f} {row['accuracy_by'][0]}"
        weights = row["weights"].removeprefix("to ").removesuffix(" published")
        table.append((row["name"], row["family"], row["dataset"].replace("imagenet-", "in"), by, weights, accuracy))
    widths = [max(len(line[column]) for line in table) for column in range(6)]
    room = shutil.get_terminal_size((80, 24)).columns
    gap = 2 if sum(widths) + 2 * 5 <= room else 1
    least = [max(_NARROWEST, len(title)) for title in table[0]]
    # Of family, data and objective, the widest gives way; whether a model can be loaded is said whole.
    while sum(widths) + gap * 5 > room and (wide := [column for column in (1, 2, 3) if widths[column] > least[column]]):
        widest = max(wide, key=lambda column: widths[column])
        widths[widest] -= 1
    for line in table:
        cells = [_cut(text, width).ljust(width) for text, width in zip(line[:5], widths[:5], strict=True)]
        print((" " * gap).join([*cells, line[5].rjust(widths[5])]))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _card_fields(card: "Card") -> dict[str, Any]:
    from zoo.core import typed

    fields = typed.plain(card)
    return {**fields, "accuracy": card.accuracy, "accuracy_by": card.accuracy_by, "path": card.path}


def _print_summary(card: "Card", state: str, record: "Record | None", outputs: "Sequence[Stored]") -> None:
    """Facts, one per line, then the published figures and those reached here, then the card's own words."""
    print(f"{card.name}: {card.title or card.name}\n")
    for label, value in _facts(card, state).items():
        if value:
            print(_filled(value, f"  {label:<13}"))
    for row in card.reference:
        print(_filled(_figures(row), f"  {'published':<13}"))
    if record is not None:
        figures = ", ".join(f"{name.replace('_', ' ')} {cell(value)}" for name, value in record.results.items())
        made = f"`{record.command}`, epoch {record.epoch} after {record.steps} steps on {record.data}: {figures}"
        print(_filled(made, f"  {'trained here':<13}"))
    for one in outputs:
        print(_filled(as_text(_told(one)), f"  {'outputs':<13}"))
    print("\n" + "\n\n".join(_paragraphs(card.body)))


def _trained_fields(record: "Record | None") -> dict[str, Any] | None:
    from zoo.core import typed

    return None if record is None else {key: value for key, value in typed.plain(record).items() if key != "card"}


def _figures(row: "Reference") -> str:
    """A row of a paper's table in one sentence."""
    figures = {
        "": None if row.accuracy is None else f"{row.accuracy:g}%",
        "temperature ": row.temperature,
        "error inconsistency ": row.inconsistency,
        "with ResNet-50 ": None if row.ensemble_accuracy is None else f"{row.ensemble_accuracy:g}%",
        "category ": row.category,
        **{f"{name} ": value for name, value in row.results.items()},
    }
    errors = {f"{name} " if name != "accuracy" else "": f" ± {error:g}" for name, error in row.errors.items()}
    said = ", ".join(f"{name}{cell(value)}{errors.get(name, '')}" for name, value in figures.items() if value is not None)
    return f"{row.paper}, {row.place}, {row.row}: {said}"


def _paragraphs(markdown: str) -> list[str]:
    """The body of a card without its title, its paragraphs filled to the terminal; blocks of code stay as they are."""
    parts = []
    for number, part in enumerate(markdown.split("```")):
        if number % 2:
            parts.append("\n".join(f"    {line}" for line in part.strip("\n").splitlines() if line))
        else:
            texts = (text.strip() for text in part.split("\n\n"))
            parts += [_filled(text, "") for text in texts if text and not text.startswith("# ")]
    return parts


def _filled(text: str, start: str) -> str:
    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    return textwrap.fill(
        " ".join(text.split()), width, initial_indent=start, subsequent_indent=" " * len(start),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _facts(card: "Card", state: str) -> dict[str, str]:
    training = card.training
    settings = ", ".join(f"{key} {value}" for key, value in training.hyperparameters.items())
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
        "settings": settings,
        "models": ", ".join(member.name for member in card.sweep),
        "members": ", ".join(f"{m.name} (weight {m.weight:g}, T {m.temperature:g})" for m in card.members),
    }
