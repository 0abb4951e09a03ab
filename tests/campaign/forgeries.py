"""Forged files: a valid format and checksum over changed or unexpected contents.

A checksum without a key protects against damage, not against tampering. Each forgery must be rejected with an error that
names the file, or its contents must be valid: finite probabilities that sum to one, known classes, labels of the right
shape.
"""

import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import check_read
from samples import Sample

_DEEP: Any = json.loads("[" * 300 + "]" * 300)
_SCALARS = (0, -1, 1, 0.5, 2**40, 10**30, 1e300, -0.0, "", "a", "\x1b[31m", "../../etc/passwd", "caf\ud800", "x" * 5000,
            None, True, [], {}, [[]], {"a": 1}, ["a", "a"], _DEEP)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Forgery:
    """A file that is rewritten for each case, and the function that reads it."""

    name: str
    path: Path
    write: Callable[[random.Random], None]
    read: Callable[[Path], Any]

    def trial(self, seed: str) -> str | None:
        """Write and read one forged file; return the problem, or None."""
        self.write(random.Random(seed))
        return check_read(Sample(self.name, self.path, self.read), refuse=False)


def make(folder: Path) -> list[Forgery]:
    """Return all forgeries; their files are in subfolders of `folder`."""
    return [
        _bundle(folder / "bundle"), *_weights(folder / "weights"), _plan(folder / "plan"),
        _cascade(folder / "cascade"), *_onnx(folder / "onnx"),
    ]  # fmt: skip


def changed(value: Any, rng: random.Random) -> Any:
    """Return a structure of lists, mappings and scalars with one node replaced, removed, duplicated or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value, key=str))
        if rng.random() < 0.1:
            return {other: item for other, item in value.items() if other != key}
        if rng.random() < 0.05:
            return value | {rng.choice(("secret", "name", "")): rng.choice(_SCALARS)}
        return value | {key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value[:place] + value[place + 1 :]
        if rng.random() < 0.1:
            return [*value, value[place]]
        return [*value[:place], changed(value[place], rng), *value[place + 1 :]]
    return rng.choice(_SCALARS)


def changed_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Return an array with another shape, type or values."""
    kind = rng.randrange(8)
    if kind == 0:
        return array[: rng.randrange(len(array) + 1)] if array.ndim else array
    if kind == 1:
        return array[..., None]
    if kind == 2:
        return array.astype(rng.choice((np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_)))
    if kind == 3 and array.ndim > 1:
        return array[:, : rng.randrange(array.shape[1] + 1)]
    if kind == 4:
        return np.concatenate([array, array]) if array.ndim else array
    if kind == 5:
        return array.reshape(-1)
    copy = array.copy().reshape(-1)
    value = rng.choice((np.nan, np.inf, -np.inf, -1, -2, 77, 1e30, 0.5, 2**40))
    if len(copy):
        with np.errstate(all="ignore"):
            copy = copy.astype(rng.choice((copy.dtype, np.dtype(np.float32), np.dtype(np.int64))))
            copy[rng.randrange(len(copy))] = value if copy.dtype.kind == "f" else np.clip(np.nan_to_num(value), -128, 127)
    return copy.reshape(array.shape)


def check_outputs(runs: Any) -> None:
    """Raise AssertionError if outputs that were read are not valid."""
    for outputs in runs.values():
        rows, classes = len(outputs), len(outputs.classes)
        assert len(set(outputs.ids.tolist())) == rows, "ids are not unique"
        assert len(set(outputs.classes)) == classes, "classes are not unique"
        if outputs.kind != "embeddings":
            predicted = outputs.predictions
            assert predicted.shape == (rows,), f"predictions of shape {predicted.shape}"
            assert ((predicted >= -1) & (predicted < classes)).all(), "predictions are outside the classes"
        if outputs.kind in ("logits", "probabilities"):
            p = np.asarray(outputs.probabilities, np.float64)
            assert p.shape == (rows, classes), f"probabilities of shape {p.shape}"
            assert np.isfinite(p).all(), "probabilities are not finite"
            one = np.abs(p.sum(1) - 1).max() < 0.02 or outputs.link == "sigmoid"
            assert one, f"probabilities sum to {p.sum(1).max()}"
        if outputs.embeddings is not None:
            assert np.isfinite(np.asarray(outputs.embeddings, np.float64)).all(), "embeddings are not finite"
            assert len(outputs.embeddings) == rows, "embeddings have another number of rows"
        if outputs.labels is not None:
            known = len(outputs.label_classes or outputs.classes)
            assert outputs.labels.shape == (rows,), f"labels of shape {outputs.labels.shape}"
            assert ((outputs.labels >= 0) & (outputs.labels < known)).all(), "labels are outside the classes"


def _seal(path: Path, tensors: dict[str, np.ndarray], note: Any, rng: random.Random) -> None:
    from zoo.core import tensorfile

    tensors = dict(tensors)
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.5:
            note = changed(note, rng)
        else:
            name = rng.choice(sorted(tensors))
            tensors[name] = changed_array(tensors[name], rng)
    path.write_bytes(tensorfile.encode(tensors, note if isinstance(note, dict) else {"note": note}))


