"""The sections on embeddings: transfer to another task, what two models' embeddings add, and similar layers."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

import diversity
import probes
from diversity import feature_charts
from probes import probe_charts
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.inputs import TransferEmbeddings
from zoo.core.units import count
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

SEEDS = 3
MIN_RECIPES = 5  # for a rank correlation
# Probes on many subsets of dimensions: a coarse grid of strengths, and accuracies that are exact to the digit shown.
PROBE: dict[str, Any] = {"strengths": np.logspace(-2, 3, 6).tolist(), "tolerance": 1e-3}
POINTS = 8  # on the compression curve


def transfer(analysis: Analysis) -> Part | None:
    """Return class separation against the accuracy of a linear probe on another task."""
    embeddings = analysis.inputs.features
    if embeddings is None:
        return None
    rows = [_row(name, analysis.runs, embeddings, analysis.seed) for name in analysis.runs]
    frame = pd.DataFrame(rows)
    task, examples = _task(embeddings), len(next(iter(embeddings.transfer_test.values())))
    learnt = next(iter(embeddings.train.values()))
    section = Section(
        "transfer",
        "Which embeddings transfer",
        f"The accuracy of a linear probe on {task}, a task that these models were not trained for, against the separation "
        "of their training classes. On ImageNet, objectives that separate classes more have embeddings that transfer less.",
        f"{examples:,} examples of {task} for transfer, {len(learnt):,} of {learnt.dataset} for class separation, and for "
        f"accuracy {analysis.population}",
        figures=[
            Figure(
                "separation",
                "Class separation against transfer",
                "Class separation R² of the training examples, and the probe's accuracy on test examples of the task.",
                _chart(frame),
                wide=True,
            )
        ],
        tables=[Table("transfer-table", "", rows, frozenset({"transfer", "accuracy"}))],
    )
    means = frame.groupby(frame["model"].map(analysis.recipes))[["class separation", "transfer"]].mean()  # over seeds
    if len(means) < MIN_RECIPES or means.nunique().min() < 2:
        return Part(section, [], {"transfer": rows})
    correlation, p = probes.spearman(means["class separation"], means["transfer"])
    text = (
        f"Class separation and transfer to {task} ({examples:,} examples) have a rank correlation of {correlation:.2f} over "
        f"{count(len(means), 'recipe')} (p = {p:.2g})."
    )
    finding = Finding("Transfer of embeddings", f"ρ = {correlation:.2f}", text)
    return Part(section, [finding], {"transfer": rows, "transfer_correlation": correlation})


def _row(name: str, runs: Runs, embeddings: TransferEmbeddings, seed: int) -> dict[str, Any]:
    card, train = runs[name].card, embeddings.train[name]
    seen, test = embeddings.transfer_train[name], embeddings.transfer_test[name]
    probe = probes.LinearProbe(seed=seed).fit(seen.require_embeddings(), _labels(seen))
    return {
        "model": name,
        "objective": card.objective if card else None,
        "class separation": float(diversity.class_separation(train.require_embeddings(), train.require_labels())),
        "transfer": float(probe.score(test.require_embeddings(), _labels(test))),
        "accuracy": runs[name].accuracy,
    }


def _labels(outputs: Outputs) -> np.ndarray:
    """Return the labels [N] of the task, whatever classes the model predicts."""
    if outputs.labels is None:
        raise InputError("has no labels to probe", where=outputs.dataset, hint="Pass a labelled dataset as {transfer}")
    return outputs.labels


def _task(embeddings: TransferEmbeddings) -> str:
    return next(iter(embeddings.transfer_test.values())).dataset or "another task"


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


def joint_features(analysis: Analysis) -> Part | None:
    """Return probes of two models' embeddings of the transfer task together, and the similarity of their layers."""
    embeddings, pair = analysis.inputs.features, analysis.pair
    if embeddings is None:
        return None
    train = {name: np.asarray(embeddings.transfer_train[name].embeddings) for name in pair}
    test = {name: np.asarray(embeddings.transfer_test[name].embeddings) for name in pair}
    y, y_test = _labels(embeddings.transfer_train[pair[0]]), _labels(embeddings.transfer_test[pair[0]])
    mixed = probes.concatenate(train, y, base=pair[0], seeds=SEEDS, test=(test, y_test), **PROBE)
    width = sum(x.shape[1] for x in train.values())
    squeezed = probes.compress(train, y, multiples=max(1, width // POINTS), test=(test, y_test), **PROBE)
    learnt = embeddings.train[pair[0]].dataset
    similarity = diversity.cka(*pair, data=learnt)
    section = Section(
        "together",
        "What two models' embeddings add",
        f"Linear probes on embeddings of {pair[0]} and {pair[1]}: on part of each, with as many dimensions as the first "
        "has; on the least redundant dimensions of both; and the similarity of their layers.",
        f"{len(y_test):,} examples of {_task(embeddings)}; layers on {learnt}",
        figures=[
            Figure(
                "concatenation",
                "Dimensions of one replaced by dimensions of the other",
                "Accuracy of the probe: mean and spread over seeds.",
                probe_charts.concatenation_chart(mixed),
            ),
            Figure(
                "compression",
                "Least redundant dimensions first",
                "Accuracy of the probe by the number of dimensions.",
                probe_charts.compression_chart(squeezed),
            ),
            Figure(
                "cka",
                "Similarity of layers",
                "Linear CKA of every pair of layers.",
                feature_charts.similarity_chart(similarity),
            ),
        ],
    )
    numbers = {
        "concatenation": mixed.to_dict(orient="records"),
        "compression": squeezed.frame.to_dict(orient="records"),
        "cka": similarity.to_dict(),
    }
    return Part(section, [], numbers)
