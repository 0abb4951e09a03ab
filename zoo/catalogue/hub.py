"""One small file of a Hugging Face repository: from the local cache, else the hub, else an error within a second."""

import threading
import urllib.error
import urllib.request

from zoo.errors import InputError, MissingWeights

_PATIENCE = 0.8  # seconds for the one question whether the hub answers; its own client would retry for half a minute


def fetch(repository: str, file: str, name: str) -> str:
    """The path of `file` in the cache; `name` is the model's in error messages."""
    import huggingface_hub
    from huggingface_hub import constants, errors

    try:
        cached = huggingface_hub.try_to_load_from_cache(repository, file)
        if isinstance(cached, str):
            return cached
        if not constants.HF_HUB_OFFLINE and answers(constants.ENDPOINT):
            return huggingface_hub.hf_hub_download(repository, file)
    except errors.HFValidationError as error:
        raise InputError(f"{name}: {repository!r} cannot be a repository, expected OWNER/NAME: {error}") from error
    except Exception as error:  # the client raises whatever its transport raises
        raise refusal(name, repository, file, error) from error
    reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} does not answer"
    raise MissingWeights(f"{name}: {file} of {repository} is not in the cache {constants.HF_HUB_CACHE} and {reason}; "
                         f"run `hf download {repository}` where there is a network and copy the cache here")  # fmt: skip


def refusal(name: str, repository: str, file: str, error: Exception) -> MissingWeights:
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


def answers(endpoint: str) -> bool:
    """Whether the hub can be reached right now. Asked in a thread: looking up a name obeys no time-out of ours."""
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
