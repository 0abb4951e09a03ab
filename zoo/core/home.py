"""The layout of the home folder, `ZOO_HOME`. The names of its folders are written here and nowhere else.

weights/NAME/     trained weights, linear heads, checkpoints and training logs
cards/            the user's cards
outputs/          stored runs and imports, see `zoo.outputs.store.layout`
heads/            class weights of zero-shot models
models/           facts about models, readable without loading them
datasets/         ids and labels of user-defined datasets, which have stored outputs but no images
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
    """Return the path of a folder of `home`, by default `ZOO_HOME`. The folder may not exist yet."""
    return root(home) / name


def hashes(home: Path | str | None = None) -> Path:
    """Return the path of the file with the checksums of downloaded weights."""
    return root(home) / "hashes.json"


def root(home: Path | str | None = None) -> Path:
    """Return `home`, by default `ZOO_HOME`, as a path."""
    return Path(home).expanduser() if home is not None else settings.home()
