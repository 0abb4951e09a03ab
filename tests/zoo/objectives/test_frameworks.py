"""Contrastive, self-supervised and distilled objectives: formulas, augmentations, and training with them."""

import numpy as np
import pytest
import torch
from PIL import Image
from raised import fields
from torch import nn
from torch.nn import functional

import zoo
from diversity import category
from zoo import datasets, networks
from zoo.cards import labels
from zoo.cards.card import Transform
from zoo.cards.recipe_names import FRAMEWORKS, framework
from zoo.datasets.known import KNOWN
from zoo.datasets.views import VIEWS, first_half, grey
from zoo.errors import InputError, UnknownName
from zoo.objectives import get, random_views
from zoo.objectives.frameworks import contrastive_loss
from zoo.training import Recipe, fit, loop, plan, train
from zoo.training.augmentation import ImageAugmentation
from zoo.training.optimisation import optimiser
from zoo.training.randomness import For, seed_of
from zoo.training.trainer import probabilities

SMALL = Transform((3, 8, 8), (8, 8), "bilinear", (0.3,) * 3, (0.4,) * 3)


def recipe(**changes) -> Recipe:
    return Recipe(
        **{"transform": SMALL, "epochs": 2, "batch_size": 16, "learning_rate": 0.05, "weight_decay": 1e-3} | changes
    )


def network(objective: str, hyperparameters=None):
    torch.manual_seed(0)
    return networks.build("resnet8", 10, objective, hyperparameters or {}, SMALL.size)


@pytest.fixture(scope="module")
def few():
    return datasets.load("digits:train").select(slice(0, 70))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def equal(one: nn.Module, other: nn.Module) -> bool:
    return all(value.equal(other.state_dict()[name]) for name, value in one.state_dict().items())


def test_the_contrastive_loss_is_its_formula():
    torch.manual_seed(0)
    embeddings, groups, tau = torch.randn(9, 4, dtype=torch.float64), torch.tensor([0, 1, 0, 2, 1, 0, 3, 3, 4]), 0.3
    unit = embeddings / embeddings.norm(dim=1, keepdim=True)
    losses = []
    for i in range(9):
        others = [a for a in range(9) if a != i]
        total = sum(torch.exp(unit[i] @ unit[a] / tau) for a in others)
        partners = [a for a in others if groups[a] == groups[i]]
        if partners:
            losses.append(-sum(torch.log(torch.exp(unit[i] @ unit[p] / tau) / total) for p in partners) / len(partners))
    torch.testing.assert_close(contrastive_loss(embeddings, groups, tau), torch.stack(losses).mean())


def test_simclr_is_cross_entropy_with_the_other_view_as_the_class():
    torch.manual_seed(1)
    answers = torch.randn(8, 5, dtype=torch.float64)
    cosines = functional.cosine_similarity(answers[:, None], answers[None], dim=2).fill_diagonal_(-torch.inf)
    expected = functional.cross_entropy(cosines / 0.5, torch.arange(8).roll(4))
    torch.testing.assert_close(get("simclr").pretext_loss(answers, torch.arange(4).repeat(2)), expected)


def test_views_depend_on_the_generator_and_without_changes_are_the_image_or_its_flip(monkeypatch):
    pixels = torch.randint(0, 256, (6, 3, 8, 8), generator=generator(), dtype=torch.uint8)
    assert random_views.augment(pixels, generator(1)).equal(random_views.augment(pixels, generator(1)))
    assert not random_views.augment(pixels, generator(1)).equal(random_views.augment(pixels, generator(2)))
    monkeypatch.setattr(random_views, "MIN_AREA", 1.0)
    monkeypatch.setattr(random_views, "ASPECT", 1.0)
    for name in ("LIGHT", "HUE", "GREY"):
        monkeypatch.setattr(random_views, name, 0.0)
    views = random_views.augment(pixels, generator(3))
    flipped = [bool(view.equal(image.flip(2))) for view, image in zip(views, pixels, strict=True)]
    assert all(flip or view.equal(image) for flip, view, image in zip(flipped, views, pixels, strict=True))
    assert 0 < sum(flipped) < 6


def test_a_change_of_hue_keeps_grey_and_greyscale_keeps_the_luma(monkeypatch):
    images = torch.rand(4, 3, 5, 5, generator=generator())
    for name, value in (("LIGHT", 0.0), ("HUE", 0.5), ("GREY", 0.0)):
        monkeypatch.setattr(random_views, name, value)
    shade = torch.full((4, 3, 5, 5), 0.4)
    torch.testing.assert_close(
        random_views.recolour(shade, generator(1)), shade, atol=1e-4, rtol=0
    )  # grey has no hue to turn
    assert not torch.allclose(random_views.recolour(images, generator(1)), images, atol=0.05)
    monkeypatch.setattr(random_views, "GREY", 1.0)
    pale = random_views.recolour(images, generator(1))
    luma = torch.einsum("c,nchw->nhw", torch.tensor([0.299, 0.587, 0.114]), images)
    torch.testing.assert_close(pale, luma[:, None].expand_as(images), atol=1e-3, rtol=0)


