"""Cards: every mistake is an error that names card and field, and a written card is read back equal."""

import dataclasses
import datetime
import math
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
import yaml
from raised import fields

import zoo
from zoo.cards.card import Card, EnsembleMember, Reference, SweepMember, Training, Transform, parse, read, write
from zoo.errors import InputError

DAY = datetime.date(2020, 1, 1)
FRONT = {
    "license": "mit",
    "tags": ["image-classification"],
    "zoo": {
        "schema": 1,
        "name": "tiny",
        "source": "timm",
        "id": "tiny.in1k",
        "family": "resnet",
        "architecture": "resnet18",
        "labels": "imagenet-1k",
        "link": "softmax",
        "head": "trained",
        "training": {"dataset": "imagenet-1k", "framework": "supervised", "objective": "softmax"},
        "transform": {
            "size": [3, 8, 8],
            "resize": [9],
            "interpolation": "bicubic",
            "mean": [0.5, 0.5, 0.5],
            "std": [0.5, 0.5, 0.5],
        },
        "reference": [{"paper": "P", "table": "1", "row": "r", "accuracy": 70}],
    },
}


def text(front: object, body: str = "# Tiny\n\nA card.") -> str:
    return f"---\n{yaml.safe_dump(front)}---\n\n{body}\n"


def changed(path: str, value: object = None, *, delete: bool = False) -> str:
    """Return the text of the valid card with the field at a dotted path set or deleted."""
    front = yaml.safe_load(yaml.safe_dump(FRONT))
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    block = front
    for part in parents:
        block = block[part]
    if delete:
        del block[last]
    else:
        block[last] = value
    return text(front)


def test_a_valid_card_is_read() -> None:
    card = parse(text(FRONT), "tiny.md")
    assert (card.name, card.license, card.title, card.objective) == ("tiny", "mit", "Tiny", "softmax")
    assert card.body == "# Tiny\n\nA card."
    assert card.transform == Transform((3, 8, 8), (9,), "bicubic", (0.5,) * 3, (0.5,) * 3)
    assert card.accuracy == 70.0
    assert isinstance(card.accuracy, float)


