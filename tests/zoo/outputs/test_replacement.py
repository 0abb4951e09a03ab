"""Replace stored outputs: at any time, readers find the old or the new outputs; one of several writers wins."""

import multiprocessing
import threading
import time
import warnings

import numpy as np
import pytest
from raised import fields

import zoo
from zoo.errors import InputError
from zoo.outputs import housekeeping, store
from zoo.outputs.outputs import Outputs
from zoo.outputs.store import layout, lookup, writer
from zoo.outputs.stored_names import stored_names

Z = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
SECONDS = 8


def make(shift=0.0, name="a", **changes):
    return Outputs.from_arrays(
        **{"name": name, "logits": Z + shift, "labels": np.arange(10) % 3, "dataset": "cifar10:test"} | changes
    )


def test_the_same_outputs_are_stored_once():
    first = store.save(make())
    assert store.save(make()).path == first.path
    assert store.save(make(), replace=True).path == first.path
    assert len(list(first.path.parent.iterdir())) == 1


def test_different_outputs_with_the_same_name_need_replace():
    first = store.save(make())
    with pytest.raises(
        InputError, check=fields(where="a", problem=["cifar10:test", str(first.path)], hint="{replace=True}")
    ):
        store.save(make(1))
    second = store.save(make(1), replace=True)
    assert np.array_equal(store.open_runs("a")["a"].logits, Z + 1)
    assert first.path != second.path
    assert [path.name for path in first.path.parent.glob(".replaced-*")] == [f".replaced-1-{first.path.name}"]
    store.save(make(2, dataset="cifar100:test"))  # another dataset


def test_outputs_can_be_replaced_back_and_forth():
    for shift in (0, 1, 0, 1, 2):
        store.save(make(shift), replace=True)
        assert np.array_equal(store.open_runs("a")["a"].logits, Z + shift)
    assert store.verify().clean


def test_a_new_card_of_the_same_outputs_is_stored():
    first = store.save(make())
    assert first.card is None
    card = zoo.card("timm:test_vit")
    assert store.save(make(card=card)).path == first.path
    assert store.open_runs("a")["a"].card.architecture == card.architecture


def test_readers_open_the_newer_of_two_imports(zoo_home, monkeypatch):
    monkeypatch.setattr(writer, "retire", lambda folder: None)  # as if the process had been killed before
    old, new = store.save(make()), store.save(make(1), replace=True)
    assert (old.path / "manifest.json").exists()
    assert [run.path for run in store.stored()] == [new.path]
    assert [entry.path for entry in stored_names()["a"]] == [new.path]
    assert [entry.path for entry in housekeeping.outputs()] == [new.path]
    np.testing.assert_array_equal(zoo.run("a", data="cifar10:test")["a"].logits, Z + 1)
    monkeypatch.undo()
    monkeypatch.setenv("ZOO_HOME", str(zoo_home))
    store.save(make(1))  # repeating the command completes the replacement
    assert not old.path.exists()


def test_removing_an_import_also_removes_replaced_imports(zoo_home, monkeypatch):
    monkeypatch.setattr(writer, "retire", lambda folder: None)
    store.save(make())
    store.save(make(1), replace=True)
    assert [entry.model for entry in housekeeping.remove(["a"])] == ["a"]
    assert store.stored() == []


def test_an_import_replaced_after_listing_is_opened_in_its_new_version():
    store.save(make())
    (listed,) = store.stored()
    store.save(make(1), replace=True)
    np.testing.assert_array_equal(lookup.open_run(listed).logits, Z + 1)


def test_one_of_two_imports_of_the_same_generation_wins(monkeypatch):
    folder = writer._folder
    current = store.save(make())
    both = [folder(writer._identity(make(shift)), None, True) for shift in (1, 2)]  # both read the same state
    assert {layout.generation(run.path) for run in both} == {2}
    first, second = sorted(both, key=lambda run: layout.order(run.path))
    for run in (second, first):  # the winner is written first
        shift = 1 if run is both[0] else 2
        monkeypatch.setattr(writer, "_folder", lambda *arguments, run=run: run)
        np.testing.assert_array_equal(store.save(make(shift), replace=True).logits, Z + shift)
    assert [run.path for run in store.stored()] == [second.path]
    assert not first.path.exists()
    assert not current.path.exists()


def test_a_folder_is_set_aside_under_the_next_free_number(tmp_path):
    for _ in range(2):
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "file").touch()
        layout.put_aside(folder, "replaced")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".replaced-1-run", ".replaced-2-run"]
    assert layout.put_aside(tmp_path / "run", "replaced") is None  # another process was faster


def _write(home, shifts, until, failures):
    try:
        while time.monotonic() < until:
            for shift in shifts:
                stored = store.save(make(shift), home, replace=True)
                np.testing.assert_array_equal(stored.logits, Z + shift)
    except BaseException as error:
        failures.append(repr(error))
        raise


def _read(home, until, failures):
    try:
        count = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            while time.monotonic() < until:
                outputs = store.open_runs("a", data="cifar10:test", home=home)["a"]
                shift = np.asarray(outputs.logits) - Z
                assert np.ptp(np.round(shift, 3)) == 0, "outputs mix two imports"
                count += 1
        assert count > 3
    except BaseException as error:
        failures.append(repr(error))
        raise


def _in_process(target, *arguments):
    failures: list[str] = []
    target(*arguments, failures)


def test_threads_that_replace_and_read_never_fail(zoo_home):
    store.save(make())
    until, failures = time.monotonic() + SECONDS, []
    threads = [threading.Thread(target=_write, args=(None, (0, i + 1), until, failures)) for i in range(3)]
    threads += [threading.Thread(target=_read, args=(None, until, failures)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.stored()) == 1
    assert store.verify().clean


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_processes_that_replace_and_read_never_fail(tmp_path):
    store.save(make(), tmp_path)
    context = multiprocessing.get_context("fork")
    until = time.monotonic() + SECONDS
    jobs = [(_write, tmp_path, (0, i + 1), until) for i in range(2)] + [(_read, tmp_path, until)] * 2
    processes = [context.Process(target=_in_process, args=job) for job in jobs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)
    assert len(store.stored(tmp_path)) == 1
    assert store.verify(tmp_path).clean
