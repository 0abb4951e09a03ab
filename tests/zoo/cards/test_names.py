"""Names: valid as file names on every system, similar names, and the parts of recipe names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised import fields

from zoo.cards.names import (
    RecipeName,
    bare,
    check_safe,
    check_user_name,
    dataset_name,
    full,
    parse_recipe,
    similar,
    unknown,
)
from zoo.cards.recipe_names import OBJECTIVES, SMALL_ARCHITECTURES
from zoo.errors import InputError

UNSAFE = [
    "..", "../x", "a/../b", "/etc/passwd", "a/b", "a\\b", "C:\\x", "C:x", "a\0b", "", ".hidden", "-rf", "a b", "a..b",
    "x" * 300, "é" * 70, "nul", "CON", "com1.md", "a\nb", "a.", "~", "$HOME", "a*",
]  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, check=fields(argument="name", found=name)):
        check_safe(name)


@pytest.mark.parametrize(
    "name", ["resnet50-cosine", "resnet20-sigmoid+dropout-s3.cifar10", "vit-b16", "resnet101x0.5-ra", "A_1"]
)
def test_usual_names_are_safe(name: str) -> None:
    assert check_safe(name) == name


@given(st.text(max_size=40))
def test_a_safe_name_is_one_part_of_a_path(name: str) -> None:
    from pathlib import PurePosixPath, PureWindowsPath

    try:
        check_safe(name)
    except InputError:
        return
    for kind in (PurePosixPath, PureWindowsPath):
        path = kind("home") / name
        assert path.parts == ("home", name)
        assert not path.is_absolute()


@pytest.mark.parametrize(
    ("name", "suggestions"),
    [("resnet50-cosin", ["resnet50-cosine"]), ("CLIP-ViT-B32", ["clip-vit-b32"]), ("zzz", []), ("r7", ["r7.cifar10"])],
)
def test_similar_names(name: str, suggestions: list[str]) -> None:
    assert similar(name, ["resnet50-cosine", "resnet20-cosine", "clip-vit-b32", "r7.cifar10"]) == suggestions


def test_the_error_about_an_unknown_name_suggests_similar_ones_and_lists_all() -> None:
    error = unknown("layer", "blok1", ["block1", "stem"], list_known=True, where="model", hint="Choose one")
    assert fields(kind="layer", name="blok1", where="model", hint=["'block1'", "Known: block1, stem", "Choose one"])(error)
    assert error.suggestions == ("block1",)
    assert "stem" not in str(unknown("layer", "blok1", ["block1", "stem"]))


@given(
    st.sampled_from([*SMALL_ARCHITECTURES, "resnet50", "inception_v3"]),
    st.lists(st.sampled_from(OBJECTIVES), min_size=1, max_size=3, unique=True),
    st.integers(0, 99),
    st.sampled_from([None, "cifar10", "in1k", "fashion-mnist"]),
)
def test_a_recipe_name_is_parsed_back_to_its_parts(
    architecture: str, objectives: list[str], seed: int, dataset: str | None
) -> None:
    recipe = RecipeName(architecture, "+".join(objectives), seed, dataset)
    assert parse_recipe(str(recipe)) == recipe
    whole = full(str(recipe), "digits")
    assert parse_recipe(whole) == RecipeName(architecture, recipe.objective, seed, dataset or "digits")
    assert full(whole, "cifar100") == whole  # a full name does not depend on the default
    assert bare(whole) == bare(str(recipe)) == str(RecipeName(architecture, recipe.objective, seed))


@pytest.mark.parametrize("name", ["resnet50", "resnet50-a1", "cosine", "-cosine", "resnet8-cosine-s", "resnet8-cosine-x"])
def test_other_names_are_not_recipes(name: str) -> None:
    assert parse_recipe(name) is None
    assert (full(name, "digits"), bare(name)) == (name, name)


@pytest.mark.parametrize(
    ("typed", "default", "meant"),
    [
        ("resnet50-cosine", "digits", "resnet50-cosine.digits"),
        ("resnet50-cosine", "in1k", "resnet50-cosine.in1k"),
        ("resnet50-cosine", "imagenet-1k", "resnet50-cosine.in1k"),
        ("resnet50-cosine.imagenet", "digits", "resnet50-cosine.in1k"),
        ("resnet50-cosine-s0", "digits", "resnet50-cosine.digits"),
        ("resnet50-cosine-s03.imagenet-1k", "digits", "resnet50-cosine-s3.in1k"),
        ("wrn-16-8-sigmoid+dropout", "cifar10:test[:100]", "wrn-16-8-sigmoid+dropout.cifar10"),
        ("resnet8-cosine", "folder:/data/My Birds/", "resnet8-cosine.my-birds"),
        ("clip-vit-b32", "digits", "clip-vit-b32"),
        ("timm:resnet50-cosine", "digits", "timm:resnet50-cosine"),
        ("file:/tmp/resnet8-cosine", "digits", "file:/tmp/resnet8-cosine"),
    ],
)
def test_the_full_name_of_a_typed_one(typed: str, default: str, meant: str) -> None:
    assert full(typed, default) == meant
    assert full(meant, "fashion-mnist") == meant


@pytest.mark.parametrize("name", ["resnet50-cosine", "my-own-dropout", "mine-softmax-s3.lamps"])
def test_a_user_may_not_use_the_name_of_a_recipe(name: str) -> None:
    with pytest.raises(InputError, check=fields(argument="name", expected="recipe", found=name)):
        check_user_name(name)


@pytest.mark.parametrize(
    ("spec", "name"),
    [("digits", "digits"), ("in1k:val", "in1k"), ("parquet:/a/b.parquet[3:9]", "b"), ("hf:me/Cats:train[:5]", "cats"),
     ("folder:/", "folder")],
)  # fmt: skip
def test_the_dataset_name_of_a_spec(spec: str, name: str) -> None:
    assert dataset_name(spec) == name
