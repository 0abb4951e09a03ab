"""Label sets: unique names, in the order of the libraries."""

from pathlib import Path

import pytest
from raised import fields

from zoo.cards import labels
from zoo.errors import InputError, UnknownName


@pytest.mark.parametrize("label_set", labels.known())
def test_class_names_are_unique(label_set: str) -> None:
    names = labels.classes(label_set)
    assert len(names) == len(set(names))


def test_imagenet_has_the_order_of_timm_and_open_clip() -> None:
    from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES
    from timm.data import ImageNetInfo

    info = ImageNetInfo("imagenet-1k")
    assert list(labels.classes("imagenet-1k")) == info.label_names()
    words = [labels.describe(name) for name in labels.classes("imagenet-1k")]
    assert words == info.label_descriptions()
    # Unambiguous words show that both libraries number the classes in the same way.
    for word in ("goldfish", "zebra", "broccoli", "toilet paper"):
        position = IMAGENET_CLASSNAMES.index(word)
        assert word.split()[0] in words[position]


def test_imagenet_words_are_not_unique() -> None:
    words = [labels.describe(name) for name in labels.classes("imagenet-1k")]
    assert words.count("crane") == 2
    assert labels.describe("n02012849") == "crane"


@pytest.mark.parametrize("subset", ["imagenet-a", "imagenet-r"])
def test_subsets_are_two_hundred_of_the_thousand(subset: str) -> None:
    import timm

    positions = labels.indices(labels.classes(subset), labels.classes("imagenet-1k"))
    file = Path(timm.__file__).parent / "data" / "_info" / f"{subset.replace('-', '_')}_indices.txt"
    assert positions == [int(line) for line in file.read_text().split()]
    assert len(positions) == 200


@pytest.mark.parametrize(
    ("label_set", "count"),
    [("digits", 10), ("cifar10", 10), ("cifar100", 100), ("fashion-mnist", 10), ("imagenet-21k", 21843)],
)
def test_number_of_classes(label_set: str, count: int) -> None:
    assert len(labels.classes(label_set)) == count


def test_a_label_set_may_be_given_by_the_short_name_of_its_dataset() -> None:
    assert labels.classes("in1k") == labels.classes("imagenet-1k")


def test_unknown_sets_and_classes_are_named() -> None:
    with pytest.raises(UnknownName, check=fields(name="cifar1000", suggestions=("cifar100",), hint="digits")):
        labels.classes("cifar1000")
    with pytest.raises(InputError, check=fields(argument="classes", problem=["1 of 2", "'lorry'"])):
        labels.indices(["truck", "lorry"], labels.classes("cifar10"))
