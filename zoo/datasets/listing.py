"""List the datasets: embedded ones, known ones (found on this machine or missing), and user-defined ones (outputs only)."""

from dataclasses import dataclass
from typing import Literal

from zoo.core import settings
from zoo.datasets import hub, user_datasets
from zoo.datasets.digits import EMBEDDED
from zoo.datasets.known import KNOWN

State = Literal["embedded", "found", "missing", "outputs only"]


@dataclass(frozen=True)
class Listed:
    """One dataset of the list."""

    name: str
    state: State
    splits: tuple[str, ...] = ()
    place: str = ""  # where its images are, or where to get them


def list_datasets() -> list[Listed]:
    """Return every dataset that has a name, without reading any of them.

    >>> [listed.name for listed in list_datasets()][:2]
    ['digits', 'digits-holes']
    """
    embedded = [Listed(name, "embedded", dataset.splits, "scikit-learn") for name, dataset in EMBEDDED.items()]
    known = [_known(name) for name in KNOWN]
    return [*embedded, *known, *(Listed(spec, "outputs only") for spec in user_datasets.specs())]


def _known(name: str) -> Listed:
    splits = tuple(KNOWN[name].splits)
    source = KNOWN[name].view_of or name  # a view is where the images are that it is derived from
    for root in settings.data_folders():
        if (root / source).is_dir():
            return Listed(name, "found", splits, str(root / source))
    entry = KNOWN[source]
    cached = next((folder for folder in hub.cached(entry.hub) if folder.exists()), None) if entry.hub else None
    if cached is not None:
        return Listed(name, "found", splits, str(cached))
    return Listed(name, "missing", splits, f"hf:{entry.hub}" if entry.hub else entry.source)
