"""Fine-tuning by a grid: the paper's values, the splits, and a real network on the digits."""

import numpy as np
import pytest
import torch
from raised import fields

import zoo
from probes import finetuning
from zoo.errors import InputError, UnknownName, ZooError

QUICK = {"steps": 50, "batch_size": 32, "progress": False, "workers": 0, "crop": 0.0, "flip": False}


@pytest.fixture(scope="module")
def start():
    return zoo.load("resnet8-softmax", pretrained=False, device="cpu")


@pytest.fixture(scope="module")
def found(start, tmp_path_factory):
    before = {name: value.clone() for name, value in start.network.state_dict().items()}
    folder = tmp_path_factory.mktemp("grid")
    grid = {"learning_rates": (1e-6, 0.4), "weight_decays": (0.0, 1e-3)}
    result = finetuning.finetune(start, "digits", folder=folder, **grid, **QUICK)
    return result, before, folder, grid


def test_grid_is_the_papers():
    assert np.log10(finetuning.LEARNING_RATES) == pytest.approx(np.linspace(-5.5, -1, 8))
    assert finetuning.WEIGHT_DECAYS[0] == 0
    assert np.log10(finetuning.WEIGHT_DECAYS[1:]) == pytest.approx(np.linspace(-6.5, -3, 8))
    assert finetuning.STEPS == 20_000


def test_the_best_pair_of_the_table_is_used_and_learns(found):
    result, *_ = found
    assert len(result.table) == 4
    top = result.table.loc[result.table.validation.idxmax()]
    assert (top.learning_rate, top.weight_decay) == (result.best["learning_rate"], result.best["weight_decay"])
    assert result.best["learning_rate"] == 0.4  # 1e-6 is too small to learn anything
    assert result.best["validation"] == result.table.validation.max()
    assert result.accuracy > 0.5  # of ten classes; the exact value after 50 steps depends on rounding


def test_accuracy_is_that_of_the_returned_model(found):
    result, *_ = found
    (model,) = result.models
    test = zoo.datasets.load("digits:test")
    predicted = model.predict(list(test)).argmax(1).numpy()
    assert result.accuracy == pytest.approx(np.mean(predicted == test.labels))
    assert model.classes == test.classes
    assert model.card.head == "fine-tuned"


def test_the_pretrained_model_is_unchanged(found, start):
    _, before, *_ = found
    after = start.network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_a_finished_grid_is_read_from_its_folder(found, start):
    result, _, folder, grid = found
    stamps = {path: path.read_bytes() for path in folder.rglob("log.jsonl")}
    assert len(stamps) == 5  # four of the grid, one with its best pair
    again = finetuning.finetune(start, "digits", folder=folder, **grid, **QUICK)
    assert again.table.equals(result.table)
    assert again.accuracies == result.accuracies
    assert stamps == {path: path.read_bytes() for path in folder.rglob("log.jsonl")}


def test_weight_decay_is_divided_by_the_learning_rate(start):
    task = finetuning._Task(*[None] * 4, "softmax", {"steps": 5, "batch_size": 8}, None, None, False)
    recipe = finetuning._recipe(start, 0.01, 1e-4, task)
    assert recipe.weight_decay == pytest.approx(1e-2)
    assert recipe.schedule == "cosine"
    assert recipe.total_steps(1000) == 5
    assert recipe.transform == start.transform.spec


def test_splits_are_disjoint_and_joined_for_the_final_training():
    learning, validation, everything, test = finetuning._splits("digits", None, 0.2, seed=1)
    assert not set(learning.ids) & set(validation.ids)
    assert sorted([*learning.ids, *validation.ids]) == sorted(everything.ids)
    assert set(test.labels) == set(validation.labels) == set(range(10))
    own = finetuning._splits("digits:train", "digits:test", "digits:calibration", seed=1)
    first, second = own[0], own[1]
    assert len(own[2]) == len(first) + len(second)
    assert np.array_equal(own[2].labels, np.concatenate([first.labels, second.labels]))
    for index, source, row in ((0, first, 0), (len(first), second, 0), (-1, second, -1)):
        assert np.array_equal(own[2][index], source[row])


def test_the_best_pair_is_best_on_average_and_never_one_that_diverged():
    rows = [("a", 0.1, 0.0, 0.9), ("b", 0.1, 0.0, 0.7), ("a", 0.2, 0.0, 1.0), ("b", 0.2, 0.0, np.nan)]
    rows += [("a", 0.01, 1e-3, 0.8), ("b", 0.01, 1e-3, 0.8)]
    table = finetuning.pd.DataFrame(rows, columns=["model", "learning_rate", "weight_decay", "validation"])
    assert finetuning._best(table) == pytest.approx((0.01, 1e-3, 0.8))


def test_learning_rates_that_all_diverge_are_an_error(start):
    with pytest.raises(ZooError, check=fields(argument="learning_rates", problem="diverged")):
        finetuning.finetune(start, "digits", learning_rates=[1e30], weight_decays=[0.0], **QUICK)


TRAINING = {"data": "digits:train"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (TRAINING, {"argument": "test", "problem": "digits:train"}),
        (TRAINING | {"test": "digits:train"}, {"where": "digits:train", "problem": "twice"}),
        (TRAINING | {"test": "digits:test", "validation": "digits:test"}, {"where": "digits:test", "problem": "twice"}),
        ({"validation": 1.5}, {"argument": "validation", "found": 1.5}),
        ({"learning_rates": []}, {"argument": "learning_rates", "found": []}),
        ({"learning_rates": [0.0]}, {"argument": "learning_rates", "expected": "above 0"}),
        ({"learning_rates": [0.1, 0.1]}, {"argument": "learning_rates", "expected": "different"}),
        ({"weight_decays": [-1.0]}, {"argument": "weight_decays", "expected": "at least 0"}),
        ({"steps": 0}, {"argument": "steps", "found": 0}),
        ({"batch_size": 5000}, {"argument": "batch_size", "found": 5000}),
    ],
)
def test_bad_input_is_named(start, arguments, error):
    with pytest.raises(InputError, check=fields(**error)):
        finetuning.finetune(start, **({"data": "digits"} | QUICK | arguments))


def test_an_unknown_setting_is_named_with_suggestions(start):
    with pytest.raises(UnknownName, check=fields(kind="setting", name="flipp", suggestions=("flip",))):
        finetuning.finetune(start, "digits", flipp=True, **QUICK)
    with pytest.raises(UnknownName, check=fields(name="learning_rate", hint="crop")):
        finetuning.finetune(start, "digits", learning_rate=0.1, **QUICK)
