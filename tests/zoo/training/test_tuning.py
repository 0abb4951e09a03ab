"""Hyper-parameter search: grids are extended and refined around their best point, which is chosen on held-out images."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from raised import fields

from zoo import datasets
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.training import fit, search, tuning
from zoo.training.batches import split_rows
from zoo.training.plans import Plan
from zoo.training.trainer import initial_network

Score = Callable[[Plan], float | tuple[float, float]]


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch, zoo_home: Path) -> Callable[[Score], list[Plan]]:
    """Replace training by a function from a plan to its accuracy, or accuracy and NLL; return the list of trained plans."""

    def replace(score: Score) -> list[Plan]:
        planned_trials: list[Plan] = []

        def train_trial(planned: Plan, home: Path | None = None) -> dict[str, float]:
            planned_trials.append(planned)
            value = score(planned)
            accuracy, nll = value if isinstance(value, tuple) else (value, 1.0)
            return {"accuracy": accuracy, "nll": nll}

        monkeypatch.setattr(tuning, "_train_trial", train_trial)
        return planned_trials

    return replace


def peak(**best: float) -> Score:
    """Return an accuracy that falls with the distance from the best settings, in factors of two."""

    def score(planned: Plan) -> float:
        settings = {**planned.recipe.settings, **planned.hyperparameters}
        return 1 - 0.01 * sum(abs(math.log2(settings[key] / value)) for key, value in best.items())

    return score


def by_stage(result: tuning.SearchResult, key: str) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for trial in result.trials:
        values.setdefault(trial.stage, []).append(trial.settings[key])
    return values


def test_a_grid_is_extended_until_its_best_point_is_inside_and_then_refined(scored):
    trained = scored(peak(learning_rate=0.8))
    result = search("resnet8-cosine", [{"learning_rate": [0.2, 0.1]}])
    assert by_stage(result, "learning_rate") == {"coarse": [0.1, 0.2], "extended": [0.4, 0.8, 1.6], "fine": [0.5657, 1.131]}
    assert result.settings == result.best.settings == {"learning_rate": 0.8}
    assert [planned.recipe.learning_rate for planned in trained] == [0.1, 0.2, 0.4, 0.8, 1.6, 0.5657, 1.131]


def test_a_grid_is_extended_downwards_too_and_the_best_point_may_be_a_fine_one(scored):
    scored(peak(learning_rate=0.038))
    result = search("resnet8-cosine", [{"learning_rate": [0.1, 0.2, 0.4]}])
    assert by_stage(result, "learning_rate") == {
        "coarse": [0.1, 0.2, 0.4],
        "extended": [0.05, 0.025],
        "fine": [0.03536, 0.07071],
    }
    assert (result.best.stage, result.settings) == ("fine", {"learning_rate": 0.03536})


def test_the_extension_ends_after_a_few_steps(scored):
    scored(lambda planned: planned.recipe.learning_rate / 1e6)
    result = search("resnet8-cosine", [{"learning_rate": [1.0, 2.0]}], fine=False)
    assert by_stage(result, "learning_rate") == {"coarse": [1, 2], "extended": [4, 8, 16, 32]}
    assert tuning.MAX_EXTENSIONS == 4


def test_an_axis_with_one_value_is_neither_extended_nor_refined(scored):
    scored(peak(learning_rate=0.2, tau=0.01))
    result = search("resnet8-cosine", [{"learning_rate": [0.1, 0.2, 0.4], "tau": [0.1]}])
    assert {trial.settings["tau"] for trial in result.trials} == {0.1}
    assert len(result.trials) == 5


def test_two_axes_are_extended_next_to_the_best_point_only(scored):
    scored(peak(learning_rate=0.8, tau=0.1))
    grid = {"learning_rate": [0.1, 0.2, 0.4], "tau": [0.05, 0.1, 0.2, 0.4]}
    result = search("resnet8-cosine", [grid], fine=False)
    extended = [(t.settings["learning_rate"], t.settings["tau"]) for t in result.trials if t.stage == "extended"]
    assert extended == [(rate, tau) for rate in (0.8, 1.6) for tau in (0.05, 0.1, 0.2)]
    assert result.settings == {"learning_rate": 0.8, "tau": 0.1}


def test_evenly_spaced_values_are_extended_by_their_difference(scored):
    scored(lambda planned: planned.recipe.momentum)
    result = search("resnet8-cosine", [{"momentum": [0.6, 0.7, 0.8]}])
    assert by_stage(result, "momentum") == {"coarse": [0.6, 0.7, 0.8], "extended": [0.9, 1.0], "fine": [0.95]}


def test_points_that_no_recipe_can_have_are_skipped(scored):
    """A keep probability is at most 1, and a shift is a whole number."""
    scored(lambda planned: planned.hyperparameters["rho"])
    result = search("resnet8-dropout", [{"rho": [0.8, 0.9]}])
    assert by_stage(result, "rho") == {"coarse": [0.8, 0.9], "extended": [1.0], "fine": [0.95]}
    scored(lambda planned: -abs(planned.recipe.shift - 2))
    result = search("resnet8-dropout", [{"shift": [1, 2, 3]}])
    assert [trial.settings["shift"] for trial in result.trials] == [1, 2, 3]
    assert result.settings == {"shift": 2}
    assert isinstance(result.settings["shift"], int)


def test_each_grid_has_the_best_settings_of_the_grids_before_it(scored):
    trained = scored(peak(learning_rate=0.2, tau=0.1))
    grids = [{"learning_rate": [0.1, 0.2, 0.4]}, {"tau": [0.05, 0.1, 0.2]}]
    result = search("resnet8-cosine", grids, fine=False)
    assert [trial.grid for trial in result.trials] == [1, 1, 1, 2, 2, 2]
    assert [planned.recipe.learning_rate for planned in trained] == [0.1, 0.2, 0.4, 0.2, 0.2, 0.2]
    assert result.settings == {"learning_rate": 0.2, "tau": 0.1}


def test_the_decay_product_is_weight_decay_times_learning_rate(scored):
    trained = scored(peak(learning_rate=0.2))
    grids = [{"learning_rate": [0.1, 0.2, 0.4], "decay_product": [1e-4]}]
    result = search("resnet8-cosine", grids, fine=False)
    assert [planned.recipe.weight_decay for planned in trained] == [1e-3, 5e-4, 2.5e-4]
    assert result.settings == {"learning_rate": 0.2, "weight_decay": 5e-4}
    assert result.best.settings == {"learning_rate": 0.2, "decay_product": 1e-4}
    scored(peak(learning_rate=0.2, weight_decay=1e-3))
    grids = [{"learning_rate": [0.1, 0.2, 0.4]}, {"decay_product": [1e-4, 2e-4, 4e-4]}]
    assert search("resnet8-cosine", grids, fine=False).settings == {"learning_rate": 0.2, "weight_decay": 1e-3}


def test_the_best_trial_may_be_of_an_earlier_grid(scored):
    """The second grid has only temperatures that are worse than the recipe's own."""
    trained = scored(peak(tau=0.15))
    result = search("resnet8-cosine", [{"learning_rate": [0.1]}, {"tau": [4.0]}], fine=False)
    assert [planned.hyperparameters["tau"] for planned in trained] == [0.15, 4.0]
    assert (result.best.grid, result.settings) == (1, {"learning_rate": 0.1})


