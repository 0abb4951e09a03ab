"""`--arch` and `--classes`: what a file of weights does not say itself, for every command that takes models."""

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

ArchOption = Annotated[
    str | None,
    typer.Option("--arch", rich_help_panel="Models that are bare files", help="Of file:PATH: timm's or torchvision's name."),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        "--classes",
        rich_help_panel="Models that are bare files",
        help="Of file:PATH or onnx:PATH: .txt with one name per line, or a label set: imagenet-1k.",
    ),
]
_MODELS = ("name", "names", "first", "second", "base", "candidates")  # what commands call the models they take
_PREFIXES = ("file:", "onnx:")


def takes_bare_files(command: Callable[..., None]) -> Callable[..., None]:
    """The command with both options; the bare files among its models go by their own names, without the ending."""

    @functools.wraps(command)
    def described(*, arch: str | None, classes: str | None, **given: Any) -> None:
        hints = hints_from(arch, classes)
        names = _register(_files(given), hints) if hints else {}
        command(**{key: _renamed(value, names) if key in _MODELS else value for key, value in given.items()})

    signature = inspect.signature(command)
    added = {"arch": ArchOption, "classes": ClassesOption}
    described.__annotations__ = command.__annotations__ | added
    described.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            *signature.parameters.values(),
            *(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=added[key]) for key in added),
        ]
    )
    return described


def hints_from(arch: str | None, classes: str | None, **rest: Any) -> dict[str, Any]:
    """The options that were given, as `zoo.register` takes them."""
    hints = {"architecture": arch, "classes": None if classes is None else class_names(classes), **rest}
    return {key: value for key, value in hints.items() if value is not None}


def class_names(text: str) -> str | list[str]:
    """The lines of a file, or the name of a label set."""
    from zoo.cards import labels
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


def _files(given: dict[str, Any]) -> list[str]:
    """The bare files among a command's models, each once."""
    entries = [value if isinstance(value, list) else [value] for key, value in given.items() if key in _MODELS]
    return list(dict.fromkeys(e for group in entries for e in group if isinstance(e, str) and e.startswith(_PREFIXES)))


def _register(files: Sequence[str], hints: dict[str, Any]) -> dict[str, str]:
    """The name of each file in this process: its own without the ending, after its folder's where two are called alike."""
    from zoo.errors import InputError
    from zoo.models import registry

    if not files:
        raise InputError("--arch and --classes describe bare files, and no model is one; expected file:PATH or onnx:PATH")
    paths = {file: Path(file.partition(":")[2]).expanduser().absolute() for file in files}
    alike = Counter(path.stem for path in paths.values())
    known = registry.known_models()
    names = {}
    for file, path in paths.items():
        name = path.stem if alike[path.stem] == 1 and path.stem not in known else f"{path.parent.name}-{path.stem}"
        names[file] = registry.register(file, name, **hints).name
    return names


def _renamed(value: Any, names: dict[str, str]) -> Any:
    return [names.get(one, one) for one in value] if isinstance(value, list) else names.get(value, value)
