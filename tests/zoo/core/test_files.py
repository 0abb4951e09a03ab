"""Atomic writes, checked JSON, swept temporary files, and locks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields

from zoo.core import files
from zoo.errors import CorruptFile, InputError, ZooError


def python(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_write_replaces_the_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "file"
    files.write(path, b"old and long")
    files.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.write(path, b"old")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ZooError, check=fields(where=str(path), problem="disk is full", hint=["space", "continue"])):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_disk_that_fills_up_during_a_write_leaves_the_old_file(tmp_path):
    files.write(tmp_path / "file", b"old")
    code = """
import resource, signal, sys
from pathlib import Path
from zoo.core import files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
files.write(Path(sys.argv[1]), bytes(100_000))
"""
    done = python(code, tmp_path / "file")
    assert "file: cannot be written: the file would exceed the allowed size" in done.stderr
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_a_folder_without_write_permission_is_named():
    code = """
import os, sys
from pathlib import Path
from zoo.core import files
if os.geteuid() == 0:
    os.setuid(65534)  # root may write anywhere
files.write(Path(sys.argv[1]), b"new")
"""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to other users altogether
        os.chmod(folder, 0o555)
        done = python(code, f"{folder}/file")
        os.chmod(folder, 0o755)
    assert "file: cannot be written: permission denied" in done.stderr
    assert "ZOO_HOME" in done.stderr


def test_a_folder_inside_a_file_is_refused(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(ZooError, check=fields(where="home/outputs", problem="is a file", hint="ZOO_HOME")):
        files.make_folder(tmp_path / "home" / "outputs")


def test_the_bytes_of_json_do_not_depend_on_the_order_of_keys(tmp_path):
    files.write_json(tmp_path / "a", {"b": 1, "a": [1.5, None, "é"], "schema": 1})
    files.write_json(tmp_path / "b", {"schema": 1, "a": [1.5, None, "é"], "b": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert files.read_json(tmp_path / "a", schema=1) == {"schema": 1, "a": [1.5, None, "é"], "b": 1}


def test_json_holds_names_that_are_not_utf8(tmp_path):
    value = {"schema": 1, "id": os.fsdecode(b"caf\xe9.png")}
    files.write_json(tmp_path / "a", value)
    assert files.read_json(tmp_path / "a", schema=1) == value
    assert json.loads((tmp_path / "a").read_text())["id"] == value["id"]


def test_every_changed_byte_of_json_is_noticed(tmp_path):
    path = tmp_path / "file.json"
    files.write_json(path, {"schema": 1, "temperature": 1.5, "note": "a b"})
    whole = path.read_bytes()
    for position, byte in enumerate(whole):
        for other in (byte ^ 1, byte ^ 32, ord(" "), ord("9")):
            if other != byte:
                path.write_bytes(whole[:position] + bytes([other]) + whole[position + 1 :])
                with pytest.raises((CorruptFile, InputError), check=fields(where="file.json")):
                    files.read_json(path, schema=1)
    for changed in (whole + b" ", whole[:-1], whole[:40], b"{" + whole[whole.index(b' "note') :]):
        path.write_bytes(changed)
        with pytest.raises(CorruptFile, check=fields(where="file.json")):
            files.read_json(path, schema=1)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('{"schema": 1, "a": 1, "a": 2}', {"problem": "'a'"}),
        ('{"schema": 1, "a": NaN}', {"problem": "NaN"}),
        ('{"schema": 1', {"problem": "JSON"}),
        ("", {"problem": "JSON"}),
        ("[" * 100_000, {"problem": "JSON"}),
        ("[1]", {"expected": "object"}),
        ('{"a": 1}', {"expected": "'schema'"}),
        ('{"schema": "1"}', {"expected": "'schema'"}),
        ('{"schema": 1, "a": "' + "x" * 2000 + '"}', {"problem": "large", "expected": "1000"}),
        ("\x00\x01", {"problem": "JSON"}),
    ],
)
def test_invalid_json_is_refused(tmp_path, text, facts):
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(CorruptFile, check=fields(where="file.json", **facts)):
        files.read_json(tmp_path / "file.json", schema=1, limit=1000 if "1000" in str(facts) else files.MAX_JSON)


def test_json_of_a_newer_version_says_to_upgrade(tmp_path):
    (tmp_path / "file.json").write_text(json.dumps({"schema": 2}))
    with pytest.raises(InputError, check=fields(where="file.json", expected="schema 1", found=2, hint="Upgrade")):
        files.read_json(tmp_path / "file.json", schema=1)


def test_text_is_utf8_and_not_too_large(tmp_path):
    (tmp_path / "file").write_text("é")
    assert files.read_text(tmp_path / "file", 2) == "é"
    with pytest.raises(InputError, check=fields(where="file", problem="large", expected="1 bytes")):
        files.read_text(tmp_path / "file", 1)
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(InputError, check=fields(where="file", problem="UTF-8")):
        files.read_text(tmp_path / "file", 10)
    with pytest.raises(ZooError, check=fields(where="absent", problem="No such file")):
        files.read_text(tmp_path / "absent", 10)


def test_every_damaged_file_is_set_aside_under_another_name(tmp_path):
    for content in ("first", "second"):
        (tmp_path / "file").write_text(content)
        files.set_aside(tmp_path / "file")
    assert (tmp_path / "file.corrupt-1").read_text() == "first"
    assert (tmp_path / "file.corrupt-2").read_text() == "second"
    assert names(tmp_path) == ["file.corrupt-1", "file.corrupt-2"]


def test_temporary_files_of_dead_writers_are_removed_and_those_of_running_ones_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host, token = files._host(), "0123456789abcdef"
    mine, elsewhere = f".a.{host}-{os.getpid()}-{token}.part", f".a.00000000-1-{token}.part"
    old = f".old.00000000-1-{token}.part"
    for name in (mine, elsewhere, old, f".b.{host}-{dead.pid}-{token}.part", ".unrelated.part"):
        (tmp_path / name).write_text("")
    yesterday = time.time() - 2 * files.STALE_SECONDS
    os.utime(tmp_path / old, (yesterday, yesterday))
    files.sweep(tmp_path)
    assert names(tmp_path) == sorted([mine, elsewhere, ".unrelated.part"])


def test_the_temporary_file_of_a_killed_writer_is_removed_by_the_next_one(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from zoo.core import files
os.replace = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
files.write(Path(sys.argv[1]), b"new")
"""
    assert python(code, tmp_path / "file").returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.endswith(".part")
    files.write(tmp_path / "other", b"")  # the next process that writes there sweeps
    assert names(tmp_path) == ["other"]


