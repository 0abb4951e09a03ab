"""Messages are composed from fields, for Python and for the command line."""

import pickle

import pytest
from raised import fields

from zoo.errors import CorruptFile, InputError, UnknownName, ZooError


def test_a_message_for_an_argument() -> None:
    error = InputError(argument="steps", expected="at least 1", found=0)
    assert str(error) == "steps must be at least 1 (got 0)"
    error.options = {"steps": "--steps"}
    assert str(error) == "--steps must be at least 1 (got 0)"


def test_a_message_with_a_problem_and_an_expectation() -> None:
    error = InputError("is too large", where="a.csv", expected="at most 10 bytes", found=12)
    assert str(error) == "a.csv: is too large; expected at most 10 bytes"


def test_a_message_for_a_place() -> None:
    error = InputError("has NaN logits", where="row 3", hint="Remove the row")
    assert str(error.inside("a.csv")) == "a.csv: row 3: has NaN logits. Remove the row"
    assert (error.where, error.problem) == ("a.csv: row 3", "has NaN logits")


@pytest.mark.parametrize(
    ("hint", "python", "command_line"),
    [
        ("Pass {test_fraction=0}", "Pass test_fraction=0", "Pass --test-fraction 0"),
        ("{pretrained=False} loads none", "pretrained=False loads none", "--random loads none"),
        ("{replace=True} allows it", "replace=True allows it", "--replace allows it"),
        ("See {labels}", "See labels", "See labels"),
    ],
)
def test_a_hint_names_arguments_as_the_caller_does(hint: str, python: str, command_line: str) -> None:
    error = InputError("too few examples", hint=hint)
    assert str(error) == f"too few examples. {python}"
    error.options = {"test_fraction": "--test-fraction", "replace": "--replace", "pretrained=False": "--random"}
    assert str(error) == f"too few examples. {command_line}"


def test_an_argument_in_a_file_is_not_shown_as_an_option() -> None:
    error = InputError(argument="labels", expected="whole numbers", hint="Or pass {labels}").inside("a.npz", contents=True)
    error.options = {"labels": "--labels"}
    assert str(error) == "a.npz: labels must be whole numbers. Or pass --labels"


def test_an_unknown_name_suggests_similar_ones() -> None:
    error = UnknownName(kind="model", name="resnet50-cosin", suggestions=["resnet50-cosine"])
    assert str(error) == "unknown model 'resnet50-cosin'. Did you mean 'resnet50-cosine'?"
    assert (error.kind, error.name, error.found) == ("model", "resnet50-cosin", "resnet50-cosin")
    error = UnknownName(kind="set", name="@cifra", suggestions=["@cifar10"], hint="Known sets: @cifar10, @digits")
    assert str(error) == "unknown set '@cifra'. Did you mean '@cifar10'? Known sets: @cifar10, @digits"


@pytest.mark.parametrize("value", ["x" * 10_000, 10**5000, list(range(10_000))], ids=["text", "integer", "list"])
def test_long_values_are_cut(value: object) -> None:
    assert 20 < len(str(InputError(argument="name", expected="short", found=value))) < 300


@pytest.mark.parametrize(
    "error",
    [
        InputError(argument="k", expected="positive", found=-1, where="a", hint="Pass {k=1}"),
        UnknownName(kind="dataset", name="cifra10", suggestions=["cifar10"], where="plan.yaml"),
        CorruptFile("does not match its checksum", where="x.json"),
        ZooError("plain"),
    ],
)
def test_errors_cross_process_boundaries(error: ZooError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_the_check_of_the_tests_can_fail() -> None:
    with pytest.raises(AssertionError, match="argument is 'steps'"):
        fields(argument="replace")(InputError(argument="steps", expected="at least 1", found=0))
    with pytest.raises(AssertionError, match="hint"):
        fields(hint=["nothing"])(InputError("x", hint="something"))
