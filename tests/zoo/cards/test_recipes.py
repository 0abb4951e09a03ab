"""Recipes: the papers' settings, the learning rate schedule, invalid settings, and the plan of a recipe name."""

import dataclasses
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised import fields

import zoo
from zoo.cards.card import Transform
from zoo.cards.published import recipe as published
from zoo.cards.recipe_names import OBJECTIVES, SMALL_ARCHITECTURES
from zoo.core.typed import differences
from zoo.errors import InputError, UnknownName
from zoo.training import Recipe, expand, plan

PLAIN = Transform((3, 8, 8), (8, 8), "bilinear", (0.5,) * 3, (0.5,) * 3)


def recipe(**settings) -> Recipe:
    return Recipe(
        **{"transform": PLAIN, "epochs": 5, "batch_size": 10, "learning_rate": 1.0, "weight_decay": 0.0} | settings
    )


def test_the_imagenet_recipe_has_the_papers_settings():
    made = plan("resnet50-cosine", data="in1k")
    assert (made.name, made.data, made.test) == ("resnet50-cosine.in1k", "in1k:train", "in1k:validation")
    assert made.hyperparameters == {"tau": 0.05}
    settings = made.recipe
    assert (settings.epochs, settings.batch_size, settings.learning_rate) == (158, 4096, 1.6)
    assert (settings.weight_decay, settings.warmup_epochs, settings.decay, settings.ema) == (8e-5, 10, 0.975, 0.9999)
    assert (settings.crop, settings.flip, settings.schedule) == (0.1, True, "exponential")
    assert (settings.transform.resize, settings.transform.size) == ((256,), (3, 224, 224))
    epochs = [published("resnet50", name, "in1k").epochs for name in OBJECTIVES]
    assert epochs == [146, 180, 172, 168, 180, 152, 158, 166, 196]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_inception_has_the_settings_of_resnet50_except_epoch_and_input_size(objective):
    made, like = (plan(f"{architecture}-{objective}", data="in1k") for architecture in ("inception_v3", "resnet50"))
    assert made.hyperparameters == like.hyperparameters
    assert (made.recipe.holdout, like.recipe.holdout) == (50_046, 0)
    assert made.recipe.epochs > max(published("resnet50", name, "in1k").epochs for name in OBJECTIVES)
    exceptions = {"epochs": like.recipe.epochs, "holdout": 0, "transform": like.recipe.transform, "name": like.recipe.name}
    assert dataclasses.replace(made.recipe, **exceptions) == like.recipe
    transform = made.recipe.transform
    assert (transform.size, transform.resize) == ((3, 299, 299), (342,))
    assert transform.size[1] / transform.resize[0] == pytest.approx(224 / 256, abs=0.001)
    assert zoo.card(f"inception_v3-{objective}.in1k").transform == transform


def test_cosine_can_be_scaled_at_every_temperature():
    made = plan("resnet50-cosine", data="in1k", scale_below=1, save_as="table-4")
    assert made.hyperparameters == {"tau": 0.05, "scale_below": 1}
    with pytest.raises(InputError, check=fields(where="resnet50-cosine.in1k", problem="scale_below=1")):
        plan("resnet50-cosine", data="in1k", scale_below=1)


def test_the_cifar_recipes_have_the_papers_settings():
    ten, hundred = plan("all-cnn-c-logit-norm", data="cifar10"), plan("wrn-16-8-dropout", data="cifar100")
    assert (ten.recipe.batch_size, hundred.recipe.batch_size) == (128, 256)
    assert ten.recipe.learning_rate == pytest.approx(0.01)
    # The table's lambda is the learning rate times the weight decay.
    assert ten.recipe.learning_rate * ten.recipe.weight_decay == pytest.approx(1e-4, rel=1e-3)
    assert hundred.recipe.learning_rate == pytest.approx(10**-1.25, rel=1e-3)
    assert hundred.recipe.learning_rate * hundred.recipe.weight_decay == pytest.approx(10**-3.75, rel=1e-3)
    assert (ten.recipe.schedule, ten.recipe.ema, ten.recipe.decay_norms) == ("cosine", 0, False)
    assert hundred.recipe.decay_norms
    assert (ten.hyperparameters, hundred.hyperparameters) == ({"tau": 0.14}, {"rho": 0.75})


