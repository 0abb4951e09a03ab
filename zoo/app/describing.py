"""`zoo card new`: a name of one's own for any model, written once as a card."""

from typing import Annotated

import typer

from zoo.app.bare_files import ArchOption, ClassesOption, hints_from
from zoo.app.printing import JsonOption, note, print_json

PANEL = "Find models"


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
    from zoo.models import registry

    hints = {
        "size": size,
        "mean": _numbers("--mean", mean),
        "std": _numbers("--std", std),
        "kind": kind,
        "embedding": embedding,
    }
    card = registry.register(model, name, keep=True, **hints_from(arch, classes, **hints))
    if json:
        print_json({"model": card.name, "source": card.source, "id": card.id, "path": card.path})
    note(f"{card.name}: wrote {card.path}, which you can edit; `zoo show {card.name}` shows it")


def _numbers(option: str, text: str | None) -> list[float] | None:
    from zoo.errors import InputError

    if text is None:
        return None
    try:
        found = [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(f"{option} {text}: expected numbers, e.g. 0.5,0.5,0.5") from error
    return found * 3 if len(found) == 1 else found