def test_of_equally_accurate_points_the_one_with_the_lowest_nll_is_best(scored):
    scored(lambda planned: (0.9, {0.1: 0.5, 0.2: 0.3, 0.4: 0.4}[planned.recipe.learning_rate]))
    assert search("resnet8-cosine", [{"learning_rate": [0.1, 0.2, 0.4]}], fine=False).settings == {"learning_rate": 0.2}


def test_scores_are_means_over_seeds_and_a_seed_that_diverges_rules_a_point_out(scored):
    scores = {0.1: (0.5, 0.7), 0.2: (0.6, 0.8), 0.4: (math.nan, 0.99)}
    trained = scored(lambda planned: scores[planned.recipe.learning_rate][planned.recipe.seed])
    result = search("resnet8-cosine", [{"learning_rate": list(scores)}], seeds=2, fine=False)
    assert [trial.accuracy for trial in result.trials] == [
        pytest.approx(0.6),
        pytest.approx(0.7),
        pytest.approx(math.nan, nan_ok=True),
    ]
    assert result.trials[1].accuracies == [0.6, 0.8]
    assert result.settings == {"learning_rate": 0.2}
    assert len({planned.recipe.entropy for planned in trained}) == 6  # each trial has its own initial weights
    scored(lambda planned: math.nan)
    with pytest.raises(ZooError, check=fields(where="resnet8-cosine", problem="grid 1")):
        search("resnet8-cosine", [{"learning_rate": [0.1, 0.2]}])


