"""`zoo card new`: a name for any model, written as a card."""

from typing import Annotated, Literal

import typer

from zoo.app.options import FILES, FIND, CommandGroup, ImageSize, Json, ModelFiles, command, model_argument
from zoo.app.terminal import print_json, wrote
from zoo.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(cls=CommandGroup, no_args_is_help=True, help="Write model cards.")
    group.callback()(lambda: None)  # keeps `new` a command of its own
    group.command("new")(command(new))
    app.add_typer(group, name="card", rich_help_panel=FIND)


def new(
    model: Annotated[str, model_argument("timm:NAME, torchvision:NAME, hf:REPO, file:PATH, onnx:PATH, ...")],
    name: Annotated[str, typer.Option("--name", help="Name of the model that is created.")],
    model_files: ModelFiles,
    size: ImageSize = None,
    mean: Annotated[
        str | None, typer.Option(rich_help_panel=FILES, help="Subtracted from the input, e.g. 0.5,0.5,0.5.")
    ] = None,
    std: Annotated[str | None, typer.Option(rich_help_panel=FILES, help="The input is divided by it.")] = None,
    kind: Annotated[
        Literal["logits", "probabilities"] | None, typer.Option(rich_help_panel=FILES, help="What an ONNX file returns.")
    ] = None,
    embedding: Annotated[
        str | None, typer.Option(rich_help_panel=FILES, help="Tensor of an ONNX file that holds the embeddings.")
    ] = None,
    json: Json = False,
) -> None:
    """Give any model a name, by a card in your home that you can edit.

    [dim]zoo card new timm:resnet18 --name my-model[/dim]

    [dim]zoo card new file:weights.pth --arch resnet18 --classes classes.txt --name my-checkpoint[/dim]
    """
    from zoo.models import registry

    hints = model_files.hints(
        size=size, mean=_numbers("mean", mean), std=_numbers("std", std), kind=kind, embedding=embedding
    )
    card = registry.register(model, name, keep=True, **hints)
    if json:
        print_json({"model": card.name, "source": card.source, "id": card.id, "path": card.path})
    assert card.path is not None  # kept
    wrote(card.path, f"`zoo show {card.name}` shows it")


def _numbers(argument: str, text: str | None) -> list[float] | None:
    """Return the numbers of a text such as 0.5,0.5,0.5; a single number stands for all three channels."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(argument=argument, expected="numbers such as 0.5,0.5,0.5", found=text) from error
    return numbers * 3 if len(numbers) == 1 else numbers
