"""Layer by layer on real networks with random weights, against the same measures of whole layers held in memory."""

import numpy as np
import pytest
import torch
from raised import fields
from torch import nn

from diversity._layer_stream import EMBEDDING, LayerStream, even_batches
from diversity.layerwise import SparsityMeter, cka, layer_cka, layer_separation, layer_sparsity
from diversity.separation import METRICS, class_separation, class_variances
from diversity.similarity import linear_cka
from zoo import datasets
from zoo.errors import InputError, UnknownName, ZooWarning
from zoo.models.model import Model
from zoo.models.registry import load
from zoo.networks.network import Network
from zoo.outputs.outputs import Outputs

DATA = "digits:test[:50]"
RESNET, VIT = "timm:test_resnet", "timm:test_vit"


@pytest.fixture(scope="module")
def dataset() -> datasets.Dataset:
    return datasets.load(DATA)


@pytest.fixture(scope="module")
def resnet() -> Model:
    return load(RESNET, pretrained=False, device="cpu")


@pytest.fixture(scope="module")
def layers(resnet: Model, dataset: datasets.Dataset) -> dict[str, torch.Tensor]:
    images = list(dataset)
    return resnet.layers(images) | {EMBEDDING: resnet.embed(images)}


def with_block(model: Model, block: nn.Module) -> Model:
    """The model with one more block behind its body."""
    body = nn.Sequential(model.body, block)
    return Model(model.card, Network(body, None, {"last": block}), model.transform, model.classes)


def test_cka_of_one_batch_is_the_unbiased_form_of_whole_layers(
    dataset: datasets.Dataset, resnet: Model, layers: dict[str, torch.Tensor]
) -> None:
    frame = cka(resnet, VIT, DATA, pretrained=False, device="cpu")
    vit = load(VIT, pretrained=False, device="cpu")
    other = vit.layers(list(dataset)) | {EMBEDDING: vit.embed(list(dataset))}
    assert (list(frame.index), list(frame.columns)) == (list(layers), list(other))
    assert (frame.index.name, frame.columns.name) == (RESNET, VIT)
    assert frame.attrs["rows"] == 50
    for name, x in layers.items():
        for second, y in other.items():
            assert frame.loc[name, second] == pytest.approx(linear_cka(x, y, unbiased=True), abs=1e-4)


def test_cka_within_a_network_and_in_small_batches(resnet: Model, layers: dict[str, torch.Tensor]) -> None:
    within = cka(resnet, resnet, DATA)
    np.testing.assert_allclose(np.diag(within), 1)
    np.testing.assert_allclose(within, within.T)
    several = cka(resnet, resnet, DATA, batch_size=16, epochs=4)
    assert several.attrs == {"rows": 200, "skipped_rows": 0}  # 50 = 3 x 16 + 2 would leave a batch of two
    assert np.abs(several - within).to_numpy().max() < 0.15
    assert several.equals(cka(resnet, resnet, DATA, batch_size=16, epochs=4))


def test_cka_of_two_models_of_one_name_keeps_them_apart(resnet: Model) -> None:
    torch.manual_seed(0)
    tuned = with_block(resnet, nn.Sequential(nn.Linear(resnet.embed([next(iter(datasets.load(DATA)))]).shape[1], 3)))
    frame = cka(resnet, tuned, DATA, layers={RESNET: [EMBEDDING], f"{RESNET}'": ["last"]})
    assert frame.shape == (1, 1)
    assert frame.columns.name == f"{RESNET}'"
    assert frame.iloc[0, 0] < 0.999


