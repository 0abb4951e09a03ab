"""Batches and augmentation: they depend on name, seed, epoch, step and image only, not on earlier draws."""

import numpy as np
import pytest
import torch
from PIL import Image
from raised import fields

from zoo.cards.card import Transform
from zoo.datasets import Dataset, load
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError
from zoo.training import Recipe
from zoo.training.augmentation import ImageAugmentation, mix, shift_and_flip, shrink
from zoo.training.batches import ImageBatches, check_classes, order, split_holdout

SIDE = 12
SQUARE = Transform((3, SIDE, SIDE), (SIDE, SIDE), "bilinear", (0.5,) * 3, (0.25,) * 3)


def recipe(**settings) -> Recipe:
    usual = {"transform": SQUARE, "epochs": 3, "batch_size": 8, "learning_rate": 0.1, "weight_decay": 0.0}
    return Recipe(**usual | settings)


def noise(count: int = 20, classes: int = 2, **settings) -> Dataset:
    """Random images of many sizes."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 40, (count, 2))
    images = [Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)) for size in sizes]
    usual = {
        "name": "noise", "spec": "noise", "ids": [f"p{i}" for i in range(count)], "image": images.__getitem__,
        "fingerprint": "noise", "classes": tuple(map(str, range(classes))), "labels": np.arange(count) % classes,
    }  # fmt: skip
    return Dataset(**usual | settings)


def test_each_epoch_has_its_own_order_and_contains_no_image_twice():
    first, second = order(21, recipe(), 0), order(21, recipe(), 1)
    assert first.shape == (2, 8)
    assert len(np.unique(first)) == 16
    assert (first != second).any()
    assert (order(21, recipe(), 0) == first).all()
    assert (order(21, recipe(seed=1), 0) != first).any()


def test_early_images_equal_those_that_pillow_resizes():
    images = torch.randn(2, 3, SIDE, SIDE)
    small = shrink(images, recipe(early_side=7), step=3, total=7)
    for image, found in zip(images.flatten(0, 1), small.flatten(0, 1), strict=True):
        expected = np.asarray(Image.fromarray(image.numpy()).resize((7, 7), Image.Resampling.BILINEAR))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert shrink(images, recipe(early_side=7), step=4, total=7) is images


def test_training_and_held_out_images_partition_the_dataset():
    dataset = noise()
    training, held_out = split_holdout(dataset, recipe(holdout=5))
    assert (len(training), len(held_out)) == (15, 5)
    assert set(training.ids) | set(held_out.ids) == set(dataset.ids)
    assert split_holdout(dataset, recipe(holdout=5))[1].ids == held_out.ids
    with pytest.raises(InputError, check=fields(argument="holdout", found=20, expected=["20", "noise"])):
        split_holdout(dataset, recipe(holdout=20))


def test_without_random_crops_images_are_the_same_as_for_prediction():
    dataset = noise()
    images = ImageBatches(dataset, ImageAugmentation(recipe()))
    numbers = np.array([3, 17])
    (batch,) = images.batches(1, [numbers])
    assert batch.equal(torch.stack([Pipeline(SQUARE).pixels(dataset[int(i)]) for i in numbers]))


@pytest.mark.parametrize("settings", [{"crop": 0.1}, {"auto_augment": "cifar10"}, {"crop": 0.3, "auto_augment": "imagenet"}])
def test_the_augmentation_of_an_image_depends_on_seed_epoch_and_image_only(settings):
    dataset, augment = noise(), ImageAugmentation(recipe(**settings))
    torch.manual_seed(5)
    first = augment(dataset[0], epoch=2, number=0)
    expected = torch.rand(1)
    torch.manual_seed(6)
    torch.manual_seed(5)
    again = augment(dataset[0], epoch=2, number=0)
    assert first.equal(again)
    assert torch.rand(1) == expected  # the caller's random state is unchanged
    assert first.shape == (3, SIDE, SIDE)
    assert first.dtype == torch.uint8
    others = [augment(dataset[0], epoch, 0) for epoch in range(3, 9)]
    assert not all(first.equal(other) for other in others)


def test_the_number_of_workers_does_not_change_images():
    dataset, augment = noise(), ImageAugmentation(recipe(crop=0.2))
    batches = [np.array([1, 5, 7]), np.array([0, 19, 2])]
    alone = list(ImageBatches(dataset, augment, workers=0).batches(4, batches))
    together = list(ImageBatches(dataset, augment, workers=2).batches(4, batches))
    assert all(a.equal(b) for a, b in zip(alone, together, strict=True))


def test_random_crops_have_at_least_the_given_fraction_of_the_area():
    """The image is a ramp from left to right, so the range of values in a crop is its fraction of the width."""
    ramp = Image.fromarray(np.tile(np.arange(200, dtype=np.uint8)[None, :, None], (200, 1, 3)))
    augment = ImageAugmentation(recipe(crop=0.5))
    widths = [float(np.ptp(augment(ramp, 0, number)[0].numpy())) / 200 for number in range(60)]
    assert min(widths) > (0.5 * 3 / 4) ** 0.5 - 0.1
    assert max(widths) > 0.85
    assert np.std(widths) > 0.05


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_does_not_decode_is_named_in_the_error(workers):
    from zoo.datasets import Undecodable

    good = noise()

    def image(number: int) -> Image.Image:
        if number == 7:
            raise Undecodable("broken data stream")
        return good.image(number)

    broken, named = noise(image=image), fields(where=["noise", "p7"], problem="broken data stream")
    with pytest.raises(Undecodable, check=named):
        ImageBatches(broken, ImageAugmentation(recipe()))
    with pytest.raises(Undecodable, check=named):
        list(ImageBatches(broken, ImageAugmentation(recipe(crop=0.5)), workers).batches(0, [np.array([6, 7])]))


def test_shifts_move_the_whole_image_and_fill_with_black():
    pixels = torch.randint(1, 256, (8, 3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    moved = shift_and_flip(pixels, recipe(shift=2), step=3, rows=slice(0, 8))
    padded = torch.nn.functional.pad(pixels, [2] * 4)
    offsets = set()
    for before, after in zip(padded, moved, strict=True):
        found = [
            (top, left) for top in range(5) for left in range(5)
            if before[:, top : top + SIDE, left : left + SIDE].equal(after)
        ]  # fmt: skip
        assert len(found) == 1
        offsets.add(found[0])
    assert len(offsets) > 2


def test_flips_mirror_about_half_of_the_images():
    pixels = torch.randint(0, 256, (64, 3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    flipped = shift_and_flip(pixels, recipe(flip=True, batch_size=64), step=0, rows=slice(0, 64))
    same = [a.equal(b) for a, b in zip(flipped, pixels, strict=True)]
    mirrored = [a.equal(b.flip(2)) for a, b in zip(flipped, pixels, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True))
    assert 16 < sum(mirrored) < 48


def test_two_processes_augment_their_halves_as_one_process_augments_the_batch():
    pixels = torch.randint(0, 256, (8, 3, SIDE, SIDE), dtype=torch.uint8)
    settings = recipe(shift=2, flip=True)
    whole = shift_and_flip(pixels, settings, step=5, rows=slice(0, 8))
    halves = [shift_and_flip(pixels[rows], settings, step=5, rows=rows) for rows in (slice(0, 4), slice(4, 8))]
    assert whole.equal(torch.cat(halves))


def test_mixup_blends_images_and_targets_with_the_same_weight():
    images, targets = torch.rand(4, 3, SIDE, SIDE), torch.eye(4)
    assert mix(images, targets, recipe(), 0)[0] is images
    blended, soft = mix(images, targets, recipe(mixup=0.4), 7)
    weight = soft[0, 0]
    assert 0 < weight < 1
    torch.testing.assert_close(soft, weight * targets + (1 - weight) * targets.flip(0))
    torch.testing.assert_close(blended, weight * images + (1 - weight) * images.flip(0))
    weights = [mix(images, targets, recipe(mixup=1.0), step)[1][0, 0].item() for step in range(200)]
    assert np.mean(weights) == pytest.approx(0.5, abs=0.08)
    assert np.std(weights) == pytest.approx(12**-0.5, abs=0.05)  # Beta(1, 1) is uniform


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (noise(labels=np.ones(20, np.int64)), {"where": "noise", "found": ["1"]}),
        (noise(labels=None), {"where": "noise", "problem": "no labels"}),
        (load("digits:train").select(slice(0, 0)), {"where": "digits", "found": []}),
    ],
    ids=["one class", "no labels", "no images"],
)
def test_training_data_without_two_classes_is_refused(dataset, expected):
    with pytest.raises(InputError, check=fields(**expected)):
        check_classes(dataset)
