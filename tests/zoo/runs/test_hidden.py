"""Hidden layers stream batch by batch, of all models for the same images."""

import warnings

import numpy as np
import pytest
import torch
from raised import fields
from small_models import save_images, small_model

from zoo import datasets
from zoo.errors import InputError, UnknownName, ZooWarning
from zoo.runs.hidden import layers

DATA = "digits:test[:10]"


def test_the_stream_is_what_the_models_give_for_all_images():
    models = [small_model("a"), small_model("b", seed=1)]
    dataset = datasets.load(DATA)
    batches = list(layers(models, data=DATA, batch_size=4))
    assert [len(batch.ids) for batch in batches] == [4, 4, 2]
    assert [row_id for batch in batches for row_id in batch.ids] == dataset.ids
    assert np.array_equal(np.concatenate([batch.labels for batch in batches]), dataset.labels)
    for model in models:
        streamed = torch.cat([batch[model.name]["mix"] for batch in batches])
        torch.testing.assert_close(streamed, model.layers(list(dataset))["mix"])


def test_layers_are_chosen_by_name_for_all_models_or_for_each():
    models = [small_model("a"), small_model("b")]
    assert list(next(layers(models, data=DATA, names=["mix"]))["b"]) == ["mix"]
    assert list(next(layers(models, data=DATA, names={"a": ["mix"]}))["b"]) == ["mix"]
    with pytest.raises(UnknownName, check=fields(name="mixx", suggestions=("mix",))):
        next(layers(models, data=DATA, names=["mixx"]))
    with pytest.raises(InputError, check=fields(argument="batch_size", found=0)):
        next(layers(models, data=DATA, batch_size=0))


def test_undecodable_images_are_left_out_for_all_models_and_named_at_the_end(tmp_path):
    save_images(tmp_path / "d", 3)
    for name in ("cat/0.png", "cat/1.png", "dog/2.png"):
        (tmp_path / "d" / name).write_bytes(b"")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        batches = list(layers([small_model("a"), small_model("b")], data=f"folder:{tmp_path / 'd'}", batch_size=2))
    assert [batch.ids for batch in batches] == [["cat/2.png", "dog/0.png"], ["dog/1.png"]]
    assert [batch.labels.tolist() for batch in batches] == [[0, 1], [1]]
    assert [warning.category for warning in told] == [ZooWarning]
    assert "3 images cannot be decoded and are left out: cat/0.png, cat/1.png, dog/2.png" in str(told[0].message)
