"""ONNX files, exported by torch as people export them, against the network they were made from."""

import copy
import shutil
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import timm
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import diversity
import zoo
from zoo.app.main import app
from zoo.cards import card as cards
from zoo.errors import CorruptFile, InputError
from zoo.models import registry

IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 60, 3), np.uint8))
TOLD = {"classes": ["cat", "dog", "horse"], "mean": [0.5] * 3, "std": [0.5] * 3}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    registry._registered.clear()


def network() -> nn.Module:
    torch.manual_seed(0)
    return timm.create_model("test_resnet", num_classes=3).eval()


@pytest.fixture(scope="module")
def with_data_beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What torch's newer exporter writes, which takes its time: a graph, and the weights in a second file."""
    place = tmp_path_factory.mktemp("exported")
    options = {"dynamo": True, "verbose": False, "dynamic_shapes": {"x": {0: torch.export.Dim("n")}}}
    export(network(), str(place / "mine.onnx"), **options)
    return place


def export(model: nn.Module, path: str, **options: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters remark on themselves
        torch.onnx.export(model, (torch.randn(2, 3, 64, 64),), path, **options)


def answer(model: zoo.Model, whole: nn.Module) -> torch.Tensor:
    with torch.inference_mode():
        return whole(model.transform(IMAGE)[None])


OPEN, FIXED = {"input_names": ["image"], "dynamic_axes": {"image": {0: "n"}}}, {}  # batches of any size, or of two only


@pytest.mark.parametrize("options", [None, OPEN, FIXED])
def test_what_torch_exports(options: dict | None, with_data_beside: Path) -> None:
    whole = network()
    if options is None:
        shutil.copytree(with_data_beside, ".", dirs_exist_ok=True)
    else:
        export(whole, "mine.onnx", dynamo=False, **options)
    zoo.register("onnx:mine.onnx", "exported", **TOLD)
    model = zoo.load("exported")
    assert model.classes == ("cat", "dog", "horse")
    assert torch.allclose(model.predict([IMAGE] * 3), answer(model, whole).expand(3, -1), atol=1e-4)
    whole.fc = nn.Identity()
    assert torch.allclose(model.embed(IMAGE), answer(model, whole), atol=1e-4)
    assert torch.equal(copy.deepcopy(model).predict(IMAGE), model.predict(IMAGE))


def test_a_newcomers_commands() -> None:
    export(network(), "mine.onnx", dynamo=False)
    Path("classes.txt").write_text("\n".join("0123456789"[:3]))
    words = [
        "card",
        "new",
        "onnx:mine.onnx",
        "--classes",
        "classes.txt",
        "--mean",
        "0.5",
        "--std",
        "0.5",
        "--as",
        "deployed",
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    result = CliRunner().invoke(app, ["run", "deployed", "--data", "digits:test[:20]", "--json"])
    assert result.exit_code == 0, result.output
    runs = zoo.run(["deployed", "deployed@run"], data="digits:test[:20]", progress=False)
    assert runs["deployed"].embeddings.shape == (20, zoo.load("deployed").num_features)


def test_probabilities_by_the_graph_itself() -> None:
    whole = nn.Sequential(network(), nn.Softmax(1)).eval()
    export(whole, "soft.onnx", dynamo=False)
    card = zoo.register("onnx:soft.onnx", "soft", **TOLD)
    assert card.details["kind"] == "probabilities"
    model = zoo.load("soft")
    assert torch.allclose(model.predict(IMAGE).softmax(1), answer(model, whole), atol=1e-5)
    assert model.embeds


def by_hand(path: str, last: str = "Relu") -> None:
    """Channels last, as TensorFlow exports, an open size, and nothing linear at the end."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", "h", "w", 3])
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["means"], axes=[1, 2], keepdims=0),
        helper.make_node(last, ["means"], ["out"]),
    ]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "colours", [image], [out], [numpy_helper.from_array(np.zeros(1, np.float32), "unused")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_channels_last_an_open_size_and_a_named_tensor() -> None:
    by_hand("tf.onnx")
    with pytest.raises(InputError, match=r"does not say its classes \(.*\), mean \(.*\), std \(.*\), size \("):
        zoo.register("onnx:tf.onnx", "tf", embedding="means")
    zoo.register("onnx:tf.onnx", "tf", size=16, **TOLD)
    model = zoo.load("tf")
    red = Image.new("RGB", (16, 16), (255, 0, 51))
    assert torch.allclose(model.predict(red), torch.tensor([[1.0, 0.0, 0.0]]), atol=1e-6)
    assert not model.embeds
    zoo.register("onnx:tf.onnx", "named", size=16, embedding="means", **TOLD)
    assert torch.allclose(zoo.load("named").embed(red), torch.tensor([[1.0, -1.0, -0.6]]), atol=1e-6)
    runs = zoo.run(["tf", "named"], data="digits:test[:6]", progress=False)
    assert runs["tf"].embeddings is None
    assert diversity.agreement(runs["tf"].predictions, runs["named"].predictions) == 1
    zoo.register("onnx:tf.onnx", "mistyped", size=16, embedding="mean", **TOLD)
    with pytest.raises(InputError, match="has no tensor 'mean'; did you mean means"):
        zoo.load("mistyped")


def test_a_card_beside_it() -> None:
    export(network(), "mine.onnx", dynamo=False)
    with pytest.raises(
        InputError, match=r"nothing says its classes and its transform; say it with `zoo card new onnx:mine.onnx"
    ):
        zoo.card("onnx:mine.onnx")
    card = zoo.register("onnx:mine.onnx", "mine", **TOLD)
    Path("mine.md").write_text(cards.write(card))
    assert zoo.load("onnx:mine.onnx").classes == ("cat", "dog", "horse")


def test_what_cannot_be_used() -> None:
    Path("bad.onnx").write_bytes(b"\x08\x07no graph")
    with pytest.raises(CorruptFile, match=r"bad\.onnx is not a readable ONNX file"):
        zoo.register("onnx:bad.onnx", "bad", **TOLD)
    with pytest.raises(InputError, match="there is no such file"):
        zoo.register("onnx:absent.onnx", "bad", **TOLD)
    by_hand("odd.onnx", last="NoSuchOperation")
    zoo.register("onnx:odd.onnx", "odd", size=8, **TOLD)
    with pytest.raises(InputError, match="onnxruntime cannot run it"):
        zoo.load("odd")
    by_hand("good.onnx")
    zoo.register("onnx:good.onnx", "four", size=8, **TOLD | {"classes": list("abcd")})
    with pytest.raises(InputError, match="gives 3 numbers for an image, its card 4 classes"):
        zoo.load("four")
    with pytest.raises(InputError, match="cannot have random ones"):
        zoo.load("four", pretrained=False)


def test_data_beside_the_file_is_part_of_the_weights(with_data_beside: Path) -> None:
    shutil.copytree(with_data_beside, ".", dirs_exist_ok=True)
    zoo.register("onnx:mine.onnx", "mine", **TOLD)
    zoo.load("mine")
    data = Path("mine.onnx.data")
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)
    with pytest.raises(CorruptFile, match=r"mine\.onnx\.data has the sha256"):
        zoo.load("mine")
