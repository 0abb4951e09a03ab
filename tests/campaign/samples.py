"""One valid file of every format that the package reads, with the function that reads it."""

import contextlib
import dataclasses
import functools
import gzip
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Sample:
    """A valid file and its reader. In a `sealed` file, which has a checksum, every changed byte must be detected."""

    name: str
    path: Path
    read: Callable[[Path], Any]
    sealed: bool = False

    @functools.cached_property
    def data(self) -> bytes:
        return self.path.read_bytes()


def make(folder: Path) -> list[Sample]:
    """Write all samples into `folder`."""
    return [*_ours(folder / "ours"), *_foreign(folder / "foreign"), *_images(folder / "images")]


def _ours(folder: Path) -> list[Sample]:
    from zoo.cards import card as cards
    from zoo.cards import card_index
    from zoo.core import files, tensorfile
    from zoo.datasets import user_datasets
    from zoo.models import trained
    from zoo.outputs import bundle, store
    from zoo.outputs.outputs import Outputs
    from zoo.outputs.store import layout, shards
    from zoo.training import campaign

    home = folder / "home"
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 12)
    shipped = sorted(card_index.shipped().values(), key=lambda card: card.name)
    outputs = Outputs.from_arrays(
        "model", logits=rng.normal(size=(12, 3)).astype(np.float32), labels=labels,
        embeddings=rng.normal(size=(12, 4)).astype(np.float32), dataset="mine:test", card=shipped[0],
    )  # fmt: skip
    kept = store.save(outputs, home)
    run = kept.path
    store.save_fit(kept, {"split": "mine:val", "temperature": 1.5, "rows": 12})
    shared = folder / "study.safetensors"
    bundle.export_outputs([dataclasses.replace(outputs, name=f"model-{letter}") for letter in "ab"], shared)
    weights = folder / "home" / "weights" / "small" / "model.safetensors"
    files.make_folder(weights.parent)
    record = trained.Record(
        dataclasses.replace(shipped[0], path=None), "mine", "0" * 64, "zoo train", 1, 2, {"test_accuracy": 0.5}
    )
    tensors = {"a.weight": rng.normal(size=(3, 4)).astype(np.float32), "a.bias": np.zeros(3, np.float32)}
    files.write(weights, trained.encode(record, tensors))
    epoch = weights.parent / "epoch1.safetensors"
    snapshot = dataclasses.replace(record, card=trained.snapshot_card(record.card, 1))
    files.write(epoch, trained.encode(snapshot, tensors))
    plan = folder / "plan.yaml"
    items = ["resnet8-softmax", "{name: resnet8-cosine, seeds: 2}", "{name: resnet8-softmax, set: {epochs: 3}, as: mine}"]
    plan.write_text("\n- ".join(["data: digits\nmodels:", *items]) + "\n")
    log = weights.parent / trained.LOG
    log.write_text("".join(json.dumps({"epoch": n, "loss": 1 / n, "seconds": 0.5}) + "\n" for n in (1, 2, 3)))
    head = weights.parent / "head.safetensors"
    files.write(head, tensorfile.encode({"weight": tensors["a.weight"]}, {"classes": ["a", "b", "c"]}))
    import torch

    from zoo.training import checkpoints

    state = weights.parent / "checkpoint.safetensors"
    checkpoints.save(state, checkpoints.Checkpoint(7, {"w": torch.ones(5)}, [{"loss": 1.0}]), {"architecture": "resnet8"})
    facts = home / "models" / "0123.json"
    files.make_folder(facts.parent)
    files.write_json(facts, {"schema": 1, "facts": {"name": "model", "weights": "0" * 64, "classes": ["a", "b"]}})
    card = folder / f"{shipped[0].name}.md"
    card.write_text(cards.write(shipped[0]))
    (dataset,) = sorted((home / "datasets").glob("*.safetensors"))

    def find_own(path: Path) -> Any:
        return user_datasets.find("mine:test", path.parents[1])

    return [
        Sample("card", card, cards.read),
        Sample("manifest", run / "manifest.json", layout.read_manifest, sealed=True),
        Sample("calibration", run / "calibration.json", lambda path: store.read_fits(path.parent), sealed=True),
        Sample("shard", run / "00000.safetensors", shards.check_alone, sealed=True),
        Sample("own dataset", dataset, find_own, sealed=True),
        Sample("bundle", shared, bundle.read, sealed=True),
        Sample("trained weights", weights, trained.read, sealed=True),
        Sample("description of weights", weights, trained.describe),
        Sample("snapshot", epoch, trained.read, sealed=True),
        Sample("plan", plan, campaign.read),
        Sample("training log", log, lambda path: trained.log(path.parent)),
        Sample("head", head, tensorfile.read_sealed, sealed=True),
        Sample("training state", state, tensorfile.read_sealed, sealed=True),
        Sample("facts", facts, lambda path: files.read_json(path, 1), sealed=True),
    ]


