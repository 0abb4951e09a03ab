"""Unusual but valid outputs: each command prints numbers, or rejects the outputs with a reason."""

import numpy as np
import pytest

from zoo.app import ood, trust
from zoo.outputs import store
from zoo.outputs.outputs import Outputs

NAMES = [f"mine-{number}" for number in range(4)]
ROWS, CLASSES = 40, 4
LABELS = np.arange(ROWS) % CLASSES


def logits(labels: np.ndarray, seed: int, classes: int = CLASSES, skill: float = 1.5) -> np.ndarray:
    return 2 * np.random.default_rng(seed).normal(size=(len(labels), classes)) + 2 * skill * np.eye(classes)[labels]


def masked(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return logits of -inf for the last class, except where it is the label."""
    z = logits(labels, seed)
    z[labels != CLASSES - 1, -1] = -np.inf
    return z


# The outputs of a model on each dataset, as functions of the model's number.
DATASETS = {
    "known": lambda seed: {"logits": logits(LABELS, seed), "labels": LABELS},
    "one": lambda seed: {"logits": logits(LABELS[:1], seed), "labels": LABELS[:1]},
    "three": lambda seed: {"logits": logits(LABELS[:3], seed), "labels": LABELS[:3]},
    "unlabelled": lambda seed: {"logits": logits(LABELS, seed)},
    "single-label": lambda seed: {"logits": logits(0 * LABELS, seed), "labels": 0 * LABELS},
    "single-class": lambda seed: {"logits": logits(0 * LABELS, seed, 1), "labels": 0 * LABELS},
    "two-classes": lambda seed: {"logits": logits(LABELS % 2, seed, 2), "labels": LABELS % 2},
    "right": lambda seed: {"logits": logits(LABELS, seed, skill=50), "labels": LABELS},
    "wrong": lambda seed: {"logits": logits(LABELS, seed, skill=-50), "labels": LABELS},
    "constant": lambda seed: {"logits": np.zeros((ROWS, CLASSES)), "labels": LABELS},
    "identical": lambda seed: {"logits": logits(LABELS, 0), "labels": LABELS},
    "one-hot": lambda seed: {
        "probabilities": np.eye(CLASSES)[logits(LABELS, seed).argmax(1)], "labels": LABELS,
    },
    "masked": lambda seed: {"logits": masked(LABELS, seed), "labels": LABELS},
    "votes": lambda seed: {"predictions": logits(LABELS, seed).argmax(1), "labels": LABELS},
    "multi-label": lambda seed: {
        "logits": logits(LABELS, seed), "targets": np.random.default_rng(2).random((ROWS, CLASSES)) < 0.4,
    },
}  # fmt: skip

NO_LABELS = {"unlabelled": "no labels are stored", "multi-label": "has several classes per example"}
SAME = {"known": "40 examples are in known and in known"}
VOTES = {"votes": "logits or probabilities"}
OTHER_CLASSES = dict.fromkeys(("single-class", "two-classes"), "classes on ")
# The arguments of each command before the dataset, and part of the error for each dataset that it rejects.
COMMANDS = {
    "trust": (("--ensemble", "--uncalibrated", "--data"), NO_LABELS | VOTES | {"one": "at least two examples"}),
    "trust by group": (
        ("--groups", "class", "--score", "disagreement", "--ensemble", "--data"),
        NO_LABELS
        | dict.fromkeys(("single-label", "single-class"), "--groups must be at least two")
        | VOTES
        | {"one": "at least two examples"},
    ),
    "triage": (
        ("--data",),
        NO_LABELS | dict.fromkeys(("wrong", "constant"), "the models contradict") | {"single-class": "at least two classes"},
    ),
    "pairs": (("--significance", "--data"), NO_LABELS),
    "ood": (("--ensemble", "--in", "known", "--out"), SAME | OTHER_CLASSES | VOTES),
    "ood in": (("--ensemble", "--out", "known", "--in"), SAME | OTHER_CLASSES | VOTES),
    "shift": (("--in", "known", "--out"), SAME | NO_LABELS),
    "shift in": (("--out", "known", "--in"), SAME | NO_LABELS),
    "accuracy": (("--in", "known", "--unlabelled"), SAME | OTHER_CLASSES),
    "accuracy in": (("--unlabelled", "known", "--in"), SAME | NO_LABELS | OTHER_CLASSES),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("ZOO_HOME", str(home))
        for data, made in DATASETS.items():
            for seed, name in enumerate(NAMES):
                store.save(Outputs.from_arrays(name, **made(seed), dataset=data))
    return home


@pytest.mark.parametrize("data", DATASETS)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")
def test_every_command_prints_numbers_or_a_reason(cli, monkeypatch, home, command, data):
    monkeypatch.setenv("ZOO_HOME", str(home))
    for module in (trust, ood):
        monkeypatch.setattr(module, "RESAMPLES", 5)
    words, refused = COMMANDS[command]
    printed = cli(command.split()[0], *NAMES, *words, data, code=2 if data in refused else 0)
    assert refused.get(data, "") in printed.err
    assert "unexpected" not in printed.err
    assert "nan" not in (printed.out + printed.err).split()
