"""`zoo card new`: a name for any model, written as a card."""

from typing import Annotated, Literal

import typer

from zoo.app.options import FILES, FIND, CommandGroup, Json, ModelFiles, command, model_argument
from zoo.app.terminal import print_json, wrote


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

    card = registry.register(model, name, keep=True, **model_files.hints(kind=kind, embedding=embedding))
    if json:
        print_json({"model": card.name, "source": card.source, "id": card.id, "path": card.path})
    assert card.path is not None  # kept
    wrote(card.path, f"`zoo show {card.name}` shows it")
