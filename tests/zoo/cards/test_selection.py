"""Selection of models by names, shorthands, patterns, filters and named sets."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from raised import fields

from zoo.cards import card_index
from zoo.cards.card import Card, Reference, Training
from zoo.cards.selection import check_field, is_filter, is_pattern, matches, parse_filter, read_set, select, set_names
from zoo.errors import InputError, UnknownName

NAMES = [
    "resnet7-softmax.cifar10",
    "resnet7-cosine.cifar10",
    "resnet8-softmax.digits",
    "resnet8-cosine.digits",
    "resnet8-cosine.cifar10",
    "vit-mini-softmax.cifar10",
    "clip-vit-b32",
    "resnet8-cosine.digits@epoch4",
]


def card(name: str, accuracy: float, **settings: object) -> Card:
    objective = "cosine" if "cosine" in name else "softmax"
    training = Training("cifar10", "supervised", objective, settings, seed=len(settings))
    reference = [Reference("paper", "1", "row", accuracy)]
    family = name.partition("-")[0].rstrip("0123456789")
    return Card(name, "recipe", family, "net", "cifar10", "softmax", "trained", training, reference=reference)


CARDS = {
    "resnet7-softmax.cifar10": card("resnet7-softmax.cifar10", 88.0),
    "resnet7-cosine.cifar10": card("resnet7-cosine.cifar10", 90.5, tau=0.05, M=60.0),
    "vit-mini-softmax.cifar10": card("vit-mini-softmax.cifar10", 92.0, flip=True),
    "imported": None,
}


@pytest.fixture
def user_set(zoo_home: Path) -> Path:
    (zoo_home / "sets").mkdir()
    path = zoo_home / "sets" / "mine.set"
    path.write_text("# two of mine\n\nresnet8-cosine.digits  # the best\nresnet7-*\nabsent-model\n")
    return path


@pytest.mark.parametrize(
    ("selectors", "selected"),
    [
        ("clip-vit-b32", ["clip-vit-b32"]),
        ("resnet7-cosine.cifar10", ["resnet7-cosine.cifar10"]),
        ("resnet8-cosine", ["resnet8-cosine.digits"]),  # digits is the default dataset
        ("resnet7-cosine", ["resnet7-cosine.cifar10"]),  # the only model of that name
        ("resnet8-cosine.digits@epoch4", ["resnet8-cosine.digits@epoch4"]),
        ("resnet8-cosine@epoch4", ["resnet8-cosine.digits@epoch4"]),
        ("*@epoch*", ["resnet8-cosine.digits@epoch4"]),
        ("resnet8-*", ["resnet8-softmax.digits", "resnet8-cosine.digits", "resnet8-cosine.cifar10"]),
        ("*-cosine", ["resnet7-cosine.cifar10", "resnet8-cosine.digits", "resnet8-cosine.cifar10"]),
        ("resnet?-softmax.cifar10", ["resnet7-softmax.cifar10"]),
        ("resnet[78]-softmax", ["resnet7-softmax.cifar10", "resnet8-softmax.digits"]),
        ("*.digits", ["resnet8-softmax.digits", "resnet8-cosine.digits"]),
        (["clip-vit-b32", "*-softmax"], ["clip-vit-b32", NAMES[0], NAMES[2], NAMES[5]]),
        (["resnet8-cosine", "resnet8-*", "resnet8-cosine"], [NAMES[3], NAMES[2], NAMES[4]]),
    ],
)
def test_names_shorthands_and_patterns(selectors: str | list[str], selected: list[str]) -> None:
    assert select(selectors, NAMES) == selected


def test_a_shorthand_uses_the_default_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_DATASET", "cifar10")
    assert select("resnet8-cosine", NAMES) == ["resnet8-cosine.cifar10"]


def test_a_dataset_may_have_an_alias() -> None:
    assert matches("resnet50-cosine.in1k", "resnet50-cosine.imagenet")
    assert matches("resnet50-cosine.in1k", "*-cosine.imagenet-1k")
    assert not matches("resnet50-cosine.in1k", "*-cosine.cifar10")


@pytest.mark.parametrize(
    ("selectors", "selected"),
    [
        ("objective=cosine", ["resnet7-cosine.cifar10"]),
        ("objective=cosine,softmax", list(CARDS)[:3]),
        ("accuracy=88..91", ["resnet7-softmax.cifar10", "resnet7-cosine.cifar10"]),
        ("accuracy=90..", ["resnet7-cosine.cifar10", "vit-mini-softmax.cifar10"]),
        ("accuracy=..88", ["resnet7-softmax.cifar10"]),
        ("tau=1e-3..1e-1", ["resnet7-cosine.cifar10"]),
        ("tau=0.05", ["resnet7-cosine.cifar10"]),
        ("M=60", ["resnet7-cosine.cifar10"]),
        ("seed=0", ["resnet7-softmax.cifar10"]),
        ("flip=true", ["vit-mini-softmax.cifar10"]),
        (["*-softmax", "accuracy=90.."], ["vit-mini-softmax.cifar10"]),
        (["accuracy=88..91", "accuracy=90..95"], ["resnet7-cosine.cifar10"]),  # every filter holds
        (["imported", "resnet7-cosine", "family=resnet"], ["resnet7-cosine.cifar10"]),  # no card, so no match
    ],
)
def test_filters(selectors: str | list[str], selected: list[str]) -> None:
    assert select(selectors, CARDS) == selected


@pytest.mark.parametrize(
    ("selector", "field", "value"),
    [
        ("seed=3", "seed", 3),
        ("tau=0.5", "tau", 0.5),
        ("flip=True", "flip", True),
        ("accuracy=88..92.5", "accuracy", (88.0, 92.5)),
        ("accuracy=-5..", "accuracy", (-5.0, None)),
        ("tau=1e-4..1e-2", "tau", (1e-4, 1e-2)),
        ("seed=0,1", "seed", [0, 1]),
        ("objective=sigmoid+dropout", "objective", "sigmoid+dropout"),
    ],
)
def test_the_value_of_a_filter(selector: str, field: str, value: object) -> None:
    assert parse_filter(selector) == (field, value)
    assert is_filter(selector)
    assert not is_pattern(selector)


def test_invalid_filters_are_refused() -> None:
    with pytest.raises(InputError, check=fields(argument="models", expected="LOW..HIGH", found="accuracy=a..b")):
        parse_filter("accuracy=a..b")
    with pytest.raises(InputError, check=fields(argument="models", expected="FIELD=VALUE", found="accuracy")):
        parse_filter("accuracy")
    with pytest.raises(UnknownName, check=fields(kind="field", name="objectiv", suggestions=("objective",))):
        select("objectiv=cosine", CARDS)
    with pytest.raises(InputError, check=fields(argument="accuracy", expected="percent", found=(0.5, 0.9))):
        check_field("accuracy", (0.5, 0.9), {})


@pytest.mark.parametrize(
    ("selectors", "facts"),
    [
        ("resnet7-cosin", {"name": "resnet7-cosin", "suggestions": ("resnet7-cosine",)}),
        ("resnet7-cosine.cifar100", {"suggestions": ("resnet7-cosine.cifar10", "resnet8-cosine.cifar10")}),
        ("zzz", {"name": "zzz", "suggestions": ()}),
        ("zzz*", {"name": "zzz*", "problem": "stored outputs of"}),
        (["clip-vit-b32", "zzz*"], {"name": "zzz*"}),
        ([], {"kind": "stored outputs of"}),
    ],
)
def test_unknown_names_are_refused_with_similar_ones(selectors: str | list[str], facts: dict[str, object]) -> None:
    with pytest.raises(UnknownName, check=fields(**facts)):
        select(selectors, NAMES, what="stored outputs of")


def test_filters_that_no_model_passes_are_refused() -> None:
    with pytest.raises(UnknownName, check=fields(problem="'objective=sigmoid'")):
        select("objective=sigmoid", CARDS)


def test_a_valid_name_need_not_be_listed() -> None:
    def unlisted(name: str) -> bool:
        return name.startswith("timm:") or name == "resnet20-cosine.digits"

    assert select("timm:resnet18", NAMES, unlisted=unlisted) == ["timm:resnet18"]
    assert select("resnet20-cosine", NAMES, unlisted=unlisted) == ["resnet20-cosine.digits"]
    assert select("resnet7-cosine", NAMES, unlisted=unlisted) == ["resnet7-cosine.cifar10"]
    with pytest.raises(UnknownName, check=fields(name="resnet20-softmax")):
        select("resnet20-softmax", NAMES, unlisted=unlisted)


def test_the_shipped_set_names_shipped_models() -> None:
    listed, known = read_set("cifar10"), card_index.shipped()
    assert select("@cifar10", known) == [name for entry in listed for name in known if matches(name, entry)]
    assert len(select("@cifar10", known)) == len(listed) > 10
    assert "@cifar10" in set_names()


def test_a_set_of_the_user(user_set: Path) -> None:
    assert read_set("mine") == ["resnet8-cosine.digits", "resnet7-*", "absent-model"]
    assert {*set_names()} == {"@cifar10", "@cifar10-objectives", "@cifar10-variants", "@mine"}
    assert select("@mine", NAMES) == ["resnet8-cosine.digits", "resnet7-softmax.cifar10", "resnet7-cosine.cifar10"]
    assert select(["clip-vit-b32", "@mine", "resnet7-*"], NAMES)[0] == "clip-vit-b32"
    assert select(["@mine", "accuracy=90.."], CARDS) == ["resnet7-cosine.cifar10"]


def test_sets_of_sets(user_set: Path) -> None:
    outer = user_set.with_name("outer.set")
    outer.write_text("clip-vit-b32\n@mine\n")
    assert read_set("outer") == ["clip-vit-b32", *read_set("mine")]
    assert read_set("cifar10") == [*read_set("cifar10-objectives"), *read_set("cifar10-variants")]
    user_set.write_text("@outer\n")
    with pytest.raises(InputError, check=fields(where=["mine.set", "line 1"], found="@outer")):
        select("@outer", NAMES)


def test_unknown_and_invalid_sets_are_refused(user_set: Path) -> None:
    with pytest.raises(UnknownName, check=fields(name="@cifar1", suggestions=("@cifar10",), hint="@mine")):
        select("@cifar1", NAMES)
    with pytest.raises(InputError, check=fields(argument="set", found="../mine")):
        select("@../mine", NAMES)
    for line in ("@mine", "objective=cosine"):
        user_set.write_text(f"clip-vit-b32\n{line}\n")
        with pytest.raises(InputError, check=fields(where=["mine.set", "line 2"], found=line)):
            select("@mine", NAMES)


pieces = st.sampled_from(
    ["resnet", "7", "8", "-cosine", "-softmax", ".digits", ".cifar10", "*", "?", "@epoch4", "[78]", "vit"]
)
selectors_of_models = st.lists(
    st.sampled_from([*NAMES, "family=resnet", "accuracy=..", "@cifar10"]) | st.lists(pieces, min_size=1).map("".join),
    max_size=4,
)


@given(selectors=selectors_of_models, known=st.lists(st.sampled_from(NAMES), unique=True))
@example(selectors=["resnet8-*", "resnet8-cosine"], known=NAMES)
def test_selected_names_are_known_and_unique(selectors: list[str], known: list[str]) -> None:
    try:
        selected = select(selectors, {name: CARDS.get(name) for name in known})
    except UnknownName:
        return
    assert selected
    assert set(selected) <= set(known)
    assert len(set(selected)) == len(selected)