def test_cka_of_many_models_is_that_of_every_two(resnet: Model) -> None:
    small = load("resnet8-cosine", pretrained=False, device="cpu")
    frame = layer_cka([resnet, VIT, small], DATA, batch_size=25, pretrained=False, device="cpu", seed=3)
    vit = load(VIT, pretrained=False, device="cpu")
    for first, second in ((resnet, vit), (resnet, small), (small, vit), (vit, vit)):
        pair = cka(first, second, DATA, batch_size=25, seed=3)
        np.testing.assert_allclose(frame.xs(first.name).xs(second.name, axis=1), pair, atol=2e-5)
    assert frame.attrs == {"rows": 50, "skipped_rows": 0}
    assert list(layer_cka([resnet, VIT], DATA, layers=[EMBEDDING], pretrained=False).index) == [
        (RESNET, EMBEDDING),
        (VIT, EMBEDDING),
    ]
    with pytest.raises(InputError, check=fields(argument="epochs", found=0)):
        layer_cka([resnet], DATA, epochs=0)


def test_cka_of_activations_and_of_outputs() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 6)), rng.normal(size=(300, 3, 2))
    frame = cka({"a": x, "b": x**3}, {"c": torch.from_numpy(y)}, batch_size=100)
    assert frame.shape == (2, 1)
    whole = cka({"a": x}, {"c": y})
    assert whole.loc["a", "c"] == pytest.approx(linear_cka(x, y, unbiased=True), abs=1e-9)
    same = {"a": x, "b": x**2}
    assert cka(same, same).loc["a", "a"] == pytest.approx(1)
    assert list(cka(same, same, layers=["b"]).index) == ["b"]
    ids = [f"row {k}" for k in range(300)]
    first = Outputs.from_arrays("one", predictions=np.zeros(300, int), embeddings=x, ids=ids)
    order = rng.permutation(300)
    second = Outputs.from_arrays(
        "two", predictions=np.zeros(300, int), embeddings=-x[order], ids=np.array(ids)[order], classes=["other", "classes"]
    )
    aligned = cka(first, second)
    assert aligned.loc[EMBEDDING, EMBEDDING] == pytest.approx(1)
    assert (aligned.index.name, aligned.columns.name) == ("one", "two")
    with pytest.raises(InputError, check=lambda error: "one and two" in str(error)):
        cka(first, second.select(slice(0, 200)))


@pytest.mark.parametrize("metric", METRICS)
def test_separation_of_every_layer(
    metric: str, dataset: datasets.Dataset, resnet: Model, layers: dict[str, torch.Tensor]
) -> None:
    frame = layer_separation(resnet, DATA, metric, batch_size=7)
    assert list(frame.layer) == list(layers)
    assert set(frame.model) == {RESNET}
    for row in frame.itertuples():
        expected = class_variances(layers[row.layer], dataset.labels, metric)
        assert row.r2 == pytest.approx(expected.r2, abs=1e-4)
        assert row.within == pytest.approx(expected.within, rel=1e-3)


def test_separation_of_several_models_and_chosen_layers() -> None:
    frame = layer_separation([RESNET, VIT], DATA, layers=[EMBEDDING], pretrained=False)
    assert list(frame.itertuples(index=False, name=None)) == [
        (RESNET, EMBEDDING, *frame.iloc[0, 2:]),
        (VIT, EMBEDDING, *frame.iloc[1, 2:]),
    ]


def test_a_layer_without_class_separation_causes_a_warning_only(resnet: Model) -> None:
    dead = with_block(resnet, nn.Threshold(float("inf"), 0.0))
    with pytest.warns(ZooWarning) as caught:
        frame = layer_separation(dead, DATA)
    assert f"{RESNET} last, images in class order: row 0" in str(caught[0].message)
    assert frame.r2.isna().tolist() == [True, True]
    constant = with_block(resnet, nn.Threshold(float("inf"), 0.5))
    with pytest.warns(ZooWarning, match="same activations"):
        frame = layer_separation(constant, DATA, layers=["last"])
    assert frame.r2.isna().all()


def test_sparsity_of_every_block(resnet: Model, layers: dict[str, torch.Tensor]) -> None:
    frame = layer_sparsity(resnet, DATA, batch_size=13)
    for row in frame.itertuples():
        assert row.nonzero == pytest.approx(float((layers[row.layer] != 0).double().mean()), abs=1e-3)
        assert row.rectified
    assert not layer_sparsity(VIT, DATA, pretrained=False).rectified.any()


