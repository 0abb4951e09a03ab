"""Files of weights: found in a cache, fetched where there is a network, and the same file ever after.

The hash of a file is recorded at its first use in `<home>/hashes.json` and checked at each later one, so that weights which
change, on the hub or on the disk, are noticed. With no network and nothing cached the error comes within a second: the
caches are looked at first, the hub is asked once and briefly, and none of this loads torch.
"""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from zoo import files, settings
from zoo.cards import Card
from zoo.errors import CorruptFile, InputError, MissingWeights, ZooError, ZooWarning

SCHEMA = 1
_HUB_LINK = re.compile(r"https://huggingface\.co/([\w.-]+/[\w.-]*\w)")


def hub_file(name: str, repository: str, candidates: Sequence[str], revision: str | None = None) -> Path:
    """The first of the candidate files that the hub's cache holds, else that the hub has; `name` is the model's."""
    import huggingface_hub
    from huggingface_hub import constants, errors

    from zoo.catalogue.hub import answers, refusal

    for file in candidates:
        cached = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision)
        if isinstance(cached, str):
            return Path(cached)
    if constants.HF_HUB_OFFLINE:
        raise _missing(name, f"{candidates[0]} of {repository}", constants.HF_HUB_CACHE, "HF_HUB_OFFLINE is set", repository)
    if not answers(constants.ENDPOINT):
        reason = f"{constants.ENDPOINT} does not answer"
        raise _missing(name, f"{candidates[0]} of {repository}", constants.HF_HUB_CACHE, reason, repository)
    for file in candidates:
        try:
            return Path(huggingface_hub.hf_hub_download(repository, file, revision=revision))
        except Exception as error:  # the client raises whatever its transport raises
            if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
                continue
            raise refusal(name, repository, file, error) from error
    at = f" at revision {revision}" if revision else ""
    raise MissingWeights(f"{name}: https://huggingface.co/{repository}{at} has none of {', '.join(candidates)}")


def url_file(name: str, url: str) -> Path:
    """The file of a web address, in torch's own cache of checkpoints."""
    path = url_cache() / Path(urlparse(url).path).name
    if path.is_file():
        return path
    from zoo.catalogue.hub import answers

    parts = urlparse(url)
    if not answers(f"{parts.scheme}://{parts.netloc}"):
        raise MissingWeights(
            f"{name}: {path.name} is not in the cache {path.parent} and {parts.netloc} does not answer; "
            f"download {url} where there is a network and put it there"
        )
    import torch

    files.make_folder(path.parent)
    try:
        torch.hub.download_url_to_file(url, str(path))
    except OSError as error:
        raise MissingWeights(f"{name}: {url} cannot be had: {error}") from error
    return path


def url_cache() -> Path:
    """Where torch keeps downloaded checkpoints."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TORCH_HOME") or Path(cache) / "torch").expanduser() / "hub" / "checkpoints"


def require_cached(card: Card) -> None:
    """An error, before any library is loaded, if a card's weights are surely neither here nor to be had right now.

    The card links the repository its weights come from. Where it does not, or a cache holds anything that might be them,
    nothing is said here, and the library's own registry decides.
    """
    repository = linked_repository(card)
    if repository is None or any(url_cache().glob("*")):
        return
    from huggingface_hub import constants

    from zoo.catalogue.hub import answers

    cached = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    if cached.exists() or not (constants.HF_HUB_OFFLINE or not answers(constants.ENDPOINT)):
        return
    reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} does not answer"
    raise _missing(card.name, f"the weights file of {repository}", constants.HF_HUB_CACHE, reason, repository)


def linked_repository(card: Card) -> str | None:
    """The Hugging Face repository that a downloaded model's card links, `OWNER/NAME`; None for a folder on this machine."""
    if card.source == "transformers":
        return None if card.name.startswith("file:") else card.id
    link = _HUB_LINK.search(card.body) if card.source in ("timm", "open_clip") else None
    return link[1] if link else None


def verify(card: Card, path: Path) -> str:
    """The hash of a card's weights file; an error if it is not the card's or the one recorded at first use."""
    found = files.sha256(path)
    promised = path.resolve().name  # the hub's client names a large file by its announced hash, and checks its size only
    if re.fullmatch("[0-9a-f]{64}", promised) and found != promised:
        raise CorruptFile(
            f"{card.name}: {path} has the sha256 {found}, but the hub announced {promised}; the file was damaged on its way "
            f"or here: delete {path.resolve()} to fetch it again"
        )
    register = settings.home() / "hashes.json"
    key = f"{card.source}:{card.id or card.name}@{card.revision or 'latest'}"
    expected, said_by = card.sha256, f"the card {card.path or card.name}"
    if expected is None:
        expected, said_by = _recorded(register).get(f"{key}/{path.name}"), f"{register}, where its first use is recorded"
    if expected is None:
        _record(register, f"{key}/{path.name}", found)
    elif expected != found:
        raise CorruptFile(
            f"{card.name}: {path} has the sha256 {found}, expected {expected} by {said_by}; the file is damaged or was "
            f"replaced: delete {path.resolve()} to fetch it again, or, if you trust the new one, remove its line there"
        )
    return found


def _recorded(register: Path) -> dict[str, Any]:
    if not register.exists():
        return {}
    try:
        hashes = files.read_json(register, SCHEMA).get("hashes")
        if not isinstance(hashes, dict):
            raise CorruptFile(f"{register}: field 'hashes' must be a mapping")
    except CorruptFile as error:
        moved = files.set_aside(register)
        raise CorruptFile(f"{error}; set aside as {moved}: hashes are recorded anew from the next use on") from error
    return hashes


def _record(register: Path, key: str, value: str) -> None:
    """Add an entry. Another process may add one at the same moment, so it is looked whether ours is still there."""
    try:
        files.make_folder(register.parent)
        for _ in range(5):
            hashes = _recorded(register)
            if hashes.get(key) == value:
                return
            files.write_json(register, {"schema": SCHEMA, "hashes": hashes | {key: value}})
    except InputError:
        raise
    except ZooError as error:
        warnings.warn(f"the hash of {key} is not recorded, so a change of these weights would go unseen: {error}",
                      ZooWarning, stacklevel=4)  # fmt: skip


def _missing(name: str, what: str, cache: str, reason: str, repository: str) -> MissingWeights:
    return MissingWeights(
        f"{name}: {what} is not in the cache {cache} and {reason}; run `hf download {repository}` where there is a network "
        "and copy the cache here, or pass weights=False for random weights"
    )
