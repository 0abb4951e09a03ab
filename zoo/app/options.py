"""The options that several commands share: one definition, one meaning and one help text for each.

A command takes a group of options as one parameter whose type is one of the dataclasses below; `command` turns each of its
fields into an option:

    def pairs(models: Models, inputs: Inputs, results: Results) -> None:
        runs = inputs.runs(models)

Parameters have the names that the called function's parameters have, so that an error about `steps` is shown as one about
`--steps`.
"""

import dataclasses
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from zoo.app import checks
from zoo.app.completion import complete_datasets, complete_models
from zoo.app.terminal import json_bytes, note, print_json, wrote
from zoo.errors import InputError, UnknownName, ZooError

if TYPE_CHECKING:
    import pandas as pd

    from zoo.calibration import CalibratedRuns
    from zoo.outputs.outputs import Runs

FIND, RUN, COMPARE, TRUST, ENSEMBLE, FEATURES, REPORT, TRAIN, STORAGE = (
    "Find models", "Run and import", "Compare", "Calibrate and trust", "Ensemble", "Probe embeddings", "Report and figures",
    "Train", "Storage",
)  # fmt: skip
TABLE, NUMBERS = ".csv", ".json"
CHARTS = (".html", ".svg", ".png", ".pdf", ".vl.json")  # the last is the chart's Vega-Lite specification


def spec_option(flag: str, text: str) -> Any:
    """Return an option whose value is a dataset; `--data` is also `-d`."""
    flags = (flag, "-d") if flag == "--data" else (flag,)
    return typer.Option(*flags, metavar="SPEC", help=text, autocompletion=complete_datasets)


def models_option(flag: str, text: str, metavar: str = "MODELS") -> Any:
    """Return an option that takes one or more models or selectors of models after its flag."""
    return typer.Option(flag, metavar=metavar, help=text, autocompletion=complete_models)


def model_argument(text: str, metavar: str = "MODEL") -> Any:
    """Return an argument that is a model, or a selector of models."""
    return typer.Argument(metavar=metavar, help=text, show_default=False, autocompletion=complete_models)


SELECTORS = "Names, patterns ('resnet7-*'), filters (objective=cosine) or sets (@cifar10)."
Models = Annotated[list[str], model_argument(SELECTORS, "MODELS")]
OptionalModels = Annotated[list[str] | None, model_argument(SELECTORS, "MODELS")]
Data = Annotated[
    str | None,
    spec_option("--data", "Dataset: cifar10, digits:test, folder:PATH, ... Default: the test split of the models' dataset."),
]
OnlyData = Annotated[str | None, spec_option("--data", "Only outputs on this dataset. Default: on any.")]
Base = Annotated[str | None, models_option("--base", "The model to start from.", "MODEL")]
Candidates = Annotated[list[str] | None, models_option("--candidates", "Only these models may be added.")]
Kind = Literal["logits", "probabilities", "predictions", "embeddings"]