def test_batches_are_as_large_as_memory_allows(resnet: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = LayerStream(resnet, DATA)
    assert stream.batch_size == 1500
    monkeypatch.setattr("diversity._layer_stream.BUDGET", 8 * 100 * sum(stream.widths.values()))
    assert LayerStream(resnet, DATA).batch_size == 100
    monkeypatch.setattr("diversity._layer_stream.BUDGET", 0)
    assert LayerStream(resnet, DATA).batch_size == 16
    assert LayerStream(resnet, DATA, batch_size=5).batch_size == 5


def test_no_last_batch_is_too_small() -> None:
    for rows in range(4, 200):
        for size in range(1, 40):
            fitted = even_batches(rows, size, 4)
            assert rows % fitted == 0 or rows % fitted >= 4, (rows, size)
            assert fitted <= max(size, 4) + 8


def test_invalid_arguments_are_named(resnet: Model) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, check=fields(argument="model_b")):
        cka({"a": x}, RESNET)
    with pytest.raises(InputError, check=fields(where="layer b", expected="20 rows", found=10)):
        cka({"a": x}, {"b": x[:10]})
    with pytest.raises(InputError, check=fields(where="activations", found=3)):
        cka({"a": x[:3]}, {"b": x[:3]})
    with pytest.raises(InputError, check=fields(where="digits:test[:2]", found=2)):
        cka(resnet, resnet, "digits:test[:2]")
    with pytest.raises(InputError, check=fields(where="first", expected="at least one layer")):
        cka({}, {})
    with pytest.raises(UnknownName, check=fields(where="first", name="layerA", suggestions=("layera",))):
        cka({"layera": x}, {"layera": x}, layers=["layerA"])
    with pytest.raises(UnknownName, match=r"layer1\.1"):
        cka(resnet, resnet, DATA, layers=["layer1.1"])
    with pytest.raises(InputError, check=fields(argument="epochs", found=0)):
        cka({"a": x}, {"a": x}, epochs=0)
    with pytest.raises(InputError, check=fields(where="digits:test[:1]", problem="two classes")):
        layer_separation(resnet, "digits:test[:1]")


def test_embedding_separation_is_that_of_the_model(
    dataset: datasets.Dataset, resnet: Model, layers: dict[str, torch.Tensor]
) -> None:
    frame = layer_separation(resnet, dataset)
    assert frame.r2.iloc[-1] == pytest.approx(class_separation(layers[EMBEDDING], dataset.labels), abs=1e-4)


def test_sparsity_is_over_examples_channels_and_positions() -> None:
    maps = torch.randn(50, 3, 4, 4, generator=torch.Generator().manual_seed(0)).relu()
    single, half = SparsityMeter(), SparsityMeter()
    single.update(maps)
    half.update(maps.half())
    assert single.nonzero_fraction == half.nonzero_fraction == pytest.approx(float((maps > 0).double().mean()), abs=1e-12)


def test_sparsity_of_unequal_batches_and_rectified() -> None:
    x = np.maximum(np.random.default_rng(0).normal(size=(100, 7)), 0)
    meter = SparsityMeter()
    for batch in np.split(x, [10, 11, 80]):
        meter.update(batch)
    assert meter.nonzero_fraction == pytest.approx(np.mean(x != 0), abs=1e-12)
    assert (meter.rows, meter.rectified) == (100, True)
    meter.update(-x[:1])
    assert not meter.rectified


def test_invalid_batches_of_sparsity_are_named() -> None:
    with pytest.raises(InputError, check=fields(where="block1")):
        _ = SparsityMeter("block1").nonzero_fraction
    meter = SparsityMeter("block1")
    meter.update(np.ones((3, 2)))
    with pytest.raises(InputError, check=fields(where="block1: row 4")):
        meter.update(np.array([[1.0, 1], [np.nan, 1]]))