def _bundle(folder: Path) -> Forgery:
    from zoo.core import tensorfile
    from zoo.models import registry
    from zoo.outputs import bundle
    from zoo.outputs.importing.importer import import_outputs
    from zoo.outputs.outputs import Outputs

    folder.mkdir(parents=True)
    path = folder / "study.safetensors"
    rng = np.random.default_rng(3)
    y, z = rng.integers(0, 3, 12), rng.normal(size=(12, 3)).astype(np.float32)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    shared = {"labels": y, "classes": ["cat", "dog", "owl"], "ids": [f"i{k}" for k in range(12)], "dataset": "mine:test"}
    card = dataclasses.replace(registry.card("timm:test_vit"), name="model@epoch1")
    runs = [
        Outputs.from_arrays("model@epoch1", logits=z, embeddings=z, card=card, temperature=1.5, **shared),
        Outputs.from_arrays("b", probabilities=p, **shared),
        Outputs.from_arrays("c", predictions=z.argmax(1), **shared),
        Outputs.from_arrays("d", logits=z, link="sigmoid", **shared),
    ]
    bundle.export_outputs(runs, path, embeddings=["model@epoch1"])
    tensors, note = tensorfile.read_sealed(path)
    arrays = {name: np.array(array) for name, array in tensors.items()}

    def write(draw: random.Random) -> None:
        forged = dict(arrays)
        if draw.random() < 0.1:  # ids are stored as text in an array
            ids = changed(json.loads(arrays["ids"].tobytes()), draw)
            forged["ids"] = np.frombuffer(json.dumps(ids).encode(), np.uint8)
        _seal(path, forged, note, draw)

    def read(file: Path) -> None:
        check_outputs(import_outputs(file))

    read(path)
    return Forgery("forgery of a bundle", path, write, read)


def _weights(folder: Path) -> list[Forgery]:
    """Forge the weights of a trained model and a snapshot of one of its epochs."""
    from zoo.cards import card_index
    from zoo.core import tensorfile
    from zoo.models import trained

    folder.mkdir(parents=True)
    card = dataclasses.replace(sorted(card_index.shipped().values(), key=lambda card: card.name)[0], path=None)
    tensors = {"a.weight": np.ones((3, 4), np.float32), "a.bias": np.zeros(3, np.float32)}
    items = []
    for name, described in {"model": card, "epoch2": trained.snapshot_card(card, 2)}.items():
        path = folder / f"{name}.safetensors"
        record = trained.Record(described, "mine", "0" * 64, "zoo train", 1, 2, {"test_accuracy": 0.5})
        path.write_bytes(trained.encode(record, tensors))
        _, note = tensorfile.read_sealed(path)

        def write(draw: random.Random, path: Path = path, note: Any = note) -> None:
            _seal(path, tensors, note, draw)

        def read(path: Path) -> None:
            trained.describe(path)
            trained.read(path)

        read(path)
        kind = "weights" if name == "model" else "a snapshot"
        items.append(Forgery(f"forgery of {kind}", path, write, read))
    return items


def _cascade(folder: Path) -> Forgery:
    """The card of an ensemble or cascade: members, weights, temperatures, thresholds, prediction sets."""
    import torch
    import yaml

    from zoo.cards import card as cards
    from zoo.cards.card import Card, EnsembleMember, Training
    from zoo.core.prediction_sets import read_rule
    from zoo.errors import InputError
    from zoo.models import registry
    from zoo.models.sources import ensemble
    from zoo.models.sources.assembly import Request

    folder.mkdir(parents=True)
    path = folder / "both.md"
    models = {name: registry.load(name, pretrained=False, device="cpu") for name in ("timm:test_vit", "timm:test_resnet")}
    members = [EnsembleMember(name, 1.0 + number, 1.5) for number, name in enumerate(models)]
    sets = {"method": "lac", "alpha": 0.1, "thresholds": [0.9], "classes": 1000, "conditioning": "marginal",
            "calibration_examples": 50}  # fmt: skip
    details = {"cascade": {"rule": "margin", "thresholds": [0.5]}, "temperature": 1.2, "sets": sets}
    training = Training("imagenet-1k", "supervised", "softmax")
    card = Card(
        "both", "ensemble", "ensemble", "ensemble", "imagenet-1k", "softmax", "trained", training, members=members,
        details=details, license="other",
    )  # fmt: skip
    _, front, body = cards.write(card).split("---\n", 2)
    whole = yaml.safe_load(front)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 40, 40, 3), np.uint8)

    def write(draw: random.Random) -> None:
        value = changed(whole, draw) if draw.random() < 0.3 else whole | {"zoo": changed(whole["zoo"], draw)}
        if draw.random() < 0.3:
            value = whole | {"zoo": whole["zoo"] | {"details": changed(details, draw)}}
        text = f"---\n{yaml.safe_dump(value)}---\n{body}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))

    def read(path: Path) -> None:
        from PIL import Image

        found = cards.read(path)
        try:
            ensemble.SOURCE.prepare(found, False)
            if any(member.name not in models for member in found.members):
                raise InputError("has an unknown member")
            parts = tuple(models[member.name] for member in found.members)
            model = ensemble.SOURCE.load(Request(found, False, torch.device("cpu"), parts=parts))
            p = model.predict([Image.fromarray(one) for one in pixels]).softmax(1)
            rule = read_rule(found.details, found.name)
            shown = None if rule is None else rule.predict_sets(p)
        except InputError as error:  # `cards.read` names the file itself; errors of later steps do not
            raise error.inside(path)  # noqa: B904
        assert torch.isfinite(p).all(), "probabilities are not finite"
        assert (p.sum(1) - 1).abs().max() < 1e-3, "probabilities do not sum to one"
        assert float(p.max(1).values.min()) > 1 / 1000, "all classes have the same probability"
        assert shown is None or shown.shape == p.shape, "prediction sets have another shape than the probabilities"

    path.write_text(cards.write(card))
    read(path)
    return Forgery("forgery of a cascade", path, write, read)


