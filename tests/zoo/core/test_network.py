"""Whether a server is reachable: directly and through a proxy, without waiting."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from zoo.core.network import is_reachable


class Handler(BaseHTTPRequestHandler):
    requests: list[str]

    def do_HEAD(self) -> None:
        self.requests.append(self.path)
        self.send_response(404 if self.path.endswith("absent") else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    class Recording(Handler):
        requests: list[str] = []  # noqa: RUF012  # of this server

    with ThreadingHTTPServer(("127.0.0.1", 0), Recording) as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield running
        running.shutdown()


def address(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_any_answer_means_reachable(server: ThreadingHTTPServer) -> None:
    assert is_reachable(address(server))
    assert is_reachable(f"{address(server)}/absent")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://no-such-host.invalid", "huggingface.co", "http://"])
def test_no_server_means_unreachable(endpoint: str) -> None:
    assert not is_reachable(endpoint)


def test_a_silent_server_is_given_up_within_a_second() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.perf_counter()
        assert not is_reachable(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert time.perf_counter() - start < 5  # one second, on a machine that is not busy


def test_the_proxy_of_the_environment_is_asked(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", address(server))
    assert is_reachable("http://hub.example")
    assert server.RequestHandlerClass.requests == ["http://hub.example"]  # type: ignore[attr-defined]
    monkeypatch.setenv("no_proxy", "hub.example")
    assert not is_reachable("http://hub.example")
