"""Probes of files larger than the memory they may use: the same results as in memory, within the limit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import diversity
import probes
from probes import _rows
from probes._rows import hstack, rows_of, vstack
from zoo.core.columns import Column
from zoo.core.mapped import is_mapped, let_go
from zoo.outputs.outputs import Outputs

NO_MEMORY = 1e-9  # gigabytes: nothing fits
ROWS, TEST = 500, 100


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rows, "BLOCK", 64 * 12)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, np.ndarray]:
    """Return float16 features in a file, sorted by class, which is the worst order for estimates from the first rows."""
    rng = np.random.default_rng(0)
    y = np.sort(np.arange(ROWS + TEST) % 5)
    x = rng.normal(size=(5, 12))[y] + 1.5 * rng.normal(size=(len(y), 12))
    path = tmp_path_factory.mktemp("features") / "x.npy"
    np.save(path, x.astype(np.float16))
    return np.load(path, mmap_mode="r"), y


def columns(x: np.ndarray) -> Column:
    """Return the same features as the store does: several memory-mapped blocks."""
    return Column([x[:250], x[250:350], x[350:]])


def split(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    test = np.arange(len(y)) % 9 < 2
    return x[~test], y[~test], x[test], y[test]


@pytest.mark.parametrize("classes", [2, 5])
def test_linear_probe_gives_the_same_result_from_files(data: tuple[np.ndarray, np.ndarray], classes: int) -> None:
    x, y = data[0], np.minimum(data[1], classes - 1)
    options = {"strengths": [100.0, 1.0, 0.01], "tolerance": 1e-9}
    inside = probes.LinearProbe(**options).fit(np.array(x), y)
    for values in (x, columns(x)):
        outside = probes.LinearProbe(**options, memory=NO_MEMORY).fit(values, y)
        assert outside.strength_ == inside.strength_
        assert outside.objective_ == pytest.approx(inside.objective_, rel=1e-6)
        np.testing.assert_allclose(outside.coef_, inside.coef_, atol=1e-6)
        np.testing.assert_allclose(outside.path_[["score", "log_loss"]], inside.path_[["score", "log_loss"]], rtol=1e-6)
        np.testing.assert_allclose(outside.predict_proba(values), inside.predict_proba(np.array(x)), atol=1e-6)
        assert outside.score(values, y) == inside.score(np.array(x), y)


def test_linear_probe_with_weights_and_a_validation_pair_gives_the_same_result(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y, test_x, test_y = split(*data)
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    fits = [
        probes.LinearProbe([1.0, 0.1], (test_x, test_y), tolerance=1e-9, memory=memory).fit(x, y, counts)
        for memory in (1, NO_MEMORY)
    ]
    np.testing.assert_allclose(fits[1].coef_, fits[0].coef_, atol=1e-6)


def test_multilabel_probe_gives_the_same_result_from_files(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data[0], np.stack([data[1] < 2, data[1] % 2 == 0, data[1] == 4], 1).astype(int)
    y[::7, 1] = -1
    options = {"strengths": [100.0, 1.0, 0.01], "tolerance": 1e-9}
    inside, outside = (probes.MultilabelProbe(**options, memory=memory).fit(x, y) for memory in (1, NO_MEMORY))
    np.testing.assert_array_equal(outside.strengths_, inside.strengths_)
    np.testing.assert_allclose(outside.coef_, inside.coef_, atol=1e-6)
    assert outside.score(x, y) == pytest.approx(inside.score(x, y))


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("metric", ["accuracy", "mean-per-class"])
def test_knn_probe_gives_the_same_result_from_files(data: tuple[np.ndarray, np.ndarray], distance: str, metric: str) -> None:
    x, y, test_x, test_y = split(*data)
    inside = probes.KNNProbe(distance=distance, most=30, metric=metric).fit(np.array(x, np.float32), y)
    outside = probes.KNNProbe(distance=distance, most=30, metric=metric, memory=1e-4).fit(columns(x), y)
    assert outside._sides is None
    assert outside._batch_size(30) < 100
    np.testing.assert_allclose(outside.path_["score"], inside.path_["score"], atol=1e-12)
    np.testing.assert_array_equal(outside.predict(test_x), inside.predict(np.array(test_x, np.float32)))
    assert outside.score(test_x, test_y) == inside.score(test_x, test_y)


@pytest.mark.parametrize("standardised", [False, True])
def test_concatenation_and_stacking_give_the_same_result_from_files(
    data: tuple[np.ndarray, np.ndarray], standardised: bool
) -> None:
    x, y = data
    held = {"a": np.array(x[:, :6], np.float32), "b": np.array(x[:, 6:], np.float32)}
    mapped = {"a": x[:, :6], "b": Column([x[:100, 6:], x[100:, 6:]])}
    options = {"strengths": [1.0, 0.1], "standardised": standardised, "tolerance": 1e-8}
    inside = probes.concatenate(held, y, "a", [1, 0.5], 2, **options)
    assert probes.concatenate(mapped, y, "a", [1, 0.5], 2, memory=NO_MEMORY, **options).equals(inside)
    assert probes.stack(mapped, y, memory=NO_MEMORY, **options).equals(probes.stack(held, y, **options))


@pytest.mark.parametrize("metric", ["cosine", "centered-cosine", "euclidean"])
def test_class_separation_gives_the_same_result_from_files(
    data: tuple[np.ndarray, np.ndarray], metric: diversity.separation.Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diversity._activations, "CHUNK", 64)
    monkeypatch.setattr(diversity._activations.Batches, "NUMBERS", 64 * 12)
    x, y = data
    inside = diversity.class_separation(np.array(x, np.float32), y, metric)
    for values in (x, columns(x), torch.from_numpy(np.array(x))):
        assert diversity.class_separation(values, y, metric) == pytest.approx(inside, abs=1e-6)


def test_stored_outputs_are_probed_without_being_joined(data: tuple[np.ndarray, np.ndarray], monkeypatch) -> None:
    x, y, test_x, test_y = split(*data)
    whole, test = (Outputs.from_arrays("m", embeddings=np.array(a), labels=b) for a, b in ((x, y), (test_x, test_y)))
    expected = probes.probe(whole, test, strengths=[1.0, 0.1])
    monkeypatch.setattr(Column, "array", lambda _: pytest.fail("loaded"))
    parts = Column([x[:250], x[250:]])
    stored = Outputs("m", "embeddings", parts, whole.ids, whole.classes, whole.labels, parts)
    assert probes.probe(stored, test, strengths=[1.0, 0.1], memory=NO_MEMORY).equals(expected)


def test_selected_joined_and_mapped_rows_equal_those_of_tensors() -> None:
    x = torch.arange(60.0).reshape(12, 5)
    rows = rows_of(x.numpy())
    index, cut = np.array([7, 0, 0, 11]), slice(1, 3)
    torch.testing.assert_close(rows.rows(index).read(cut), x[[0, 0]])
    torch.testing.assert_close(rows.columns(torch.tensor([4, 0])).read(cut), x[1:3, [4, 0]])
    torch.testing.assert_close(
        hstack([rows, rows.columns(torch.tensor([1]))]).read(index), torch.cat([x, x[:, 1:2]], 1)[index]
    )
    both = vstack(rows.rows(index), rows)
    assert both.shape == (16, 5)
    torch.testing.assert_close(both.read(np.array([15, 3, 4])), x[[11, 11, 0]])
    torch.testing.assert_close(torch.cat([part for _, part in both.blocks()]), torch.cat([x[index], x]))
    torch.testing.assert_close(rows.map(lambda block: block[:, :1].double(), 1, torch.float64).tensor(), x[:, :1].double())


def test_blocks_are_bounded_by_what_is_read_not_by_what_is_selected() -> None:
    rows = rows_of(np.zeros((200, 64), np.float32)).columns(torch.arange(2))
    assert max(span.stop - span.start for span, _ in rows.blocks()) == _rows.BLOCK // 64


def test_releasing_pages_loses_no_written_data(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(10_000.0))
    mapped = np.load(path, mmap_mode="r")
    assert is_mapped(mapped[5:].reshape(-1, 5))
    let_go(mapped[100:9000])
    np.testing.assert_array_equal(mapped, np.arange(10_000.0))
    private = np.load(path, mmap_mode="c")
    private[:] = 7
    private.flags.writeable = False
    assert not is_mapped(private)
    let_go(private)
    assert (private == 7).all()
    let_go(np.zeros(3))


SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import diversity, probes
# Of this process; getrusage includes the process that started it.
peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
x, y = np.load(sys.argv[1], mmap_mode="r"), np.arange(120_000) % 4
probes.LinearProbe([1e3], 0, memory=0.1).fit(x[:100], y[:100])  # loads the libraries
before = peak()
probes.LinearProbe([1e5], 0.2, tolerance=1e-2, memory=0.1).fit(x, y)
probes.concatenate({"a": x, "b": x[:, ::2]}, y, "a", [0.5], 1, validation=0, strengths=[1e5], tolerance=1e-2, memory=0.1)
probes.KNNProbe(k=5, memory=0.1).fit(x, y).predict(x[:100])
diversity.class_separation(x, y)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_no_more_memory_than_a_few_blocks(tmp_path: Path) -> None:
    """The features are 246 MB in float16 and 490 MB in float32; blocks have 16 MB."""
    path = tmp_path / "x.npy"
    file = np.lib.format.open_memmap(path, "w+", np.float16, (120_000, 1024))
    rng = np.random.default_rng(0)
    for start in range(0, len(file), 8192):
        part = file[start : start + 8192]
        part[:] = rng.standard_normal(part.shape, np.float32) + 0.2 * (np.arange(start, start + len(part)) % 4)[:, None]
    file.flush()
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 450
