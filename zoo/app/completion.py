"""Shell completion of model names, datasets, figures and measures. Answers within a fraction of a second: nothing heavy is
imported, and an error means no suggestions."""

import importlib.util
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

Completer = Callable[[str], list[str]]
_FIGURE = re.compile(r'@figure\(\s*"([^"]+)"')


def _completer(known: Callable[[], Iterable[str]]) -> Completer:
    def complete(incomplete: str) -> list[str]:
        from zoo.errors import ZooError

        try:
            with warnings.catch_warnings(action="ignore"):
                return sorted({name for name in known() if name.startswith(incomplete)})
        except (ZooError, OSError):
            return []

    return complete


def model_names() -> list[str]:
    """Return the known models, the models with stored outputs, and the named sets."""
    from zoo.cards.selection import set_names
    from zoo.models import registry
    from zoo.outputs.stored_names import stored_names

    return [*registry.known_models(), *stored_names(), *set_names()]


def dataset_specs() -> list[str]:
    """Return the datasets with a name, and each of their splits."""
    from zoo.datasets.listing import list_datasets

    return [spec for one in list_datasets() for spec in (one.name, *(f"{one.name}:{split}" for split in one.splits))]


def figure_keys() -> list[str]:
    """Return the keys of all figures, read from the source: importing them takes seconds."""
    sources = (Path(__file__).parent / "figures").glob("*.py")
    return [key for source in sources for key in _FIGURE.findall(source.read_text(encoding="utf-8"))]


def pair_measures() -> list[str]:
    """Return the measures of `zoo pairs`; their module is loaded without its package, which imports torch."""
    package = importlib.util.find_spec("diversity")
    if package is None or not package.submodule_search_locations:
        return []
    path = Path(package.submodule_search_locations[0]) / "measures.py"
    name = "_zoo_measures"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up annotations
    spec.loader.exec_module(module)
    return list(module.names("errors"))


complete_models = _completer(model_names)
complete_datasets = _completer(dataset_specs)
complete_figures = _completer(figure_keys)
complete_measures = _completer(pair_measures)
