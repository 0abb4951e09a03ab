"""Models of one's own code, as a newcomer would bring them: `zoo.Model.of`."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
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


class Net(nn.Module):
    """What a tutorial ends with."""

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


def test_any_network_over_a_dataset() -> None:
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


def test_the_network_passed_in_is_left_alone() -> None:
    net = Net().train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    zoo.Model.of(net, TRANSFORM, DIGITS, name="my-net")
    assert net.training
    assert isinstance(net.fc2, nn.Linear)
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


def test_outputs_are_those_of_this_network_with_this_transform() -> None:
    """The same weights used otherwise, or another transform, are another model's outputs."""
    net, other = Net(), Net(functional.gelu)
    other.load_state_dict(net.state_dict())
    bilinear = transforms.Compose(
        [transforms.Resize((16, 16), transforms.InterpolationMode.NEAREST), *TRANSFORM.transforms[1:]]
    )
    made = [
        zoo.run(zoo.Model.of(one, transform, DIGITS, name="my-net"), data="digits:test[:20]", progress=False)["my-net"]
        for one, transform in ((net, TRANSFORM), (other, TRANSFORM), (net, bilinear), (net, TRANSFORM))
    ]
    assert len({outputs.path for outputs in made}) == 3
    assert made[0].path == made[3].path
    assert not np.allclose(made[0].logits, made[1].logits)


def test_a_function_of_ones_own() -> None:
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
    with pytest.raises(InputError, match="my-function: has no embeddings"):
        model.embed(data[0])


def test_softmax_inside_the_network() -> None:
    """Numbers are what they are declared to be, and a layer that is followed by another is not the last."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 10), nn.Softmax(1))
    model = zoo.Model.of(net, TRANSFORM, DIGITS, name="softmaxed", kind="probabilities")
    assert not model.embeds
    image = Image.new("RGB", (16, 16), (200, 100, 0))
    with torch.inference_mode():
        assert torch.allclose(model.predict(image).softmax(1), net(TRANSFORM(image)[None]), atol=1e-6)
    with pytest.raises(InputError, match="no probabilities; say kind='logits'"):
        zoo.Model.of(net[:2], TRANSFORM, DIGITS, name="softmaxed", kind="probabilities")
    with pytest.raises(InputError, match="'1' is not its final layer"):
        zoo.Model.of(net, TRANSFORM, DIGITS, name="softmaxed", final_layer="1")


def test_a_spec_a_label_set_and_a_named_layer() -> None:
    net = torchvision.models.squeezenet1_1(weights=None)
    spec = Transform((3, 64, 64), (64,), "bilinear", (0.5,) * 3, (0.5,) * 3)
    model = zoo.Model.of(net, spec, "imagenet-1k", name="my-squeeze")
    assert model.classes[0] == "n01440764"
    assert not model.embeds  # a rectifier follows its last convolution
    resnet = zoo.Model.of(torchvision.models.resnet18(weights=None), spec, "imagenet-1k", name="r", final_layer="fc")
    assert resnet.num_features == 512
    assert "layer1.0" in resnet.layer_names


def test_an_encoder() -> None:
    model = zoo.Model.of(nn.Sequential(nn.Flatten(), nn.Linear(768, 5)), TRANSFORM, None, name="encoder")
    outputs = zoo.run(model, data="digits:test[:10]", progress=False)["encoder"]
    assert (outputs.kind, outputs.embeddings.shape) == ("embeddings", (10, 5))


def test_collected_over_ones_own_images() -> None:
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
    ("change", "message"),
    [
        ({"classifier": 3}, "expected a torch.nn.Module or a function, found int"),
        ({"classes": DIGITS[:9]}, "gives 10 numbers for an image, there are 9 classes"),
        ({"classes": [*DIGITS[:9], "0"]}, "classes: '0' is given twice"),
        ({"transform": transforms.ToTensor()}, "expected inputs of one shape, found .* resize to a fixed size"),
        ({"transform": transforms.Compose([transforms.RandomCrop(16), TRANSFORM])}, "another result for the same image"),
        ({"transform": lambda image: image}, "expected a tensor or an array for an image, found Image"),
        ({"name": "resnet8-cosine"}, "always means a recipe"),
        ({"final_layer": "fc3"}, "has no layer 'fc3'"),
        ({"classifier": lambda batch: torch.rand(len(batch), 10) * 100}, "other numbers for the same images each time"),
        ({"classifier": lambda batch: "cat"}, r"gives str, expected numbers \[N, K\]"),
        ({"classifier": nn.Flatten(0)}, r"gives shape \[3072\] for 4 images"),
    ],
)
def test_what_cannot_be_used(change: dict, message: str) -> None:
    asked = {"classifier": Net(), "transform": TRANSFORM, "classes": DIGITS, "name": "my-net"} | change
    with pytest.raises(InputError, match=message):
        zoo.Model.of(asked.pop("classifier"), asked.pop("transform"), asked.pop("classes"), **asked)


def test_stored_outputs_are_found_without_the_program(zoo_home: Path) -> None:
    zoo.run(zoo.Model.of(Net(), TRANSFORM, DIGITS, name="my-net"), data="digits:test[:20]", progress=False)
    again = zoo.run("my-net", data="digits:test[:20]", progress=False)["my-net"]
    assert again.card.source == "own"
    zoo.register(zoo.Card(**{**vars(again.card), "name": "my-card"}))
    with pytest.raises(MissingWeights, match=r"made by a program with zoo\.Model\.of"):
        zoo.load("my-card")
