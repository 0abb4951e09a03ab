"""Files from Hugging Face repositories and web addresses: from a cache, else downloaded, else an error within a second.

The caches are searched first, the hub is probed once and briefly, and nothing here loads torch.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlparse

from zoo.core import files
from zoo.core.network import is_reachable
from zoo.errors import InputError, MissingWeights

_LINK = re.compile(r"https://huggingface\.co/([\w.-]+/[\w.-]*\w)")
_WEIGHTS_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".npz")


def fetch(name: str, repository: str, candidates: Sequence[str], revision: str | None = None) -> Path:
    """Return the first candidate file that is in the hub's cache, else the first that can be downloaded.

    Args:
        name: the model's name, for errors.
        repository: `OWNER/NAME` on the hub.
        candidates: file names in the repository, the preferred one first.
        revision: branch, tag or commit; default: the main branch.
    """
    import huggingface_hub
    from huggingface_hub import errors

    try:
        for file in candidates:
            cached = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision)
            if isinstance(cached, str):
                return Path(cached)
        if reason := _unreachable():
            raise _not_cached(name, f"{candidates[0]} of {repository}", reason, repository)
        for file in candidates:
            try:
                return Path(huggingface_hub.hf_hub_download(repository, file, revision=revision))
            except Exception as error:  # the client raises whatever its transport raises
                # Without a connection the client raises LocalEntryNotFoundError, a subclass of EntryNotFoundError.
                connected = not isinstance(error, errors.LocalEntryNotFoundError)
                if not (connected and isinstance(error, errors.EntryNotFoundError)):
                    raise _download_error(name, repository, file, error) from error
    except errors.HFValidationError as error:
        raise InputError(f"{repository!r} is not a repository name OWNER/NAME: {error}", where=name) from error
    at = f" at revision {revision}" if revision else ""
    raise MissingWeights(f"https://huggingface.co/{repository}{at} has none of {', '.join(candidates)}", where=name)


def url_file(name: str, url: str) -> Path:
    """Return the file of a web address in torch's cache of checkpoints, after downloading it if it is missing."""
    path = url_cache() / Path(urlparse(url).path).name
    if path.is_file():
        return path
    parts = urlparse(url)
    if not is_reachable(f"{parts.scheme}://{parts.netloc}"):
        raise MissingWeights(
            f"{path.name} is not in the cache {path.parent} and {parts.netloc} does not answer",
            where=name,
            hint=f"Download {url} on a machine with a network and copy it to {path.parent}",
        )
    import torch

    files.make_folder(path.parent)
    try:
        torch.hub.download_url_to_file(url, str(path))
    except OSError as error:
        raise MissingWeights(f"{url} could not be downloaded: {error}", where=name, hint="Try again later") from error
    return path


def url_cache() -> Path:
    """Return the folder in which torch keeps downloaded checkpoints."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TORCH_HOME") or Path(cache) / "torch").expanduser() / "hub" / "checkpoints"


def require(name: str, repository: str) -> None:
    """Raise an error if the weights of a repository are certainly neither cached nor downloadable now.

    If a cache holds anything that might be the weights, the check passes and the library looks for itself.
    """
    if any(url_cache().glob("*")) or _cache_folder(repository).exists():
        return
    if reason := _unreachable():
        raise _not_cached(name, f"the weights file of {repository}", reason, repository)


def cached_weights(repository: str) -> list[Path]:
    """Return the weights files of a repository that are in the hub's cache."""
    return sorted(path for path in _cache_folder(repository).glob("snapshots/*/*") if path.suffix in _WEIGHTS_SUFFIXES)


def linked(text: str) -> str | None:
    """Return the first Hugging Face repository that a text links to, as `OWNER/NAME`."""
    link = _LINK.search(text)
    return link[1] if link else None


def _unreachable() -> str | None:
    """Return why nothing can be downloaded from the hub now, or None if it answers."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    return None if is_reachable(constants.ENDPOINT) else f"{constants.ENDPOINT} does not answer"


def _download_error(name: str, repository: str, file: str, error: Exception) -> MissingWeights:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        reason = "the repository is gated"
        hint = f"Accept its terms on https://huggingface.co/{repository} and log in with `hf auth login`"
    elif isinstance(error, errors.RepositoryNotFoundError):
        reason = "the repository does not exist or is private"
        hint = "Check its name, or log in with `hf auth login`"
    else:  # for a file that is not cached either, only the error's cause says what happened
        cause = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) and error.__cause__ else error
        reason = " ".join(str(cause).split()) or type(cause).__name__
        hint = "Try again later; no incomplete file was stored"
    return MissingWeights(f"{file} of {repository} could not be downloaded: {reason}", where=name, hint=hint)


def _cache_folder(repository: str) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"


def _not_cached(name: str, what: str, reason: str, repository: str) -> MissingWeights:
    from huggingface_hub import constants

    return MissingWeights(
        f"{what} is not in the cache {constants.HF_HUB_CACHE} and {reason}",
        where=name,
        hint=f"Run `hf download {repository}` on a machine with a network and copy the cache to this one, or pass "
        "{pretrained=False} for random weights",
    )
