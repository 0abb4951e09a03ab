"""Weights files: found in caches, hashed at first use and checked afterwards; nothing in them is run."""

import dataclasses
import io
import json
import os
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_hub import FakeHub
from raised import fields

import zoo
from zoo.cards.card import Card, Training
from zoo.core import files, state_dicts
from zoo.errors import CorruptFile, InputError, MissingWeights, ZooWarning
from zoo.models import hub as hub_files
from zoo.models import weights

CARD = Card(name="mine", source="timm", family="f", architecture="a", labels="none", link="softmax", head="none",
            training=Training("digits", "supervised", "softmax"), id="a.b")  # fmt: skip
STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([1.0, 2.0])}


def write(path: Path, text: str = "weights") -> Path:
    path.write_text(text)
    return path


class TestHashes:
    def test_a_hash_is_recorded_at_first_use_and_checked_afterwards(self, tmp_path: Path, zoo_home: Path) -> None:
        path = write(tmp_path / "model.safetensors")
        digest = weights.verify(CARD, path)
        assert digest == files.sha256(path)
        assert json.loads((zoo_home / "hashes.json").read_text())["hashes"] == {"timm:a.b@latest/model.safetensors": digest}
        assert weights.verify(CARD, path) == digest
        write(path, "other weights")
        check = fields(where=["mine", str(path)], problem=[digest, files.sha256(path), "hashes.json"], hint=str(path))
        with pytest.raises(CorruptFile, check=check):
            weights.verify(CARD, path)

    def test_the_hash_on_the_card_comes_before_the_recorded_one(self, tmp_path: Path, zoo_home: Path) -> None:
        path = write(tmp_path / "model.safetensors")
        assert weights.verify(dataclasses.replace(CARD, sha256=files.sha256(path)), path)
        with pytest.raises(CorruptFile, check=fields(problem="card mine")):
            weights.verify(dataclasses.replace(CARD, sha256="0" * 64), path)
        assert not (zoo_home / "hashes.json").exists()

    def test_a_bit_flip_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "w"
        path.write_bytes(bytes(1000))
        weights.verify(CARD, path)
        path.write_bytes(bytes(999) + b"\x01")
        with pytest.raises(CorruptFile):
            weights.verify(CARD, path)

    @pytest.mark.parametrize("damage", ["{", '{"schema": 1, "schema": 1}', '{"schema": 1, "hashes": 3}', "[]"])
    def test_a_damaged_register_is_set_aside(self, tmp_path: Path, zoo_home: Path, damage: str) -> None:
        path = write(tmp_path / "w")
        (zoo_home / "hashes.json").write_text(damage)
        with pytest.raises(CorruptFile, check=fields(hint="hashes.json.corrupt-1")):
            weights.verify(CARD, path)
        assert (zoo_home / "hashes.json.corrupt-1").read_text() == damage
        assert weights.verify(CARD, path)

    def test_a_register_of_a_newer_version_is_refused(self, tmp_path: Path, zoo_home: Path) -> None:
        (zoo_home / "hashes.json").write_text('{"schema": 99, "hashes": {}}')
        with pytest.raises(InputError, match="99"):
            weights.verify(CARD, write(tmp_path / "w"))

    def test_a_home_that_cannot_be_written_is_a_warning(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        blocked = write(tmp_path / "file")
        monkeypatch.setenv("ZOO_HOME", str(blocked / "home"))
        with pytest.warns(ZooWarning, match=r"timm:a\.b@latest/w"):
            assert weights.verify(CARD, write(tmp_path / "w"))

    def test_concurrent_writers_keep_every_entry(self, tmp_path: Path, zoo_home: Path) -> None:
        from concurrent.futures import ThreadPoolExecutor

        register = zoo_home / "hashes.json"
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: weights._record(register, f"key{number}", "x"), range(40)))
        assert files.read_json(register, 1)["hashes"] == {f"key{number}": "x" for number in range(40)}

    def test_recorded_hashes_are_those_of_the_card_alone(self, tmp_path: Path) -> None:
        assert weights.recorded(CARD) == {}
        digest = weights.verify(CARD, write(tmp_path / "w"))
        weights.verify(dataclasses.replace(CARD, id="a.bc"), write(tmp_path / "w", "others"))
        assert weights.recorded(CARD) == {"w": digest}