def test_a_writer_with_the_process_id_of_a_dead_one_leaves_its_temporary_file(tmp_path, monkeypatch):
    token = iter(["aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"])
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: next(token))
    left = tmp_path / f".file.{files._host()}-{os.getpid()}-{next(token)}.part"
    left.write_bytes(b"old")
    with pytest.raises(ZooError, check=fields(problem="cannot be written")):  # the same token again: another's file
        files.write(tmp_path / "file", b"new")
    assert left.read_bytes() == b"old"
    files.write(tmp_path / "file", b"new")
    assert names(tmp_path) == sorted([left.name, "file"])


HOLD = """
import sys, time
from pathlib import Path
from zoo.core import files
with files.lock(Path(sys.argv[1])) as first:
    print(first, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("name", ["", "lock"], ids=["folder", "file"])
def test_a_lock_is_held_by_one_process_and_released_when_it_dies(tmp_path, name):
    place = tmp_path / name
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "True\n"
    with files.lock(place) as first:
        assert not first
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with files.lock(place) as first:
        assert first
    assert names(tmp_path) == []


def test_without_support_for_locks_every_process_is_first(tmp_path, monkeypatch):
    import fcntl

    def unsupported(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with files.lock(tmp_path) as first, files.lock(tmp_path) as second:
        assert first
        assert second


@settings(deadline=None)
@given(st.lists(st.text()), st.lists(st.text()))
def test_digests_of_different_sequences_differ(a, b):
    assert (files.digest(a) == files.digest(b)) == (a == b)