@pytest.mark.parametrize(
    ("path", "value", "place", "facts"),
    [
        ("colour", "red", "colour", {"problem": "unknown", "hint": "`zoo:`"}),
        ("zoo.colour", "red", "zoo.colour", {"problem": "unknown", "hint": "architecture, "}),
        ("zoo.training.optimiser", "sgd", "zoo.training.optimiser", {"problem": "unknown"}),
        ("zoo.reference.0.acc", 1, "zoo.reference[0].acc", {"problem": "unknown"}),
        ("zoo.license", "mit", "zoo.license", {"problem": "belong"}),
        ("zoo.schema", 2, "zoo.schema", {"expected": "1", "found": 2, "hint": "Upgrade"}),
        ("zoo.source", "keras", "zoo.source", {"expected": "timm, ", "found": "keras"}),
        ("zoo.training.framework", 3, "zoo.training.framework", {"expected": "supervised, ", "found": 3}),
        ("zoo.training.seed", "one", "zoo.training.seed", {"expected": "whole number", "found": "one"}),
        ("zoo.training.seed", True, "zoo.training.seed", {"expected": "whole number", "found": True}),
        ("zoo.training.hyperparameters", [1], "zoo.training.hyperparameters", {"expected": "mapping", "found": [1]}),
        ("zoo.training.hyperparameters", {1: 2}, "zoo.training.hyperparameters", {"expected": "text", "found": 1}),
        ("zoo.reference.0.accuracy", "70%", "zoo.reference[0].accuracy", {"expected": "number", "found": "70%"}),
        ("zoo.reference.0.accuracy", math.inf, "zoo.reference[0].accuracy", {"expected": "number", "found": math.inf}),
        ("zoo.reference.0.results", {"top5": None}, "zoo.reference[0].results.top5", {"expected": "number"}),
        ("zoo.details", {"a": [math.inf]}, "zoo.details.a[0]", {"expected": "finite", "found": math.inf}),
        ("zoo.details", {"a": DAY}, "zoo.details.a", {"expected": "text", "found": DAY}),
        ("zoo.details", {"a": b"x"}, "zoo.details.a", {"expected": "text", "found": b"x"}),
        ("zoo.training.seed", 10**400, "zoo.training.seed", {"expected": "whole number", "found": 10**400}),
        ("zoo.reference.0.accuracy", 10**400, "zoo.reference[0].accuracy", {"expected": "number", "found": 10**400}),
        ("zoo.reference", "none", "zoo.reference", {"expected": "list", "found": "none"}),
        ("zoo.training", "supervised", "zoo.training", {"expected": "mapping", "found": "supervised"}),
        ("zoo.name", 7, "zoo.name", {"expected": "text", "found": 7}),
        ("zoo.transform.size", [8, 8], "zoo.transform", {"argument": "size", "found": [8, 8]}),
        ("zoo.transform.size.1", 8.5, "zoo.transform.size[1]", {"expected": "whole number", "found": 8.5}),
        ("zoo.transform.resize", [0], "zoo.transform", {"argument": "resize", "found": [0]}),
        ("zoo.transform.std", [0, 1, 1], "zoo.transform", {"argument": "std", "found": [0, 1, 1]}),
        ("zoo.transform.mean", [0.5], "zoo.transform", {"argument": "mean", "found": [0.5]}),
        ("zoo.transform.fit", "inside", "zoo.transform", {"argument": "fit", "found": "inside"}),
        ("license", 3, "license", {"expected": "text", "found": 3}),
        ("tags", "one", "tags", {"expected": "list", "found": "one"}),
        ("zoo", [], "zoo", {"expected": "mapping", "found": []}),
    ],
)
def test_an_invalid_field_is_named_with_its_card(path: str, value: object, place: str, facts: dict[str, object]) -> None:
    with pytest.raises(InputError, check=fields(**facts)) as refused:
        parse(changed(path, value), "cards/tiny.md")
    assert refused.value.where == f"cards/tiny.md: {place}"


def test_a_value_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InputError, check=fields(where="tiny.md: zoo.reference[0].accuracy", expected="number")):
        parse(changed("zoo.reference.0.accuracy", math.nan), "tiny.md")


def test_a_field_may_have_its_former_name() -> None:
    members = [{"name": "a", "weight": 1.0, "reading": "distribution"}]
    assert parse(changed("zoo.members", members), "tiny.md").members[0].temperature_space == "distribution"


@pytest.mark.parametrize(
    "path",
    [
        "license", "tags", "zoo", "zoo.name", "zoo.source", "zoo.family", "zoo.architecture", "zoo.labels", "zoo.link",
        "zoo.head", "zoo.training", "zoo.training.dataset", "zoo.training.framework", "zoo.training.objective",
        "zoo.transform.std", "zoo.reference.0.row", "zoo.id", "zoo.transform",
    ],
)  # fmt: skip
def test_a_missing_field_is_named_with_its_card(path: str) -> None:
    with pytest.raises(InputError, check=fields(problem="missing")) as refused:
        parse(changed(path, delete=True), "tiny.md")
    assert refused.value.where == f"tiny.md: {path.replace('.0.', '[0].')}"


def test_a_card_without_a_schema_is_refused() -> None:
    with pytest.raises(InputError, check=fields(where="zoo.schema", found=None)):
        parse(changed("zoo.schema", delete=True), "tiny.md")


def test_a_duplicate_key_is_refused() -> None:
    twice = text(FRONT).replace("license: mit\n", "license: mit\nlicense: apache-2.0\n")
    with pytest.raises(InputError, check=fields(where="tiny.md", problem="'license'")):
        parse(twice, "tiny.md")
    nested = text(FRONT).replace("    dataset:", "    objective: sigmoid\n    dataset:")
    with pytest.raises(InputError, check=fields(where="tiny.md", problem="'objective'")):
        parse(nested, "tiny.md")


