"""`zoo train`: names, patterns, seeds, settings, skipped models and errors."""

import pytest
from raised import fields

from zoo.app.train import _setting
from zoo.errors import InputError


def test_seeds_and_skipped_models(cli, zoo_home):
    words = ("train", "resnet8-cosine", "--seeds", "2")
    rows = cli(*words, "--json").json
    assert [(row["name"], row["trained"]) for row in rows] == [
        ("resnet8-cosine.digits", True), ("resnet8-cosine-s1.digits", True)
    ]  # fmt: skip
    accuracy = rows[0]["results"]["test_accuracy"]
    second = cli(*words)
    assert "resnet8-cosine-s1.digits: skipped" in second.err
    assert f"{100 * accuracy:.1f}%" in second.out


def test_other_settings_are_saved_under_another_name(cli, invoke):
    words = ("train", "resnet8-cosine", "--data", "digits[:64]", "--name", "mine")
    rows = cli(*words, "--epochs", "1", "--set", "tau=0.2", "--json").json
    assert [row["name"] for row in rows] == ["mine"]
    shown = " ".join(invoke("show", "mine").stdout.split())
    assert "weights local" in shown
    assert "--set tau=0.2 --set epochs=1" in shown
    assert "mine: skipped" in cli(*words, "--set", "tau=0.2", "--set", "epochs=1").err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["resnet8-cosin"], {}),
        (["resnet8-softmax", "resnet8-cosine", "--set", "taw=1"], {}),
        (["resnet8-cosine", "--set", "tau"], {"argument": "settings", "found": "tau"}),
        (["resnet8-cosine", "--set", "tau=-1"], {}),
        (["resnet8-cosine", "--set", "seed=2"], {"argument": "settings", "hint": "resnet8-cosine-s2"}),
        (["resnet8-cosine", "--set", "flip=maybe"], {}),
        (["resnet8-*", "--name", "one"], {"argument": "save_as", "problem": "9 models"}),
        (["resnet8-*z"], {}),
        (["resnet8-cosine", "--data", "nowhere"], {}),
        (["resnet8-cosine", "--set", "tau=0.3"], {}),
        ([], {"argument": "models"}),
        (["resnet8-cosine", "--plan", "plan.yaml"], {"argument": "models"}),
        (["--plan", "plan.yaml", "--epochs", "2"], {"argument": "epochs"}),
        (["resnet8-cosine", "--search", "tau=1,2", "--restart"], {"argument": "restart"}),
        (["resnet8-cosine", "--search", "tau=a,b"], {"argument": "search", "found": "tau=a,b"}),
        (["resnet8-cosine", "--no-fine"], {"argument": "fine"}),
    ],
)
def test_errors_are_reported_before_training(zoo_home, invoke, arguments, expected):
    with pytest.raises(InputError, check=fields(**expected)):
        invoke("train", *arguments)
    assert not (zoo_home / "weights").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e-4", 1e-4), ("a=0.5", 0.5), ("a=yes", True), ("a=False", False), ("a=cosine", "cosine")],
)
def test_settings_are_numbers_booleans_or_text(text, value):
    name, parsed = _setting(text)
    assert (name, parsed, type(parsed)) == ("a", value, type(value))


def test_a_search_has_a_fine_stage_by_default(cli):
    words = ("train", "resnet8-cosine", "--data", "digits[:140]", "--epochs", "1", "--search", "tau=0.1,0.2,0.4", "--json")
    coarse, whole = ({trial["stage"] for trial in cli(*words, *more).json[0]["trials"]} for more in (["--no-fine"], []))
    assert "fine" not in coarse
    assert whole == {*coarse, "fine"}
