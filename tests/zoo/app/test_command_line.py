"""Properties of all commands: consistent options, model selection, escaped text and errors that name options."""

import dataclasses
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Literal, get_origin

import numpy as np
import pytest
import typer.main
from raised import fields
from typer.core import TyperGroup, TyperOption

import zoo
from zoo.app import options
from zoo.app.main import app, main
from zoo.cards import card as cards
from zoo.cards.card import EnsembleMember, Reference
from zoo.errors import InputError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs


def commands(group=None, words=()) -> dict[str, object]:
    """Return every command by its full name, such as `ensemble search`."""
    group = group or typer.main.get_command(app)
    found = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= commands(command, (*words, name))
        else:
            found[" ".join((*words, name))] = command
    return found


COMMANDS = commands()
OPTIONS = {name: [one for one in command.params if isinstance(one, TyperOption)] for name, command in COMMANDS.items()}
PANELS = [
    "Find models", "Run and import", "Compare", "Calibrate and trust", "Ensemble", "Probe embeddings", "Report and figures",
    "Train", "Storage",
]  # fmt: skip


class TestOptions:
    def test_every_command_has_json(self):
        assert all(any("--json" in one.opts for one in found) for found in OPTIONS.values())

    def test_removed_options_are_gone(self):
        removed = {
            "--into",
            "--save",
            "--as",
            "--split",
            "--side",
            "--least-r2",
            "--chart",
            "--field",
            "--to",
            "-f",
        }
        assert {
            name: removed & set(one.opts) for name, found in OPTIONS.items() for one in found if removed & set(one.opts)
        } == {}

    @pytest.mark.parametrize(
        "flag", ["--json", "--fresh", "--common", "--from", "--temperatures-from", "--arch", "--uncalibrated"]
    )
    def test_a_shared_option_has_the_same_help_everywhere(self, flag):
        looks = {(tuple(one.opts), one.help, one.metavar) for found in OPTIONS.values() for one in found if flag in one.opts}
        assert len(looks) == 1

    def test_an_option_has_the_same_type_everywhere(self):
        kinds = defaultdict(set)
        for found in OPTIONS.values():
            for one in found:
                kind = one.type_descriptor.annotation
                kinds[one.opts[0]].add(one.metavar or ("choice" if get_origin(kind) is Literal else kind.__name__))
        assert {flag: found for flag, found in kinds.items() if len(found) > 1} == {
            "--output": {"FILE", "FOLDER"},  # a folder in `zoo ship`
            "--base": {"MODEL", "MODELS"},  # in `zoo recommend`, which may start from an ensemble
            "--classes": {"str", "Path"},  # a file; for models also the name of a label set
            "--device": {"str", "list"},  # in `zoo run`, which may use several devices
        }

    def test_short_forms_mean_the_same_everywhere(self):
        meanings = defaultdict(set)
        for found in OPTIONS.values():
            for one in found:
                for short in (flag for flag in one.opts if not flag.startswith("--")):
                    meanings[short].add(next(flag for flag in one.opts if flag.startswith("--")))
        assert meanings == {
            "-o": {"--output"}, "-d": {"--data"}, "-n": {"--first"}, "-O": {"--option"}, "-y": {"--yes"},
        }  # fmt: skip
        assert not [one for found in OPTIONS.values() for one in found if "--data" in one.opts and "-d" not in one.opts]
        assert not [one for found in OPTIONS.values() for one in found if "--output" in one.opts and "-o" not in one.opts]

    def test_out_is_a_dataset(self):
        taking = {name for name, found in OPTIONS.items() for one in found if "--out" in one.opts}
        assert taking == {"ood", "report", "shift"}

    def test_an_option_takes_all_models_after_it(self, cli, store_outputs):
        for seed, name in enumerate("abcd"):
            store_outputs(name, seed, skill=0.8)
        words = ("ensemble", "search", "a", "b", "c", "d", "--base", "a", "--uncalibrated", "--json")
        apart = cli(*words, "--candidates", "b", "--candidates", "c").json
        assert cli(*words, "--candidates", "b", "c", "--steps", "10").json == apart
        assert set(apart["members"]) == {"a", "b", "c"}

    def test_commands_have_options_for_reading_outputs(self):
        having = {flag: {name for name, found in OPTIONS.items() if any(flag in one.opts for one in found)}
                  for flag in ("--fresh", "--from", "--common")}  # fmt: skip
        group = {name for name in COMMANDS if name.startswith("ensemble ")}
        assert having["--from"] == {"compare", "pairs", "report", "triage", "trust"} | group
        assert having["--common"] == having["--from"] | {"ood"}
        readers = {
            "run", "export", "calibrate", "ood", "shift", "accuracy", "recommend", "probe", "separation", "figure", "head",
        }  # fmt: skip
        assert having["--fresh"] == having["--from"] | readers

    def test_option_groups_are_passed_as_one_object(self):
        received = []

        def function(*, models: options.Models, inputs: options.Inputs, steps: options.Steps = 3) -> None:
            received.append((models, inputs, steps))

        made = typer.Typer()
        made.command()(options.command(function))
        from typer.testing import CliRunner

        result = CliRunner().invoke(made, ["a", "b", "--data", "digits", "--common", "--from", "x.npz"])
        assert result.exit_code == 0, result.output
        ((models, inputs, steps),) = received
        assert (models, inputs, steps) == (["a", "b"], options.Inputs(data="digits", common=True, files=[Path("x.npz")]), 3)


