"""The report on several models' outputs, as one page to keep: HTML, Markdown or JSON."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.app.report.document import Document
    from zoo.outputs.outputs import Outputs, Runs

FORMATS = (".html", ".md", ".json")


def report(
    runs: "Runs | Mapping[str, Outputs] | Iterable[Outputs] | Sequence[str]",
    output: str | Path | None = "report.html",
    *,
    data: str | None = None,
    base: str | None = None,
    steps: int = 10,
    seed: int = 0,
    static: bool = False,
) -> "Document":
    """Write a report on several models, and return it; its `findings` are sentences, its `numbers` plain data.

    Args:
        runs: outputs of at least two models on the same labelled examples, or names of models, which are run on `data`.
        output: file to write: .html, .md or .json; None writes nothing.
        data: dataset to run named models on; default: that of the models' cards.
        base: the model that the ensemble search starts from; default: the most accurate one.
        steps: models that the search adds at most.
        seed: of the splits and of every bootstrap.
        static: write a small HTML page without the explorer.
    """
    import zoo
    from zoo.app.report.compose import compose
    from zoo.app.report.inputs import ReportInputs, available_images
    from zoo.core import files
    from zoo.errors import InputError
    from zoo.outputs.outputs import Runs

    if output is not None and Path(output).suffix.lower() not in FORMATS:
        raise InputError(argument="output", expected="a file that ends in .html, .md or .json", found=str(output))
    items = list(runs.values() if isinstance(runs, Mapping) else [runs] if isinstance(runs, str) else runs)
    names = [item for item in items if isinstance(item, str)]
    found = zoo.run(names, data=data) if names else Runs(item for item in items if not isinstance(item, str))
    inputs = ReportInputs(found, images=available_images(next(iter(found.values())).dataset) if found else None)
    document = compose(inputs, base, steps, seed)
    if output is not None:
        files.write(Path(output), rendered(document, Path(output).suffix.lower(), static))
    return document


def rendered(document: "Document", ending: str, static: bool = False) -> bytes:
    """Return a report as the contents of a file whose name ends in .html, .md or .json."""
    from zoo.app.report.html import to_explorer, to_html
    from zoo.app.report.markdown import to_markdown
    from zoo.app.terminal import json_bytes

    if ending == ".json":
        return json_bytes(document.numbers)
    text = to_markdown(document) if ending == ".md" else (to_html if static else to_explorer)(document)
    return text.encode("utf-8", "backslashreplace")  # for names that are not UTF-8
