"""Plan files: many models to train, and how far each of them is."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raised import fields
from typer.testing import CliRunner, Result

from zoo.app.main import app
from zoo.errors import InputError, UnknownName
from zoo.training import campaign, plan

PLAN = """
data: digits
models:
- resnet8-softmax
- {name: resnet8-cosine, seeds: 2}
- {name: resnet8-softmax, set: {mixup: 0.2, epochs: 1}, as: softmax-mixed}
"""


def command(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def written(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def test_models_are_in_the_order_of_the_file(tmp_path: Path, zoo_home: Path) -> None:
    entries = campaign.read(written(tmp_path))
    names = ["resnet8-softmax.digits", "resnet8-cosine.digits", "resnet8-cosine-s1.digits", "softmax-mixed"]
    assert [entry.name for entry in entries] == names
    assert {entry.state for entry in entries} == {"left"}
    begun = zoo_home / "weights" / names[1]
    begun.mkdir(parents=True)
    (begun / "checkpoint.safetensors").write_bytes(b"")
    assert [entry.state for entry in entries] == ["left", "begun", "left", "left"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"expected": "models"}),
        ("- resnet8-softmax", {"expected": "models", "found": ["resnet8-softmax"]}),
        ("models: resnet8-softmax", {"where": "models", "expected": "a list", "found": "resnet8-softmax"}),
        ("models: []", {"where": "models", "expected": "from 1", "found": 0}),
        ("data: digits", {"where": "models", "problem": "missing"}),
        ("models: [resnet8-softmax]\nepochs: 3", {"where": "epochs", "problem": "unknown"}),
        ("models: [resnet8-softmax]\ndata: [digits]", {"where": "data", "found": ["digits"]}),
        ("models: [3]", {"where": "models[0]", "expected": "a mapping", "found": 3}),
        ("models: [null]", {"where": "models[0]", "expected": "a mapping"}),
        ("models: [{names: x}]", {"where": "models[0].names", "problem": "unknown"}),
        ("models: [{data: digits}]", {"where": "models[0].name", "problem": "missing"}),
        ("models: [{name: 8}]", {"where": "models[0].name", "expected": "text", "found": 8}),
        ("models: [{name: resnet8-softmax, as: 2024-01-01}]", {"where": "models[0].as", "expected": "text"}),
        ("models: [{name: resnet8-softmax, save_as: a}]", {"where": "models[0].save_as", "problem": "unknown"}),
        ("models: [{name: resnet8-softmax, as: a, save_as: b}]", {"where": "models[0].save_as", "problem": "unknown"}),
        ("models: [resnet8-softmax, resnet8-softmax.digits]", {"where": "models[1]", "problem": "resnet8-softmax.digits"}),
        ("models: [{name: resnet8-softmax, seeds: 2, as: a}]", {"where": "models[0].as", "problem": "2 seeds"}),
        (
            "models: [{name: resnet8-softmax, set: {epochs: 1}, as: a}, {name: resnet8-softmax, set: {epochs: 2}, as: A}]",
            {"where": "models[1]", "problem": "named a", "hint": "`as`"},
        ),
        ("models: [resnet8-sofmax]", {"where": "models[0]", "suggestions": ("resnet8-softmax",)}),
        ("models: [{name: resnet8-softmax, data: 'nowhere:'}]", {"where": "models[0]"}),
        ("models: [", {"problem": "not valid YAML"}),
        ("models: [{name: resnet8-softmax, seeds: 2024-13-45}]", {"problem": "not valid YAML"}),
        (f"models: [{'9' * 5000}]", {"problem": "not valid YAML"}),
        ("models: [{name: resnet8-softmax, name: resnet8-cosine}]", {"problem": "name"}),
        ("models: [resnet8-softmax]\nmodels: [resnet8-cosine]", {"problem": "models"}),
        (f"models: {'[' * 5000}{']' * 5000}", {"problem": "not valid YAML"}),
        ("models: !!python/object/apply:os.system [ls]", {"problem": "not valid YAML"}),
    ],
)
def test_an_invalid_plan_is_refused_before_anything_is_trained(
    tmp_path: Path, zoo_home: Path, text: str, expected: dict[str, object]
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, check=fields(**expected)) as raised:
        campaign.read(path)
    assert str(path) in str(raised.value)


def test_fields_of_a_plan_are_not_shown_as_options(tmp_path: Path, zoo_home: Path) -> None:
    for field, name in (("set: {epochs: -3}", "epochs"), ("as: ../x", "as")):
        path = written(tmp_path, f"data: digits\nmodels: [{{name: resnet8-softmax, {field}}}]")
        printed = command("train", "--plan", str(path), "--status")
        assert f"{name} must be" in str(printed.exception)
        assert "--" not in str(printed.exception)


@pytest.mark.parametrize("seeds", ["0", "-1", "1001", "1000000000", "1" + 50 * "0", "two", "1.5", "true", "[1]"])
def test_the_number_of_seeds_is_bounded(tmp_path: Path, zoo_home: Path, seeds: str) -> None:
    with pytest.raises(InputError, check=fields(where="models[0].seeds")):
        campaign.read(written(tmp_path, f"models: [{{name: resnet8-softmax, seeds: {seeds}}}]"))


def test_the_number_of_models_is_bounded_with_every_seed_counted(tmp_path: Path, zoo_home: Path) -> None:
    items = ", ".join(["{name: resnet8-softmax, seeds: 1000}"] * 6)
    with pytest.raises(InputError, check=fields(where="models", found=6000)):
        campaign.read(written(tmp_path, f"models: [{items}]"))


@pytest.mark.parametrize("key", ["name", "data", "seed", "save_as", "home", "restart", "progress", "measure_every", "wings"])
def test_set_changes_settings_only(tmp_path: Path, zoo_home: Path, key: str) -> None:
    text = f"models: [{{name: resnet8-softmax, set: {{{key}: resnet8-cosine}}, as: mine}}]"
    with pytest.raises(UnknownName, check=fields(kind="setting", name=key, where="models[0]")):
        campaign.read(written(tmp_path, text))


@pytest.mark.parametrize(
    "value", ["null", "[1]", "{a: 1}", ".nan", ".inf", "2024-01-01", "!!binary aGk=", "!!set {a}", "'x'"]
)
def test_a_setting_of_the_wrong_type_is_refused(tmp_path: Path, zoo_home: Path, value: str) -> None:
    text = f"models: [{{name: resnet8-cosine, set: {{KEY: {value}}}, as: mine}}]"
    for key in ("epochs", "tau", "flip", "schedule"):
        with pytest.raises(InputError, match="models"):
            campaign.read(written(tmp_path, text.replace("KEY", key)))


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path, zoo_home: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)), "models: *a29"]
    with pytest.raises(InputError, check=fields(problem="a0")):
        campaign.read(written(tmp_path, "\n".join(lines)))


def test_a_plan_that_is_not_a_text_of_moderate_size_is_refused(tmp_path: Path, zoo_home: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"models: [resnet8-softmax] #" + b"x" * campaign.MAX_BYTES)
    with pytest.raises(InputError, check=fields(where="plan.yaml", expected=f"{campaign.MAX_BYTES:,}")):
        campaign.read(path)
    path.write_bytes(b"models: [\xff]")
    for unreadable in (path, tmp_path, tmp_path / "missing.yaml", Path("/dev/zero")):
        with pytest.raises(InputError, check=fields(where=str(unreadable))):
            campaign.read(unreadable)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.dates(), st.binary(max_size=4),
    st.sampled_from(["resnet8-softmax", "resnet8-cosine-s3", "digits", "digits[:9]", "", "*", "~", 10**120, "\x1b[31m"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SCALARS, inner, max_size=2), max_leaves=4
)
ITEMS = VALUES | st.fixed_dictionaries(
    {"name": st.just("resnet8-softmax") | VALUES},
    optional={
        "data": SCALARS, "seeds": st.integers(-1, 3) | VALUES, "as": SCALARS,
        "set": st.dictionaries(st.sampled_from(["epochs", "flip", "schedule", "teacher"]) | SCALARS, VALUES, max_size=2),
    },
)  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.fixed_dictionaries({"models": st.lists(ITEMS, max_size=2)}, optional={"data": SCALARS}) | VALUES)
def test_any_yaml_is_a_plan_or_an_error_that_names_the_file(tmp_path: Path, zoo_home: Path, value: object) -> None:
    path = written(tmp_path, yaml.safe_dump(value, allow_unicode=True))
    entries, message = [], ""
    try:
        entries = campaign.read(path)
    except InputError as error:
        message = str(error)
    assert entries or str(path) in message
    assert len(message) < 3000
    assert all(plan(**entry.call).name == entry.name for entry in entries)


def test_a_long_unknown_field_is_cut_in_the_message(tmp_path: Path, zoo_home: Path) -> None:
    with pytest.raises(InputError, check=fields(where="models[0].xxx")) as raised:
        campaign.read(written(tmp_path, f"models: [{{{'x' * 900}: 1}}]"))
    assert len(str(raised.value)) < 600


def test_settings_reach_the_plan(tmp_path: Path, zoo_home: Path) -> None:
    text = "models: [{name: resnet8-cosine, data: 'digits[:200]', set: {tau: 0.3, flip: true, schedule: linear}, as: mine}]"
    (entry,) = campaign.read(written(tmp_path, text))
    planned = plan(**entry.call)
    assert (entry.name, planned.data, planned.hyperparameters) == ("mine", "digits:train[:200]", {"tau": 0.3})
    assert (planned.recipe.flip, planned.recipe.schedule) == (True, "linear")


def test_the_command_trains_the_models_that_are_not_trained_yet(tmp_path: Path, zoo_home: Path) -> None:
    path = written(tmp_path, "data: digits\nmodels: [{name: resnet8-softmax, set: {epochs: 1}, as: quick}]")
    words = ("train", "--plan", str(path), "--json")
    assert json.loads(command(*words, "--status").stdout) == [{"model": "quick", "state": "left"}]
    assert json.loads(command(*words).stdout) == [{"model": "quick", "state": "trained"}]
    file = zoo_home / "weights" / "quick" / "model.safetensors"
    before = file.stat().st_mtime_ns
    assert json.loads(command(*words).stdout) == [{"model": "quick", "state": "trained"}]
    assert file.stat().st_mtime_ns == before
    for wrong in (["--plan", str(path), "--data", "digits"], []):
        assert isinstance(command("train", *wrong).exception, InputError)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_other_models_are_trained_after_one_diverges(tmp_path: Path, zoo_home: Path, jobs: str) -> None:
    wild = "{name: resnet8-squared-error, set: {epochs: 1, learning_rate: 1.0e+9, warmup_epochs: 0}, as: wild}"
    path = written(tmp_path, f"data: digits\nmodels: [{wild}, {{name: resnet8-softmax, set: {{epochs: 1}}, as: tame}}]")
    found = command("train", "--plan", str(path), "--jobs", jobs, "--json")
    assert found.exit_code == 1
    assert "wild" in str(found.exception)
    assert "tame" not in str(found.exception)
    assert "wild: epoch 1" in found.stderr
    assert {row["model"]: row["state"] for row in json.loads(found.stdout)}["tame"] == "trained"


@pytest.mark.slow
def test_a_plan_killed_at_random_ends_in_the_same_weights(tmp_path: Path) -> None:
    models = "\n".join(f"- {{name: resnet8-{one}, set: {{epochs: 150}}, as: {one}}}" for one in ("softmax", "cosine"))
    path = written(tmp_path, f"data: digits\nmodels:\n{models}")
    words = [sys.executable, "-m", "zoo", "train", "--plan", str(path), "--jobs", "2", "--json"]

    def environment(home: str) -> dict[str, str]:
        return {**os.environ, "OMP_NUM_THREADS": "1", "ZOO_HOME": str(tmp_path / home)}

    def weights(home: str) -> dict[str, str]:
        files = (tmp_path / home / "weights").glob("*/model.safetensors")
        return {file.parent.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def half_trained() -> list[Path]:
        return list((tmp_path / "killed").glob("weights/*/checkpoint.safetensors"))

    rng = random.Random(0)
    for kill in range(3):
        started = subprocess.Popen(words, env=environment("killed"), stdout=subprocess.DEVNULL, start_new_session=True)
        while not half_trained():
            assert started.poll() is None, "trained before the state was written once: train for longer"
            time.sleep(0.1)
        time.sleep(rng.uniform(0, 20) if kill else 0)
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    for home in ("killed", "whole"):
        subprocess.run(words, env=environment(home), check=True, stdout=subprocess.DEVNULL)
    assert weights("killed") == weights("whole")
    assert sorted(weights("whole")) == ["cosine", "softmax"]