class TestHelp:
    def test_tasks_and_examples(self, cli):
        text = cli("--help").out
        positions = [text.index(f"─ {panel} ─") for panel in PANELS]
        assert positions == sorted(positions)
        assert "zoo compare resnet7-softmax.cifar10 r7x2.cifar10" in text

    @pytest.mark.parametrize("name", COMMANDS)
    def test_help_of_every_command_has_an_example_and_fits(self, cli, name):
        text = cli(*name.split(), "--help").out
        assert text.count(f"zoo {name} ") + text.count(f"zoo {name}\n") > 1  # usage and an example

    def test_examples_use_existing_commands_and_options(self):
        for name, command in COMMANDS.items():
            for line in (command.help or "").splitlines():
                if line.strip().startswith("[dim]zoo "):
                    words = line.strip().removeprefix("[dim]zoo ").removesuffix("[/dim]").split()
                    assert " ".join(words).startswith(name)
                    flags = {word for word in words if word.startswith("-")}
                    assert flags <= {flag for one in OPTIONS[name] for flag in (*one.opts, *one.secondary_opts)}


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "option"),
        [
            (["run", "timm:test_vit", "--random", "--data", "digits", "--batch-size", "0"], "--batch-size"),
            (["ensemble", "budget", "r7x2.cifar10", "resnet7-softmax.cifar10", "--max-cost", "x"], "--max-cost"),
            (["card", "new", "timm:resnet18", "--name", "mine", "--mean", "x"], "--mean"),
            (["train", "resnet8-*", "--name", "one"], "--name"),
            (["rm", "*"], "--yes"),
        ],
    )
    def test_name_the_option_in_groups_too(self, cli, words, option, store_outputs):
        store_outputs("mine", 0)
        printed = cli(*words, code=2)
        assert option in printed.err.splitlines()[-1]
        assert printed.err.splitlines()[-1].startswith("zoo: ")

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (("list", "--nonsense"), "--nonsense"),
            (("show",), "MODEL"),
            (("lst",), "list"),
            (("ensemble", "search", "a", "--steps", "many"), "--steps"),
            (("ensemble", "serach"), "search"),
        ],
    )
    def test_invalid_arguments_are_explained(self, words, text):
        result = subprocess.run([sys.executable, "-m", "zoo", *words], capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (2, "")
        assert text in result.stderr
        assert max(map(len, result.stderr.splitlines())) <= 80
        assert "\x1b" not in result.stderr  # no colours if piped

    def test_are_wrapped_on_a_terminal_and_one_line_elsewhere(self, cli, monkeypatch):
        words = ("run", "timm:test_vit", "--random", "--data", "digits", "--precision", "int8" * 30)
        assert cli(*words, code=2).err.count("\n") == 1
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "60")
        assert cli(*words, code=2).err.count("\n") > 1

    def test_debugging_shows_the_traceback(self, monkeypatch):
        monkeypatch.setattr(sys, "argv", ["zoo", "run", "no-such-model"])
        with pytest.raises(SystemExit):
            main()
        monkeypatch.setenv("ZOO_DEBUG", "1")
        with pytest.raises(InputError):
            main()

    def test_options_for_files_require_files(self, invoke):
        with pytest.raises(InputError) as raised:
            invoke("run", "clip-vit-b32", "--arch", "resnet18")
        assert raised.value.argument == "models"
        with pytest.raises(InputError) as raised:
            invoke("run", "file:x.pth", "--classes", "imagenet-1kk")
        assert raised.value.argument == "classes"
        assert raised.value.suggestions[0] == "imagenet-1k"


