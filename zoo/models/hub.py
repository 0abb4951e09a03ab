"""Files of Hugging Face repositories and of web addresses: from a cache, else fetched, else an error within a second.

The caches are looked at first, the hub is asked once and briefly, and none of this loads torch.
"""

import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlparse

from zoo.core import files
from zoo.errors import InputError, MissingWeights

_PATIENCE = 0.8  # seconds for the one question whether the hub answers; its own client would retry for half a minute
_LINK = re.compile(r"https://huggingface\.co/([\w.-]+/[\w.-]*\w)")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".npz")


def fetch(name: str, repository: str, candidates: Sequence[str], revision: str | None = None) -> Path:
    """The first of the candidate files that the hub's cache holds, else that the hub has; `name` is the model's."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        for file in candidates:
            cached = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision)
            if isinstance(cached, str):
                return Path(cached)
        if reason := _silence():
            raise _missing(name, f"{candidates[0]} of {repository}", reason, repository)
        for file in candidates:
            try:
                return Path(huggingface_hub.hf_hub_download(repository, file, revision=revision))
            except Exception as error:  # the client raises whatever its transport raises
                # Not in the cache either is the connection's fault, though it is a kind of "no such file".
                connected = not isinstance(error, errors.LocalEntryNotFoundError)
                if not (connected and isinstance(error, errors.EntryNotFoundError)):
                    raise _refusal(name, repository, file, error) from error
    except errors.HFValidationError as error:
        raise InputError(f"{name}: {repository!r} cannot be a repository, expected OWNER/NAME: {error}") from error
    at = f" at revision {revision}" if revision else ""
    raise MissingWeights(f"{name}: https://huggingface.co/{repository}{at} has none of {', '.join(candidates)}")


def url_file(name: str, url: str) -> Path:
    """The file of a web address, in torch's own cache of checkpoints."""
    path = url_cache() / Path(urlparse(url).path).name
    if path.is_file():
        return path
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
        raise MissingWeights(f"{name}: {url} cannot be downloaded: {error}") from error
    return path


def url_cache() -> Path:
    """Where torch keeps downloaded checkpoints."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TORCH_HOME") or Path(cache) / "torch").expanduser() / "hub" / "checkpoints"


def require(name: str, repository: str) -> None:
    """An error if the weights of a repository are surely neither here nor to be had right now; `name` is the model's.

    Where a cache holds anything that might be them nothing is said here, and the library's own registry decides.
    """
    if any(url_cache().glob("*")) or _folder(repository).exists():
        return
    if reason := _silence():
        raise _missing(name, f"the weights file of {repository}", reason, repository)


def cached_weights(repository: str) -> list[Path]:
    """The files of weights that the hub's cache holds of a repository."""
    return sorted(path for path in _folder(repository).glob("snapshots/*/*") if path.suffix in _WEIGHTS)


def linked(text: str) -> str | None:
    """The first Hugging Face repository that a text links, `OWNER/NAME`."""
    link = _LINK.search(text)
    return link[1] if link else None


def answers(endpoint: str) -> bool:
    """Whether the hub can be reached right now. Asked in a thread: looking up a name obeys no time-out of ours."""
    import urllib.error
    import urllib.request

    answered = threading.Event()

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_PATIENCE).close()
        except urllib.error.HTTPError:
            pass  # a refusal is an answer too
        except OSError:
            return
        answered.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return answered.is_set()


def _silence() -> str | None:
    """Why nothing can be fetched from the hub right now; None where it answers."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    return None if answers(constants.ENDPOINT) else f"{constants.ENDPOINT} does not answer"


def _refusal(name: str, repository: str, file: str, error: Exception) -> MissingWeights:
    """What it means that the hub did not give a file, and what to do next."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        then = f"it is gated: accept its terms on https://huggingface.co/{repository} and log in with `hf auth login`"
    elif isinstance(error, errors.RepositoryNotFoundError):
        then = "there is no such repository, or it is private: check its name, or log in with `hf auth login`"
    else:  # of a file that is not in the cache either, the client says why only in the error's cause
        why = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) and error.__cause__ else error
        then = f"{' '.join(str(why).split()) or type(why).__name__}; try again later, nothing incomplete was kept"
    return MissingWeights(f"{name}: {file} of {repository} cannot be downloaded: {then}")


def _folder(repository: str) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"


def _missing(name: str, what: str, reason: str, repository: str) -> MissingWeights:
    from huggingface_hub import constants

    return MissingWeights(
        f"{name}: {what} is not in the cache {constants.HF_HUB_CACHE} and {reason}; run `hf download {repository}` where "
        "there is a network and copy the cache here, or pass pretrained=False for random weights"
    )