def _foreign(folder: Path) -> list[Sample]:
    import pandas as pd
    import safetensors.numpy
    import torch

    from zoo.core import state_dicts, tensorfile
    from zoo.datasets import Undecodable, parquet
    from zoo.models.sources.local import SOURCE
    from zoo.outputs.importing.importer import import_outputs
    from zoo.outputs.importing.metadata import with_cards
    from zoo.outputs.outputs import Outputs

    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(9, 3)).astype(np.float32), rng.integers(0, 3, 9)
    table = pd.DataFrame(z, columns=["cat", "dog", "owl"]).assign(label=[["cat", "dog", "owl"][k] for k in y])
    table.insert(0, "id", [f"i{k}.png" for k in range(9)])
    np.savez(folder / "a.npz", logits=z, labels=y)
    np.savez_compressed(folder / "b.npz", logits=z, labels=y, classes=np.array(["cat", "dog", "owl"]))
    np.save(folder / "a.npy", z)
    (folder / "a.safetensors").write_bytes(safetensors.numpy.save({"logits": z, "labels": y}))
    for suffix, separator in (("csv", ","), ("tsv", "\t")):
        table.to_csv(folder / f"a.{suffix}", sep=separator, index=False)
    with gzip.open(folder / "a.csv.gz", "wt") as packed:
        table.to_csv(packed, index=False)
    table.to_json(folder / "a.json", orient="records")
    (folder / "b.json").write_text(json.dumps({"logits": z.tolist(), "labels": y.tolist()}))
    table.to_json(folder / "a.jsonl", orient="records", lines=True)
    table.to_parquet(folder / "a.parquet")
    table.to_feather(folder / "a.feather")
    meta = pd.DataFrame({"model": ["m"], "family": ["resnet"], "params": ["25M"], "seed": [1], "depth": [50]})
    meta.to_csv(folder / "meta.csv", index=False)
    pixels = [_encoded(rng, "PNG") for _ in range(3)]
    pd.DataFrame({"image": [{"bytes": data, "path": None} for data in pixels], "label": [0, 1, 1]}).to_parquet(
        folder / "images.parquet"
    )
    state = {"a.weight": torch.from_numpy(z), "a.bias": torch.zeros(3, dtype=torch.bfloat16)}
    torch.save({"state_dict": state, "epoch": 3}, folder / "zipped.pth")
    torch.save(state, folder / "legacy.pth", _use_new_zipfile_serialization=False)
    local = folder / "local"
    local.mkdir()
    (local / "model.safetensors").write_bytes(safetensors.numpy.save({"w": z}))
    pretrained = {"input_size": [3, 32, 32], "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "label_names": ["a", "b"]}
    config = {"architecture": "test_vit", "num_classes": 2, "pretrained_cfg": pretrained}
    (local / "config.json").write_text(json.dumps(config))
    other = folder / "transformers"
    other.mkdir()
    (other / "model.safetensors").write_bytes(safetensors.numpy.save({"w": z}))
    config = {"architectures": ["ResNetForImageClassification"], "model_type": "resnet", "id2label": {"0": "a", "1": "b"}}
    (other / "config.json").write_text(json.dumps(config))
    pixels_of = {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 64}, "do_resize": True,
                 "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}  # fmt: skip
    (other / "preprocessor_config.json").write_text(json.dumps(pixels_of))
    lone = Outputs.from_arrays("m", predictions=[0, 1])

    def outputs(path: Path) -> Any:
        return import_outputs(path, kind="logits")

    def rows(path: Path) -> Any:
        dataset = parquet.load([path], f"parquet:{path}")
        for row in range(min(len(dataset), 4)):
            with contextlib.suppress(Undecodable):  # a run only counts undecodable images
                dataset[row]

    def describe(path: Path) -> Any:
        return SOURCE.describe(str(path.parent), f"file:{path.parent}")

    names = ("a.npz", "b.npz", "a.npy", "a.safetensors", "a.csv", "a.tsv", "a.csv.gz", "a.json", "b.json", "a.jsonl",
             "a.parquet", "a.feather")  # fmt: skip
    return [
        *(Sample(f"outputs {name}", folder / name, outputs) for name in names),
        Sample("table of models", folder / "meta.csv", lambda path: with_cards([lone], path)),
        Sample("parquet of images", folder / "images.parquet", rows),
        Sample("safetensors", folder / "a.safetensors", tensorfile.read),
        Sample("torch checkpoint", folder / "zipped.pth", lambda path: state_dicts.read(path, "model")),
        Sample("old torch checkpoint", folder / "legacy.pth", lambda path: state_dicts.read(path, "model")),
        Sample("config.json", local / "config.json", describe),
        Sample("config.json of transformers", other / "config.json", describe),
        Sample("preprocessor_config.json", other / "preprocessor_config.json", describe),
    ]


def _images(folder: Path) -> list[Sample]:
    from PIL import features

    from zoo.datasets import images

    folder.mkdir(parents=True)
    rng = np.random.default_rng(2)
    formats = {"PNG": "png", "JPEG": "jpg", "GIF": "gif", "BMP": "bmp", "TIFF": "tif", "WEBP": "webp", "PPM": "ppm",
               "TGA": "tga", "ICO": "ico", "JPEG2000": "jp2", "AVIF": "avif"}  # fmt: skip
    optional = {"WEBP": "webp", "AVIF": "avif", "JPEG2000": "jpg_2000"}
    items = []
    for form, suffix in formats.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if form in optional and not features.check(optional[form]):
                continue
        path = folder / f"image.{suffix}"
        path.write_bytes(_encoded(rng, form))
        items.append(Sample(f"image {suffix}", path, images.read))
    return items


def _encoded(rng: np.random.Generator, form: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (20, 24, 3), np.uint8)).save(buffer, form)
    return buffer.getvalue()
