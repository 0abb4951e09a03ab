"""The command line: `zoo COMMAND`. Commands live beside this file by task; what they need loads when they run."""

import os
import sys
from typing import Annotated

import typer

from zoo.app import (
    catalogue,
    comparing,
    describing,
    ensembling,
    features,
    heads,
    housekeeping,
    pairs,
    probing,
    reporting,
    running,
    training,
)  # fmt: skip
from zoo.app.printing import warnings_as_notes

INTERRUPTED = 130  # 128 + SIGINT, as shells count

EXAMPLES = """\
Examples:

zoo list 'resnet50-*' --field objective=cosine

zoo run efficientnet-lite0 --data folder:images

zoo compare resnet8-cosine resnet8-softmax --data digits:test

zoo ensemble 'resnet8-*' --base resnet8-softmax --steps 5 --save my-ensemble

zoo report 'resnet8-*' --data digits:test -o report.html

`zoo COMMAND -h` shows more. ZOO_HOME says where weights and outputs are kept.
"""

app = typer.Typer(
    name="zoo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which image classifiers make different mistakes, which to put together, and whose features transfer.",
    epilog=EXAMPLES,
)


def show_version(wanted: bool) -> None:
    if wanted:
        import zoo

        typer.echo(f"zoo {zoo.__version__}")
        raise typer.Exit


@app.callback()
def before_any_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    context.with_resource(warnings_as_notes())


for group in (
    catalogue, describing, training, heads, running, comparing, pairs, ensembling, probing, features, reporting,
    housekeeping,
):  # fmt: skip
    group.register(app)


def main() -> None:
    """Run a command; a user's mistake ends in a short message on standard error, exit code 2, a failure in exit code 1."""
    from zoo._storage.text import as_text
    from zoo.errors import ZooError

    code: str | int | None = 0
    try:
        app()
    except SystemExit as done:  # how typer ends: help, a wrong option, typer.Exit, Ctrl-C
        code = done.code
    except (ZooError, OSError, MemoryError) as error:
        if os.environ.get("ZOO_DEBUG"):
            raise
        print(f"zoo: {as_text(' '.join(str(error).split())) or type(error).__name__}", file=sys.stderr)
        absent = isinstance(error, (FileNotFoundError, NotADirectoryError))  # a mistyped path is a user's mistake
        code = getattr(error, "exit_code", 2 if absent else 1)
    except Exception as error:
        if os.environ.get("ZOO_DEBUG"):
            raise
        reason = as_text(" ".join(str(error).split()))
        print(f"zoo: unexpected {type(error).__name__}: {reason} (ZOO_DEBUG=1 shows where)", file=sys.stderr)
        code = 1
    if code == INTERRUPTED:
        print("zoo: stopped; the same command goes on where it left off", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