_OUTPUTS, _CALIBRATION, FILES = "Outputs", "Calibration", "Models that are files (file:PATH, onnx:PATH)"
Fresh = Annotated[bool, typer.Option("--fresh", rich_help_panel=_OUTPUTS, help="Run the models even if outputs exist.")]
Common = Annotated[
    bool, typer.Option("--common", rich_help_panel=_OUTPUTS, help="Keep only the examples that all models have.")
]
From = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="PATH",
        rich_help_panel=_OUTPUTS,
        help="Read outputs from this file or folder without storing them. May be repeated.",
    ),
]
FromKind = Annotated[Kind | None, typer.Option("--kind", rich_help_panel=_OUTPUTS, help="What the files of --from hold.")]
Arch = Annotated[
    str | None, typer.Option("--arch", rich_help_panel=FILES, help="Architecture, by its name in timm or torchvision.")
]
Classes = Annotated[
    str | None,
    typer.Option(rich_help_panel=FILES, help="Text file with one class per line, or a label set: imagenet-1k."),
]
Mean = Annotated[
    str | None,
    typer.Option(
        "--mean", rich_help_panel=FILES, help="Mean of each channel, which is subtracted from the input: 0.5,0.5,0.5."
    ),
]
Std = Annotated[
    str | None,
    typer.Option("--std", rich_help_panel=FILES, help="Standard deviation of each channel, which divides the input."),
]
ImageSize = Annotated[
    int | None, typer.Option("--image-size", min=8, rich_help_panel=FILES, help="Side of the input in pixels.")
]
TemperaturesFrom = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC|FRACTION|cross-fit|stored",
        rich_help_panel=_CALIBRATION,
        help="Fit temperatures on a dataset; on a fraction of the examples, which is then not reported; in five folds, each "
        "on the other four; or use stored ones. Default: the dataset's calibration split if it has one, else cross-fit.",
    ),
]
Uncalibrated = Annotated[
    bool, typer.Option("--uncalibrated", rich_help_panel=_CALIBRATION, help="Use temperature 1 for all models.")
]
Output = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write a file: .csv or .json (numbers), .html, .svg, .png or .pdf (chart). May be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Pretrained = Annotated[bool, typer.Option("--pretrained/--random", help="Trained weights, or random ones.")]
BatchSize = Annotated[int, typer.Option(help="Images per forward pass.")]
ResizeMode = Annotated[
    str | None,
    typer.Option(
        help="evaluation: as the model's card says; transfer: shortest side to the input size. Default: the dataset's."
    ),
]
Steps = Annotated[int, typer.Option(help="How many models to add.")]
Ensemble = Annotated[bool, typer.Option("--ensemble", help="Add a row for the ensemble of all MODELS with equal weights.")]
Seed = Annotated[int, typer.Option(help="Seed of random splits and samples.")]
Level = Annotated[float, typer.Option(help="Level of the confidence intervals.")]
NewName = Annotated[str | None, typer.Option("--name", help="Name of the model that is created.")]


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """Facts about models that are bare files, which the files do not contain."""

    arch: Arch = None
    classes: Classes = None
    mean: Mean = None
    std: Std = None
    image_size: ImageSize = None

    def named(self, models: Sequence[str]) -> list[str]:
        """Return the models, with bare files replaced by the names they are registered under in this process.

        A file is registered only if facts about it are given. Its name is that of the file without its ending; the folder's
        name goes in front if that name is taken or several files have it.
        """
        checks.check_names(models)
        hints = self.hints()
        if not hints:
            return list(models)
        from zoo.models import registry

        names: dict[str, str] = self.__dict__.setdefault("_file_names", {})  # that this command has registered
        files = [model for model in models if model.startswith(("file:", "onnx:")) and model not in names]
        paths = {model: Path(model.partition(":")[2]).expanduser().absolute() for model in files}
        if not paths and not names:
            stated = [field.name for field in dataclasses.fields(ModelFiles) if getattr(self, field.name) is not None]
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in stated)
            problem = f"no model is a file, so {flags} has no effect"
            raise InputError(problem, argument="models", expected="file:PATH or onnx:PATH")
        stems, known = Counter(path.stem for path in paths.values()), registry.known_models()
        for model, path in paths.items():
            unique = stems[path.stem] == 1 and path.stem not in known
            names[model] = registry.register(model, path.stem if unique else f"{path.parent.name}-{path.stem}", **hints).name
        return [self.registered(model) for model in models]

    def registered(self, model: str) -> str:
        """Return the name under which this command has registered a bare file; any other model as it is."""
        names: dict[str, str] = self.__dict__.get("_file_names", {})
        return names.get(model, model)

    def hints(self, **more: Any) -> dict[str, Any]:
        """Return the facts that are given, and further ones, as `zoo.register` takes them."""
        facts = {
            "architecture": self.arch,
            "classes": self.classes and read_classes(self.classes),
            "mean": _numbers("mean", self.mean),
            "std": _numbers("std", self.std),
            "size": self.image_size,
            **more,
        }
        return {key: value for key, value in facts.items() if value is not None}


