"""Tensor files: what we write the library reads, what the library writes we read, and no header is believed."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from zoo.core import tensorfile
from zoo.errors import CorruptFile, ZooError

DTYPES = st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.bool_])
ARRAYS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4),
    DTYPES.flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, min_side=0))),
)


@settings(deadline=None, max_examples=50)
@given(tensors=ARRAYS)
def test_both_ways_with_the_library(tensors, tmp_path_factory):
    path = tmp_path_factory.mktemp("x") / "file.safetensors"
    path.write_bytes(tensorfile.encode(tensors, {"note": 1}))
    theirs, ours = load_file(path), tensorfile.read(path)
    path.rename(path.with_suffix(".sealed"))
    save_file(tensors, path)
    again = tensorfile.read(path).tensors
    for name, array in tensors.items():
        for found in (theirs[name], ours.tensors[name], again[name]):
            assert found.dtype == array.dtype
            assert found.tobytes() == array.tobytes()
            assert found.shape == array.shape
    assert json.loads(ours.metadata["zoo"]) == tensorfile.read_note(path.with_suffix(".sealed")) == {"note": 1}


def test_the_same_bytes_in_every_process(tmp_path):
    code = """
import sys, numpy as np
from zoo.core import tensorfile
sys.stdout.buffer.write(tensorfile.encode({c: np.arange(3.0) for c in "zyxabc"}, {"b": 1, "a": 2}))
"""
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(3)}
    assert len(runs) == 1


def test_one_changed_byte_of_our_own_file_is_noticed_wherever_it_is(tmp_path):
    path = tmp_path / "file.safetensors"
    whole = tensorfile.encode({"a": np.arange(3.0, dtype=np.float32), "b": np.arange(2)}, {"step": 3, "log": [0.5]})
    path.write_bytes(whole)
    assert tensorfile.read_sealed(path)[1] == {"step": 3, "log": [0.5]}
    for position, byte in enumerate(whole):
        for other in {byte ^ 1, byte ^ 32, ord("9"), ord(" ")} - {byte}:
            path.write_bytes(whole[:position] + bytes([other]) + whole[position + 1 :])
            with pytest.raises(CorruptFile, match=r"file\.safetensors"):
                tensorfile.read_sealed(path)


def test_torch_tensors_are_sealed_too(tmp_path):
    import torch

    values = torch.randn(7, 3).bfloat16()
    path = tmp_path / "file.safetensors"
    path.write_bytes(tensorfile.encode({"a": values, "n": torch.tensor(3)}, {"step": 1}))
    tensors, note = tensorfile.read_sealed(path)
    assert np.array_equal(tensors["a"], values.float().numpy())
    assert (int(tensors["n"]), note) == (3, {"step": 1})


def test_a_file_of_somebody_else_is_not_taken_for_ours(tmp_path):
    save_file({"a": np.arange(4.0)}, tmp_path / "file.safetensors", metadata={"zoo": "{}", "b": "1"})
    with pytest.raises(CorruptFile, match=r"not one of ours|not match its checksum"):
        tensorfile.read_sealed(tmp_path / "file.safetensors")


def test_tensors_are_views_of_the_file_not_copies(tmp_path):
    path = tmp_path / "file.safetensors"
    path.write_bytes(tensorfile.encode({"a": np.arange(4.0)}, {}))
    array = tensorfile.read(path).tensors["a"]
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_bfloat16_becomes_float32(tmp_path):
    import torch
    from safetensors.torch import save_file as save_torch

    values = torch.randn(7, 3).bfloat16()
    save_torch({"a": values}, tmp_path / "file.safetensors")
    assert np.array_equal(tensorfile.read(tmp_path / "file.safetensors").tensors["a"], values.float().numpy())


def file_with(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too short"),
        (b"\x00" * 100, "not valid JSON"),
        (file_with({}, length=2**40), "claims a header of 1099511627776 bytes"),
        (file_with({}, length=2**63), "claims a header"),
        (file_with({"a": entry(shape=(2**40,), offsets=(0, 2**42))}, bytes(8)), "claims shape"),
        (file_with({"a": entry(shape=(2**62, 4), offsets=(0, 8))}, bytes(8)), "claims shape"),
        (file_with({"a": entry()}, bytes(4)), "the file holds 4 bytes"),
        (file_with({"a": entry()}, bytes(12)), "4 bytes of trailing garbage"),
        (file_with({"a": entry(offsets=(8, 0))}, bytes(8)), "expected begin and end"),
        (file_with({"a": entry(offsets=(-8, 0))}, bytes(8)), "not a whole number"),
        (file_with({"a": entry(shape=(1.5,))}, bytes(8)), "not a whole number"),
        (file_with({"a": entry(shape=(True, 2))}, bytes(8)), "not a whole number"),
        (file_with({"a": entry(dtype="X9")}, bytes(8)), "unknown dtype 'X9'"),
        (file_with({"a": {"dtype": "F32"}}), "needs exactly"),
        (file_with({"a": entry(), "b": entry()}, bytes(8)), "overlap or leave a gap"),
        (file_with({"a": entry(offsets=(4, 12))}, bytes(12)), "overlap or leave a gap"),
        (file_with(b'{"a": 1, "a": 2}'), "key 'a' is given twice"),
        (file_with([1]), "must be a mapping"),
        (file_with({"__metadata__": {"a": 1}}), "must be a mapping of texts"),
    ],
)
def test_headers_that_lie(tmp_path, data, message):
    path = tmp_path / "file.safetensors"
    path.write_bytes(data)
    with pytest.raises(CorruptFile, match=message) as refusal:
        tensorfile.read(path)
    assert "file.safetensors" in str(refusal.value)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("x") / "file.safetensors"
    path.write_bytes(data)
    with pytest.raises(CorruptFile):
        tensorfile.read(path)


def test_links_and_folders_are_no_tensor_files(tmp_path):
    (tmp_path / "real").write_bytes(tensorfile.encode({"a": np.arange(4.0)}, {}))
    (tmp_path / "link.safetensors").symlink_to(tmp_path / "real")
    for path in (tmp_path / "link.safetensors", tmp_path, tmp_path / "absent"):
        with pytest.raises(ZooError, match="regular file"):
            tensorfile.read(path)