class TestHubFiles:
    def test_the_first_candidate_in_the_cache_is_used(self, hub: FakeHub) -> None:
        path = hub.put("owner/name", "pytorch_model.bin", STATE)
        assert hub_files.fetch("m", "owner/name", ("model.safetensors", "pytorch_model.bin")) == path
        better = hub.put("owner/name", "model.safetensors", STATE)
        assert hub_files.fetch("m", "owner/name", ("model.safetensors", "pytorch_model.bin")) == better

    def test_a_revision_is_looked_up_as_that_revision(self, hub: FakeHub) -> None:
        hub.put("owner/name", "model.safetensors", STATE, "main")
        other = hub.put("owner/name", "model.safetensors", STATE, "v2")
        assert hub_files.fetch("m", "owner/name", ("model.safetensors",), "v2") == other
        with pytest.raises(MissingWeights):
            hub_files.fetch("m", "owner/name", ("model.safetensors",), "v3")

    def test_a_file_that_is_not_cached_is_an_error_offline(self, hub: FakeHub) -> None:
        problem = ["model.safetensors of owner/name", str(hub.folder), "HF_HUB_OFFLINE"]
        with pytest.raises(MissingWeights, check=fields(where="m", problem=problem, hint="hf download owner/name")):
            hub_files.fetch("m", "owner/name", ("model.safetensors",))

    def test_the_file_of_a_web_address_is_taken_from_torchs_cache(
        self, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("zoo.models.hub.is_reachable", lambda endpoint: False)
        problem = ["w.pth", str(hub_files.url_cache()), "example.org"]
        with pytest.raises(MissingWeights, check=fields(where="m", problem=problem, hint="https://example.org/a/w.pth")):
            hub_files.url_file("m", "https://example.org/a/w.pth")
        hub_files.url_cache().mkdir(parents=True)
        path = write(hub_files.url_cache() / "w.pth")
        assert hub_files.url_file("m", "https://example.org/a/w.pth") == path

    def test_the_cache_of_web_addresses_is_torchs(self, hub: FakeHub) -> None:
        assert str(hub_files.url_cache()) == os.path.join(torch.hub.get_dir(), "checkpoints")


class TestStateDictionaries:
    @pytest.mark.parametrize("file", ["w.safetensors", "w.pth", "w.bin"])
    def test_the_tensors_of_a_file_are_read(self, tmp_path: Path, file: str) -> None:
        hub = FakeHub(tmp_path)
        state = state_dicts.read(hub.put("a/b", file, STATE), "m")
        assert state.keys() == STATE.keys()
        assert all(torch.equal(state[key], STATE[key]) for key in STATE)

    @pytest.mark.parametrize("wrapper", ["state_dict", "model", "state_dict_ema"])
    def test_the_wrappers_of_training_scripts_are_removed(self, tmp_path: Path, wrapper: str) -> None:
        wrapped = {wrapper: {f"module.{key}": value for key, value in STATE.items()}, "epoch": 3}
        torch.save(wrapped, tmp_path / "w.pth")
        assert state_dicts.read(tmp_path / "w.pth", "m").keys() == STATE.keys()

    def test_averaged_weights_are_preferred(self, tmp_path: Path) -> None:
        torch.save({"state_dict": {"a": torch.zeros(1)}, "state_dict_ema": {"a": torch.ones(1)}}, tmp_path / "w.pth")
        assert state_dicts.read(tmp_path / "w.pth", "m")["a"].item() == 1

    def test_a_pickle_with_code_is_refused_and_not_run(self, tmp_path: Path) -> None:
        ran = tmp_path / "ran"

        class Payload:
            def __reduce__(self) -> tuple[object, ...]:
                return os.mkdir, (str(ran),)

        torch.save({"weight": Payload()}, tmp_path / "zip.pth")
        (tmp_path / "plain.pth").write_bytes(pickle.dumps(Payload()))
        (tmp_path / "old.bin").write_bytes(pickle.dumps({"weight": Payload()}, protocol=2))
        for name in ("zip.pth", "plain.pth", "old.bin"):
            with pytest.raises(InputError, match=f"{name}.*pickle") as caught:
                state_dicts.read(tmp_path / name, "m")
            assert "weights_only" not in str(caught.value)  # torch's advice to switch the protection off is not passed on
        assert not ran.exists()

    @pytest.mark.filterwarnings("ignore:.*TorchScript archive", "ignore:.*torch.jit")
    def test_torchs_advice_to_read_an_unsafe_file_is_not_passed_on(self, tmp_path: Path) -> None:
        torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)).save(str(tmp_path / "script.pt"))
        with tarfile.open(tmp_path / "old.pt", "w") as archive:  # the format of torch 0.1
            for name in ("sys_info", "pickle", "storages", "tensors"):
                archive.addfile(tarfile.TarInfo(name))
        for name in ("script.pt", "old.pt"):
            check = fields(where=name, problem="run code", hint="safetensors")
            with pytest.raises(InputError, check=check) as caught:
                zoo.load(f"file:{tmp_path / name}", architecture="resnet18", classes=["cat", "dog"])
            assert "weights_only" not in str(caught.value)

    def test_a_pickled_network_is_refused(self, tmp_path: Path) -> None:
        torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pth")
        with pytest.raises(InputError, match=r"w\.pth.*pickle"):
            state_dicts.read(tmp_path / "w.pth", "m")

    def test_a_file_without_a_state_dictionary_is_an_error(self, tmp_path: Path) -> None:
        torch.save([torch.ones(1)], tmp_path / "w.pth")
        with pytest.raises(InputError, match=r"w\.pth.*list"):
            state_dicts.read(tmp_path / "w.pth", "m")

    def test_a_zip_bomb_is_refused(self, tmp_path: Path) -> None:
        buffer = io.BytesIO()
        torch.save({"w": torch.zeros(3_000_000)}, buffer)
        path = tmp_path / "bomb.pth"
        with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in source.infolist():
                target.writestr(entry.filename, source.read(entry))
        assert path.stat().st_size < 100_000
        with pytest.raises(CorruptFile, match=r"bomb\.pth.* 12\d{6}"):
            state_dicts.read(path, "m")

    @pytest.mark.parametrize("file", ["w.safetensors", "w.pth"])
    @pytest.mark.parametrize("damage", ["empty", "truncated", "zeros"])
    def test_a_damaged_file_is_named(self, tmp_path: Path, file: str, damage: str) -> None:
        whole = FakeHub(tmp_path).put("a/b", file, {"w": torch.rand(1000)}).read_bytes()
        path = tmp_path / file
        path.write_bytes({"empty": b"", "truncated": whole[:-2000], "zeros": bytes(3000)}[damage])
        with pytest.raises((CorruptFile, InputError), match=file):
            state_dicts.read(path, "m")

    def test_a_header_of_an_impossible_size_is_refused(self, tmp_path: Path) -> None:
        path = FakeHub(tmp_path).put("a/b", "w.safetensors", {"w": torch.rand(10)}).resolve()
        path = path.rename(tmp_path / "w.safetensors")
        path.write_bytes((2**60).to_bytes(8, "little") + path.read_bytes()[8:])
        with pytest.raises(CorruptFile, match=r"w\.safetensors.*1152921504606846976"):
            state_dicts.read(path, "m")

    def test_bfloat16_is_read(self, tmp_path: Path) -> None:
        path = FakeHub(tmp_path).put("a/b", "w.safetensors", {"w": torch.tensor([1.5, -2.25]).bfloat16()})
        assert np.allclose(state_dicts.read(path, "m")["w"].float(), [1.5, -2.25])
