"""The command line: `zoo COMMAND`. Commands live beside this file by task; what they need loads when they run."""

import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

from zoo.app import (
    catalogue,
    comparing,
    describing,
    ensembling,
    features,
    figuring,
    heads,
    housekeeping,
    judging,
    pairs,
    probing,
    recommending,
    reporting,
    running,
    training,
)  # fmt: skip
from zoo.app.printing import warnings_as_notes
from zoo.errors import ZooError

INTERRUPTED, TERMINATED = 130, 143  # 128 + SIGINT and 128 + SIGTERM, as shells count

EXAMPLES = """\
Examples:

zoo list 'resnet50-*' --field objective=cosine

zoo run efficientnet-lite0 --data folder:images

zoo compare resnet8-cosine resnet8-softmax --data digits:test

zoo ensemble 'resnet8-*' --base resnet8-softmax --steps 5 --save my-ensemble

zoo report 'resnet8-*' --data digits:test -o report.html

`zoo COMMAND -h` shows more. ZOO_HOME says where weights and outputs are kept.
"""


class Commands(TyperGroup):
    """Commands whose errors name options: `--steps` where the called function names its parameter `steps`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ZooError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            if not error.options:
                error.options = options_of(command)
            raise


def options_of(command: Any) -> dict[str, str]:
    """How a command calls each argument: `--steps` for `steps`, `--random` for `pretrained=False`."""
    options = {}
    for parameter in getattr(command, "params", ()):
        if isinstance(parameter, TyperOption) and parameter.name:
            options[parameter.name] = parameter.opts[0]
            if parameter.secondary_opts:
                options[f"{parameter.name}=False"] = parameter.secondary_opts[0]
    return options


app = typer.Typer(
    name="zoo",
    cls=Commands,
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
    catalogue, describing, training, heads, running, comparing, pairs, judging, ensembling, recommending, probing, features,
    figuring, reporting, housekeeping,
):  # fmt: skip
    group.register(app)


def main() -> None:
    """Run a command; a user's mistake ends in a short message on standard error, exit code 2, a failure in exit code 1."""
    from zoo.core.text import as_text

    code: str | int | None = 0
    _wait_briefly()
    signal.signal(signal.SIGTERM, _terminate)
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
    if code in (INTERRUPTED, TERMINATED):
        print("zoo: stopped; the same command goes on where it left off", file=sys.stderr)
    sys.exit(code)


def _wait_briefly() -> None:
    """Let threads that wait for each other give up their core after some ten microseconds, where nobody says otherwise.

    Torch's OpenMP (GNU) would go on asking for a millisecond. Alone on a machine that is no faster; beside other work the
    thread that is waited for may be the one without a core, and networks take three times as long. Read once, with torch.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _terminate(*_: object) -> None:
    """Leave as an exception would, so that locks, half-written files and other processes are cleared away."""
    sys.exit(TERMINATED)


if __name__ == "__main__":
    main()
