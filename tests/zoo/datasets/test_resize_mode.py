"""The two resize modes of the papers, compared with torchvision and with the images themselves."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from PIL import Image
from raised import fields
from small_models import save_images, small_model
from torchvision.transforms import v2
from typer.testing import CliRunner

from zoo import datasets
from zoo.app.main import app
from zoo.calibration import policy
from zoo.cards import labels
from zoo.cards.card import Transform
from zoo.datasets.preprocessing import Packed, Pipeline
from zoo.errors import InputError
from zoo.outputs import store
from zoo.runs import resolver
from zoo.runs.hidden import layers
from zoo.runs.runner import run

HALF = (0.5, 0.5, 0.5)
TRANSFORMS = {
    "resnet50": Transform((3, 224, 224), (256,), "bilinear", HALF, HALF),
    "squashed": Transform((3, 224, 224), (224, 224), "bicubic", HALF, HALF),
    "inside": Transform((3, 224, 224), (224, 224), "bicubic", HALF, HALF, "inside"),
    "inception": Transform((3, 299, 299), (342,), "bicubic", HALF, HALF),
}


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("size", [(300, 500), (640, 333), (100, 90)])
def test_transfer_resizes_the_shortest_side_and_crops_the_centre(name: str, size: tuple[int, int]) -> None:
    spec, image = TRANSFORMS[name], noise(*size)
    side, way = spec.size[1], v2.InterpolationMode(spec.interpolation)
    theirs = v2.Compose([v2.Resize(side, way), v2.CenterCrop(side), v2.PILToTensor()])(image)
    assert torch.equal(Pipeline(spec).with_resize_mode("transfer").pixels(image), theirs)


def test_transfer_leaves_an_image_of_the_networks_size_unchanged() -> None:
    image = noise(224, 224)
    for name in ("resnet50", "squashed", "inside"):
        seen = Pipeline(TRANSFORMS[name]).with_resize_mode("transfer").pixels(image)
        assert np.array_equal(seen.permute(1, 2, 0).numpy(), np.asarray(image))
    assert (
        Pipeline(TRANSFORMS["resnet50"]).with_resize_mode("evaluation").fingerprint
        == Pipeline(TRANSFORMS["resnet50"]).fingerprint
    )
    wide = Pipeline(Transform((3, 20, 40), (64,), "bicubic", HALF, HALF)).with_resize_mode("transfer")
    assert wide.pixels(noise(40, 20)).permute(1, 2, 0).numpy().tolist() == np.asarray(noise(40, 20)).tolist()
    assert Packed((Pipeline(TRANSFORMS["resnet50"]),)).with_resize_mode("transfer").parts == (
        Pipeline(TRANSFORMS["resnet50"]).with_resize_mode("transfer"),
    )


@pytest.fixture
def model():
    """Return a network whose card resizes to 12 and crops the centre 8 x 8; its embedding depends on every pixel."""
    model = small_model("model")
    spec = dataclasses.replace(model.transform.spec, resize=(12,))
    model.card, model.transform = dataclasses.replace(model.card, transform=spec), Pipeline(spec)
    return model


@pytest.mark.parametrize("layout", ["in-c/fog/2", "in-c/fog/2/test"])
def test_imagenet_c_is_not_cropped(model, tmp_path, monkeypatch, layout) -> None:
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    save_images(tmp_path / layout, 3, classes=("n01440764",), size=(8, 8))
    dataset = datasets.load("in-c/fog/2")
    raw = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in dataset])
    model.classes = labels.classes("imagenet-1k")
    model.network.head = torch.nn.Linear(6, 1000).eval()
    expected = model.forward((raw.float() / 255 - 0.5) / 0.25)[0]
    outputs = run(model, data="in-c/fog/2", progress=False)["model"]
    np.testing.assert_allclose(outputs.embeddings, expected.numpy(), atol=1e-6)
    (batch,) = layers(model, data="in-c/fog/2")
    np.testing.assert_allclose(torch.tanh(batch["model"]["mix"]).numpy(), expected.numpy(), atol=1e-6)
    # On request the card's own transform is used, and its outputs are stored separately.
    other = run(model, data="in-c/fog/2", resize_mode="evaluation", progress=False)["model"]
    assert not np.allclose(other.embeddings, expected.numpy(), atol=1e-3)


def test_the_resize_mode_is_part_of_the_key_of_outputs(model) -> None:
    spec = "digits:test[:20]"
    plain = run(model, data=spec, progress=False)["model"]
    whole = run(model, data=spec, resize_mode="transfer", progress=False)["model"]
    assert plain.path != whole.path
    images = [image.resize((8, 8)) for image in datasets.load(spec)]
    raw = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images])
    np.testing.assert_allclose(whole.logits, model.forward((raw.float() / 255 - 0.5) / 0.25)[1].numpy(), atol=1e-5)
    model.body.calls.clear()
    assert run(model, data=spec, resize_mode="transfer", progress=False)["model"].path == whole.path
    assert model.body.calls == []
    # Outputs of another resize mode are used on request only.
    assert store.open_runs("model", spec)["model"].path == plain.path
    assert resolver.existing_outputs("model", spec, None)[0].path == plain.path
    assert resolver.existing_outputs("model", spec, None, "transfer")[0].path == whole.path
    with pytest.raises(InputError, check=fields(argument="resize_mode", expected="transfer", found="crop")):
        run(model, data=spec, resize_mode="crop")


def test_commands_have_the_option() -> None:
    def ask(*arguments: str):
        result = CliRunner().invoke(app, [*arguments, "timm:test_vit", "--random", "--json"])
        assert result.exception is None, result.exception
        return json.loads(result.stdout)

    data = ("--data", "digits:test[:40]")
    paths = {ask("run", *data)[0]["path"], ask("run", *data, "--resize-mode", "transfer")[0]["path"]}
    assert len(paths) == 2
    sides = ("--data", "digits:train[:60]", "--test", "digits:test[:40]")
    ask("probe", *sides, "--resize-mode", "transfer", "--method", "knn")
    assert {run.identity.resize_mode for run in store.stored() if run.identity.dataset == "digits:train[:60]"} == {
        "transfer"
    }


def test_a_temperature_is_fitted_on_images_of_the_same_resize_mode() -> None:
    runs = run("timm:test_vit", data="digits:test[:60]", pretrained=False, resize_mode="transfer", progress=False)
    other = policy.same_models_on(runs, "digits:calibration[:60]")["timm:test_vit"]
    assert other.details["transform"] == runs["timm:test_vit"].details["transform"]
    assert store.layout.resize_mode(other.details["transform"]) == "transfer"


def test_the_training_set_of_flowers_includes_the_validation_images(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    for split, count in (("train", 2), ("val", 3), ("test", 1)):
        save_images(tmp_path / "flowers" / split, count)
    dataset = datasets.load("flowers:train")
    parts = [sorted((tmp_path / "flowers" / split).rglob("*.png")) for split in ("train", "val")]
    assert len(dataset) == 10
    assert len(set(dataset.ids)) == 10
    assert dataset.labels.tolist() == [0, 0, 1, 1, 0, 0, 0, 1, 1, 1]
    assert [image.tobytes() for image in dataset] == [Image.open(path).tobytes() for path in parts[0] + parts[1]]
    assert datasets.training_split("flowers:test") == "flowers:train"
    assert len(datasets.load("flowers:validation")) == 6
    assert dataset.select([7]).ids == [dataset.ids[7]]
    assert dataset.select([7])[0].tobytes() == dataset[7].tobytes()
    whole = dataset.fingerprint
    Image.open(parts[1][0]).transpose(Image.Transpose.ROTATE_180).save(parts[1][0])
    assert datasets.load("flowers:train").fingerprint != whole
    save_images(tmp_path / "flowers" / "val", 1, classes=("emu",))
    with pytest.raises(InputError, check=fields(where="flowers:train", problem="2 and 3")):
        datasets.load("flowers:train")
