"""The data inside the explorer page besides the predictions: models, measures, pairs, and what was chosen."""

import itertools
import json
import warnings
from typing import Any

import numpy as np

import ensembles
from diversity import MEASURES, bootstrap, linear_cka
from diversity.categories import CATEGORIES, COLOURS, TITLES, category, share_initialisation
from diversity.comparison import CKA_ROWS, cka_rows
from zoo.app.report.analysis import ACCURACY_BAND, MAX_ALL_PAIRS, Analysis
from zoo.app.report.document import Document
from zoo.app.report.findings import templates
from zoo.app.report.page_arrays import bytes_for, exact_pair_counts, pack, pack_bytes, prediction_arrays
from zoo.app.report.thumbnails import sheets
from zoo.cards.labels import describe
from zoo.core.text import as_text
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

MAX_THUMBNAILS = 4096  # of the examples on which the models disagree most
MAX_CKA_WORK = 5e10  # multiplications up to which the CKA of every pair is computed
MAX_FRONT_WORK = 4e6  # models x examples x classes up to which the Pareto front is searched
MAX_FRONT_SIZE = 5  # members of the ensembles on it
CARD_FIELDS = ("family", "architecture", "objective", "dataset", "framework", "head", "license", "seed", "source")
MATRIX_MEASURES = ("inconsistency", "kappa", "agreement", "double_fault", "correlation")  # offered by the heatmap


def page_data(document: Document) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the data that the page's script starts from, the packed arrays by name, and the sheets of thumbnails."""
    analysis = document.analysis
    runs = analysis.runs
    place = {name: index for index, name in enumerate(runs)}
    first = next(iter(runs.values()))
    layout, packed = prediction_arrays(runs, analysis.has_probabilities)
    if layout["kind"] == "top":
        packed["right"] = exact_pair_counts(analysis.test)
    in_test = np.zeros(len(runs.labels), np.uint8)
    in_test[analysis.splits[1]] = 1
    ids = [as_text(row_id) for row_id in first.ids]
    packed |= {
        "labels": pack(runs.labels, bytes_for(len(first.classes))),
        "half": pack(in_test, 1),
        "ids": pack_bytes(json.dumps(ids, ensure_ascii=False).encode()),
        "kinds": pack(_pair_kinds(list(runs.values())), 1),
    }
    tiles, images = _tiles(analysis)
    path, cka = document.numbers["path"], _cka(analysis.test)
    data = {
        "examples": len(runs.labels),
        "classes": [as_text(describe(name)) for name in first.classes],
        "models": [
            {
                "name": as_text(outputs.name),
                "short": as_text(analysis.short(outputs.name)),
                "fields": _fields(outputs),
                "parameters": analysis.costs[outputs.name][0],
                "flops": analysis.costs[outputs.name][1],
            }
            for outputs in runs.values()
        ],
        "table": [place[row["model"]] for row in document.numbers["models"]],
        "data": None if first.dataset is None else as_text(first.dataset),
        "imported": analysis.inputs.imported,
        "population": analysis.population,
        "kept": layout,
        "measures": [
            {
                "name": m.name, "title": m.title, "section": m.section, "of": m.of,
                "unit": "points" if m.difference else m.unit, "interval": m.has_interval,
            }
            for m in MEASURES.values()
        ],
        "matrix": [*MATRIX_MEASURES, *(["cka"] if cka else [])],
        "categories": list(CATEGORIES),
        "categoryTitles": TITLES,
        "categoryColours": COLOURS,
        "sentences": templates(),
        "band": ACCURACY_BAND,
        "pairs": _pairs(analysis, place),
        "cka": cka,
        "tree": {
            "order": [place[name] for name in analysis.tree.leaves],
            "segments": analysis.tree.segments().round(5).to_dict(orient="list"),
        },
        "chosen": {
            "pair": [place[name] for name in analysis.pair],
            "best": place[analysis.best],
            "path": [place[name] for name in path["members"]],
            "size": path["best"],
            "exact": {"selection": list(analysis.path.score), "test": list(analysis.path.test_score or [])},
            "sufficient": path["smallest_sufficient"],
            "front": _front(analysis, place),
        },
        "search": {
            "base": None if analysis.base is None else place[analysis.runs[analysis.base].name],
            "steps": analysis.steps,
            "seed": {"seed": analysis.seed, "draws": bootstrap.RESAMPLES},
        },
        "byName": sorted(place.values(), key=runs.names.__getitem__),
        "allPairs": MAX_ALL_PAIRS,
        "seed": {"seed": 0, "draws": bootstrap.RESAMPLES},  # of the intervals of a pair
        "tiles": tiles,
    }  # fmt: skip
    return data, packed, images