class TestBeforeModelsRun:
    """Invalid requests fail before any model is run."""

    def test_missing_weights_are_reported_before_missing_images(self, cli):
        printed = cli("compare", "resnet50-cosine.in1k", "resnet50-softmax.in1k", code=1)
        assert "no trained weights" in printed.err
        assert "zoo train resnet50-cosine.in1k" in printed.err

    def test_models_of_different_classes(self, invoke):
        with pytest.raises(InputError, check=fields(where="r7x2.cifar10 and resnet8-softmax.digits", problem="0 of them")):
            invoke("compare", "r7x2.cifar10", "resnet8-softmax.digits", "--data", "digits:test")

    @pytest.mark.parametrize(
        ("words", "where", "problem"),
        [
            (("run", "https://example.org/x.pth"), "example.org", "address"),
            (("pairs", "/nowhere/x", "y"), "/nowhere/x", "no such file or folder"),
            (("pairs", "--from", "/nowhere/x"), "/nowhere/x", "no such file or folder"),
            (("import", "nowhere/"), "nowhere", "no such file or folder"),
            (("import", "https://example.org/x.npz"), "example.org", "address"),
            (("predict", "r7x2.cifar10", "https://example.org/x.jpg"), "example.org", "address"),
            (("run", "r7x2.cifar10", "--data", "folder:/nowhere"), "/nowhere", "folder"),
        ],
    )
    def test_missing_paths_and_urls(self, invoke, words, where, problem):
        with pytest.raises(InputError, check=fields(where=where, problem=problem)):
            invoke(*words)

    def test_options_about_files_are_passed_to_the_model(self, invoke, tmp_path):
        (tmp_path / "mine.onnx").write_bytes(b"")
        with pytest.raises(InputError, check=fields(argument="mean", found="x")):
            invoke("run", f"onnx:{tmp_path / 'mine.onnx'}", "--mean", "x", "--data", "digits")


