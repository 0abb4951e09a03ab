"""Downloads with the real clients from a local hub server, which can also stop, refuse, move or damage files."""

import dataclasses
import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import huggingface_hub
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import timm
import torch
from hub_server import HubServer
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http
from PIL import Image
from raised import fields
from tiny_models import OPEN_CLIP, VIT, save_dual_encoder, save_transformers, transformed

import zoo
from zoo.errors import CorruptFile, InputError, MissingWeights
from zoo.models import hub as client
from zoo.models import registry

TINY = "timm:test_resnet"
ID = "test_resnet.r160_in1k"
FILE = "model.safetensors"
ROOT = Path(__file__).resolve().parents[3]


def content(model: torch.nn.Module) -> bytes:
    return safetensors.torch.save({key: value.contiguous() for key, value in model.state_dict().items()})


def network(seed: int = 0) -> torch.nn.Module:
    """Return timm's tiny network with weights that differ from random initialisation."""
    torch.manual_seed(seed)
    model = timm.create_model(ID).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model


class Proxy(http.server.BaseHTTPRequestHandler):
    """Answers every request itself, and records its address."""

    requests: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.requests.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def published() -> bytes:
    return content(network())


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A local hub that the clients of this process use, with an empty cache and no delay between retries."""
    with HubServer() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("zoo.core.network._TIMEOUT", 60)  # the machine may be busy
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 14)  # the unit in which an interrupted download is kept
        monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
        for module in (_http, file_download):
            monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
        yield server
        huggingface_hub.close_session()


@pytest.fixture
def tiny(hub: HubServer, published: bytes) -> HubServer:
    """The hub with the tiny network of timm."""
    hub.add(f"timm/{ID}", {"config.json": b"{}", FILE: published})
    return hub


def cached(tmp_path: Path) -> list[Path]:
    """Return every file in the cache with bytes of a repository, complete or not."""
    return [path for path in (tmp_path / "hub").rglob("blobs/*") if path.is_file()]


def test_a_first_download_is_recorded_and_a_second_load_sends_no_request(
    tiny: HubServer, published: bytes, zoo_home: Path, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = zoo.load(TINY, device="cpu")
    batch = transformed(model, images)
    with torch.inference_mode():
        assert torch.allclose(model.predict(images), network()(batch), atol=1e-5)
    recorded = json.loads((zoo_home / "hashes.json").read_text())["hashes"]
    assert recorded == {f"timm:{ID}@latest/{FILE}": hashlib.sha256(published).hexdigest()}
    assert len(tiny.asked("GET", FILE)) == 1

    for offline in (False, True):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        before = len(tiny.requests)
        assert zoo.load(TINY, device="cpu").weights_hash == model.weights_hash
        assert len(tiny.requests) == before


def test_the_hub_is_probed_through_the_proxy_of_the_environment(tiny: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        assert client._unreachable() is None
        assert Proxy.requests == [tiny.url]
        monkeypatch.setattr(constants, "ENDPOINT", "http://hub.example")
        assert client._unreachable() is None
        proxy.shutdown()
    assert "http://hub.example" in str(client._unreachable())


def test_an_interrupted_download_is_resumed(tiny: HubServer, published: bytes) -> None:
    tiny.fail(FILE, cut=40_000)
    tiny.fail(FILE, cut=20_000)
    path = client.fetch("m", f"timm/{ID}", (FILE,))
    assert path.read_bytes() == published
    assert tiny.ranges == [f"bytes={2 << 14}-", f"bytes={3 << 14}-"]  # 40,000 bytes hold two chunks, 20,000 one more


def test_a_download_that_always_fails_is_an_error_and_stores_nothing(
    tiny: HubServer, tmp_path: Path, zoo_home: Path
) -> None:
    tiny.fail(FILE, cut=0, times=99)
    with pytest.raises(MissingWeights, check=fields(where=TINY, problem=f"{FILE} of timm/{ID}", hint="Try again later")):
        zoo.load(TINY)
    assert cached(tmp_path) == []
    assert not (zoo_home / "hashes.json").exists()
    tiny.faults.clear()
    assert zoo.load(TINY).name == TINY


def test_a_damaged_first_download_is_refused(tiny: HubServer, zoo_home: Path, tmp_path: Path) -> None:
    """The file has the right size, so the client itself accepts it."""
    tiny.fail(FILE, flip=True)
    with pytest.raises(CorruptFile, check=fields(where=TINY, problem="announced", hint="blobs/")):
        zoo.load(TINY)
    assert not (zoo_home / "hashes.json").exists()
    (blob,) = cached(tmp_path)
    blob.unlink()
    assert zoo.load(TINY).name == TINY


def test_weights_that_changed_since_their_first_use_are_refused(tiny: HubServer, tmp_path: Path, zoo_home: Path) -> None:
    zoo.load(TINY)
    tiny.add(f"timm/{ID}", {FILE: content(network(seed=1))})
    shutil.rmtree(tmp_path / "hub")
    with pytest.raises(CorruptFile, check=fields(where=TINY, problem=f"{zoo_home}/hashes.json")):
        zoo.load(TINY)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_busy_hub_is_retried(tiny: HubServer, published: bytes, method: str, status: int) -> None:
    if (method, status) == ("GET", 503):  # the client does not retry this one
        tiny.fail(FILE, status=status, method=method)
        with pytest.raises(MissingWeights, check=fields(problem="503", hint="Try again later")):
            client.fetch("m", f"timm/{ID}", (FILE,))
    else:
        tiny.fail(FILE, times=2, status=status, method=method, headers={"Retry-After": "1"})
    assert client.fetch("m", f"timm/{ID}", (FILE,)).read_bytes() == published
    assert all(not fault.times for fault in tiny.faults)


def test_a_hub_that_stays_busy_is_not_taken_for_one_without_the_file(tiny: HubServer, tmp_path: Path) -> None:
    tiny.fail(FILE, times=99, status=503, method="HEAD")
    with pytest.raises(MissingWeights, check=fields(where="m", problem=[f"{FILE} of timm/{ID}", "503"])):
        client.fetch("m", f"timm/{ID}", (FILE, "pytorch_model.bin"))
    assert cached(tmp_path) == []


def test_a_missing_repository_file_or_revision_is_named(hub: HubServer) -> None:
    with pytest.raises(MissingWeights, check=fields(where=TINY, problem=[f"timm/{ID}", "does not exist"])):
        zoo.load(TINY)
    hub.add(f"timm/{ID}", {"README.md": b"# nothing here"})
    with pytest.raises(MissingWeights, check=fields(problem=[f"timm/{ID}", FILE, "pytorch_model.bin"])):
        zoo.load(TINY)
    with pytest.raises(MissingWeights, check=fields(where="m", problem=["README.md", "Revision", "v9"])):
        client.fetch("m", f"timm/{ID}", ("README.md",), "v9")


def test_a_gated_repository_is_an_error_with_instructions(hub: HubServer, published: bytes) -> None:
    hub.add(f"timm/{ID}", {FILE: published}, gated=True)
    hub.add("us/gated", {"config.json": b"{}"}, gated=True)
    for name, repository in ((TINY, f"timm/{ID}"), ("hf:us/gated", "us/gated")):
        check = fields(where=name, problem="gated", hint=f"https://huggingface.co/{repository}")
        with pytest.raises(MissingWeights, check=check):
            zoo.load(name)


def test_a_renamed_repository_is_followed(tiny: HubServer, published: bytes) -> None:
    tiny.move(f"timm/{ID}", "timm/renamed")
    assert zoo.load(TINY, device="cpu").name == TINY
    assert tiny.asked("HEAD", f"/timm/renamed/resolve/main/{FILE}")


def test_a_downloaded_pickle_is_refused(hub: HubServer) -> None:
    buffer = io.BytesIO()
    torch.save({"weight": torch.nn.Linear(2, 2)}, buffer)
    hub.add(f"timm/{ID}", {"pytorch_model.bin": buffer.getvalue()})
    with pytest.raises(InputError, match="pickle"):
        zoo.load(TINY)


def test_a_registered_and_a_shipped_model_are_downloaded_for_a_run(tiny: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    zoo.register(dataclasses.replace(zoo.card(TINY), name="mine"))
    shipped = zoo.card("mobilenetv4-conv-small")
    torch.manual_seed(0)
    tiny.add(f"timm/{shipped.id}", {FILE: content(timm.create_model(shipped.id))})
    runs = zoo.run(["mine", shipped.name], data="digits:test[:4]", device="cpu")
    assert [(name, runs[name].logits.shape) for name in runs] == [("mine", (4, 1000)), (shipped.name, (4, 1000))]
    assert np.ptp(runs["mine"].logits) > 0


def test_a_model_of_open_clip_is_downloaded(hub: HubServer, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    import open_clip
    from open_clip import factory, pretrained

    monkeypatch.setitem(factory._MODEL_CONFIGS, "ViT-small-test", OPEN_CLIP)
    monkeypatch.setitem(pretrained._PRETRAINED, "ViT-small-test", {"ours": pretrained._pcfg(hf_hub="us/small/")})
    torch.manual_seed(3)
    own = open_clip.create_model("ViT-small-test", pretrained=None, load_weights=False).eval()
    hub.add(
        "us/small", {"open_clip_model.safetensors": content(own), "open_clip_config.json": json.dumps(OPEN_CLIP).encode()}
    )
    model = zoo.load("open_clip:ViT-small-test/ours", classes=["cat", "dog"], device="cpu")
    batch = transformed(model, images)
    with torch.inference_mode():
        assert torch.allclose(model.embed(images), own.encode_image(batch), atol=1e-5)
    runs = zoo.run("open_clip:ViT-small-test/ours", data="digits:test[:4]", device="cpu")
    assert runs["open_clip:ViT-small-test/ours"].logits.shape == (4, 10)  # a zero-shot head for the classes of the dataset
    assert len(hub.asked("GET", ".safetensors")) == 1


def repository(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("shards", [1, 3])
def test_a_classifier_of_transformers_is_downloaded(
    hub: HubServer, tmp_path: Path, images: torch.Tensor, shards: int
) -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.ViTConfig(**VIT, id2label={0: "cat", 1: "dog", 2: "truck"})
    own = transformers.ViTForImageClassification(config).eval()
    save_transformers(own, tmp_path / "model")
    if shards > 1:
        (tmp_path / "model" / FILE).unlink()
        own.save_pretrained(tmp_path / "model", max_shard_size="40KB")
        assert len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    hub.add("us/vit", repository(tmp_path / "model"))
    model = zoo.load("hf:us/vit", device="cpu")
    batch = transformed(model, images)
    with torch.inference_mode():
        assert torch.allclose(model.predict(images), own(batch).logits, atol=1e-5)
    assert model.classes == ("cat", "dog", "truck")
    assert zoo.run("hf:us/vit", data="digits:test[:4]", device="cpu")["hf:us/vit"].logits.shape == (4, 3)


def test_a_dual_encoder_is_downloaded_with_its_tokenizer(hub: HubServer, tmp_path: Path, images: torch.Tensor) -> None:
    own, tokenizer = save_dual_encoder(tmp_path / "model")
    hub.add("us/clip", repository(tmp_path / "model"))
    model = zoo.load("hf:us/clip", classes=["cat", "dog"], device="cpu")
    tokens = tokenizer(["a photo of a cat.", "a photo of a dog."], return_tensors="pt", padding=True)
    batch = transformed(model, images)
    with torch.inference_mode():
        expected = own(pixel_values=batch, **{key: tokens[key] for key in ("input_ids", "attention_mask")}).logits_per_image
    assert torch.allclose(model.predict(images), expected, atol=1e-5)


def pets() -> bytes:
    """Return three images of two classes as a parquet file in the hub's format."""
    rows = []
    for value in (7, 8, 9):
        buffer = io.BytesIO()
        Image.new("RGB", (8, 8), (value,) * 3).save(buffer, "PNG")
        rows.append({"bytes": buffer.getvalue(), "path": None})
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    table = pa.table({"image": rows, "label": [0, 1, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def test_a_process_needs_only_the_address_of_the_hub(tmp_path: Path, published: bytes, zoo_home: Path) -> None:
    """A model and a dataset of the hub are downloaded; the second run works without the hub."""
    elsewhere = {"HF_HOME": str(tmp_path / "hf"), "TORCH_HOME": str(tmp_path / "torch"), "PYTHONPATH": str(ROOT)}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")} | elsewhere

    def outputs(**setting: str) -> list[object]:
        code = (
            "import json, zoo\n"
            f"run = zoo.run({TINY!r}, data='hf:us/pets:test', device='cpu', workers=0)[{TINY!r}]\n"
            "print(json.dumps([run.logits.tolist(), run.labels.tolist(), zoo.datasets.load('hf:us/pets:test').fingerprint]))"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment | setting, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    with HubServer() as hub:
        hub.add(f"timm/{ID}", {FILE: published})
        hub.add("us/pets", {"README.md": b"# Pets", "data/test-00000-of-00001.parquet": pets()}, dataset=True)
        first = outputs(HF_ENDPOINT=hub.url)
        assert len(hub.asked("GET", FILE)) == len(hub.asked("GET", ".parquet")) == 1
    logits, labels, _ = first
    assert (np.shape(logits), labels) == ((3, 1000), [0, 1, 1])
    shutil.rmtree(zoo_home / "outputs")
    assert outputs(HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1") == first
