"""Whether a server can be reached, decided in less than a second."""

import threading

_TIMEOUT = 0.8  # seconds; the clients of the hub would retry for half a minute


def is_reachable(endpoint: str) -> bool:
    """Return whether a server answers right now. Proxies set in the environment are used.

    Args:
        endpoint: address of the server, such as `https://huggingface.co`.
    """
    import http.client
    import urllib.error
    import urllib.request

    answered = threading.Event()

    def ask() -> None:
        try:
            request = urllib.request.Request(endpoint, method="HEAD")
            urllib.request.build_opener().open(request, timeout=_TIMEOUT).close()
        except urllib.error.HTTPError:
            pass  # an error status is an answer too
        except (OSError, ValueError, http.client.HTTPException):  # the last two: not an address, or not a web server
            return
        answered.set()

    thread = threading.Thread(target=ask, daemon=True)  # a thread, because a DNS lookup ignores the timeout
    thread.start()
    thread.join(_TIMEOUT)
    return answered.is_set()
