"""Commands of this group; see `register`."""

import typer


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
