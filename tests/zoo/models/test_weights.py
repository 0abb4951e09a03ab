"""Files of weights: found, hashed at first use, checked ever after; nothing in them is run."""

import dataclasses
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_hub import FakeHub

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
    def test_recorded_at_first_use_and_checked_ever_after(self, tmp_path: Path, zoo_home: Path) -> None:
        path = write(tmp_path / "model.safetensors")
        digest = weights.verify(CARD, path)
        assert digest == files.sha256(path)
        assert json.loads((zoo_home / "hashes.json").read_text())["hashes"] == {"timm:a.b@latest/model.safetensors": digest}
        assert weights.verify(CARD, path) == digest
        write(path, "other weights")
        with pytest.raises(CorruptFile) as error:
            weights.verify(CARD, path)
        for said in ("mine", str(path), digest, files.sha256(path), "hashes.json"):
            assert said in str(error.value)

    def test_the_cards_own_hash_decides(self, tmp_path: Path, zoo_home: Path) -> None:
        path = write(tmp_path / "model.safetensors")
        assert weights.verify(dataclasses.replace(CARD, sha256=files.sha256(path)), path)
        with pytest.raises(CorruptFile, match="by the card mine"):
            weights.verify(dataclasses.replace(CARD, sha256="0" * 64), path)
        assert not (zoo_home / "hashes.json").exists()

    def test_a_bit_flip_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "w"
        path.write_bytes(bytes(1000))
        weights.verify(CARD, path)
        path.write_bytes(bytes(999) + b"\x01")
        with pytest.raises(CorruptFile):
            weights.verify(CARD, path)

    @pytest.mark.parametrize("damage", ["{", '{"schema": 1, "schema": 1}', '{"schema": 1, "hashes": 3}', "[]"])
    def test_a_damaged_register_is_set_aside_and_said(self, tmp_path: Path, zoo_home: Path, damage: str) -> None:
        path = write(tmp_path / "w")
        (zoo_home / "hashes.json").write_text(damage)
        with pytest.raises(CorruptFile, match=r"hashes\.json.*set aside as .*hashes\.json\.corrupt-1"):
            weights.verify(CARD, path)
        assert (zoo_home / "hashes.json.corrupt-1").read_text() == damage
        assert weights.verify(CARD, path)

    def test_a_newer_register_is_refused(self, tmp_path: Path, zoo_home: Path) -> None:
        (zoo_home / "hashes.json").write_text('{"schema": 99, "hashes": {}}')
        with pytest.raises(InputError, match="upgrade"):
            weights.verify(CARD, write(tmp_path / "w"))

    def test_a_home_that_cannot_be_written_warns(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        blocked = write(tmp_path / "file")
        monkeypatch.setenv("ZOO_HOME", str(blocked / "home"))
        with pytest.warns(ZooWarning, match="is not recorded"):
            assert weights.verify(CARD, write(tmp_path / "w"))

    def test_writers_at_the_same_time_lose_nothing(self, tmp_path: Path, zoo_home: Path) -> None:
        from concurrent.futures import ThreadPoolExecutor

        register = zoo_home / "hashes.json"
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: weights._record(register, f"key{number}", "x"), range(40)))
        assert files.read_json(register, 1)["hashes"] == {f"key{number}": "x" for number in range(40)}

    def test_a_cards_own_hashes_are_told_from_others(self, tmp_path: Path) -> None:
        assert weights.recorded(CARD) == {}
        digest = weights.verify(CARD, write(tmp_path / "w"))
        weights.verify(dataclasses.replace(CARD, id="a.bc"), write(tmp_path / "w", "others"))
        assert weights.recorded(CARD) == {"w": digest}


