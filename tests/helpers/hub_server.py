"""A Hugging Face hub on the loopback: the real clients ask it by HF_ENDPOINT, and it answers as the real one does.

It serves repositories made in a test, over HTTP, with the headers from which the clients build their cache (commit, entity
tag, linked size), ranges, listings, redirects of renamed repositories and of large files to another host, and the errors of
the hub with their codes. Faults are ordered in advance: `hub.fail("model.safetensors", status=503, times=2)`.
"""

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = (".safetensors", ".bin", ".pt", ".pth", ".parquet")  # kept outside git, and served by another host
LARGEST_BODY = 1 << 20
PATIENCE = 10  # seconds until a connection on which nothing happens is closed

_FILE = re.compile(r"/(?P<kind>datasets/)?(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_API = re.compile(
    r"/api/(?P<kind>models|datasets)/(?P<name>[^/]+/[^/]+)"
    r"(?:/(?P<what>revision|tree|paths-info)/(?P<revision>[^/]+)(?:/(?P<file>.+))?)?"
)


@dataclass
class Repository:
    """Files at one revision, `main`, whose commit depends on every byte of them."""

    name: str
    files: dict[str, bytes]
    dataset: bool = False
    gated: bool = False

    @property
    def commit(self) -> str:
        return hashlib.sha1(b"\0".join(name.encode() + self.files[name] for name in sorted(self.files))).hexdigest()


@dataclass
class Fault:
    """What the next `times` requests for a file get instead of the file."""

    file: str
    times: int
    method: str  # GET or HEAD
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None  # the connection is closed after so many bytes of the body
    flip: bool = False  # one byte is another one