def _numbers(argument: str, text: str | None) -> list[float] | None:
    """Return the numbers of a text such as 0.5,0.5,0.5; a single number stands for all three channels."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(argument=argument, expected="numbers such as 0.5,0.5,0.5", found=text) from error
    return numbers * 3 if len(numbers) == 1 else numbers


def read_classes(text: str) -> str | list[str]:
    """Return the class names in a text file, one per line, or the name of a label set as it is."""
    from zoo.cards import labels
    from zoo.cards.names import similar

    path = Path(text).expanduser()
    if not path.is_file():
        if text in labels.known() or text == "in1k":
            return text
        raise UnknownName(
            argument="classes",
            expected=f"a file with one class per line, or one of {', '.join(labels.known())}",
            name=text,
            suggestions=similar(text, labels.known()),
        )
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", where=path, argument="classes") from error
    return [line for line in lines if line]


@dataclass(frozen=True, kw_only=True)
class ModelInputs(ModelFiles):
    """The outputs of models: existing outputs are used, missing ones are computed."""

    data: Data = None
    fresh: Fresh = False

    def runs(self, models: Sequence[str], **options: Any) -> "Runs":
        """Return the outputs of models; `options` are those of `zoo.run`."""
        return self._run(self.named(models), **options)

    def _run(self, names: list[str], **options: Any) -> "Runs":
        from zoo.runs.runner import run

        try:
            return run(names, data=self.data, fresh=self.fresh, **options)
        except InputError:
            raise
        except ZooError:
            if options.get("pretrained", True):
                checks.explain_missing_weights(names)
            raise


@dataclass(frozen=True, kw_only=True)
class Inputs(ModelInputs):
    """From models, files or both to outputs."""

    files: From = None
    kind: FromKind = None
    common: Common = False

    def runs(self, models: Sequence[str] | None, **options: Any) -> "Runs":
        """Return the outputs of models; those that the files hold are read from there. Without models: all of the files."""
        if self.files is None:
            names = self.named(models or ())
            checks.check_same_classes(names, self.data)
            runs = self._run(names, **options)
        else:
            checks.check_files(self.files, "files")
            runs = self._with_files(models or (), **options)
        return runs.common() if self.common else runs

    def _with_files(self, models: Sequence[str], **options: Any) -> "Runs":
        from zoo.cards.selection import is_filter
        from zoo.outputs.outputs import Runs

        held = read_outputs(self.files or (), data=self.data, kind=self.kind)
        filters = [model for model in models if is_filter(model)]
        if len(filters) == len(models):
            return held.subset(filters) if filters else held
        chosen, others = dict[str, Any](), list[str]()
        for model in models:
            try:
                if model not in filters:
                    chosen |= held.subset([model, *filters])
            except UnknownName:
                others.append(model)
        if others:
            chosen |= super().runs([*others, *filters], **options)
        return Runs(chosen)


def read_outputs(
    paths: Sequence[Path], data: str | None = None, kind: "Kind | None" = None, name: str | None = None, **options: Any
) -> "Runs":
    """Return the outputs in files and folders. Of a folder that holds bundles, only these are read.

    Args:
        paths: files and folders.
        data: the dataset; default: what a bundle says.
        kind: what the numbers are; default: what the files say.
        name: the model's name, if there is only one.
        options: further arguments of `zoo.import_outputs`.
    """
    from zoo.outputs.bundle import is_bundle
    from zoo.outputs.importing.importer import import_outputs

    files: list[Path] = []
    for path in map(Path.expanduser, paths):
        bundles = [one for one in sorted(path.iterdir()) if is_bundle(one)] if path.is_dir() else []
        files += bundles or [path]
    return import_outputs(files, name, kind, data=data, **options)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Whether outputs are calibrated, and where the temperatures come from."""

    temperatures_from: TemperaturesFrom = None
    uncalibrated: Uncalibrated = False

    def apply(self, runs: "Runs") -> "Runs":
        """Return the runs at their temperatures; a note says which examples are left to report on."""
        return runs if self.uncalibrated else calibrate(runs, self.temperatures_from)


def calibrate(
    runs: "Runs", temperatures_from: str | None, temperature_space: str = "logits", device: str | None = None
) -> "CalibratedRuns":
    """Return calibrated runs, and print which examples are reported."""
    from zoo import calibration

    calibrated = calibration.calibrate(
        runs,
        split_or_fraction(temperatures_from),
        temperature_space=temperature_space,  # type: ignore[arg-type]  # checked there
        device=device,
    )
    note(calibrated.population)
    return calibrated


def split_or_fraction(text: str | None) -> str | float | None:
    """Return the value of --temperatures-from: a number if it is one, else a dataset's spec.

    >>> split_or_fraction("0.5"), split_or_fraction("digits:calibration")
    (0.5, 'digits:calibration')
    """
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def population(runs: "Runs") -> str:
    """Return in words which examples a result is about."""
    return getattr(runs, "population", "") or f"all {len(next(iter(runs.values()))):,} examples"


@dataclass(frozen=True, kw_only=True)
class Results:
    """How a command hands over its result: as text or JSON on standard output, and as files."""

    output: Output = None
    json: Json = False

    def check(self, *endings: str) -> None:
        """Raise an error, before the work begins, if a file cannot be written or has another ending than these."""
        for path in self.output or ():
            check_output(path, endings)

    def deliver(
        self,
        value: Any,
        show: Callable[[], None],
        *,
        table: "pd.DataFrame | None" = None,
        chart: Callable[[], Any] | None = None,
    ) -> None:
        """Print the result, then write the files. A file that cannot be written does not lose the printed result.

        Args:
            value: what JSON holds.
            show: prints the result as text.
            table: rows of a .csv file.
            chart: returns the Altair chart.
        """
        if self.json:
            print_json(value)
        else:
            show()
        for path in self.output or ():
            write_result(path, value, table, chart)