def _plan(folder: Path) -> Forgery:
    import yaml

    from zoo.training import campaign

    folder.mkdir(parents=True)
    path = folder / "plan.yaml"
    whole = {
        "data": "digits",
        "models": [
            "resnet8-softmax",
            {"name": "resnet8-cosine", "seeds": 3},
            {"name": "resnet8-softmax", "set": {"epochs": 3, "learning_rate": 0.1}, "as": "mine"},
        ],
    }

    def write(draw: random.Random) -> None:
        value: Any = whole
        for _ in range(draw.choice((1, 1, 2))):
            value = changed(value, draw)
        text = yaml.safe_dump(value)
        if draw.random() < 0.1:
            text += draw.choice(("\nmodels: []\n", "\nx: &x [*x]\n", "\n- 1\n", "data: cifar10\n", "? [a]\n: b\n"))
        path.write_bytes(text.encode("utf-8", "surrogatepass"))

    def read(path: Path) -> None:
        entries = campaign.read(path)
        assert 0 < len(entries) <= campaign.MAX_MODELS, f"{len(entries)} models planned"
        assert len({entry.name for entry in entries}) == len(entries), "a model is planned twice"

    path.write_text(yaml.safe_dump(whole))
    read(path)  # the unchanged plan is valid
    return Forgery("forgery of a plan", path, write, read)


def _onnx(folder: Path) -> list[Forgery]:
    """Forge ONNX graphs with external weights: the graph states the file, offset and length."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        return []
    from zoo.models.sources import onnx_graph

    folder.mkdir(parents=True)
    path, size = folder / "net.onnx", 192 * 3 * 4
    (folder / "weights.bin").write_bytes(bytes(size))
    (folder.parent / "secret.bin").write_bytes(bytes(size))
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    (folder / "zero.bin").symlink_to("/dev/zero")
    (folder / "inside").mkdir()
    (folder / "inside" / "weights.bin").write_bytes(bytes(size))
    locations = (
        "weights.bin", "inside/weights.bin", "./weights.bin", "../secret.bin", "inside/../../secret.bin", "link.bin",
        "zero.bin", "/dev/zero", "/etc/passwd", str(folder.parent / "secret.bin"), "inside", "", ".", "none.bin",
        "a\0b", "x" * 5000, "file:///etc/passwd", "weights.bin/", "~/.ssh/id_rsa", "caf\u00e9.bin",
    )  # fmt: skip
    numbers = (None, 0, 1, -1, size, size + 1, 2**31, 2**63, 2**70, "", "x", "1e3", " 5")

    def write(draw: random.Random) -> None:
        dims = draw.choice(([192, 3], [192, 3], [3, 192], [0, 3], [2**40, 2**40], [-1, 3], []))
        data_type = draw.choice((TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.STRING, 99))
        weight = TensorProto(name="weight", data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL)
        entries = {"location": draw.choice(locations), "offset": draw.choice(numbers), "length": draw.choice(numbers)}
        for key, value in entries.items():
            if value is not None and draw.random() < 0.95:
                weight.external_data.add(key=key, value=str(value))
        sides = draw.choice(([8, 8], [8, 8], ["h", "w"], [100_000, 100_000], [0, 8], []))
        nodes = [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("MatMul", ["flat", "weight"], ["out"])]
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, *sides])
        out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])
        graph = helper.make_graph(nodes, "net", [image], [out], [weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        path.write_bytes(model.SerializeToString())

    def read(path: Path) -> None:
        name = f"onnx:{path}"
        model = onnx_graph.read(path, name)
        onnx_graph.image_input(model, name)
        for file in onnx_graph.external_files(model, path, name):
            assert file.resolve().is_relative_to(folder.resolve()), f"{file} is outside the model's folder"
        onnx_graph.load_external_data(model, path, name)

    return [Forgery("forgery of onnx", path, write, read)]