def test_exponential_decay_is_a_factor_per_epoch_after_the_warm_up():
    imagenet = published("resnet50", "softmax", "in1k")
    images = 1_281_167
    per_epoch = images // 4096
    rates = [imagenet.rate(epoch * per_epoch, images) for epoch in range(146)]
    assert rates[10] == pytest.approx(1.6)
    assert all(later == pytest.approx(0.975 * earlier) for earlier, later in itertools.pairwise(rates[10:]))
    warming = [imagenet.rate(step, images) for step in range(10 * per_epoch)]
    assert warming == pytest.approx([1.6 * (step + 1) / len(warming) for step in range(len(warming))])


@given(st.integers(1, 40), st.floats(0, 0.9), st.integers(10, 200), st.sampled_from(["cosine", "linear", "exponential"]))
def test_the_rate_rises_to_its_peak_and_falls_from_there(epochs, warm, images, schedule):
    made = recipe(epochs=epochs, warmup_epochs=warm * epochs, schedule=schedule)
    rates = [made.rate(step, images) for step in range(made.total_steps(images))]
    peak = math.ceil(warm * epochs * made.steps_per_epoch(images))
    assert all(0 <= rate <= 1 + 1e-12 for rate in rates)
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)


def test_a_linear_schedule_falls_by_equal_steps_and_would_reach_zero_after_the_last():
    made = recipe(epochs=5, warmup_epochs=1, schedule="linear")
    assert [made.rate(step, 20) for step in range(2, 10)] == pytest.approx([1 - n / 8 for n in range(8)])


def test_a_number_of_steps_overrides_epochs():
    made = recipe(steps=7)
    assert (made.total_steps(20), made.rate(6, 20)) == (7, pytest.approx((1 + math.cos(math.pi * 6 / 7)) / 2))


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("epochs", 0, ["whole number", "at least 1"]),
        ("epochs", 2.5, "whole number"),
        ("batch_size", 1, "at least 2"),
        ("learning_rate", 0, "above 0"),
        ("learning_rate", math.inf, "above 0"),
        ("weight_decay", -1e-4, "at least 0"),
        ("decay", 1.5, "at most 1"),
        ("ema", 1.5, "at most 1"),
        ("flip", 1, "True or False"),
        ("schedule", "steps", "cosine, linear, exponential"),
        ("optimiser", "lion", "sgd, adamw"),
        ("auto_augment", True, "imagenet, cifar10"),
        ("teacher", 3, "text"),
        ("precision", "float64", "float32, bfloat16, float16"),
        ("warmup_epochs", 5, "5"),
        ("transform", None, "Transform"),
    ],
)
def test_an_invalid_setting_is_named(setting, value, expected):
    with pytest.raises(InputError, check=fields(argument=setting, expected=expected, found=value)):
        recipe(**{setting: value})


def test_a_batch_larger_than_the_training_set_is_refused():
    with pytest.raises(InputError, check=fields(argument="batch_size", expected="9", found=10)):
        recipe().steps_per_epoch(9)


def test_the_settings_of_a_card_are_those_in_use():
    assert recipe(flip=True, ema=0.9).settings == {
        "epochs": 5, "batch_size": 10, "learning_rate": 1.0, "schedule": "cosine", "momentum": 0.9, "nesterov": True,
        "ema": 0.9, "flip": True, "precision": "float32",
    }  # fmt: skip
    adamw = recipe(optimiser="adamw", auto_augment="cifar10").settings
    assert (adamw["optimiser"], adamw["auto_augment"], "nesterov" in adamw) == ("adamw", "cifar10", False)


