"""`zoo.Model.of`: models from a user's network or function."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from raised import fields
from torch import nn
from torch.nn import functional
from torchvision import transforms

import diversity
import zoo
from zoo.cards.card import Transform
from zoo.errors import InputError, MissingWeights

DIGITS = [str(k) for k in range(10)]
TRANSFORM = transforms.Compose(
    [transforms.Resize((16, 16)), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
)


RESIZES_SHORTEST_SIDE = transforms.Compose([transforms.Resize(16), transforms.ToTensor()])


class Net(nn.Module):
    """A network as in a tutorial."""

    def __init__(self, activation=functional.relu) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.fc1 = nn.Linear(6 * 49, 20)
        self.fc2 = nn.Linear(20, 10)
        self.dropout = nn.Dropout(0.5)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv(x)), 2)
        return self.fc2(self.dropout(self.activation(self.fc1(x.flatten(1)))))


def test_a_network_is_run_on_a_dataset() -> None:
    net = Net()
    model = zoo.Model.of(net, TRANSFORM, DIGITS, name="my-net")
    runs = zoo.run([model, "resnet8-cosine"], data="digits:test[:40]", progress=False)
    mine = runs["my-net"]
    data = zoo.datasets.load("digits:test[:40]")
    batch = torch.stack([TRANSFORM(data[row].convert("RGB")) for row in range(40)])
    with torch.inference_mode():
        expected = net.eval()(batch)
        hidden = functional.relu(net.fc1(functional.max_pool2d(functional.relu(net.conv(batch)), 2).flatten(1)))
    np.testing.assert_allclose(mine.logits, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(mine.embeddings, hidden.numpy(), atol=1e-5)
    assert mine.accuracy == np.mean(expected.argmax(1).numpy() == data.labels)
    assert diversity.compare(mine, runs["resnet8-cosine.digits"], resamples=10)


def test_the_network_is_copied() -> None:
    net = Net().train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    zoo.Model.of(net, TRANSFORM, DIGITS, name="my-net")
    assert net.training
    assert isinstance(net.fc2, nn.Linear)
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


def test_stored_outputs_depend_on_the_network_and_the_transform() -> None:
    """The same weights with another activation, or another transform, are another model."""
    net, other = Net(), Net(functional.gelu)
    other.load_state_dict(net.state_dict())
    nearest = transforms.Compose(
        [transforms.Resize((16, 16), transforms.InterpolationMode.NEAREST), *TRANSFORM.transforms[1:]]
    )
    stored = [
        zoo.run(zoo.Model.of(one, transform, DIGITS, name="my-net"), data="digits:test[:20]", progress=False)["my-net"]
        for one, transform in ((net, TRANSFORM), (other, TRANSFORM), (net, nearest), (net, TRANSFORM))
    ]
    assert len({outputs.path for outputs in stored}) == 3
    assert stored[0].path == stored[3].path
    assert not np.allclose(stored[0].logits, stored[1].logits)


def test_a_function_is_run_on_a_dataset() -> None:
    def predict(batch: torch.Tensor) -> np.ndarray:
        light = np.asarray(batch).mean((1, 2, 3))
        scores = np.stack([np.cos(light * k) for k in range(10)], 1)
        return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)

    def prepare(image: Image.Image) -> np.ndarray:
        return np.asarray(image.resize((8, 8))) / 255

    model = zoo.Model.of(predict, prepare, DIGITS, name="my-function", kind="probabilities")
    outputs = zoo.run(model, data="digits:test[:20]", progress=False)["my-function"]
    data = zoo.datasets.load("digits:test[:20]")
    expected = predict(torch.tensor(np.stack([prepare(data[row].convert("RGB")) for row in range(20)]), dtype=torch.float32))
    np.testing.assert_allclose(outputs.probabilities, expected, atol=1e-6)
    assert outputs.embeddings is None
    with pytest.raises(InputError, check=fields(where="my-function", problem="no embeddings")):
        model.embed(data[0])


def test_a_network_with_a_softmax_returns_probabilities_and_has_no_embeddings() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 10), nn.Softmax(1))
    model = zoo.Model.of(net, TRANSFORM, DIGITS, name="softmaxed", kind="probabilities")
    assert not model.embeds
    image = Image.new("RGB", (16, 16), (200, 100, 0))
    with torch.inference_mode():
        assert torch.allclose(model.predict(image).softmax(1), net(TRANSFORM(image)[None]), atol=1e-6)
    with pytest.raises(InputError, check=fields(argument="kind", hint="kind=logits")):
        zoo.Model.of(net[:2], TRANSFORM, DIGITS, name="softmaxed", kind="probabilities")
    with pytest.raises(InputError, check=fields(argument="final_layer", problem="'1'")):
        zoo.Model.of(net, TRANSFORM, DIGITS, name="softmaxed", final_layer="1")


def test_a_transform_spec_a_label_set_and_a_named_layer() -> None:
    net = torchvision.models.squeezenet1_1(weights=None)
    spec = Transform((3, 64, 64), (64,), "bilinear", (0.5,) * 3, (0.5,) * 3)
    model = zoo.Model.of(net, spec, "imagenet-1k", name="my-squeeze")
    assert model.classes[0] == "n01440764"
    assert not model.embeds  # a ReLU follows its last convolution
    resnet = zoo.Model.of(torchvision.models.resnet18(weights=None), spec, "imagenet-1k", name="r", final_layer="fc")
    assert resnet.num_features == 512
    assert "layer1.0" in resnet.layer_names


def test_an_encoder_is_run_on_a_dataset() -> None:
    model = zoo.Model.of(nn.Sequential(nn.Flatten(), nn.Linear(768, 5)), TRANSFORM, None, name="encoder")
    outputs = zoo.run(model, data="digits:test[:10]", progress=False)["encoder"]
    assert (outputs.kind, outputs.embeddings.shape) == ("embeddings", (10, 5))


def test_outputs_are_collected_for_images() -> None:
    images = [Image.new("RGB", (20, 30), (c, c, 0)) for c in (0, 90, 200)]
    model = zoo.Model.of(Net(), TRANSFORM, DIGITS, name="my-net")
    outputs = zoo.collect(model, images, labels=[3, 4, 5])
    assert outputs.name == "my-net"
    np.testing.assert_allclose(outputs.logits, model.predict(images).numpy(), atol=1e-6)
    np.testing.assert_allclose(outputs.embeddings, model.embed(images).numpy(), atol=1e-6)
    loader = torch.utils.data.DataLoader([(torch.full((3,), float(k)), k % 2) for k in range(6)], batch_size=4)
    outputs = zoo.collect(lambda batch: np.asarray(batch)[:, :2] * [1, -1], loader, name="function")
    assert outputs.logits.tolist() == [[k, -k] for k in range(6)]


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"classifier": 3}, fields(argument="classifier", found="int")),
        ({"classes": DIGITS[:9]}, fields(argument="classes", problem=["10", "9"])),
        ({"transform": 3}, fields(argument="transform", found="int")),
        ({"transform": transforms.Resize(16)}, fields(argument="transform", problem="Image")),
        ({"transform": RESIZES_SHORTEST_SIDE}, fields(argument="transform", problem="[3, 16, 21]", hint="fixed size")),
        (
            {"transform": transforms.Compose([transforms.RandomCrop(16), TRANSFORM])},
            fields(argument="transform", problem="same image"),
        ),
        ({"final_layer": "fc3"}, fields(argument="final_layer", problem="fc3")),
        ({"classifier": lambda batch: torch.rand(len(batch), 10) * 100}, fields(problem="same images")),
        ({"classifier": lambda batch: "cat"}, fields(problem="str", expected="[N, K]")),
        ({"classifier": nn.Flatten(0)}, fields(problem="[3072]", expected="[N, K]")),
        ({"kind": "scores"}, fields(argument="kind", found="scores")),
        ({"link": "probit"}, fields(argument="link", found="probit")),
    ],
)
def test_invalid_arguments_are_errors(change: dict, check: Callable) -> None:
    arguments = {"classifier": Net(), "transform": TRANSFORM, "classes": DIGITS, "name": "my-net"} | change
    with pytest.raises(InputError, check=check) as caught:
        zoo.Model.of(arguments.pop("classifier"), arguments.pop("transform"), arguments.pop("classes"), **arguments)
    assert "my-net" in str(caught.value)


def test_repeated_classes_and_the_name_of_a_recipe_are_errors() -> None:
    with pytest.raises(InputError, match="'0'"):
        zoo.Model.of(Net(), TRANSFORM, [*DIGITS[:9], "0"], name="my-net")
    with pytest.raises(InputError, match="resnet8-cosine"):
        zoo.Model.of(Net(), TRANSFORM, DIGITS, name="resnet8-cosine")


class TestTransformsThatKeepTheSize:
    """`ToTensor` and `Normalize` without `Resize`, as in scripts for CIFAR."""

    KEEPS_SIZE = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)])

    def images(self, width: int, height: int, count: int = 3) -> np.ndarray:
        return np.random.default_rng(width).integers(0, 256, (count, height, width, 3), np.uint8)

    @pytest.mark.parametrize("side", [8, 28, 32, 64])
    def test_a_network_for_one_size_is_adopted_and_gives_its_own_logits(self, side: int) -> None:
        net = nn.Sequential(nn.Flatten(), nn.Linear(3 * side**2, 6), nn.ReLU(), nn.Linear(6, 10)).eval()
        model = zoo.Model.of(net, self.KEEPS_SIZE, DIGITS, name="my-net")
        images = self.images(side, side)
        with torch.inference_mode():
            expected = net(torch.stack([self.KEEPS_SIZE(Image.fromarray(image)) for image in images]))
        assert torch.allclose(model.predict(images), expected, atol=1e-5)
        assert (model.num_features, model.transform.size) == (6, (3, side, side))

    def test_a_network_for_any_size_takes_the_size_of_the_first_image(self) -> None:
        net = torchvision.models.resnet18(num_classes=10)
        model = zoo.Model.of(net, self.KEEPS_SIZE, DIGITS, name="my-net")
        assert model.num_features == 512  # asking for it does not decide on a size
        assert model.predict(self.images(40, 24)).shape == (3, 10)
        assert model.transform.size == (3, 24, 40)
        check = fields(where="my-net", argument="transform", problem=["40 x 24", "32 x 32"], hint="Resize")
        for function in (model.predict, model.embed, model.layers):
            with pytest.raises(InputError, check=check):
                function(self.images(32, 32))
        with pytest.raises(InputError, check=check):
            model.forward(torch.zeros(1, 3, 32, 32))

    def test_images_of_different_sizes_in_one_call_are_an_error(self) -> None:
        model = zoo.Model.of(torchvision.models.resnet18(num_classes=10), self.KEEPS_SIZE, DIGITS, name="my-net")
        with pytest.raises(InputError, check=fields(problem=["20 x 16", "16 x 16"])):
            model.predict([*self.images(20, 16), *self.images(16, 16)])

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_run_on_a_folder_of_images_of_different_sizes_is_an_error(self, tmp_path: Path, workers: int) -> None:
        for number, width in enumerate((16, 16, 24, 24)):
            folder = tmp_path / "images" / ("cat", "dog")[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(self.images(width, 16, 1)[0]).save(folder / f"{number}.png")
        model = zoo.Model.of(torchvision.models.resnet18(num_classes=2), self.KEEPS_SIZE, ["cat", "dog"], name="my-net")
        with pytest.raises(InputError, match="24 x 16"):
            zoo.run(model, data=f"folder:{tmp_path / 'images'}", batch_size=1, workers=workers, progress=False)

    def test_a_run_on_images_of_one_size(self) -> None:
        net = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
        model = zoo.Model.of(net, self.KEEPS_SIZE, DIGITS, name="my-net")
        outputs = zoo.run(model, data="digits:test[:20]", progress=False)["my-net"]
        images = [zoo.datasets.load("digits:test[:20]")[row] for row in range(20)]
        np.testing.assert_allclose(outputs.logits, model.predict(images).numpy(), atol=1e-5)

    def test_the_fingerprint_identifies_the_function(self) -> None:
        others = [
            transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.3] * 3)]),
            transforms.ToTensor(),
            transforms.Compose([transforms.Grayscale(3), self.KEEPS_SIZE]),
            TRANSFORM,
        ]
        net = torchvision.models.resnet18(num_classes=10)
        models = [zoo.Model.of(net, transform, DIGITS, name="my-net") for transform in [self.KEEPS_SIZE, *others]]
        assert len({model.transform.fingerprint for model in models}) == 5
        again = zoo.Model.of(net, copy.deepcopy(self.KEEPS_SIZE), DIGITS, name="my-net")
        assert again.transform.fingerprint == models[0].transform.fingerprint
        assert again.weights_hash == models[0].weights_hash

    def test_a_network_that_accepts_no_tried_size_is_an_error(self) -> None:
        net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 33 * 35, 10))
        with pytest.raises(InputError, check=fields(where="my-net", argument="transform", hint="Resize")):
            zoo.Model.of(net, self.KEEPS_SIZE, DIGITS, name="my-net")

    def test_a_wrong_number_of_classes_is_an_error(self) -> None:
        with pytest.raises(InputError, check=fields(argument="classes", problem=["10", "9"])):
            zoo.Model.of(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)), self.KEEPS_SIZE, DIGITS[:9], name="my-net")

    def test_an_encoder_and_a_function_are_adopted(self) -> None:
        encoder = zoo.Model.of(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), self.KEEPS_SIZE, None, name="encoder")
        assert encoder.embed(self.images(8, 8)).shape == (3, 5)
        function = zoo.Model.of(lambda batch: batch.mean((2, 3)), self.KEEPS_SIZE, ["r", "g", "b"], name="colour")
        assert function.classify(np.full((5, 7, 3), [0, 255, 0], np.uint8))[0][0][0] == "g"


def test_stored_outputs_are_found_by_name_but_the_model_cannot_be_loaded(zoo_home: Path) -> None:
    zoo.run(zoo.Model.of(Net(), TRANSFORM, DIGITS, name="my-net"), data="digits:test[:20]", progress=False)
    again = zoo.run("my-net", data="digits:test[:20]", progress=False)["my-net"]
    assert again.card.source == "own"
    zoo.register(zoo.Card(**{**vars(again.card), "name": "my-card"}))
    with pytest.raises(MissingWeights, check=fields(where="my-card", hint="zoo.Model.of")):
        zoo.load("my-card")
