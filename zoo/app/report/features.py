"""The parts on features: whose transfer, what two models' features give together, and where their layers differ."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

import diversity
import probes
from diversity import feature_charts
from probes import charts
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.evidence import Evidence
from zoo.app.report.material import FeatureMaterial
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

SEEDS = 3
FEWEST = 5  # models whose ranks are worth a correlation
POINTS = 8  # on the compression curve


def transfer(known: Evidence) -> Part | None:
    """Class separation against a probe of another task."""
    material = known.material.features
    if material is None:
        return None
    rows = [_row(name, known.runs, material, known.seed) for name in known.runs]
    frame = pd.DataFrame(rows)
    task, examples = _task(material), len(next(iter(material.transfer_test.values())))
    learnt = next(iter(material.train.values()))
    section = Section(
        "transfer",
        "Whose features transfer",
        f"A linear probe on {task}, a task none of these models was trained for, against how far the training classes are "
        "pulled apart. On ImageNet, objectives that separate the classes more keep less of everything else.",
        f"{examples:,} examples of {task} for transfer, {len(learnt):,} of {learnt.dataset} for class separation, and for "
        f"accuracy {known.population}",
        figures=[
            Figure(
                "separation",
                "Class separation against transfer",
                "R² of the training classes' embeddings, and the probe's accuracy on unseen examples of the other task.",
                _chart(frame),
                wide=True,
            )
        ],
        tables=[Table("transfer-table", "", rows, frozenset({"transfer", "accuracy"}))],
    )
    if len(frame) < FEWEST or min(frame["class separation"].nunique(), frame["transfer"].nunique()) < 2:
        return Part(section, [], {"transfer": rows})
    correlation, _ = probes.spearman(frame["class separation"], frame["transfer"])
    verdict = "better separated classes, less transferable features" if correlation < -0.5 else "no clear link here"
    finding = Finding(
        f"ρ = {correlation:.2f}",
        f"is the rank correlation of class separation and transfer to {examples:,} examples of {task} over {len(frame)} "
        f"models: {verdict}.",
    )
    return Part(section, [finding], {"transfer": rows, "transfer_correlation": correlation})


def _row(name: str, runs: Runs, material: FeatureMaterial, seed: int) -> dict[str, Any]:
    card, train = runs[name].card, material.train[name]
    seen, test = material.transfer_train[name], material.transfer_test[name]
    probe = probes.LinearProbe(seed=seed).fit(seen.require_embeddings(), _labels(seen))
    return {
        "model": name,
        "objective": card.objective if card else None,
        "class separation": float(diversity.class_separation(train.require_embeddings(), train.require_labels())),
        "transfer": float(probe.score(test.require_embeddings(), _labels(test))),
        "accuracy": runs[name].accuracy,
    }


def _labels(outputs: Outputs) -> np.ndarray:
    """The labels [N] of the task itself, whatever classes the model predicts."""
    if outputs.labels is None:
        raise InputError(f"{outputs.dataset}: has no labels to probe for; choose a labelled dataset")
    return outputs.labels


def _task(material: FeatureMaterial) -> str:
    return next(iter(material.transfer_test.values())).dataset or "another task"


def _chart(frame: pd.DataFrame) -> alt.Chart:
    return (
        alt.Chart(frame.round(6))
        .mark_point(filled=True, size=80)
        .encode(
            x=alt.X("class separation:Q", title="class separation R²", scale=alt.Scale(zero=False)),
            y=alt.Y("transfer:Q", title="transfer accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False)),
            color=alt.Color("objective:N"),
            tooltip=["model:N", alt.Tooltip("class separation:Q", format=".3f"), alt.Tooltip("transfer:Q", format=".1%")],
        )
        .properties(width=600, height=320)
    )


def joint_features(known: Evidence) -> Part | None:
    """Two models' embeddings of the transfer task: parts of both, the least redundant of both, and their layers."""
    material, pair = known.material.features, known.pair
    if material is None:
        return None
    train = {name: np.asarray(material.transfer_train[name].embeddings) for name in pair}
    test = {name: np.asarray(material.transfer_test[name].embeddings) for name in pair}
    y, y_test = _labels(material.transfer_train[pair[0]]), _labels(material.transfer_test[pair[0]])
    mixed = probes.concatenate(train, y, base=pair[0], seeds=SEEDS, test=(test, y_test))
    width = sum(x.shape[1] for x in train.values())
    squeezed = probes.compress(train, y, multiples=max(1, width // POINTS), test=(test, y_test))
    learnt = material.train[pair[0]].dataset
    similarity = diversity.cka(*pair, data=learnt)
    section = Section(
        "together",
        "What their features give together",
        f"Features of {pair[0]} and {pair[1]} on the same task. Part of each, no more dimensions than the first has; then "
        "the least redundant dimensions of both first; and how alike their layers are.",
        f"{len(y_test):,} examples of {_task(material)}; layers on {learnt}",
        figures=[
            Figure(
                "concatenation",
                "Part of one, part of the other",
                "Mean and spread over seeds.",
                charts.concatenation_chart(mixed),
            ),
            Figure(
                "compression",
                "The least redundant first",
                "Probe accuracy by dimensions kept.",
                charts.compression_chart(squeezed),
            ),
            Figure(
                "cka", "Layer by layer", "Linear CKA of every pair of layers.", feature_charts.similarity_chart(similarity)
            ),
        ],
    )
    numbers = {
        "concatenation": mixed.to_dict(orient="records"),
        "compression": squeezed.frame.to_dict(orient="records"),
        "cka": similarity.to_dict(),
    }
    return Part(section, [], numbers)
