"""`zoo train`: names, patterns, seeds and settings; what it prints, skips and refuses."""

import json

import pytest
from typer.testing import CliRunner

from zoo.app.main import app
from zoo.app.training import _setting
from zoo.errors import InputError


def run(*arguments: str):
    return CliRunner().invoke(app, ["train", *arguments], catch_exceptions=True)


def test_seeds_settings_and_skipping(zoo_home):
    command = ["resnet8-cosine", "--seeds", "2"]
    first = run(*command, "--json")
    assert first.exit_code == 0, first.output
    printed = json.loads(first.stdout)
    assert [(line["name"], line["trained"]) for line in printed] == [
        ("resnet8-cosine.digits", True), ("resnet8-cosine-s1.digits", True)
    ]  # fmt: skip
    assert 0 <= printed[0]["results"]["test_accuracy"] <= 1
    second = run(*command)
    assert "resnet8-cosine-s1.digits: is there already, left alone" in second.stderr
    assert "test acc." in second.stdout
    assert max(len(line) for line in second.stdout.splitlines()) <= 80


def test_a_name_of_its_own_for_settings_of_its_own():
    result = run("resnet8-cosine", "--data", "digits[:64]", "--epochs", "1", "--set", "tau=0.2", "--as", "mine", "--json")
    assert result.exit_code == 0, result.output
    assert [line["name"] for line in json.loads(result.stdout)] == ["mine"]
    shown = CliRunner().invoke(app, ["show", "mine"]).stdout
    assert "weights      here" in shown
    assert "trained here" in shown
    assert "--set tau=0.2 --set epochs=1 --as mine" in " ".join(shown.split())
    again = run("resnet8-cosine", "--data", "digits[:64]", "--set", "tau=0.2", "--set", "epochs=1", "--as", "mine")
    assert again.exit_code == 0, again.output
    assert "mine: is there already, left alone" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resnet8-cosin"], "did you mean resnet8-cosine"),
        (["resnet8-softmax", "resnet8-cosine", "--set", "taw=1"], "unknown hyper-parameter 'taw'"),
        (["resnet8-cosine", "--set", "tau"], "expected NAME=VALUE"),
        (["resnet8-cosine", "--set", "tau=-1"], "tau is -1"),
        (["resnet8-cosine", "--set", "seed=2"], "give it in the name, such as resnet8-cosine-s2"),
        (["resnet8-cosine", "--set", "flip=maybe"], "flip is 'maybe', expected yes or no"),
        (["resnet8-*", "--as", "one"], "one name for 9 models"),
        (["resnet8-*z"], "matches no recipe"),
        (["resnet8-cosine", "--data", "nowhere"], "unknown dataset"),
        (["resnet8-cosine", "--set", "tau=0.3"], "resnet8-cosine.digits: is one recipe, and tau=0.3 is another"),
    ],
)
def test_mistakes_are_found_before_anything_is_trained(zoo_home, arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (zoo_home / "weights").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e-4", 1e-4), ("a=0.5", 0.5), ("a=yes", True), ("a=False", False), ("a=cosine", "cosine")],
)
def test_settings_are_numbers_answers_or_words(text, value):
    name, parsed = _setting(text)
    assert (name, parsed, type(parsed)) == ("a", value, type(value))


def test_help_has_an_example():
    result = run("--help")
    assert "zoo train 'resnet8-*' --data digits --seeds 2" in result.stdout
