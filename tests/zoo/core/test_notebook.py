"""What a notebook shows of runs, models, cards, comparisons, paths and pairs."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from report_pages import ODD, made_runs

import diversity
import ensembles
import zoo
from zoo.core import notebook
from zoo.errors import ZooWarning
from zoo.outputs.outputs import Outputs, Runs


@pytest.fixture(scope="module")
def runs() -> Runs:
    outputs = made_runs(5).values()
    return Runs(Outputs.from_arrays(name, logits=o.logits, labels=o.labels) for name, o in zip(ODD, outputs, strict=True))


def shown(runs: Runs) -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        path = ensembles.greedy(runs, steps=2)
    card = replace(zoo.card("resnet8-softmax.digits"), name=ODD[0], license=ODD[2])
    found = {
        "runs": runs,
        "card": card,
        "comparison": diversity.compare(runs[ODD[0]], runs[ODD[2]]),
        "pairwise": diversity.pairwise(runs),
        "path": path,
    }
    return {name: one._repr_html_() for name, one in found.items()}


def test_no_name_becomes_markup(runs):
    for name, page in shown(runs).items():
        assert "<img" not in page, name
        assert "</script>" not in page, name
        assert "\u202e" not in page, name


def test_numbers_are_those_of_the_objects(runs):
    pages = shown(runs)
    for outputs in runs.values():
        assert f"{outputs.accuracy:.1%}" in pages["runs"]
    matrix = np.asarray(diversity.pairwise(runs).inconsistency)
    told = [float(text) / 100 for text in re.findall(r": ([\d.]+)%</title>", pages["pairwise"])]
    assert told == pytest.approx(matrix.ravel(), abs=5.1e-4)
    comparison = diversity.compare(runs[ODD[0]], runs[ODD[2]])
    assert f"both wrong {int(comparison.both_wrong):,}" in pages["comparison"]
    assert pages["path"].count("<polyline") == 2
    assert "<svg" in pages["runs"]


def test_a_model_shows_its_facts(zoo_home):
    model = zoo.load("resnet8-softmax.digits", pretrained=False)
    page = model._repr_html_()
    assert f"{model.num_parameters:,}" in page
    assert "resnet8" in page


def test_runs_without_labels_have_no_accuracy():
    page = Runs([Outputs.from_arrays("a", predictions=[0, 1])])._repr_html_()
    assert "%" not in page


def test_long_tables_and_large_matrices_are_cut():
    assert notebook.table(["x"], [[i] for i in range(25)]).count("<tr>") == notebook.MAX_ROWS + 1
    names = [f"m{i}" for i in range(50)]
    assert notebook.heatmap(names, np.zeros((50, 50)).tolist(), "x").count("<rect") == notebook.MAX_CELLS
