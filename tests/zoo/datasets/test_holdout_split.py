"""The split `holdout-N` of a training set, which the trainer holds out."""

import numpy as np
import pytest
from raised import fields

from zoo import datasets
from zoo.datasets.loading import holdout_spec
from zoo.errors import InputError, UnknownName
from zoo.training import plan
from zoo.training.batches import split_holdout, split_rows


@pytest.mark.parametrize(("seed", "spec"), [(0, "digits:holdout-200"), (3, "digits:holdout-200-s3")])
def test_the_split_has_the_images_that_the_trainer_holds_out(seed: int, spec: str) -> None:
    recipe = plan("resnet8-softmax", data="digits", seed=seed, holdout=200, save_as="held").recipe
    training = datasets.load("digits:train")
    _, held_out = split_holdout(training, recipe)
    found = datasets.load(spec)
    assert list(found.ids) == list(held_out.ids)
    assert np.array_equal(found.labels, held_out.labels)
    assert np.array_equal(np.asarray(found[5]), np.asarray(training[int(split_rows(len(training), recipe)[1][5])]))
    assert holdout_spec("digits", 200, seed) == spec == found.spec


def test_a_holdout_has_one_canonical_spec() -> None:
    assert datasets.canonical("in1k:holdout-50046-s0") == "in1k:holdout-50046"
    assert datasets.training_split("in1k:holdout-50046-s2") == "in1k:train"
    assert len(datasets.load("digits:holdout-200-s1[:9]")) == 9


@pytest.mark.parametrize("spec", ["digits:holdout", "digits:holdout-0", "digits-holes:holdout-5"])
def test_a_holdout_needs_a_number_and_a_training_set(spec: str) -> None:
    with pytest.raises(UnknownName, check=fields(kind="split")):
        datasets.load(spec)


def test_a_holdout_is_smaller_than_the_training_set() -> None:
    with pytest.raises(InputError, check=fields(found=896, expected="896")):
        datasets.load("digits:holdout-896")