class TestFinding:
    def test_the_cache_comes_first(self, hub: FakeHub) -> None:
        path = hub.put("owner/name", "pytorch_model.bin", STATE)
        assert hub_files.fetch("m", "owner/name", ("model.safetensors", "pytorch_model.bin")) == path
        better = hub.put("owner/name", "model.safetensors", STATE)
        assert hub_files.fetch("m", "owner/name", ("model.safetensors", "pytorch_model.bin")) == better

    def test_a_revision_is_that_revision(self, hub: FakeHub) -> None:
        hub.put("owner/name", "model.safetensors", STATE, "main")
        other = hub.put("owner/name", "model.safetensors", STATE, "v2")
        assert hub_files.fetch("m", "owner/name", ("model.safetensors",), "v2") == other
        with pytest.raises(MissingWeights):
            hub_files.fetch("m", "owner/name", ("model.safetensors",), "v3")

    def test_nothing_cached_offline(self, hub: FakeHub) -> None:
        with pytest.raises(
            MissingWeights, match=r"^m: model\.safetensors of owner/name is not in the cache .*hub and HF_HUB_OFFLINE"
        ):
            hub_files.fetch("m", "owner/name", ("model.safetensors",))

    def test_a_web_address(self, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("zoo.models.hub.answers", lambda endpoint: False)
        with pytest.raises(
            MissingWeights, match=r"m: w\.pth is not in the cache .*checkpoints and example\.org does not answer"
        ):
            hub_files.url_file("m", "https://example.org/a/w.pth")
        hub_files.url_cache().mkdir(parents=True)
        path = write(hub_files.url_cache() / "w.pth")
        assert hub_files.url_file("m", "https://example.org/a/w.pth") == path

    def test_torch_looks_in_the_same_place(self, hub: FakeHub) -> None:
        assert str(hub_files.url_cache()) == os.path.join(torch.hub.get_dir(), "checkpoints")


class TestCheckpoints:
    @pytest.mark.parametrize("file", ["w.safetensors", "w.pth", "w.bin"])
    def test_tensors_come_back(self, tmp_path: Path, file: str) -> None:
        hub = FakeHub(tmp_path)
        state = state_dicts.read(hub.put("a/b", file, STATE), "m")
        assert state.keys() == STATE.keys()
        assert all(torch.equal(state[key], STATE[key]) for key in STATE)

    @pytest.mark.parametrize("wrapper", ["state_dict", "model", "state_dict_ema"])
    def test_what_training_scripts_wrap_around(self, tmp_path: Path, wrapper: str) -> None:
        wrapped = {wrapper: {f"module.{key}": value for key, value in STATE.items()}, "epoch": 3}
        torch.save(wrapped, tmp_path / "w.pth")
        assert state_dicts.read(tmp_path / "w.pth", "m").keys() == STATE.keys()

    def test_averaged_weights_go_first(self, tmp_path: Path) -> None:
        torch.save({"state_dict": {"a": torch.zeros(1)}, "state_dict_ema": {"a": torch.ones(1)}}, tmp_path / "w.pth")
        assert state_dicts.read(tmp_path / "w.pth", "m")["a"].item() == 1

    def test_a_pickle_is_refused_and_not_run(self, tmp_path: Path) -> None:
        ran = tmp_path / "ran"

        class Payload:
            def __reduce__(self) -> tuple[object, ...]:
                return os.mkdir, (str(ran),)

        torch.save({"weight": Payload()}, tmp_path / "zip.pth")
        (tmp_path / "plain.pth").write_bytes(pickle.dumps(Payload()))
        (tmp_path / "old.bin").write_bytes(pickle.dumps({"weight": Payload()}, protocol=2))
        for name in ("zip.pth", "plain.pth", "old.bin"):
            with pytest.raises(InputError, match=rf"m: .*{name} is a pickle that holds more than tensors.*safetensors"):
                state_dicts.read(tmp_path / name, "m")
        assert not ran.exists()

    def test_a_network_saved_whole_is_refused(self, tmp_path: Path) -> None:
        torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pth")
        with pytest.raises(InputError, match="more than tensors"):
            state_dicts.read(tmp_path / "w.pth", "m")

    def test_no_state_dictionary(self, tmp_path: Path) -> None:
        torch.save([torch.ones(1)], tmp_path / "w.pth")
        with pytest.raises(InputError, match="expected a state dictionary of tensors, found list"):
            state_dicts.read(tmp_path / "w.pth", "m")

    def test_a_zip_bomb_is_refused(self, tmp_path: Path) -> None:
        buffer = io.BytesIO()
        torch.save({"w": torch.zeros(3_000_000)}, buffer)
        path = tmp_path / "bomb.pth"
        with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in source.infolist():
                target.writestr(entry.filename, source.read(entry))
        assert path.stat().st_size < 100_000
        with pytest.raises(CorruptFile, match=r"bomb\.pth claims to unpack to 12\d* bytes"):
            state_dicts.read(path, "m")

    @pytest.mark.parametrize("file", ["w.safetensors", "w.pth"])
    @pytest.mark.parametrize("damage", ["empty", "truncated", "zeros"])
    def test_damage_is_named(self, tmp_path: Path, file: str, damage: str) -> None:
        whole = FakeHub(tmp_path).put("a/b", file, {"w": torch.rand(1000)}).read_bytes()
        path = tmp_path / file
        path.write_bytes({"empty": b"", "truncated": whole[:-2000], "zeros": bytes(3000)}[damage])
        with pytest.raises((CorruptFile, InputError), match=file):
            state_dicts.read(path, "m")

    def test_a_header_that_claims_an_exabyte(self, tmp_path: Path) -> None:
        path = FakeHub(tmp_path).put("a/b", "w.safetensors", {"w": torch.rand(10)}).resolve()
        path = path.rename(tmp_path / "w.safetensors")
        path.write_bytes((2**60).to_bytes(8, "little") + path.read_bytes()[8:])
        with pytest.raises(CorruptFile, match=r"w\.safetensors: claims a header of 1152921504606846976 bytes"):
            state_dicts.read(path, "m")

    def test_bfloat16(self, tmp_path: Path) -> None:
        path = FakeHub(tmp_path).put("a/b", "w.safetensors", {"w": torch.tensor([1.5, -2.25]).bfloat16()})
        assert np.allclose(state_dicts.read(path, "m")["w"].float(), [1.5, -2.25])