def test_the_name_of_a_plan_has_its_dataset_and_seed(monkeypatch):
    assert plan("resnet8-cosine").name == "resnet8-cosine.digits"
    assert plan("resnet8-cosine", data="digits", seed=3).name == "resnet8-cosine-s3.digits"
    assert plan("resnet8-cosine-s3.cifar10").data == "cifar10:train"
    assert plan("resnet50-cosine.imagenet-1k").name == "resnet50-cosine.in1k"
    assert plan("resnet8-cosine", data="cifar10[:100]", save_as="mine").data == "cifar10:train[:100]"
    assert plan("resnet8-cosine", data="cifar10:test", save_as="mine").test is None
    assert plan("resnet8-cosine.digits").name == "resnet8-cosine.digits"
    assert plan("resnet8-cosine", data="folder:/data/My Birds", save_as="mine").dataset == "my-birds"
    assert plan("resnet8-cosine", save_as="mine").name == "mine"
    assert plan("resnet8-cosine", save_as="resnet8-cosine.digits", tau=0.15, epochs=12) == plan(
        "resnet8-cosine", tau=0.15, epochs=12
    )
    monkeypatch.setenv("ZOO_DATASET", "cifar10")
    assert (plan("resnet8-cosine").name, plan("resnet8-cosine").dataset) == ("resnet8-cosine.cifar10", "cifar10")
    assert plan("resnet8-cosine", data="digits").name == "resnet8-cosine.digits"


@pytest.mark.parametrize(
    "name", ["resnet50-sigmoid-s2.in1k", "wrn-16-8-dropout.cifar10", "resnet8-sigmoid+dropout", "resnet18-cosine"]
)
def test_a_card_describes_what_is_trained(name):
    card, made = zoo.card(name), plan(name)
    assert card.name == made.name
    assert card.hyperparameters == {**made.hyperparameters, **made.recipe.settings}
    assert (card.transform, card.seed, card.objective) == (made.recipe.transform, made.recipe.seed, made.objective)
    assert card.link == zoo.objectives.get(made.objective).link


def test_a_plan_has_the_command_that_repeats_it():
    made = plan("resnet8-sigmoid+dropout", data="digits", seed=1, epochs=3, save_as="mine", rho=0.9)
    assert made.command == "zoo train resnet8-sigmoid+dropout-s1.digits --set rho=0.9 --set epochs=3 --name mine"
    again = plan("resnet8-sigmoid+dropout-s1", data="digits", save_as="mine", rho=0.9, epochs=3)
    assert again == made


@pytest.mark.parametrize(
    ("name", "arguments", "facts"),
    [
        ("resnet8-cosin", {}, {"name": "resnet8-cosin", "suggestions": ("resnet8-cosine",)}),
        ("resnet9-cosine", {}, {"hint": "'resnet"}),
        ("resnet8", {}, {"name": "resnet8"}),
        ("../resnet8-cosine", {}, {"argument": "name", "found": "../resnet8-cosine"}),
        ("resnet8-cosine", {"taw": 1}, {"name": "taw", "suggestions": ("tau",)}),
        ("resnet8-cosine", {"leaning_rate": 1}, {"name": "leaning_rate", "suggestions": ("learning_rate",)}),
        ("resnet8-softmax", {"tau": 1}, {"name": "tau"}),
        ("resnet8-cosine", {"tau": 0}, {"argument": "tau", "found": 0}),
        ("resnet8-cosine", {"data": "digitz"}, {"name": "digitz", "suggestions": ("digits",)}),
        ("resnet8-cosine-s2", {"seed": 3}, {"argument": "seed", "expected": "2", "found": 3}),
        ("resnet8-cosine.cifar10", {"data": "digits"}, {"argument": "data", "expected": "cifar10", "found": "digits"}),
        ("resnet8-cosine", {"save_as": "a/b"}, {"found": "a/b"}),
        ("resnet8-cosine", {"epochs": 0}, {"argument": "epochs", "found": 0}),
        ("resnet8-cosine", {"epochs": 3}, {"where": "resnet8-cosine.digits", "problem": "epochs=3"}),
        ("resnet8-cosine", {"data": "digits:test"}, {"where": "resnet8-cosine.digits", "problem": "digits:test"}),
        ("resnet8-cosine", {"save_as": "mine-cosine", "epochs": 3}, {"expected": "recipe", "found": "mine-cosine"}),
        ("resnet8-cosine", {"save_as": "CLIP-vit-b32"}, {"argument": "save_as", "found": "CLIP-vit-b32"}),
        (
            "resnet7-softmax.cifar10",
            {"mixup": 0.3, "save_as": "r7-mixup.cifar10"},
            {"argument": "save_as", "found": "r7-mixup.cifar10"},
        ),
    ],
)
def test_an_invalid_plan_is_refused(name, arguments, facts):
    with pytest.raises(InputError, check=fields(**facts)):
        plan(name, **arguments)


