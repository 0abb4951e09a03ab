"""All that the explorer's page holds beside the answers: who the models are, what was chosen, what measures are called."""

import itertools
import json
import warnings
from typing import Any

import numpy as np

import ensembles
import zoo
from diversity import MEASURES, bootstrap, linear_cka
from diversity.categories import CATEGORIES, category
from diversity.comparison import CKA_ROWS
from zoo.app.report.document import Document
from zoo.app.report.embedded import answers, exact_pairs
from zoo.app.report.evidence import ALL_PAIRS, Evidence
from zoo.app.report.packing import packed, packed_bytes, planes_for
from zoo.app.report.thumbnails import sheets
from zoo.cards.labels import describe
from zoo.core.text import as_text
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

THUMBNAILS = 4096  # examples that have one: those on which the models disagree most
CKA_WORK = 5e10  # products of features' values up to which every pair's CKA is found
FRONT_WORK = 4e6  # models x examples x classes up to which the front of cost and accuracy is searched
FRONT_SIZE = 5  # members of the ensembles on it
CARD_FIELDS = ("family", "architecture", "objective", "dataset", "framework", "head", "license", "seed", "source")


def explorable(document: Document, known: Evidence) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """What the page's script starts from, the packed arrays by name, and the sheets of thumbnails."""
    runs = known.runs
    place = {name: index for index, name in enumerate(runs)}
    first = next(iter(runs.values()))
    kept, blocks = answers(runs, known.has_probabilities)
    if kept["kind"] == "top":
        blocks["right"] = exact_pairs(known.test)
    half = np.zeros(len(runs.labels), np.uint8)
    half[known.halves[1]] = 1
    texts = [as_text(row_id) for row_id in first.ids]
    blocks |= {
        "labels": packed(runs.labels, planes_for(len(first.classes))),
        "half": packed(half, 1),
        "ids": packed_bytes(json.dumps(texts, ensure_ascii=False).encode()),
        "kinds": packed(_kinds(list(runs.values())), 1),
    }
    tiles, images = _tiles(known)
    costs = [_parameters(outputs) for outputs in runs.values()]
    path = document.numbers["path"]
    about = {
        "examples": len(runs.labels),
        "classes": [as_text(describe(name)) for name in first.classes],
        "models": [
            {"name": as_text(outputs.name), "fields": _fields(outputs), "parameters": cost}
            for outputs, cost in zip(runs.values(), costs, strict=True)
        ],
        "table": [place[row["model"]] for row in document.numbers["models"]],
        "data": None if first.dataset is None else as_text(first.dataset),
        "imported": known.material.imported,
        "population": known.population,
        "kept": kept,
        "measures": [
            {"name": m.name, "title": m.title, "section": m.section, "unit": m.unit, "of": m.of, "interval": m.has_interval}
            for m in MEASURES.values()
        ],
        "categories": list(CATEGORIES),
        "pairs": _pairs(known, place),
        "cka": _cka(known.test),
        "tree": {
            "order": [place[name] for name in known.tree.leaves],
            "segments": known.tree.segments().round(5).to_dict(orient="list"),
        },
        "chosen": {
            "pair": [place[name] for name in known.pair],
            "best": place[known.best],
            "path": [place[name] for name in path["members"]],
            "size": path["best"],
            "front": _front(known, costs, place),
        },
        "search": {
            "base": None if known.base is None else place[known.runs[known.base].name],
            "steps": known.steps,
            "seed": _generator(known.seed),
        },
        "byName": sorted(place.values(), key=runs.names.__getitem__),
        "allPairs": ALL_PAIRS,
        "seed": _generator(0),  # with which `diversity.compare` draws its intervals
        "tiles": tiles,
    }
    return about, blocks, images


def _generator(seed: int) -> dict[str, Any]:
    """NumPy's generator at its start, and how often a bootstrap draws from it."""
    state = np.random.default_rng(seed).bit_generator.state["state"]
    return {"state": str(state["state"]), "increment": str(state["inc"]), "draws": bootstrap.RESAMPLES}


def _kinds(outputs: list[Outputs]) -> np.ndarray:
    """[M, M] which of `CATEGORIES` each pair is; their number where cards do not say."""
    found = np.full((len(outputs), len(outputs)), len(CATEGORIES))
    carded = [(i, one.card) for i, one in enumerate(outputs) if one.card is not None]
    for (i, first), (j, second) in itertools.combinations(carded, 2):
        if kind := category(first, second):
            found[i, j] = found[j, i] = CATEGORIES.index(kind)
    return found


def _fields(outputs: Outputs) -> dict[str, str]:
    """What models can be coloured and filtered by: the card's fields and hyper-parameters, as text."""
    card = outputs.card
    if card is None:
        return {}
    found = {name: getattr(card, name) for name in CARD_FIELDS} | dict(card.hyperparameters)
    return {as_text(name): as_text(value) for name, value in found.items() if value is not None}


def _pairs(known: Evidence, place: dict[str, int]) -> dict[str, list[Any]]:
    frame = known.all_pairs
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
    """CKA of every pair on the test half, as `diversity.compare` gives it; empty where embeddings are missing or many."""
    outputs = list(test.values())
    features = [one.embeddings for one in outputs if one.embeddings is not None]
    step = slice(None, None, -(-len(outputs[0]) // CKA_ROWS))
    work = sum(column.shape[1] for column in features) ** 2 * min(len(outputs[0]), CKA_ROWS)
    if len(features) < len(outputs) or len(outputs[0]) < 2 or work > CKA_WORK:
        return []
    columns = [column[step] for column in features]
    found: list[list[float | None]] = [[1.0] * len(columns) for _ in columns]
    for i, j in itertools.combinations(range(len(columns)), 2):
        try:
            found[i][j] = found[j][i] = linear_cka(columns[i], columns[j])
        except InputError:  # constant embeddings have no variance to align
            found[i][j] = found[j][i] = None
    return found


def _parameters(outputs: Outputs) -> float | None:
    """How many parameters the model has; None where nothing says so."""
    told = outputs.details.get("params") or (outputs.card and outputs.card.details.get("params"))
    if isinstance(told, (int, float)):
        return float(told)
    if outputs.card is None:
        return None
    try:
        return float(zoo.load(outputs.name, pretrained=False).num_parameters)
    except (ZooError, ImportError):  # an ensemble, a model that is not here, or whose library is not
        return None


def _front(known: Evidence, costs: list[float | None], place: dict[str, int]) -> list[list[int]]:
    """The members of the ensembles than which none is both cheaper and better, the cheapest first."""
    first = next(iter(known.runs.values()))
    work = len(known.runs) * len(first) * len(first.classes)
    told = [cost for cost in costs if cost is not None]
    if not known.has_probabilities or len(told) < len(costs) or work > FRONT_WORK:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        frame = ensembles.pareto(
            known.runs, cost=dict(zip(known.runs, told, strict=True)), max_size=FRONT_SIZE, split=known.halves
        )
    return [[place[name] for name in members] for members in frame["members"]]


def _tiles(known: Evidence) -> tuple[dict[str, Any] | None, list[str]]:
    if known.material.images is None:
        return None, []
    said = np.stack([outputs.predictions for outputs in known.runs.values()])
    right = (said == known.runs.labels).mean(0)
    wanted = np.sort(np.argsort(-right * (1 - right), kind="stable")[:THUMBNAILS])
    tiles, images = sheets(known.material.images, [str(row_id) for row_id in next(iter(known.runs.values())).ids], wanted)
    return (tiles, images) if images else (None, [])
