"""Classes are matched by name, in different spellings, and never by position."""

import numpy as np
import pytest
from PIL import Image

from zoo.cards import labels
from zoo.datasets import Dataset
from zoo.datasets.class_matching import match


def dataset(classes, y=None, **more):
    y = np.arange(len(classes)) if y is None and classes else y
    ids = [str(row) for row in range(len(y) if y is not None else 2)]
    return Dataset("d", "d", ids, lambda row: Image.new("RGB", (1, 1)), "f", classes=tuple(classes), labels=y, **more)


def test_the_same_classes_in_the_same_order():
    found = match(dataset("abc"), "abc")
    assert (found.classes, found.columns, found.labels.tolist()) == (("a", "b", "c"), None, [0, 1, 2])


def test_columns_are_reordered_to_the_datasets_classes():
    found = match(dataset("abc"), "cab")
    assert (found.classes, found.columns, found.labels.tolist()) == (("a", "b", "c"), (1, 2, 0), [0, 1, 2])


def test_a_dataset_of_some_of_the_models_classes_keeps_all_columns():
    found = match(dataset("db", np.array([0, 1, 1])), "abcd")
    assert (found.classes, found.columns) == (tuple("abcd"), None)
    assert found.labels.tolist() == [3, 1, 1]


def test_a_dataset_defined_as_a_subset_keeps_only_its_columns():
    found = match(dataset("bd", np.array([0, 1, 1]), class_subset=(1, 3)), "abcd")
    assert (found.classes, found.columns, found.labels.tolist()) == (("b", "d"), (1, 3), [0, 1, 1])


def test_multi_label_targets_are_translated():
    data = dataset("db", None)
    data = Dataset("d", "d", ["0"], data.image, "f", classes=("d", "b"), targets=np.array([[1, 0]], np.uint8))
    assert match(data, "abcd").targets.tolist() == [[0, 0, 0, 1]]


def test_different_classes_keep_the_models_columns_and_the_datasets_labels():
    found = match(dataset("abx"), "abc")
    assert (found.classes, found.label_classes, found.labels.tolist()) == (tuple("abc"), tuple("abx"), [0, 1, 2])


def test_an_encoder_without_a_head_and_a_dataset_without_labels():
    assert match(dataset("ab"), ()).classes == ("a", "b")
    assert match(dataset(""), "abc") == match(dataset(""), ["a", "b", "c"])
    assert match(dataset(""), "abc").classes == tuple("abc")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (["T-shirt/top", "Ankle boot"], ["ankle_boot", "t_shirt_top"]),
        (["tench", "goldfish"], ["n01443537", "n01440764"]),
        (["n01443537", "n01440764"], ["tench", "goldfish"]),
    ],
)
def test_classes_in_different_spellings_match(theirs, ours):
    assert match(dataset(theirs), ours).columns == (1, 0)


def test_a_word_for_two_classes_matches_neither():
    cranes = [name for name in labels.classes("imagenet-1k") if labels.describe(name).split(",")[0] == "crane"]
    assert len(cranes) == 2
    assert match(dataset(["crane", "tench"]), labels.classes("imagenet-1k")).label_classes == ("crane", "tench")
    assert match(dataset(cranes), labels.classes("imagenet-1k")).label_classes is None


def test_two_classes_of_the_dataset_do_not_match_one_of_the_model():
    assert match(dataset(["cat", "Cat"]), ["cat", "dog"]).label_classes == ("cat", "Cat")


def test_a_model_may_have_an_additional_background_class():
    found = match(dataset(["cat", "dog"]), ["background", "cat", "dog"])
    assert (found.classes, found.labels.tolist()) == (("background", "cat", "dog"), [1, 2])
