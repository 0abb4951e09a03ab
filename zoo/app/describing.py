"""`zoo card new`: a name of one's own for any model, written once as a card."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.printing import JsonOption, note, print_json

if TYPE_CHECKING:
    from zoo.cards import Card

PANEL = "Find models"
ArchOption = Annotated[str | None, typer.Option("--arch", help="Of a bare state dictionary: timm's or torchvision's name.")]
ClassesOption = Annotated[
    str | None, typer.Option("--classes", help="Of a bare file: .txt with one name per line, or a label set: imagenet-1k.")
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Write cards: names of your own for any model.")
    group.callback()(lambda: None)
    group.command("new")(new)
    app.add_typer(group, name="card", rich_help_panel=PANEL)


def new(
    model: Annotated[str, typer.Argument(help="Any model: timm:NAME, torchvision:NAME, hf:REPO, file:PATH, onnx:PATH.")],
    name: Annotated[str, typer.Option("--as", help="What to call it.")],
    arch: ArchOption = None,
    classes: ClassesOption = None,
    size: Annotated[int | None, typer.Option(help="Of a bare file: side of its input in pixels.")] = None,
    mean: Annotated[str | None, typer.Option(help="Of a bare file: subtracted from its input, e.g. 0.5,0.5,0.5.")] = None,
    std: Annotated[str | None, typer.Option(help="Of a bare file: what its input is divided by.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of an ONNX file: logits or probabilities.")] = None,
    embedding: Annotated[str | None, typer.Option(help="Of an ONNX file: the tensor that holds the embeddings.")] = None,
    json: JsonOption = False,
) -> None:
    """Give any model a name of your own, by a card that you can edit.

    [dim]zoo card new timm:resnet18 --as my-model[/dim]

    [dim]zoo card new file:weights.pth --arch resnet18 --classes classes.txt --as my-checkpoint[/dim]
    """
    from zoo._registry import registry

    told = {
        "size": size,
        "mean": _numbers("--mean", mean),
        "std": _numbers("--std", std),
        "kind": kind,
        "embedding": embedding,
    }
    card = registry.register(model, name, keep=True, **given(arch, classes, **told))
    if json:
        print_json({"model": card.name, "source": card.source, "id": card.id, "path": card.path})
    note(f"{card.name}: wrote {card.path}, which you can edit; `zoo show {card.name}` shows it")


def given(arch: str | None, classes: str | None, **rest: Any) -> dict[str, Any]:
    """The options that were given, as `zoo.register` takes them."""
    told = {"architecture": arch, "classes": None if classes is None else class_names(classes), **rest}
    return {key: value for key, value in told.items() if value is not None}


def under_own_name(models: list[str], arch: str | None, classes: str | None) -> "list[str]":
    """The models to run; a bare file that the options describe goes by its own name without the ending."""
    from zoo._registry import registry
    from zoo.errors import InputError

    told = given(arch, classes)
    if not told:
        return models
    if len(models) != 1 or not models[0].startswith(("file:", "onnx:")):
        raise InputError("--arch and --classes describe one bare file; name file:PATH or onnx:PATH alone")
    card: Card = registry.register(models[0], Path(models[0].partition(":")[2]).stem, **told)
    return [card.name]


def class_names(text: str) -> str | list[str]:
    """The lines of a file, or the name of a label set."""
    from zoo import labels
    from zoo.errors import InputError

    path = Path(text).expanduser()
    if not path.is_file():
        if text in labels.known() or text == "in1k":
            return text
        raise InputError(f"--classes {text}: expected a file with one name per line, or one of {', '.join(labels.known())}")
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise InputError(f"--classes {text}: not a text file: {error}") from error
    return [line for line in lines if line]


def _numbers(option: str, text: str | None) -> list[float] | None:
    from zoo.errors import InputError

    if text is None:
        return None
    try:
        found = [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(f"{option} {text}: expected numbers, e.g. 0.5,0.5,0.5") from error
    return found * 3 if len(found) == 1 else found