def test_only_its_own_command_trains_a_shipped_model_again():
    again = plan("resnet7-softmax.cifar10", mixup=0.2, precision="bfloat16", save_as="r7-mixup.cifar10")
    assert (again.name, again.command) == ("r7-mixup.cifar10", zoo.card("r7-mixup.cifar10").details["command"])


def test_a_pattern_expands_to_every_recipe_that_matches():
    assert expand(["resnet8-*"]) == [f"resnet8-{objective}" for objective in OBJECTIVES]
    assert expand(["*-cosine", "resnet8-cosine"]) == [
        f"{architecture}-cosine" for architecture in (*SMALL_ARCHITECTURES, "resnet50", "inception_v3")
    ]
    assert expand(["resnet8-s*.cifar10"]) == [f"resnet8-{o}.cifar10" for o in ("softmax", "sigmoid", "squared-error")]
    assert expand(["vit_tiny_patch16_224-softmax"]) == ["vit_tiny_patch16_224-softmax"]
    with pytest.raises(UnknownName, check=fields(name="resnet8-zz*")):
        expand(["resnet8-zz*"])


def test_few_epochs_shorten_the_warm_up():
    assert plan("resnet50-softmax", data="in1k", epochs=5, save_as="trial").recipe.warmup_epochs == 0.5
    assert plan("resnet50-softmax", data="in1k", epochs=90, save_as="trial").recipe.warmup_epochs == 10


def test_differences_have_paths():
    assert differences({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 4}, "e": 5}) == [
        "b.c: 2 -> 4", "b.d: 3 -> None", "e: None -> 5",
    ]  # fmt: skip


def test_every_small_architecture_has_a_short_recipe_for_cifar10():
    for architecture in ("vit-mini", "mixer-mini", "convnext-mini"):
        made = published(architecture, "softmax", "cifar10")
        assert (made.optimiser, made.learning_rate, made.weight_decay) == ("adamw", 2e-3, 0.05)
        assert published(architecture, "cosine", "digits").optimiser == "adamw"
    for architecture in ("resnet7", "resnet20", "wrn-10-2", "mobilenet-mini", "densenet-mini"):
        assert published(architecture, "softmax", "cifar10").optimiser == "sgd"
    minis = [name for name in SMALL_ARCHITECTURES if name.endswith("-mini")]
    assert all(10 <= published(name, "softmax", "cifar10").epochs <= 30 for name in minis)
    assert (published("resnet7", "simclr", "cifar10").shift, published("resnet7", "rotation", "cifar10").shift) == (0, 3)
    assert published("resnet7", "softmax", "cifar10-half") == published("resnet7", "softmax", "cifar10")


@pytest.mark.parametrize("view", ["cifar10-half", "cifar10-grey"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_view_of_a_dataset_has_the_hyperparameters_of_the_dataset(objective: str, view: str) -> None:
    part, whole = (plan(f"resnet7-{objective}", data=data) for data in (view, "cifar10"))
    assert part.hyperparameters == whole.hyperparameters
