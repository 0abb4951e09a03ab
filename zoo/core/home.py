"""What lies where in the zoo's home; every folder of it is spelled here and nowhere else.

weights/NAME/     trained weights, linear heads, checkpoints and logs of training
cards/            the user's own cards
outputs/          stored runs and imports, see `zoo.outputs.store.layout`
heads/            class weights of zero-shot models
models/           what is known of a model without loading it
datasets/         ids and labels of datasets that only outputs are known of
fingerprints/     checksums of large datasets
search/           scores of hyper-parameter trials
sets/             named sets of models, NAME.set
cache/            parsed cards
hashes.json       checksums of downloaded weights
"""

from pathlib import Path
from typing import Literal

from zoo.core import settings

Folder = Literal["weights", "cards", "outputs", "heads", "models", "datasets", "fingerprints", "search", "sets", "cache"]


def folder(name: Folder, home: Path | str | None = None) -> Path:
    """A folder of `home`, by default `ZOO_HOME`; it need not exist.

    >>> folder("outputs", "/tmp/zoo").as_posix()
    '/tmp/zoo/outputs'
    """
    return root(home) / name


def hashes(home: Path | str | None = None) -> Path:
    """The file of checksums of downloaded weights."""
    return root(home) / "hashes.json"


def root(home: Path | str | None = None) -> Path:
    return Path(home).expanduser() if home is not None else settings.home()