def test_rotations_equal_numpys():
    pixels, turns = torch.arange(4 * 3 * 6 * 6).reshape(4, 3, 6, 6), torch.tensor([0, 1, 2, 3])
    expected = np.stack([np.rot90(image, turn, (1, 2)) for image, turn in zip(pixels.numpy(), turns, strict=True)])
    assert random_views.rotate(pixels, turns).equal(torch.from_numpy(expected))


def test_distillation_has_the_gradient_of_the_divergence_from_the_softened_teacher():
    torch.manual_seed(0)
    z, teacher = torch.randn(5, 4, dtype=torch.float64, requires_grad=True), torch.randn(5, 4, dtype=torch.float64)
    objective = get("distillation", tau=3.0)
    x, W, b = torch.eye(5, dtype=torch.float64), z.T, torch.zeros(4, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(objective(x, W, b, teacher.softmax(1)), z)
    divergence = functional.kl_div((z / 3).log_softmax(1), (teacher / 3).softmax(1), reduction="batchmean")
    (expected,) = torch.autograd.grad(9 * divergence, z)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(("objective", "blind"), [("simclr", True), ("rotation", True), ("supcon", False)])
def test_labels_change_only_the_head_of_a_self_supervised_network(few, objective, blind):
    other = datasets.load("digits:train").select(slice(0, 70))
    object.__setattr__(other, "labels", np.roll(few.labels, 1))
    first, second = network(objective), network(objective)
    fit(first, few, recipe())
    fit(second, other, recipe())
    assert equal(first.body, second.body) is blind
    assert not first.head.weight.equal(second.head.weight)


@pytest.mark.parametrize(
    ("objective", "changes"),
    [("simclr", {}), ("rotation", {"ema": 0.9, "flip": True}), ("supcon", {"optimiser": "adamw", "learning_rate": 1e-3})],
)
def test_a_killed_pretext_run_resumes_to_the_same_weights(tmp_path, few, monkeypatch, objective, changes):
    whole, resumed = network(objective), network(objective)
    fit(whole, few, recipe(**changes))
    original = loop.shift_and_flip

    def dying(pixels, made, step, rows):
        if step == 5:
            raise KeyboardInterrupt
        return original(pixels, made, step, rows)

    monkeypatch.setattr(loop, "shift_and_flip", dying)
    with pytest.raises(KeyboardInterrupt):
        fit(resumed, few, recipe(**changes), folder=tmp_path, checkpoint_every=0)
    monkeypatch.setattr(loop, "shift_and_flip", original)
    resumed = network(objective)
    fit(resumed, few, recipe(**changes), folder=tmp_path)
    assert equal(whole, resumed)


def test_the_fitted_head_has_the_class_frequencies_as_mean_probabilities(few):
    net = network("rotation")
    fit(net, few, recipe())
    inputs = torch.stack([zoo.datasets.preprocessing.Pipeline(SMALL)(image) for image in few])
    with torch.inference_mode():
        fractions = net(inputs)[1].softmax(1).mean(0)
    # At the optimum the gradient with respect to each bias, which has no penalty, is zero.
    torch.testing.assert_close(
        fractions.double(), torch.from_numpy(np.bincount(few.labels, minlength=10) / 70), atol=1e-3, rtol=0
    )


def test_the_first_step_of_adamw_is_the_learning_rate_times_the_sign_of_the_gradient():
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    made = recipe(optimiser="adamw", learning_rate=0.01, weight_decay=0.1)
    step = optimiser(layer, made)
    (layer(torch.tensor([[1.0, -2.0, 3.0]])).sum()).backward()
    step.step()
    expected = before * (1 - 0.01 * 0.1) - 0.01 * torch.tensor([1.0, -1.0, 1.0])
    torch.testing.assert_close(layer.weight.detach(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("policy", ["imagenet", "cifar10"])
def test_auto_augment_equals_torchvisions_with_the_seed_of_each_image(policy):
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy
    from torchvision.transforms.functional import pil_to_tensor

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    augment, ours = ImageAugmentation(recipe(auto_augment=policy, seed=4)), []
    for number in range(8):
        torch.manual_seed(seed_of([4], For.IMAGE, 2, number))
        expected = pil_to_tensor(AutoAugment(AutoAugmentPolicy(policy))(image))
        ours.append(augment(image, epoch=2, number=number))
        assert ours[-1].equal(expected)
    assert not all(view.equal(ours[0]) for view in ours)


def test_a_network_is_distilled_from_a_model_of_the_zoo(zoo_home):
    train("resnet8-softmax", data="digits", epochs=2, save_as="old", progress=False)
    made = train("resnet8-distillation", data="digits", epochs=2, teacher="old", save_as="young", progress=False)
    assert made.card.framework == "distilled"
    assert made.card.hyperparameters["teacher"] == "old"
    old, young = zoo.card("old"), zoo.card("young")
    assert category(old, young) == "fwork"
    images = datasets.load("digits:train").select(slice(0, 20))
    expected = zoo.load("old", device="cpu").predict(list(images)).softmax(1)
    torch.testing.assert_close(probabilities("old", images, zoo_home, progress=False), expected, atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="digits-rotated"):
        train("resnet8-distillation", data="digits-rotated", teacher="old", save_as="turned", progress=False)


def test_a_student_learns_from_its_teacher_and_not_from_the_labels(few):
    student, taught = network("distillation"), (torch.from_numpy(few.labels) + 1) % 10
    fit(student, few, recipe(epochs=12, learning_rate=0.1), soft_targets=torch.eye(10)[taught])
    inputs = torch.stack([zoo.datasets.preprocessing.Pipeline(SMALL)(image) for image in few])
    with torch.inference_mode():
        assert (student(inputs)[1].argmax(1) == taught).float().mean() > 0.8


def test_the_framework_is_in_the_name_and_on_the_card():
    for objective, expected in FRAMEWORKS.items():
        assert zoo.card(f"resnet8-{objective}-s1.cifar10").framework == expected
        assert plan(f"resnet8-{objective}", data="digits").objective == objective
    assert framework("sigmoid+dropout") == zoo.card("resnet8-sigmoid.cifar10").framework == "supervised"
    with pytest.raises(UnknownName, check=fields(kind="objective", name="simclr")):  # frameworks cannot be combined
        get("simclr+dropout")


def test_mixup_with_a_pretext_task_and_distillation_without_targets_are_errors(few):
    with pytest.raises(InputError, match="mixup"):
        fit(network("simclr"), few, recipe(mixup=0.2))
    with pytest.raises(InputError, match="teacher"):
        fit(network("distillation"), few, recipe())
    with pytest.raises(InputError, match=r"\[70, 10\]"):
        fit(network("distillation"), few, recipe(), soft_targets=torch.ones(70, 9) / 9)


def test_datasets_derived_from_others_have_the_classes_of_their_models(tmp_path, monkeypatch):
    for name in labels.classes("cifar10"):
        (tmp_path / "cifar10/train" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "cifar10/train" / name / "0.png")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    for view in VIEWS:
        assert KNOWN[view].view_of == labels.whole(view) == "cifar10"
        assert datasets.load(f"{view}:train").classes == labels.classes(view)
        assert zoo.load(f"resnet7-softmax.{view}", pretrained=False).classes == labels.classes(view)


def test_datasets_of_half_the_classes_and_of_grey_images(tmp_path, monkeypatch):
    colours = {"cat": (255, 0, 0), "dog": (0, 255, 0), "eel": (0, 0, 255), "fox": (9, 9, 9)}
    for name, colour in colours.items():
        (tmp_path / "cifar10/train" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4), colour).save(tmp_path / "cifar10/train" / name / "0.png")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    whole, half, shades = (datasets.load(f"{name}:train") for name in ("cifar10", "cifar10-half", "cifar10-grey"))
    assert (half.classes, half.labels.tolist(), half.spec) == (("cat", "dog"), [0, 1], "cifar10-half:train")
    assert half[1].getpixel((0, 0)) == (0, 255, 0)
    rest = datasets.load("cifar10-other-half:train")
    assert (rest.classes, rest.labels.tolist(), rest.spec) == (("eel", "fox"), [0, 1], "cifar10-other-half:train")
    assert [image.getpixel((0, 0)) for image in rest] == [(0, 0, 255), (9, 9, 9)]
    assert (shades.classes, shades.labels.tolist()) == (whole.classes, whole.labels.tolist())
    assert [image.getpixel((0, 0)) for image in shades] == [(76,) * 3, (150,) * 3, (29,) * 3, (9,) * 3]  # BT.601
    assert len({dataset.fingerprint for dataset in (whole, half, rest, shades)}) == 4
    assert datasets.training_split("cifar10-half") == "cifar10-half:train"
    assert plan("resnet7-softmax", data="cifar10-grey").test == "cifar10-grey:test"
    assert first_half(half, "quarter", "quarter").classes == ("cat",)
    assert grey(shades, "again", "again")[0].getpixel((0, 0)) == (76,) * 3
