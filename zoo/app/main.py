"""The command line: `zoo COMMAND`. Commands live beside this file by task; what they need loads when they run."""

import os
import sys

import click
import typer

from zoo.app import catalogue, comparing, ensembling, features, probing, reporting, running, training

app = typer.Typer(
    name="zoo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which image classifiers make different mistakes, which to put together, and whose features transfer.",
)
for group in (catalogue, training, running, comparing, ensembling, probing, features, reporting):
    group.register(app)


def main() -> None:
    """Run a command; a user's mistake ends in one line on standard error, exit code 2, a failure in exit code 1."""
    from zoo.errors import ZooError

    try:
        code = app(standalone_mode=False)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        print("zoo: stopped; the same command goes on where it left off", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # `zoo list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (ZooError, OSError, MemoryError) as error:
        if os.environ.get("ZOO_DEBUG"):
            raise
        print(f"zoo: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        code = getattr(error, "exit_code", 1)
    except Exception as error:
        if os.environ.get("ZOO_DEBUG"):
            raise
        reason = " ".join(str(error).split())
        print(f"zoo: unexpected {type(error).__name__}: {reason} (ZOO_DEBUG=1 shows where)", file=sys.stderr)
        code = 1
    sys.exit(code or 0)


if __name__ == "__main__":
    main()
