"""Fine-tuning by a grid: the paper's values, what chooses and what tests, and a real network on the digits."""

import numpy as np
import pytest
import torch

import zoo
from probes import finetuning
from zoo.errors import InputError, ZooError

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


def test_best_pair_is_the_tables_and_learns(found):
    result, *_ = found
    assert len(result.table) == 4
    top = result.table.loc[result.table.validation.idxmax()]
    assert (top.learning_rate, top.weight_decay) == (result.best["learning_rate"], result.best["weight_decay"])
    assert result.best["learning_rate"] == 0.4  # a millionth of a step changes nothing
    assert result.best["validation"] == result.table.validation.max()
    assert result.accuracy > 0.5  # of ten classes; how far fifty steps lead depends on rounding too


def test_accuracy_is_that_of_the_model_given_back(found):
    result, *_ = found
    (model,) = result.models
    test = zoo.datasets.load("digits:test")
    predicted = model.predict(list(test)).argmax(1).numpy()
    assert result.accuracy == pytest.approx(np.mean(predicted == test.labels))
    assert model.classes == test.classes
    assert model.card.head == "fine-tuned"


def test_start_is_left_as_it_was(found, start):
    _, before, *_ = found
    after = start.network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_finished_grid_is_taken_up_from_its_folder(found, start):
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


def test_parts_are_disjoint_and_validation_comes_back():
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


def test_pairs_are_averaged_over_models_and_divergence_is_no_candidate():
    rows = [("a", 0.1, 0.0, 0.9), ("b", 0.1, 0.0, 0.7), ("a", 0.2, 0.0, 1.0), ("b", 0.2, 0.0, np.nan)]
    rows += [("a", 0.01, 1e-3, 0.8), ("b", 0.01, 1e-3, 0.8)]
    table = finetuning.pd.DataFrame(rows, columns=["model", "learning_rate", "weight_decay", "validation"])
    assert finetuning._best(table) == pytest.approx((0.01, 1e-3, 0.8))


def test_learning_rates_that_all_diverge_are_an_error(start):
    with pytest.raises(ZooError, match="diverged at every learning rate"):
        finetuning.finetune(start, "digits", learning_rates=[1e30], weight_decays=[0.0], **QUICK)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": "digits:train"}, "test: expected the images to test on beside digits:train"),
        ({"data": "digits:train", "test": "digits:train"}, "used twice"),
        ({"data": "digits:train", "test": "digits:test", "validation": "digits:test"}, "used twice"),
        ({"data": "digits", "validation": 1.5}, "share between 0 and 1"),
        ({"data": "digits", "learning_rates": []}, "learning_rates: expected different numbers"),
        ({"data": "digits", "learning_rates": [0.0]}, "learning_rates: .* above 0"),
        ({"data": "digits", "weight_decays": [-1.0]}, "weight_decays: .* at least 0"),
        ({"data": "digits", "steps": 0}, "steps: expected at least 1"),
        ({"data": "digits", "learning_rate": 0.1}, "unknown setting 'learning_rate'"),
        ({"data": "digits", "batch_size": 5000}, "set a smaller one"),
    ],
)
def test_bad_input_is_named(start, arguments, message):
    with pytest.raises(InputError, match=message):
        finetuning.finetune(start, **(QUICK | arguments))
