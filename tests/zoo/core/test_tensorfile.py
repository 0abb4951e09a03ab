"""Tensor files: compatible with the safetensors library in both directions, and every claim of a header is checked."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from raised import fields
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
def test_files_are_compatible_with_the_library_in_both_directions(tensors, tmp_path_factory):
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


def test_the_bytes_are_the_same_in_every_process(tmp_path):
    code = """
import sys, numpy as np
from zoo.core import tensorfile
sys.stdout.buffer.write(tensorfile.encode({c: np.arange(3.0) for c in "zyxabc"}, {"b": 1, "a": 2}))
"""
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(3)}
    assert len(runs) == 1


def test_every_changed_byte_of_a_sealed_file_is_noticed(tmp_path):
    path = tmp_path / "file.safetensors"
    whole = tensorfile.encode({"a": np.arange(3.0, dtype=np.float32), "b": np.arange(2)}, {"step": 3, "log": [0.5]})
    path.write_bytes(whole)
    assert tensorfile.read_sealed(path)[1] == {"step": 3, "log": [0.5]}
    for position, byte in enumerate(whole):
        for other in {byte ^ 1, byte ^ 32, ord("9"), ord(" ")} - {byte}:
            path.write_bytes(whole[:position] + bytes([other]) + whole[position + 1 :])
            with pytest.raises(CorruptFile, check=fields(where="file.safetensors")):
                tensorfile.read_sealed(path)


def test_torch_tensors_are_sealed_too(tmp_path):
    import torch

    values = torch.randn(7, 3).bfloat16()
    path = tmp_path / "file.safetensors"
    path.write_bytes(tensorfile.encode({"a": values, "n": torch.tensor(3)}, {"step": 1}))
    tensors, note = tensorfile.read_sealed(path)
    assert np.array_equal(tensors["a"], values.float().numpy())
    assert (int(tensors["n"]), note) == (3, {"step": 1})


@pytest.mark.parametrize("metadata", [{"zoo": "{}", "b": "1"}, {"b": "1"}, None])
def test_a_file_of_another_program_has_no_note(tmp_path, metadata):
    save_file({"a": np.arange(4.0)}, tmp_path / "file.safetensors", metadata=metadata)
    with pytest.raises(CorruptFile, check=fields(where="file.safetensors", problem="no note")):
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
    ("data", "facts"),
    [
        (b"", {"problem": "0 bytes"}),
        (b"\x00" * 100, {"problem": "JSON"}),
        (file_with({}, length=2**40), {"problem": "1099511627776", "expected": "2"}),
        (file_with({}, length=2**63), {"problem": str(2**63)}),
        (file_with({"a": entry(shape=(2**40,), offsets=(0, 2**42))}, bytes(8)), {"problem": "shape"}),
        (file_with({"a": entry(shape=(2**62, 4), offsets=(0, 8))}, bytes(8)), {"problem": "shape"}),
        (file_with({"a": entry()}, bytes(4)), {"problem": "4 bytes", "where": "'a'"}),
        (file_with({"a": entry()}, bytes(12)), {"problem": "4 bytes"}),
        (file_with({"a": entry(offsets=(8, 0))}, bytes(8)), {"problem": "[8, 0]", "where": "'a'"}),
        (file_with({"a": entry(offsets=(-8, 0))}, bytes(8)), {"problem": "whole number"}),
        (file_with({"a": entry(shape=(1.5,))}, bytes(8)), {"problem": "whole number"}),
        (file_with({"a": entry(shape=(True, 2))}, bytes(8)), {"problem": "whole number"}),
        (file_with({"a": entry(dtype="X9")}, bytes(8)), {"problem": "'X9'", "where": "'a'"}),
        (file_with({"a": {"dtype": "F32"}}), {"expected": "data_offsets"}),
        (file_with({"a": entry(), "b": entry()}, bytes(8)), {"problem": "overlap"}),
        (file_with({"a": entry(offsets=(4, 12))}, bytes(12)), {"problem": "gap at byte 0"}),
        (file_with(b'{"a": 1, "a": 2}'), {"problem": "'a'"}),
        (file_with([1]), {"expected": "mapping"}),
        (file_with({"__metadata__": {"a": 1}}), {"where": "__metadata__", "expected": "texts"}),
    ],
)
def test_a_header_that_does_not_describe_the_file_is_refused(tmp_path, data, facts):
    path = tmp_path / "file.safetensors"
    path.write_bytes(data)
    where = ["file.safetensors", facts.pop("where", "")]
    with pytest.raises(CorruptFile, check=fields(where=where, **facts)):
        tensorfile.read(path)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("x") / "file.safetensors"
    path.write_bytes(data)
    with pytest.raises(CorruptFile):
        tensorfile.read(path)


def test_links_and_folders_are_refused(tmp_path):
    (tmp_path / "real").write_bytes(tensorfile.encode({"a": np.arange(4.0)}, {}))
    (tmp_path / "link.safetensors").symlink_to(tmp_path / "real")
    for path in (tmp_path / "link.safetensors", tmp_path, tmp_path / "absent"):
        with pytest.raises(ZooError, check=fields(where=path.name, expected="regular file")):
            tensorfile.read(path)
