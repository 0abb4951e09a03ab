"""The command line: `zoo COMMAND`. Each module beside this one holds the commands of a task; heavy imports wait until a
command needs them."""

import os
import signal
import sys
from typing import Annotated

import typer

from zoo.app import (
    card,
    catalogue,
    compare,
    ensemble,
    exchange,
    features,
    figure,
    head,
    ood,
    pairs,
    probe,
    recommend,
    reports,
    run,
    shift,
    storage,
    train,
    triage,
    trust,
)
from zoo.app.options import CommandGroup
from zoo.app.terminal import fill, warnings_as_notes
from zoo.core import settings
from zoo.core.text import as_text
from zoo.errors import ZooError

INTERRUPTED, TERMINATED = 130, 143  # 128 + SIGINT and 128 + SIGTERM, as in shells

EXAMPLES = """\
Examples:

$ zoo list @cifar10 objective=cosine

$ zoo compare resnet7-softmax.cifar10 r7x2.cifar10

$ zoo ensemble search @cifar10 --base r7x2.cifar10 --name my-ensemble

$ zoo report --from predictions/ -o report.html

$ zoo run resnet7-softmax.cifar10 --data folder:images

These need no download: the models and outputs of @cifar10 are part of the package. `zoo COMMAND -h` shows more. \
Weights and outputs are stored in ZOO_HOME.
"""

app = typer.Typer(
    name="zoo",
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Image classifiers: which make different mistakes, which to combine, and whose embeddings transfer.",
    epilog=EXAMPLES,
)


def show_version(requested: bool) -> None:
    if requested:
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


# In the order of the help's panels.
for module in (
    catalogue, card, run, exchange, compare, pairs, triage, trust, ood, shift, ensemble, recommend, probe, features, reports,
    figure, train, head, storage,
):  # fmt: skip
    module.register(app)


def main() -> None:
    """Run a command. A user's mistake ends in one line on standard error and exit code 2, a failure in exit code 1."""
    code: str | int | None = 0
    _limit_spinning()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character gets its escape
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except SystemExit as done:  # how typer ends: help, a wrong option, typer.Exit, Ctrl-C
        code = done.code
    except (ZooError, OSError, MemoryError) as error:
        if settings.debug():
            raise
        _print_error(str(error) or type(error).__name__)
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))  # a mistyped path is a user's mistake
        code = getattr(error, "exit_code", 2 if missing else 1)
    except Exception as error:
        if settings.debug():
            raise
        _print_error(f"unexpected {type(error).__name__}: {error} (ZOO_DEBUG=1 shows where)")
        code = 1
    if code in (INTERRUPTED, TERMINATED):
        _print_error("stopped; the same command continues where it stopped")
    sys.exit(code)


def _print_error(message: str) -> None:
    """Print one line on standard error; on a terminal, wrapped between words."""
    line = " ".join(f"zoo: {message}".split())
    print(fill(line) if sys.stderr.isatty() else as_text(line), file=sys.stderr)


def _limit_spinning() -> None:
    """Let OpenMP threads that wait for each other give up their core after about ten microseconds.

    Torch's OpenMP (GNU) spins for a millisecond by default. That is no faster on an idle machine; on a busy one the thread
    that is waited for may be the one without a core, and networks take three times as long. Torch reads the setting once,
    when it is imported. A setting of the user's is kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _terminate(*_: object) -> None:
    """End as an exception would, so that locks, unfinished files and child processes are cleaned up."""
    sys.exit(TERMINATED)


if __name__ == "__main__":
    main()