def _pair_kinds(outputs: list[Outputs]) -> np.ndarray:
    """Return [M, M] the training category of each pair, as an index of `CATEGORIES`.

    Their number stands for an unknown category, one more for a pair that was trained from the same initial weights.
    """
    kinds = np.full((len(outputs), len(outputs)), len(CATEGORIES))
    cards = [(i, one.card) for i, one in enumerate(outputs) if one.card is not None]
    for (i, first), (j, second) in itertools.combinations(cards, 2):
        if share_initialisation(first, second):
            kinds[i, j] = kinds[j, i] = len(CATEGORIES) + 1
        elif kind := category(first, second):
            kinds[i, j] = kinds[j, i] = CATEGORIES.index(kind)
    return kinds


def _fields(outputs: Outputs) -> dict[str, str]:
    """Return the card's fields and hyper-parameters as text, by which models can be coloured and filtered."""
    card = outputs.card
    if card is None:
        return {}
    fields = {name: getattr(card, name) for name in CARD_FIELDS} | dict(card.hyperparameters)
    return {as_text(name): as_text(value) for name, value in fields.items() if value is not None}


def _pairs(analysis: Analysis, place: dict[str, int]) -> dict[str, list[Any]]:
    frame = analysis.all_pairs
    columns: dict[str, list[Any]] = {
        "first": [place[name] for name in frame["first"]],
        "second": [place[name] for name in frame["second"]],
        "category": [kind if isinstance(kind, str) else None for kind in frame["category"]],
    }
    averaged = {name: frame[name] for name, measure in MEASURES.items() if measure.by_category and name in frame}
    return columns | {
        name: [None if value != value else round(value, 7) for value in values] for name, values in averaged.items()
    }


def _cka(test: Runs) -> list[list[float | None]]:
    """Return the CKA of pairs on the test split as `diversity.compare` does, None for models without embeddings.

    Empty if fewer than two models have embeddings, or if there are too many numbers.
    """
    outputs = list(test.values())
    columns = {i: one.embeddings for i, one in enumerate(outputs) if one.embeddings is not None}
    work = sum(column.shape[1] for column in columns.values()) ** 2 * min(len(outputs[0]), CKA_ROWS)
    if len(columns) < 2 or len(outputs[0]) < 2 or work > MAX_CKA_WORK:
        return []
    rows = cka_rows(np.asarray(outputs[0].ids))
    drawn = {i: column[rows] for i, column in columns.items()}
    found: list[list[float | None]] = [[None] * len(outputs) for _ in outputs]
    for i in columns:
        found[i][i] = 1.0
    for i, j in itertools.combinations(columns, 2):
        try:
            found[i][j] = found[j][i] = linear_cka(drawn[i], drawn[j])
        except InputError:  # undefined for constant embeddings
            found[i][j] = found[j][i] = None
    return found


def _front(analysis: Analysis, place: dict[str, int]) -> list[list[int]]:
    """Return the members of the ensembles on the Pareto front of parameters and accuracy, the cheapest first."""
    first = next(iter(analysis.runs.values()))
    work = len(analysis.runs) * len(first) * len(first.classes)
    costs = {name: cost for name, (cost, _) in analysis.costs.items() if cost is not None}
    if not analysis.has_probabilities or len(costs) < len(analysis.runs) or work > MAX_FRONT_WORK:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        frame = ensembles.pareto(analysis.searchable, cost=costs, max_size=MAX_FRONT_SIZE, split=analysis.splits)
    return [[place[name] for name in members] for members in frame["members"]]


def _tiles(analysis: Analysis) -> tuple[dict[str, Any] | None, list[str]]:
    if analysis.inputs.images is None:
        return None, []
    predictions = np.stack([outputs.predictions for outputs in analysis.runs.values()])
    correct = (predictions == analysis.runs.labels).mean(0)
    rows = np.sort(np.argsort(-correct * (1 - correct), kind="stable")[:MAX_THUMBNAILS])
    ids = [str(row_id) for row_id in next(iter(analysis.runs.values())).ids]
    tiles, images = sheets(analysis.inputs.images, ids, rows)
    return (tiles, images) if images else (None, [])