def check_output(path: Path, endings: Sequence[str]) -> None:
    """Raise an error unless a file has one of these endings and lies in a folder that exists."""
    if ending(path, endings) is None:
        raise InputError(argument="output", expected=f"a file that ends in {', '.join(endings)}", found=str(path))
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raise an error, before the work begins, if the folder of a file to be written does not exist."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}", argument="output")


def ending(path: Path, endings: Sequence[str]) -> str | None:
    """Return the longest of the endings that a file has, or None."""
    return max((one for one in endings if path.name.lower().endswith(one)), key=len, default=None)


def write_result(
    path: Path, value: Any, table: "pd.DataFrame | None" = None, chart: Callable[[], Any] | None = None
) -> None:
    """Write a result in the form that the file's ending names.

    Args:
        path: the file, which `check_output` has checked.
        value: contents of a .json file.
        table: contents of a .csv file.
        chart: returns the Altair chart.
    """
    from zoo.core import files
    from zoo.core.text import csv_bytes

    form = ending(path, (TABLE, NUMBERS, *CHARTS))
    if form in CHARTS:
        assert chart is not None  # the ending was checked
        drawn = chart()
        try:
            drawn.save(str(path), format=form.rpartition(".")[2])
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ZooError(f"cannot be written: {reason}", where=path, argument="output") from error
    elif form == TABLE:
        assert table is not None
        files.write(path, csv_bytes(table))
    else:
        files.write(path, json_bytes(value))
    wrote(path)


class CommandGroup(TyperGroup):
    """A group of commands.

    An option whose value is MODELS takes all words up to the next option. An error about an argument is shown as one about
    the option of the command that was run.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, _repeat_flags(command, rest)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ZooError as error:
            if not error.options:  # else the error comes from a command of a nested group
                error.options = options_of(self.get_command(ctx, ctx.invoked_subcommand or ""))
                if "files" in error.options:  # --from, which has few of the options that say how to read files
                    root: Any = ctx.find_root().command
                    importing = options_of(root.get_command(ctx, "import"))
                    error.options = {name: f"`zoo import {flag}`" for name, flag in importing.items()} | error.options
            raise


def _repeat_flags(command: Any, words: Sequence[str]) -> list[str]:
    """Return `--candidates a --candidates b` for `--candidates a b`, of options whose value is MODELS."""
    repeated = {
        flag
        for parameter in getattr(command, "params", ())
        if isinstance(parameter, TyperOption) and parameter.multiple and parameter.metavar == "MODELS"
        for flag in parameter.opts
    }
    result: list[str] = []
    flag = ""  # the option that the next words belong to
    for word in words:
        if word.startswith("-"):
            flag = word if word in repeated else ""
        elif flag and result[-1] != flag:
            result.append(flag)
        result.append(word)
    return result


# Arguments of `zoo.register`, and the parameters of commands that stand for them.
_RENAMED = {"architecture": "arch", "size": "image_size"}


def options_of(command: Any) -> dict[str, str]:
    """Return what a command calls each argument: `--steps` for `steps`, `--random` for `pretrained=False`."""
    options = {}
    for parameter in getattr(command, "params", ()):
        if isinstance(parameter, TyperOption) and parameter.name:
            options[parameter.name] = parameter.opts[0]
            if parameter.secondary_opts:
                options[f"{parameter.name}=False"] = parameter.secondary_opts[0]
        elif isinstance(parameter, TyperArgument) and parameter.name:
            options[parameter.name] = (parameter.metavar or parameter.name).strip("[].").upper()
    return options | {argument: options[one] for argument, one in _RENAMED.items() if one in options}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which each parameter that is a group of options is replaced by these options."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind) and isinstance(kind, type)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        group = groups.get(parameter.name)
        kinds = hints if group is None else get_type_hints(group, include_extras=True)
        for one in [parameter] if group is None else dataclasses.fields(group):
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(one.name, keyword, default=one.default, annotation=kinds[one.name]))

    @functools.wraps(function)
    def expanded(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        function(**values)

    # The terminal decides where lines end, not the source. Examples look like commands in a shell.
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    expanded.__doc__ = "\n\n".join(
        " ".join(paragraph.split()).replace("[dim]zoo ", "[dim]$ zoo ") for paragraph in paragraphs
    )
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded
