"""The section on features: whose transfer, what two models' features give together, and where their layers differ."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

import diversity
import probes
from diversity import feature_charts
from probes import charts
from zoo.app.report.document import Figure, Finding, Section, Table
from zoo.app.report.material import FeatureMaterial
from zoo.errors import InputError
from zoo.outputs import Outputs, Runs

SEEDS = 3
FEWEST = 5  # models whose ranks are worth a correlation
PARTS = 8  # points on the compression curve


def features(
    runs: Runs, material: FeatureMaterial, pair: tuple[str, str], seed: int = 0
) -> tuple[list[Section], list[Finding], dict[str, Any]]:
    """Class separation against a probe of another task; for a pair, concatenation, compression and CKA."""
    rows = [_transfer_row(name, runs, material, seed) for name in runs]
    frame = pd.DataFrame(rows)
    task = next(iter(material.transfer_test.values())).dataset or "another task"
    transfer = Section(
        "transfer",
        "Whose features transfer",
        f"A linear probe on {task}, a task none of these models was trained for, against how far the training classes are "
        "pulled apart. On ImageNet, objectives that separate the classes more keep less of everything else.",
        figures=[
            Figure(
                "separation",
                "Class separation against transfer",
                "R² of the training classes' embeddings, and the probe's accuracy on unseen examples of the other task.",
                _transfer_chart(frame),
                wide=True,
            )
        ],
        tables=[Table("transfer-table", "", rows, frozenset({"transfer", "accuracy"}))],
    )
    together, found = _together(material, pair, seed)
    numbers: dict[str, Any] = {"transfer": rows, **found}
    if len(frame) < FEWEST or min(frame["class separation"].nunique(), frame["transfer"].nunique()) < 2:
        return [transfer, together], [], numbers
    correlation, _ = probes.spearman(frame["class separation"], frame["transfer"])
    numbers["transfer_correlation"] = correlation
    verdict = "better separated classes, less transferable features" if correlation < -0.5 else "no clear link here"
    finding = Finding(
        f"ρ = {correlation:.2f}",
        f"is the rank correlation of class separation and transfer to {task} over {len(frame)} models: {verdict}.",
    )
    return [transfer, together], [finding], numbers


def _transfer_row(name: str, runs: Runs, material: FeatureMaterial, seed: int) -> dict[str, Any]:
    card, train = runs[name].card, material.train[name]
    seen, test = material.transfer_train[name], material.transfer_test[name]
    probe = probes.LinearProbe(seed=seed).fit(seen.embeddings, task_labels(seen))
    return {
        "model": name,
        "objective": card.objective if card else None,
        "class separation": float(diversity.class_separation(train.embeddings, train.require_labels())),
        "transfer": float(probe.score(test.embeddings, task_labels(test))),
        "accuracy": runs[name].accuracy,
    }


def task_labels(outputs: Outputs) -> np.ndarray:
    """The labels [N] of the task itself, whatever classes the model predicts."""
    if outputs.labels is None:
        raise InputError(f"{outputs.dataset}: has no labels to probe for; choose a labelled dataset")
    return outputs.labels


def _transfer_chart(frame: pd.DataFrame) -> alt.Chart:
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


def _together(material: FeatureMaterial, pair: tuple[str, str], seed: int) -> tuple[Section, dict[str, Any]]:
    """Two models' embeddings of the transfer task: parts of both, the least redundant of both, and their layers."""
    train = {name: np.asarray(material.transfer_train[name].embeddings) for name in pair}
    test = {name: np.asarray(material.transfer_test[name].embeddings) for name in pair}
    y, y_test = task_labels(material.transfer_train[pair[0]]), task_labels(material.transfer_test[pair[0]])
    mixed = probes.concatenate(train, y, base=pair[0], seeds=SEEDS, test=(test, y_test))
    width = sum(x.shape[1] for x in train.values())
    squeezed = probes.compress(train, y, multiples=max(1, width // PARTS), test=(test, y_test))
    similarity = diversity.cka(*pair, data=material.train[pair[0]].dataset)
    section = Section(
        "together",
        "What their features give together",
        f"Features of {pair[0]} and {pair[1]} on the same task. Part of each, no more dimensions than the first has; then "
        "the least redundant dimensions of both first; and how alike their layers are.",
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
    found = {
        "concatenation": mixed.to_dict(orient="records"),
        "compression": squeezed.frame.to_dict(orient="records"),
        "cka": similarity.to_dict(),
    }
    return section, found