@pytest.mark.parametrize("broken", ["", "no front matter", "---\nlicense: mit\n", "---\n- a\n---\n", "---\na: [1\n---\n"])
def test_text_without_a_front_matter_mapping_is_refused(broken: str) -> None:
    with pytest.raises(InputError, match=r"^tiny\.md: .*front matter"):  # as its place, or as what is expected
        parse(broken, "tiny.md")


@pytest.mark.parametrize(
    ("value", "fact"),
    [
        ("9" * 5000, "limit"),
        ("2020-13-01", "month"),
        ("[" * 100_000, "line 2"),
        ('["]", ' * 5000 + "1" + "]" * 5000, "line 2"),
        ("- " * 1000, "YAML"),
        ("[&a [1], *a]", "*a"),
        ("&a [*a]", "*a"),
    ],
    ids=range(7),
)
def test_yaml_that_no_card_needs_is_refused(value: str, fact: str) -> None:
    with pytest.raises(InputError, check=fields(where="tiny.md: front matter", problem=fact)):
        parse(text(FRONT).replace("license: mit", f"license: {value}"), "tiny.md")


def test_a_card_that_is_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tiny.md").write_text(text(FRONT) + "x" * 2**20)
    with pytest.raises(InputError, check=fields(where="tiny.md", problem="large", expected="1,048,576")):
        read(tmp_path / "tiny.md")


def test_a_value_that_occurs_twice_is_written_twice() -> None:
    twice = [1, 2]
    card = dataclasses.replace(parse(text(FRONT), "tiny.md"), details={"a": twice, "b": twice})
    assert parse(write(card), "written") == card


def test_front_matter_creates_no_python_objects() -> None:
    with pytest.raises(InputError, check=fields(where="tiny.md: front matter", problem="YAML")):
        parse(text(FRONT).replace("license: mit", "license: !!python/name:os.system"), "tiny.md")


@pytest.mark.parametrize(
    "name", ["../tiny", "/etc/tiny", "C:tiny", "a\0b", "tiny/../..", "é", "nul", ".tiny", "t" * 300, ""]
)
def test_a_name_that_is_not_a_safe_file_name_is_refused(name: str) -> None:
    for broken in (changed("zoo.name", name), changed("zoo.sweep", [{"name": name}])):
        with pytest.raises(InputError, check=fields(where="tiny.md", argument="name", found=name)):
            parse(broken, "tiny.md")


def test_a_card_has_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.md"
    path.write_text(text(FRONT))
    assert read(path).path == path
    path.rename(tmp_path / "other.md")
    with pytest.raises(InputError, check=fields(where="other.md: zoo.name", expected="'other'", found="tiny")):
        read(tmp_path / "other.md")


@pytest.mark.parametrize("name", ["bytes.md", "absent.md", "folder.md"])
def test_an_unreadable_card_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "bytes.md").write_bytes(b"---\n\xff\xfe")
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(InputError, check=fields(where=name, problem="readable")):
        read(tmp_path / name)


def test_a_card_saved_on_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tiny.md"
    path.write_bytes(text(FRONT).replace("\n", "\r\n").encode())
    assert read(path) == parse(text(FRONT), "tiny.md")