class TestSelection:
    """Every command selects models by the same rules."""

    COSINE = ("resnet20-cosine.digits", "resnet8-cosine.digits")
    SELECTORS = (
        ["*-cosine"],
        ["resnet20-cosine", "resnet8-cosine"],
        ["objective=cosine"],
        ["@two"],
        ["@all", "objective=cosine"],
    )

    @pytest.fixture
    def stored(self, store_outputs, zoo_home, tmp_path):
        names = [*self.COSINE, "resnet8-softmax.digits"]
        for seed, name in enumerate(names):
            store_outputs(name, seed, data="my-set", card=zoo.card(name))
        (zoo_home / "sets").mkdir()
        (zoo_home / "sets/two.set").write_text("resnet20-cosine\nresnet8-cosine.digits\n")
        (zoo_home / "sets/all.set").write_text("*.digits  # all of them\n")
        return tmp_path

    @pytest.mark.parametrize("selectors", SELECTORS, ids=" ".join)
    @pytest.mark.parametrize(
        ("words", "models"),
        [
            (("list",), lambda found: [row["name"] for row in found]),
            (("run",), lambda found: [row["model"] for row in found]),
            (("outputs",), lambda found: [row["model"] for row in found]),
            (("compare", "--resamples", "10"), lambda found: [found["first"], found["second"]]),
            (("calibrate",), lambda found: [row["model"] for row in found]),
            (("pairs",), lambda found: [row["model"] for row in found]),
            (("triage",), lambda found: [name for group in found["groups"].values() for name in group]),
            (("ensemble", "search"), lambda found: found["members"]),
            (("ensemble", "combine"), lambda found: found["members"]),
            (("ensemble", "partners"), lambda found: [row["base"] for row in found["partners"]]),
            (("export", "-o", "x.safetensors"), lambda found: [model["name"] for model in found["models"]]),
            (("report",), lambda found: [row["model"] for row in found["models"]]),
            (("rm", "--yes"), lambda found: [row["model"] for row in found]),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    @pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")
    def test_every_command_selects_the_same_models(self, cli, stored, monkeypatch, words, models, selectors):
        monkeypatch.chdir(stored)
        found = cli(*words, *selectors, "--data", "my-set", "--json").json
        assert sorted(models(found)) == list(self.COSINE)

    def test_shipped_sets(self, cli):
        expected = zoo.list(["@cifar10", "objective=cosine"])
        assert len(expected) > 1
        for words in (("list",), ("run",)):
            found = cli(*words, "@cifar10", "objective=cosine", "--json").json
            assert sorted(row.get("name") or row["model"] for row in found) == expected

    def test_datasets_are_inferred(self, cli, stored):
        assert {row["dataset"] for row in cli("run", "r7x2.cifar10", "--json").json} == {"cifar10:test"}


NASTY = "\x1b[31m[bold red]x[/]\nzoo: \u202eok"  # an escape sequence, Rich markup, a line break, reversed text
NAMES = tuple(f"m{number}\u202e\x9b31m" for number in range(4))  # what the name of stored outputs may contain
PAIR = NAMES[:2]
DATA = ("-d", "my-set")


class TestUntrustedText:
    """Control characters in cards and files are never printed to the terminal."""

    @pytest.fixture
    def home(self, zoo_home):
        rng = np.random.default_rng(0)
        labels = np.arange(120) % 3
        card = zoo.card("resnet8-cosine.digits")
        training = dataclasses.replace(
            card.training, dataset=NASTY, objective=NASTY, hyperparameters={"a": NASTY, **card.training.hyperparameters}
        )
        card = dataclasses.replace(
            card, title=NASTY, body=f"# {NASTY}\n\n{NASTY}\n\n```\n{NASTY}\n```\n", license=NASTY, architecture=NASTY,
            family=NASTY, training=training, reference=[Reference(paper=NASTY, table=NASTY, row=NASTY, accuracy=50.0)],
        )  # fmt: skip
        for name in NAMES:
            logits = rng.normal(size=(120, 3)) + 2 * np.eye(3)[labels]
            store.save(
                Outputs.from_arrays(
                    name, logits=logits, labels=labels, classes=[f"{k}{NASTY}" for k in range(3)],
                    ids=[f"{row}{NASTY}" for row in range(120)], dataset="my-set", card=card,
                    embeddings=rng.normal(size=(120, 4)),
                )
            )  # fmt: skip
        (zoo_home / "cards").mkdir()
        for name, members in (("mine", []), ("together", [EnsembleMember(NAMES[0], 0.5, 1.0, "logits")])):
            own = dataclasses.replace(card, name=name, members=members, source="ensemble" if members else card.source)
            (zoo_home / "cards" / f"{name}.md").write_text(cards.write(own))
        return zoo_home

    WORDS = (
        ("list",), ("list", "mine"), ("show", "mine"), ("show", "mine", "--card"), ("show", "together"), ("show", NAMES[0]),
        ("show", NASTY), ("datasets",), ("datasets", "my-set"), ("datasets", "my-set", "--list-ids"), ("datasets", NASTY),
        ("outputs",), ("outputs", NAMES[0]), ("verify",), ("run", *NAMES, *DATA), ("run", NASTY), ("compare", *PAIR, *DATA),
        ("calibrate", *NAMES, *DATA), ("trust", *PAIR, "--ensemble", *DATA), ("triage", *NAMES, *DATA),
        ("ood", *PAIR, "--in", "my-set[:60]", "--out", "my-set[60:]"), ("pairs", *NAMES, "--tree", *DATA),
        ("pairs", *NAMES, "--long", *DATA), ("pairs", *NAMES, "--measure", NASTY, *DATA),
        ("accuracy", *NAMES, "--in", "my-set[:60]", "--unlabelled", "my-set[60:]"),
        ("shift", *NAMES, "--in", "my-set[:60]", "--out", "my-set[60:]"), ("ensemble", "search", *NAMES, *DATA),
        ("ensemble", "combine", *NAMES, *DATA),
        ("ensemble", "partners", *NAMES, *DATA), ("ensemble", "combine", "--from", NASTY),
        ("ensemble", "budget", *NAMES, *DATA), ("ensemble", "cascade", *NAMES, *DATA), ("similarity", *PAIR, *DATA),
        ("separation", *NAMES, *DATA), ("probe", *NAMES, *DATA), ("probe", *NAMES, *DATA, "--method", "stack"),
        ("predict", "mine", NASTY), ("export", *NAMES, *DATA, "-o", f"{NASTY}.csv"),
        ("export", NAMES[0], *DATA, "-o", "out.csv"), ("import", NASTY), ("rm", NAMES[0], "--yes"),
        ("report", *NAMES, *DATA, "-o", "r.md"), ("train", NASTY), ("ship", NASTY, "-o", "."), ("head", "mine", "-d", NASTY),
        ("figure", NASTY), ("demo", NASTY), ("card", "new", NASTY, "--name", NASTY),
        ("recommend", "--base", NAMES[0], "--candidates", NASTY, "mine", *DATA),
    )  # fmt: skip

    def test_every_command_is_covered(self):
        assert {name for name in COMMANDS for words in self.WORDS if " ".join(words).startswith(name)} == set(COMMANDS)

    @pytest.mark.parametrize("words", WORDS, ids=lambda words: " ".join(words[:2]).encode("ascii", "ignore").decode())
    @pytest.mark.filterwarnings("ignore")
    def test_control_characters_are_escaped(self, home, tmp_path, monkeypatch, capsys, words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["zoo", *words])
        with pytest.raises(SystemExit):
            main()
        captured = capsys.readouterr()
        assert "unexpected" not in captured.err
        assert not {"\x1b", "\x9b", "\u202e", "\r"} & set(captured.out + captured.err)
        assert "\nzoo: ok" not in captured.out

    @pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
    def test_json(self, home, encoding):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        for words in (("outputs",), ("show", "mine"), ("pairs", *NAMES, *DATA), ("list",)):
            result = subprocess.run([sys.executable, "-m", "zoo", *words, "--json"], capture_output=True, env=environment)
            assert result.returncode == 0, result.stderr
            assert b"\x1b" not in result.stdout
            assert json.loads(result.stdout.decode(encoding))