def test_the_table_has_a_row_per_trial(scored):
    scored(peak(learning_rate=0.2))
    frame = search("resnet8-cosine", [{"learning_rate": [0.1, 0.2, 0.4]}], fine=False).to_frame()
    assert frame["learning_rate"].tolist() == [0.1, 0.2, 0.4]
    assert frame["holdout_accuracy"].tolist() == [0.99, 1.0, 0.99]


def test_progress_names_settings_and_accuracy_of_each_trial(scored):
    scored(peak(learning_rate=0.2))
    lines: list[str] = []
    search("resnet8-cosine", [{"learning_rate": [0.1, 0.2]}], fine=False, progress=lines.append)
    assert len(lines) == 3
    assert all("resnet8-cosine" in line for line in lines)
    assert ["learning_rate 0.1" in lines[0], "0.9900" in lines[0], "1.0000" in lines[1]] == [True] * 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"grids": []}, {"argument": "grids", "found": 0}),
        ({"grids": [{}]}, {"argument": "grids", "where": "grid 1"}),
        ({"grids": [{"tau": [0.1]}, {"tau": []}]}, {"argument": "grids", "where": "grid 2"}),
        ({"grids": [{"tau": ["warm"]}]}, {"argument": "grids", "where": "grid 1"}),
        ({"grids": [{"tau": 0.1}]}, {"argument": "grids", "where": "grid 1"}),
        ({"grids": [{"tau": [0.1]}, {"wings": [2]}]}, {"where": "grid 2", "name": "wings"}),
        ({"grids": [{"seed": [0, 1]}]}, {"where": "grid 1", "name": "seed"}),
        ({"grids": [{"tau": [0.1]}, {"learning_rate": [0.1, math.nan]}]}, {"where": "grid 2", "argument": "learning_rate"}),
        ({"grids": [{"tau": [0.1]}, {"decay_product": [1e-4]}]}, {"where": "grid 2", "argument": "grids"}),
        ({"seeds": 0}, {"argument": "seeds", "found": 0}),
        ({"seeds": 1.5}, {"argument": "seeds", "found": 1.5}),
        ({"jobs": 0}, {"argument": "jobs", "found": 0}),
        ({"epochs": 0}, {"argument": "epochs", "found": 0}),
        ({"epochs": "ten"}, {"argument": "epochs", "found": "ten"}),
        ({"holdout": 0}, {"argument": "holdout", "found": 0}),
        ({"seed": 3}, {"name": "seed"}),
        ({"save_as": "mine"}, {"name": "save_as"}),
        ({"name": "resnet8-cosine-s2"}, {"argument": "name", "found": "resnet8-cosine-s2"}),
        ({"name": "resnet8-cosin"}, {"suggestions": ("resnet8-cosine",)}),
    ],
)
def test_invalid_arguments_are_refused_before_the_first_trial(scored, arguments: dict[str, Any], expected: dict[str, Any]):
    trained = scored(lambda planned: pytest.fail("trained"))
    with pytest.raises(InputError, check=fields(**expected)) as raised:
        search(**{"name": "resnet8-cosine", "grids": [{"tau": [0.1, 0.2]}]} | arguments)
    assert isinstance(raised.value, UnknownName) == ("name" in expected or "suggestions" in expected)
    assert trained == []


def test_trials_have_the_recipes_settings_a_tenth_held_out_and_a_shorter_warm_up(scored):
    trained = scored(peak(tau=0.1))
    result = search("resnet8-cosine", [{"tau": [0.1]}], epochs=4, data="digits[:200]", shift=0)
    assert (result.holdout, result.epochs) == (20, 4)
    recipe = trained[0].recipe
    assert (recipe.holdout, recipe.epochs, recipe.warmup_epochs, recipe.shift) == (
        20,
        4,
        1.0,
        0,
    )  # 3 of 12 epochs by default
    assert (trained[0].data, trained[0].objective) == ("digits:train[:200]", "cosine")


SHORT: dict[str, Any] = {"data": "digits[:120]", "epochs": 2, "fine": False, "batch_size": 20, "holdout": 40}