class HubServer:
    """`with HubServer() as hub:` serves until the end; `hub.requests` are the (method, path, status) so far."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[bool, str], Repository] = {}
        self.moved: dict[str, str] = {}
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, int]] = []
        self.ranges: list[str] = []
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"hub": self}))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.storage = f"http://localhost:{self.server.server_port}"  # another origin to every client

    def __enter__(self) -> "HubServer":
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()

    def add(self, name: str, files: dict[str, bytes], dataset: bool = False, gated: bool = False) -> Repository:
        """A repository, instead of one of that name if there is one."""
        repository = Repository(name, files, dataset, gated)
        self.repositories[dataset, name] = repository
        return repository

    def move(self, old: str, new: str) -> None:
        """Rename a repository of a model; its old name leads to the new one."""
        repository = self.repositories.pop((False, old))
        repository.name = new
        self.repositories[False, new] = repository
        self.moved[old] = new

    def fail(self, file: str, times: int = 1, method: str = "GET", **how: Any) -> None:
        """Order a fault; see `Fault`."""
        self.faults.append(Fault(file, times, method, **how))

    def fault(self, method: str, file: str) -> Fault | None:
        """The fault that this request meets, which is then one fewer."""
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method == method and file.endswith(fault.file):
                    fault.times -= 1
                    return fault
        return None

    def asked(self, method: str, end: str = "") -> list[str]:
        """The paths asked for by a method that end so."""
        with self.lock:
            return [path for how, path, _ in self.requests if how == method and path.endswith(end)]


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(min(length, LARGEST_BODY)).decode()
        path = unquote(urlsplit(self.path).path)
        if path == "/":
            self.reply(200, b"a hub")
        elif path.startswith("/storage/"):
            self.stored(path)
        elif match := _API.fullmatch(path):
            self.described(match, body)
        elif match := _FILE.fullmatch(path):
            self.resolved(match)
        else:
            self.refuse(404, "NotFound", f"no such page: {path}")

    def repository(self, match: re.Match[str]) -> Repository | None:
        """The repository of an address, if it may be read; what is wrong with it has been answered otherwise."""
        hub, name, dataset = self.hub, match["name"], (match["kind"] or "").startswith("datasets")
        if not dataset and name in hub.moved:
            self.reply(307, headers={"Location": self.path.replace(name, hub.moved[name], 1)})
            return None
        found = hub.repositories.get((dataset, name))
        if found is None:  # as of one that is private, so that nobody learns which there are
            self.refuse(401, "RepoNotFound", "Repository not found")
        elif found.gated:
            self.refuse(403, "GatedRepo", f"Access to {name} is restricted and you are not in the authorized list")
        elif match["revision"] not in (None, "main", found.commit):
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {match['revision']}")
        else:
            return found
        return None

    def resolved(self, match: re.Match[str]) -> None:
        """/OWNER/NAME/resolve/REVISION/FILE: a small file itself, of a large one the place."""
        repository = self.repository(match)
        if repository is None:
            return
        file, commit = match["file"], {"X-Repo-Commit": repository.commit}
        content = repository.files.get(file)
        if content is None:
            self.refuse(404, "EntryNotFound", "Entry not found", commit)
        elif not file.endswith(LARGE):
            self.send(file, content, {"ETag": f'"{_git_id(content)}"', **commit})
        elif (fault := self.hub.fault("HEAD", file) if self.command == "HEAD" else None) and fault.status:
            self.refuse(fault.status, "", "ordered by the test", fault.headers)
        else:
            digest = hashlib.sha256(content).hexdigest()
            linked = {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(content))}
            place = f"{self.hub.storage}/storage/{digest}/{file}"
            self.reply(302, headers={"Location": place, **linked, **commit})

    def stored(self, path: str) -> None:
        """/storage/SHA256/FILE on the other host."""
        digest, _, file = path.removeprefix("/storage/").partition("/")
        for repository in [*self.hub.repositories.values()]:
            content = repository.files.get(file)
            if content is not None and hashlib.sha256(content).hexdigest() == digest:
                self.send(file, content, {"ETag": f'"{digest}"'})
                return
        self.refuse(404, "", "no such object")

    def send(self, file: str, content: bytes, headers: dict[str, str]) -> None:
        """A file or the asked-for range of it, unless a fault was ordered."""
        fault = self.hub.fault(self.command, file)
        if fault and fault.status:
            self.refuse(fault.status, "", "ordered by the test", fault.headers)
            return
        if fault and fault.flip:
            content = content[:-1] + bytes([content[-1] ^ 1])
        status, start, end = 200, 0, len(content)
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            self.hub.ranges.append(match[0])
            start, end = int(match[1]), min(int(match[2]) + 1 if match[2] else end, end)
            if start >= len(content):
                self.reply(416, headers={"Content-Range": f"bytes */{len(content)}"})
                return
            status, headers = 206, headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
        self.reply(status, content[start:end], {"Accept-Ranges": "bytes", **headers}, fault.cut if fault else None)

    def described(self, match: re.Match[str], body: str) -> None:
        """/api/...: what a repository is, what files it has, what some of them are."""
        repository = self.repository(match)
        if repository is None:
            return
        if match["what"] == "tree":
            recursive = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0].lower() == "true"
            self.reply_json(_tree(repository, match["file"] or "", recursive))
        elif match["what"] == "paths-info":
            asked = json.loads(body)["paths"] if body.startswith("{") else parse_qs(body).get("paths", [])
            self.reply_json([_entry(file, repository) for file in asked if file in repository.files])
        else:
            files = [{"rfilename": file} for file in sorted(repository.files)]
            self.reply_json({
                "id": repository.name, "sha": repository.commit, "siblings": files, "private": False, "gated": False,
                "disabled": False, "tags": [], "downloads": 0, "likes": 0, "lastModified": "2026-01-01T00:00:00.000Z",
            })  # fmt: skip

    def refuse(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        words = {"X-Error-Code": code, "X-Error-Message": message}
        self.reply(status, json.dumps({"error": message}).encode(), words | (headers or {}))

    def reply_json(self, value: Any) -> None:
        self.reply(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        with self.hub.lock:
            self.hub.requests.append((self.command, unquote(urlsplit(self.path).path), status))
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


def _tree(repository: Repository, folder: str, recursive: bool) -> list[dict[str, Any]]:
    """What is in a folder, or anywhere below it: folders, then files."""
    inside = [PurePosixPath(file) for file in sorted(repository.files)]
    inside = [file for file in inside if PurePosixPath(folder) in file.parents]
    folders = {parent for file in inside for parent in file.parents if PurePosixPath(folder) in parent.parents}
    listed = [
        {"type": "directory", "path": str(path), "size": 0, "oid": _git_id(str(path).encode())} for path in sorted(folders)
    ] + [_entry(str(file), repository) for file in inside]
    return [entry for entry in listed if recursive or PurePosixPath(entry["path"]).parent == PurePosixPath(folder)]


def _entry(file: str, repository: Repository) -> dict[str, Any]:
    """A file as listings describe it."""
    content = repository.files[file]
    entry: dict[str, Any] = {"type": "file", "path": file, "size": len(content), "oid": _git_id(content)}
    if file.endswith(LARGE):
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
    return entry


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
