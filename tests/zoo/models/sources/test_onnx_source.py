"""ONNX files: the outputs of the network they were exported from, and refusal of malicious ones."""

import copy
import os
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import timm
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from raised import fields
from torch import nn
from typer.testing import CliRunner

import diversity
import zoo
from zoo.app.main import app
from zoo.cards import card as cards
from zoo.errors import CorruptFile, InputError, UnknownName
from zoo.models import registry

IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 60, 3), np.uint8))
HINTS = {"classes": ["cat", "dog", "horse"], "mean": [0.5] * 3, "std": [0.5] * 3}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    registry._registered.clear()


def network() -> nn.Module:
    torch.manual_seed(0)
    return timm.create_model("test_resnet", num_classes=3).eval()


@pytest.fixture(scope="module")
def external_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph and its weights in a second file, as torch's newer (and slow) exporter writes them."""
    place = tmp_path_factory.mktemp("exported")
    options = {"dynamo": True, "verbose": False, "dynamic_shapes": {"x": {0: torch.export.Dim("n")}}}
    export(network(), str(place / "mine.onnx"), **options)
    return place


def export(model: nn.Module, path: str, **options: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters emit warnings
        torch.onnx.export(model, (torch.randn(2, 3, 64, 64),), path, **options)


def output(model: zoo.Model, whole: nn.Module) -> torch.Tensor:
    with torch.inference_mode():
        return whole(model.transform(IMAGE)[None])


OPEN, FIXED = (
    {"input_names": ["image"], "dynamic_axes": {"image": {0: "n"}}},
    {},
)  # batches of any size, or of two images only


@pytest.mark.parametrize("options", [None, OPEN, FIXED])
def test_an_exported_network_gives_the_same_outputs(options: dict | None, external_data: Path) -> None:
    whole = network()
    if options is None:
        shutil.copytree(external_data, ".", dirs_exist_ok=True)
    else:
        export(whole, "mine.onnx", dynamo=False, **options)
    zoo.register("onnx:mine.onnx", "exported", **HINTS)
    model = zoo.load("exported")
    assert model.classes == ("cat", "dog", "horse")
    assert torch.allclose(model.predict([IMAGE] * 3), output(model, whole).expand(3, -1), atol=1e-4)
    whole.fc = nn.Identity()
    assert torch.allclose(model.embed(IMAGE), output(model, whole), atol=1e-4)
    assert torch.equal(copy.deepcopy(model).predict(IMAGE), model.predict(IMAGE))


def test_an_exported_network_is_described_and_run_on_the_command_line() -> None:
    export(network(), "mine.onnx", dynamo=False)
    Path("classes.txt").write_text("\n".join("0123456789"[:3]))
    words = "card new onnx:mine.onnx --classes classes.txt --mean 0.5 --std 0.5 --name deployed"
    assert CliRunner().invoke(app, words.split()).exit_code == 0
    result = CliRunner().invoke(app, ["run", "deployed", "--data", "digits:test[:20]", "--json"])
    assert result.exit_code == 0, result.output
    runs = zoo.run(["deployed", "deployed@run"], data="digits:test[:20]", progress=False)
    assert runs["deployed"].embeddings.shape == (20, zoo.load("deployed").num_features)


def test_a_graph_that_ends_in_a_softmax_returns_probabilities() -> None:
    whole = nn.Sequential(network(), nn.Softmax(1)).eval()
    export(whole, "soft.onnx", dynamo=False)
    card = zoo.register("onnx:soft.onnx", "soft", **HINTS)
    assert card.details["kind"] == "probabilities"
    model = zoo.load("soft")
    assert torch.allclose(model.predict(IMAGE).softmax(1), output(model, whole), atol=1e-5)
    assert model.embeds


def by_hand(path: str, last: str = "Relu") -> None:
    """Write a graph with channels last, as TensorFlow exports, an open size, and no linear layer at the end."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", "h", "w", 3])
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["means"], axes=[1, 2], keepdims=0),
        helper.make_node(last, ["means"], ["out"]),
    ]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "colours", [image], [out], [numpy_helper.from_array(np.zeros(1, np.float32), "unused")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_channels_last_an_open_size_and_a_named_embedding() -> None:
    by_hand("tf.onnx")
    with pytest.raises(InputError, check=fields(where="onnx:tf.onnx", problem=["classes", "mean", "std", "size"])):
        zoo.register("onnx:tf.onnx", "tf", embedding="means")
    zoo.register("onnx:tf.onnx", "tf", size=16, **HINTS)
    model = zoo.load("tf")
    red = Image.new("RGB", (16, 16), (255, 0, 51))
    assert torch.allclose(model.predict(red), torch.tensor([[1.0, 0.0, 0.0]]), atol=1e-6)
    assert not model.embeds
    zoo.register("onnx:tf.onnx", "named", size=16, embedding="means", **HINTS)
    assert torch.allclose(zoo.load("named").embed(red), torch.tensor([[1.0, -1.0, -0.6]]), atol=1e-6)
    runs = zoo.run(["tf", "named"], data="digits:test[:6]", progress=False)
    assert runs["tf"].embeddings is None
    assert diversity.agreement(runs["tf"].predictions, runs["named"].predictions) == 1
    zoo.register("onnx:tf.onnx", "mistyped", size=16, embedding="mean", **HINTS)
    with pytest.raises(UnknownName, check=fields(where="mistyped", name="mean", suggestions=("means",))):
        zoo.load("mistyped")


def test_a_card_next_to_the_file_describes_it() -> None:
    export(network(), "mine.onnx", dynamo=False)
    with pytest.raises(InputError, check=fields(where="onnx:mine.onnx", hint=["zoo card new onnx:mine.onnx", "mine.md"])):
        zoo.card("onnx:mine.onnx")
    card = zoo.register("onnx:mine.onnx", "mine", **HINTS)
    Path("mine.md").write_text(cards.write(card))
    assert zoo.load("onnx:mine.onnx").classes == ("cat", "dog", "horse")


def test_unusable_files_are_errors() -> None:
    Path("bad.onnx").write_bytes(b"\x08\x07no graph")
    with pytest.raises(CorruptFile, check=fields(where="bad.onnx")):
        zoo.register("onnx:bad.onnx", "bad", **HINTS)
    with pytest.raises(InputError, check=fields(where="onnx:absent.onnx")):
        zoo.register("onnx:absent.onnx", "bad", **HINTS)
    by_hand("odd.onnx", last="NoSuchOperation")
    zoo.register("onnx:odd.onnx", "odd", size=8, **HINTS)
    with pytest.raises(InputError, check=fields(where="odd", problem="onnxruntime")):
        zoo.load("odd")
    by_hand("good.onnx")
    zoo.register("onnx:good.onnx", "four", size=8, **HINTS | {"classes": list("abcd")})
    with pytest.raises(InputError, check=fields(where="four", problem=["3 outputs", "4 classes"])):
        zoo.load("four")
    with pytest.raises(InputError, check=fields(where="four", argument="pretrained")):
        zoo.load("four", pretrained=False)


def test_external_data_is_part_of_the_weights(external_data: Path) -> None:
    shutil.copytree(external_data, ".", dirs_exist_ok=True)
    zoo.register("onnx:mine.onnx", "mine", **HINTS)
    zoo.load("mine")
    data = Path("mine.onnx.data")
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)
    with pytest.raises(CorruptFile, check=fields(where="mine.onnx.data")):
        zoo.load("mine")


def with_external_tensor(location: str, inside_subgraph: bool = False, **entries: object) -> None:
    """Write evil.onnx: a graph from images [n, 3, 8, 8] to three classes, whose one weight is stored at a location."""
    weight = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=[192, 3], data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": location} | entries).items():
        weight.external_data.add(key=key, value=str(value))
    nodes = [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("MatMul", ["flat", "weight"], ["out"])]
    if inside_subgraph:
        constant = helper.make_node("Constant", [], ["weight"], value=weight)
        branch = helper.make_graph(
            [constant], "branch", [], [helper.make_tensor_value_info("weight", TensorProto.FLOAT, None)]
        )
        nodes.insert(0, helper.make_node("If", ["condition"], ["weight"], then_branch=branch, else_branch=branch))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 8, 8])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])
    stored = [numpy_helper.from_array(np.array(True), "condition")] if inside_subgraph else [weight]
    graph = helper.make_graph(nodes, "evil", [image], [out], stored)
    Path("evil.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )


BYTES = 192 * 3 * 4


@pytest.mark.parametrize("inside_subgraph", [False, True])
def test_external_data_inside_the_folder_is_read(inside_subgraph: bool) -> None:
    Path("data").mkdir()
    weight = np.random.default_rng(0).normal(size=(192, 3)).astype(np.float32)
    Path("data/weights.bin").write_bytes(b"head" * 4 + weight.tobytes())
    with_external_tensor("data/weights.bin", inside_subgraph, offset=16, length=BYTES)
    zoo.register("onnx:evil.onnx", "good", **HINTS)
    model = zoo.load("good")
    inputs = model.transform(IMAGE).flatten().numpy()
    np.testing.assert_allclose(model.predict(IMAGE)[0], inputs @ weight, rtol=1e-4, atol=1e-4)


def link_to_zero(folder: Path) -> str:
    Path("zeros.bin").symlink_to("/dev/zero")
    return "zeros.bin"


def link_outside(folder: Path) -> str:
    outside = folder.parent / f"{folder.name}-outside.bin"
    outside.write_bytes(bytes(BYTES))
    Path("inside.bin").symlink_to(outside)
    return "inside.bin"


def loop_of_links(folder: Path) -> str:
    Path("a").symlink_to("b")
    Path("b").symlink_to("a")
    return "a"


def pipe(folder: Path) -> str:
    os.mkfifo("pipe")
    return "pipe"


def huge_file(folder: Path) -> str:
    with open("huge.bin", "wb") as file:
        file.truncate(2**40)  # sparse: it takes no space on the disk
    return "huge.bin"


@pytest.mark.parametrize("inside_subgraph", [False, True])
@pytest.mark.parametrize(
    "location",
    [
        "/dev/zero", "../weights.bin", "", ".", "missing.bin", "a\0b", "x" * 5000,
        link_to_zero, link_outside, loop_of_links, pipe, huge_file,
    ],
)  # fmt: skip
def test_unsafe_external_data_is_refused_before_it_is_opened(
    folder: Path, location: str | Callable[[Path], str], inside_subgraph: bool
) -> None:
    with_external_tensor(location if isinstance(location, str) else location(folder), inside_subgraph)
    zoo.register("onnx:evil.onnx", "evil", **HINTS)
    started = time.process_time()
    with pytest.raises(InputError, check=fields(where=["evil", "external data", "weight"])):
        zoo.load("evil")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "entries", [{"offset": 1}, {"length": BYTES + 1}, {"offset": -4, "length": 8}, {"length": -1}, {"offset": "four"}]
)
def test_external_data_outside_its_file_is_an_error(entries: dict) -> None:
    Path("weights.bin").write_bytes(bytes(BYTES))
    with_external_tensor("weights.bin", **({"length": BYTES} | entries))
    zoo.register("onnx:evil.onnx", "evil", **HINTS)
    with pytest.raises(CorruptFile, check=fields(where="weights.bin")):
        zoo.load("evil")


def test_many_tensors_that_share_a_large_file_are_refused() -> None:
    with open("large.bin", "wb") as file:
        file.truncate(2**30)
    with_external_tensor("large.bin")
    model = onnx.load("evil.onnx", load_external_data=False)
    for number in range(3):
        copied = model.graph.initializer.add()
        copied.CopyFrom(model.graph.initializer[0])
        copied.name = f"copy{number}"
    Path("evil.onnx").write_bytes(model.SerializeToString())
    zoo.register("onnx:evil.onnx", "evil", **HINTS)
    with pytest.raises(InputError, check=fields(where="large.bin", found=2**31)):
        zoo.load("evil")


@pytest.mark.parametrize("shape", [["n", 3, 100_000, 100_000], [10**9, 3, 8, 8], ["n", 100_000, 100_000, 3]])
def test_a_declared_input_of_an_impossible_size_is_refused(shape: list) -> None:
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph([helper.make_node("Flatten", ["image"], ["out"])], "huge", [image], [out])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "huge.onnx")
    with pytest.raises(InputError, check=fields(where="onnx:huge.onnx", problem=str(max(s for s in shape if s != "n")))):
        zoo.register("onnx:huge.onnx", "huge", **HINTS)


def test_a_card_with_an_input_of_an_impossible_size_is_refused() -> None:
    by_hand("open.onnx")
    zoo.register("onnx:open.onnx", "huge", size=100_000, **HINTS)
    with pytest.raises(InputError, check=fields(where="huge", problem="100000")):
        zoo.load("huge")


def test_a_bare_graph_is_loaded_with_hints() -> None:
    by_hand("tf.onnx")
    red = Image.new("RGB", (16, 16), (255, 0, 51))
    model = zoo.load("onnx:tf.onnx", classes=["r", "g", "b"], mean=[0.0, 0.0, 0.1], std=[1.0, 1.0, 0.5], size=16)
    assert torch.allclose(model.predict(red), torch.tensor([[1.0, 0.0, 0.2]]), atol=1e-6)
    assert (model.name, model.classes, model.transform.size) == ("onnx:tf.onnx", ("r", "g", "b"), (3, 16, 16))
    one = zoo.load("onnx:tf.onnx", classes=["r", "g", "b"], mean=0.5, std=0.5, size=16)
    assert one.card.transform.mean == one.card.transform.std == (0.5, 0.5, 0.5)
    assert "onnx:tf.onnx" not in registry.known_models()


def test_hints_replace_what_the_card_next_to_the_file_says() -> None:
    by_hand("tf.onnx")
    Path("tf.md").write_text(cards.write(zoo.register("onnx:tf.onnx", "tf", size=16, **HINTS)))
    red = Image.new("RGB", (16, 16), (255, 0, 51))
    from_card, hinted = zoo.load("onnx:tf.onnx"), zoo.load("onnx:tf.onnx", mean=0.0, std=0.5)
    assert torch.allclose(from_card.predict(red), torch.tensor([[1.0, 0.0, 0.0]]), atol=1e-6)
    assert torch.allclose(hinted.predict(red), torch.tensor([[2.0, 0.0, 0.4]]), atol=1e-6)
    assert hinted.classes == from_card.classes
    assert hinted.transform.fingerprint != from_card.transform.fingerprint
    renamed = zoo.load("onnx:tf.onnx", classes=["r", "g", "b"], size=8, embedding="means")
    assert (renamed.classes, renamed.transform.size, renamed.embeds) == (("r", "g", "b"), (3, 8, 8), True)
    assert renamed.card.transform.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("name", "hints", "check"),
    [
        ("onnx:tf.onnx", {"mean": 0.5, "std": 0.5}, fields(where="onnx:tf.onnx", problem=["classes", "size"])),
        ("onnx:tf.onnx", HINTS | {"mean": [0.5, 0.5], "size": 8}, fields(argument="mean", found=[0.5, 0.5])),
        ("onnx:tf.onnx", HINTS | {"std": 0.0, "size": 8}, fields(argument="std", found=[0.0] * 3)),
        ("resnet8-cosine", {"mean": 0.5}, fields(where="resnet8-cosine", argument="mean")),
        ("timm:resnet18", {"mean": 0.5}, fields(where="timm:resnet18", problem="mean")),
        ("onnx:tf.onnx", {"men": 0.5}, fields(name="men", suggestions=("mean",))),
    ],
)
def test_invalid_hints_are_errors(name: str, hints: dict, check: Callable) -> None:
    by_hand("tf.onnx")
    with pytest.raises(InputError, check=check):
        zoo.load(name, **hints)


def test_a_hint_of_none_is_no_hint() -> None:
    assert zoo.load("timm:test_resnet", pretrained=False, mean=None, std=None).name == "timm:test_resnet"