def test_a_trial_is_trained_on_all_but_the_held_out_images_and_no_test_image_is_read(zoo_home, monkeypatch):
    """Scores against those of the network that `fit` returns for the same plan, computed by hand."""
    original, specs, trained = datasets.load, [], []
    monkeypatch.setattr(tuning, "datasets", SimpleNamespace(load=lambda spec: specs.append(spec) or original(spec)))
    train_trial = tuning._train_trial
    monkeypatch.setattr(tuning, "_train_trial", lambda planned, home: trained.append(planned) or train_trial(planned, home))
    result = search("resnet8-cosine", [{"learning_rate": [0.02]}, {"tau": [0.2]}], **SHORT)
    assert set(specs) == {"digits:train[:120]"}
    images = original("digits:train[:120]")
    for trial, planned in zip(result.trials, trained, strict=True):
        network = initial_network(planned, images)
        done = fit(network, images, planned.recipe, progress=False)
        held_out = images.select(split_rows(120, planned.recipe)[1])
        pixels = torch.stack([Pipeline(planned.recipe.transform)(image) for image in held_out])
        with torch.inference_mode():
            logits = network.eval()(pixels)[1]
        labels = torch.from_numpy(held_out.labels)
        assert done.epoch in (1, 2)
        assert trial.accuracy == pytest.approx(float((logits.argmax(1) == labels).float().mean()), abs=1e-6)
        assert trial.nll == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), abs=1e-4)


def test_finished_trials_are_not_trained_again(zoo_home, monkeypatch):
    first = search("resnet8-cosine", [{"tau": [0.1]}], **SHORT)
    original = tuning.fit
    monkeypatch.setattr(tuning, "fit", lambda *arguments, **options: pytest.fail("trained again"))
    assert search("resnet8-cosine", [{"tau": [0.1]}], **SHORT) == first
    monkeypatch.setattr(tuning, "fit", original)
    (file,) = (zoo_home / "search").iterdir()
    stored = json.loads(file.read_text())
    assert (float(stored["accuracy"]), stored["run"]["settings"]["tau"]) == (first.best.accuracy, 0.1)
    file.write_bytes(file.read_bytes()[:-4] + b"damage")
    with pytest.warns(ZooWarning, match=file.name):
        assert search("resnet8-cosine", [{"tau": [0.1]}], **SHORT) == first
    assert len(list((zoo_home / "search").iterdir())) == 2  # the damaged file was renamed
    search("resnet8-cosine", [{"tau": [0.1]}], **SHORT | {"data": "digits[:140]"})
    assert len(list((zoo_home / "search").iterdir())) == 3


def test_an_interrupted_search_continues_at_the_first_trial_without_a_score(zoo_home, monkeypatch):
    original, calls = tuning.fit, []

    def interrupted(network, *arguments, **options):
        calls.append(network)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(network, *arguments, **options)

    monkeypatch.setattr(tuning, "fit", interrupted)
    grids = [{"tau": [0.1]}, {"learning_rate": [0.05]}]
    with pytest.raises(KeyboardInterrupt):
        search("resnet8-cosine", grids, **SHORT)
    resumed = search("resnet8-cosine", grids, **SHORT)
    assert len(calls) == 3
    assert [trial.settings for trial in resumed.trials] == [{"tau": 0.1}, {"tau": 0.1, "learning_rate": 0.05}]


def test_a_trial_that_diverges_has_no_accuracy_also_when_it_is_read_again(zoo_home):
    grids = [{"learning_rate": [0.05, 1e9]}]
    arguments = SHORT | {"warmup_epochs": 0.0}
    for _ in range(2):
        result = search("resnet8-squared-error", grids, **arguments)
        by_rate = {trial.settings["learning_rate"]: trial for trial in result.trials}
        assert math.isnan(by_rate[1e9].accuracy)
        assert result.settings["learning_rate"] < 1


@pytest.mark.slow
def test_a_search_of_the_temperature_on_all_digits_finds_accurate_settings_and_two_jobs_agree(zoo_home, tmp_path):
    grids = [{"tau": [0.05, 0.1, 5.0]}]
    one = search("resnet8-cosine", grids, epochs=6, fine=False)
    two = search("resnet8-cosine", grids, epochs=6, fine=False, jobs=2, home=tmp_path)
    assert one.best.accuracy >= 0.93
    assert one.settings["tau"] < 5.0
    assert two.settings == one.settings
    assert [t.accuracy for t in two.trials] == pytest.approx([t.accuracy for t in one.trials], abs=0.03)