words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
names = st.from_regex(r"[a-z][a-z0-9-]{2,20}", fullmatch=True).filter(lambda name: name not in ("con", "prn", "aux", "nul"))
settings = st.dictionaries(words, numbers | words | st.booleans() | st.integers(), max_size=3)
references = st.builds(
    Reference, words, words, words,
    accuracy=st.none() | numbers,
    category=st.none() | st.just("arch"),
    results=st.dictionaries(words, numbers, max_size=3),
    note=st.none() | words,
)  # fmt: skip
transforms = st.builds(
    Transform,
    size=st.tuples(st.just(3), st.integers(1, 999), st.integers(1, 999)),
    resize=st.tuples(st.integers(1, 999), st.integers(1, 999)),
    interpolation=st.sampled_from(["nearest", "bilinear", "bicubic", "box", "lanczos"]),
    mean=st.tuples(numbers, numbers, numbers),
    std=st.tuples(*3 * [st.floats(min_value=1e-6, max_value=1e6)]),
    fit=st.sampled_from(["squash", "cover", "inside"]),
)
cards = st.builds(
    Card,
    name=names,
    source=st.sampled_from(["timm", "recipe", "ensemble", "reference"]),
    family=words,
    architecture=words,
    labels=words,
    link=st.sampled_from(["softmax", "sigmoid"]),
    head=st.sampled_from(["trained", "zero-shot", "none"]),
    training=st.builds(
        Training, words, st.sampled_from(["supervised", "unknown"]), words, settings, st.none() | st.integers()
    ),
    transform=transforms,
    id=words,
    license=words,
    reference=st.lists(references, max_size=2),
    members=st.lists(st.builds(EnsembleMember, words, numbers, numbers), max_size=2),
    sweep=st.lists(st.builds(SweepMember, names, settings, reference=st.lists(references, max_size=1)), max_size=2),
    details=settings,
    title=st.just("Title"),
    body=st.builds("# Title\n\n{}".format, words),
)


@hypothesis.settings(deadline=None)  # the machine may be busy
@hypothesis.given(cards)
def test_a_written_card_is_read_back_equal(card: Card) -> None:
    assert parse(write(card), "written") == card


def test_a_card_without_a_body_gets_its_title_as_one() -> None:
    card = dataclasses.replace(parse(text(FRONT), "tiny.md"), body="", title="Tiny")
    assert parse(write(card), "written") == dataclasses.replace(card, body="# Tiny")


def test_a_sweep_expands_to_its_members() -> None:
    sweep = [
        {"name": "tiny-1", "hyperparameters": {"dropout": 0.1}, "reference": [{"paper": "P", "table": "1", "row": "a"}]},
        {"name": "tiny-2", "objective": "sigmoid", "link": "sigmoid"},
    ]
    card = parse(changed("zoo.sweep", sweep).replace("objective: softmax", "objective: softmax\n    seed: 4"), "tiny.md")
    first, second = card.expand()
    assert (first.name, first.hyperparameters, first.objective, first.seed) == ("tiny-1", {"dropout": 0.1}, "softmax", 4)
    assert [row.row for row in first.reference] == ["a"]
    assert (second.name, second.objective, second.link, second.reference) == ("tiny-2", "sigmoid", "sigmoid", [])
    assert first.sweep == second.sweep == []
    assert [*first.expand()] == [first]


def test_fields_are_matched_on_the_card_its_training_and_its_hyperparameters() -> None:
    card = parse(changed("zoo.training.hyperparameters", {"tau": 0.05}), "tiny.md")
    assert card.matches(family="resnet", objective="softmax", tau=0.05, seed=None)
    assert not card.matches(objective="cosine")
    assert not card.matches(tau=0.1)
    assert card.value("no-such-thing") is None


def test_accuracy_comes_from_a_measurement_else_the_library_else_the_paper() -> None:
    card = zoo.card("resnet50-ra")
    papers, library = (row.accuracy for row in card.reference if row.accuracy is not None)
    assert (card.accuracy, card.accuracy_by) == (library, "library")
    assert "resnet50-ra" not in zoo.list(accuracy=(papers, papers))
    measured = dataclasses.replace(card, details={"results": {"test_accuracy": 0.801}})
    assert (measured.accuracy, measured.accuracy_by) == (80.1, "measured")
    alone = dataclasses.replace(card, reference=[row for row in card.reference if row.paper != "timm"])
    assert (alone.accuracy, alone.accuracy_by) == (papers, "paper")
    nothing = dataclasses.replace(card, reference=[])
    assert (nothing.accuracy, nothing.accuracy_by) == (None, None)
    assert set(zoo.list(accuracy_by="paper")) >= {"resnet50-cosine.in1k", "bit-1k"}
