"""Whose features transfer: the tables and figures on transfer of Kornblith et al. 2021."""

import math
from collections.abc import Iterator

import pandas as pd
import torch

import probes
from diversity import class_separation
from probes.multilabel import METRICS, MultilabelProbe, strata
from probes.transfer import labels_of
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import (
    INCEPTION_V3,
    OBJECTIVES,
    SNAPSHOT,
    SNAPSHOTS,
    TASK,
    TEMPERATURES,
    TRAINING_SPLIT,
    models,
    transferred_to,
)
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.cards.names import dataset_name
from zoo.core.splits import hold_out

EIGHT = "--transfer EIGHT"  # stands for the eight datasets of Table A.2
HERE, THERE = f"{DIGITS} --transfer digits-rotated", f"{IMAGENET} {EIGHT}"
INCEPTION = f"'inception_v3-*.in1k' --data in1k {EIGHT}"
TAUS = "'cosine-tau-*'"  # cosine models of several temperatures, each trained under a name of its own
TRAINED = f"NAMES --data in1k {EIGHT} after zoo train resnet50-cosine.in1k --set tau=0.01 --as NAME"
QUOTED = ("semantic-overlap", "assignment", "linear")


def transfer_values(study: Study, kind: str = "linear") -> Iterator[Value]:
    """A probe of each model's features on each task, in percent, by the metric that the task's authors ask for."""
    for task in study.transfer:
        train, test = study.task(task)
        for name in study.names:
            found = probes.probe(train[name], test[name], kind)  # type: ignore[arg-type]
            yield name, f"{kind}-{dataset_name(task)}", 100 * float(found["score"].iloc[0])


def home_values(study: Study) -> Iterator[Value]:
    """Top-1 and top-5 accuracy on the data themselves, in percent."""
    for name, outputs in study.runs.items():
        yield name, "top1", 100 * outputs.accuracy
        if outputs.top5 is not None:
            yield name, "top5", 100 * outputs.top5


def separation_values(study: Study) -> Iterator[Value]:
    """Class separation of the training images' embeddings."""
    for name, outputs in study.train.items():
        yield name, "class-separation", class_separation(outputs.embeddings, outputs.require_labels())


@figure("loss/table-1", "Better objectives, less transferable features", [OBJECTIVES, TASK], HERE, THERE)
def transfer_table(study: Study) -> Result:
    """Accuracy at home, and of linear and nearest-neighbour classifiers of fixed features elsewhere."""
    values = [*home_values(study), *transfer_values(study), *transfer_values(study, "knn")]
    return by_row(study, values, papers.loss_table("1"))


@figure(
    "loss/table-B.1", "Less transferable features, Inception v3", [INCEPTION_V3, OBJECTIVES, TASK, TRAINING_SPLIT],
    None, INCEPTION, "an Inception v3 takes images of 299 pixels; loss/table-1 is the same of resnet8",
)  # fmt: skip
def inception_table(study: Study) -> Result:
    """Accuracy and class separation at home, and linear transfer."""
    values = [*home_values(study), *separation_values(study), *transfer_values(study)]
    return by_row(study, values, papers.loss_table("B.1", "inception_v3"), untested=["class-separation"])


@figure("loss/1", "Accuracy at home against transfer", [models(), TASK], HERE, THERE)
def accuracy_against_transfer(study: Study) -> Result:
    """The mean over tasks of each model's linear transfer accuracy against its accuracy at home, a point per model."""
    frame = _points(study)
    mean = frame.groupby(["model", "row", "top1"], sort=False)["transfer"].mean().reset_index()
    return Result(mean, shapes.scatter(mean, "top1", "transfer"), (_rank_correlation(mean, "top1"),))


@figure("loss/D.1", "Accuracy at home against transfer, by task", [models(), TASK], HERE, THERE)
def accuracy_against_each_transfer(study: Study) -> Result:
    """A panel per task."""
    frame = _points(study)
    return Result(frame, shapes.scatter(frame, "top1", "transfer", panel="task"))


def _points(study: Study) -> pd.DataFrame:
    rows = [
        {"model": name, "row": study.rows[name], "top1": 100 * study.runs[name].accuracy, "task": task, "transfer": score}
        for name, task, score in transfer_values(study)
    ]
    return pd.DataFrame(rows)


@figure("loss/5a", "Class separation against transfer", [OBJECTIVES, TASK, TRAINING_SPLIT], HERE, THERE)
def separation_against_transfer(study: Study) -> Result:
    """Mean linear transfer accuracy of each objective against its class separation, with the rank correlation."""
    tables = {name: papers.loss_table(name) for name in ("1", "3")}
    merged = {o: {**tables["1"][o], **tables["3"][o]} for o in tables["1"]}
    eight = [name for name in merged["softmax"] if name.startswith("linear-")]
    theirs = pd.DataFrame(
        [
            {"class-separation": n["class-separation"][0], "transfer": sum(n[t][0] for t in eight) / 8}
            for n in merged.values()
        ]
    )
    rho, p = probes.spearman(theirs["class-separation"], theirs["transfer"])
    return _against_transfer(study, merged, f"the paper's, over nine objectives: {rho:.2f} (p = {p:.3f} by our test)")


@figure(
    "loss/table-4", "The temperature of cosine softmax", [TEMPERATURES, TASK, TRAINING_SPLIT],
    f"{TAUS} --transfer digits-rotated", TRAINED,
)  # fmt: skip
def temperatures(study: Study) -> Result:
    """Accuracy, class separation and linear transfer of cosine softmax at several temperatures."""
    study = study.of_objective("cosine")
    values = [value for value in home_values(study) if value[1] == "top1"]
    values += [*separation_values(study), *transfer_values(study)]
    return by_row(study, values, _at_temperatures(study), untested=["class-separation"])


def _at_temperatures(study: Study) -> dict[str, dict[str, papers.Number]]:
    """By row, the paper's numbers at the row's temperature."""
    theirs = papers.loss_table("4")["cosine"]
    found = {}
    for row, (first, *_) in study.members.items():
        card = study.cards[first]
        start = f"tau-{card.value('tau') if card else None}-"
        found[row] = {name.removeprefix(start): number for name, number in theirs.items() if name.startswith(start)}
    return found


@figure(
    "loss/5b", "Class separation against transfer, cosine softmax", [TEMPERATURES, TASK, TRAINING_SPLIT],
    f"{TAUS} --transfer digits-rotated", TRAINED,
)  # fmt: skip
def temperature_against_transfer(study: Study) -> Result:
    """Mean linear transfer accuracy against class separation, a point per temperature."""
    study = study.of_objective("cosine")
    return _against_transfer(study, _at_temperatures(study))


def _against_transfer(study: Study, theirs: dict[str, dict[str, papers.Number]], *said: str) -> Result:
    tasks = [f"linear-{dataset_name(task)}" for task in study.transfer]
    found = by_row(
        study, [*separation_values(study), *transfer_values(study)], theirs, untested=["class-separation"], average=tasks
    )
    means = found.frame.pivot(index="row", columns="column", values="mean").reindex(list(study.members))
    points = pd.DataFrame(
        {"row": means.index, "class_separation": means["class-separation"], "transfer": means[tasks].mean(axis=1)}
    )
    chart = shapes.scatter(points, "class_separation", "transfer", label="row")
    return Result(found.frame, chart, (_rank_correlation(points, "class_separation"), *said, *found.notes), found.shown)


def _rank_correlation(frame: pd.DataFrame, x: str) -> str:
    if len(frame) < 3 or min(frame[x].nunique(), frame["transfer"].nunique()) < 2:
        return "too few points for a rank correlation"
    rho, p = probes.spearman(frame[x], frame["transfer"])
    return f"Spearman's rank correlation of {x.replace('_', ' ')} and transfer: {rho:.2f} (p = {p:.3f})"


@figure("loss/6", "Relearning the classes from few examples", [OBJECTIVES, TRAINING_SPLIT], DIGITS, IMAGENET)
def relearned(study: Study, *, test: float = 0.2) -> Result:
    """Accuracy of each model's own last layer, and of one learnt anew from the other examples, against class separation."""
    values = list(separation_values(study))
    for row in probes.relearn(study.runs, test=test, seed=study.seed).to_dict("records"):
        values += [(row["model"], name, 100 * row[name]) for name in ("original", "relearned", "gap")]
    found = by_row(study, values, papers.loss_table("3"), lower=["gap"], untested=["class-separation"])
    means = found.frame.pivot(index="row", columns="column", values="mean").reindex(list(study.members)).reset_index()
    long = means.rename(columns={"class-separation": "class_separation"}).melt(
        ["row", "class_separation"], ["original", "relearned"], "classifier", "accuracy"
    )
    chart = shapes.scatter(long, "class_separation", "accuracy", "classifier", fit=False, label="row")
    return Result(found.frame, chart, (f"on the same {test:.0%} of the examples",), found.shown)


@figure(
    "loss/table-F.1", "Class overlap between a model's classes and a task's", [models(1), TASK],
    "resnet8-softmax --transfer digits-rotated", f"resnet50-softmax.in1k --data in1k {EIGHT}",
)  # fmt: skip
def class_overlap(study: Study) -> Result:
    """How far a model's own predictions, each class standing for one of the task's, already solve the task.

    Classes are assigned on the task's training images; `assignment` is the accuracy there, `assignment_test` of the same
    assignment on the test images. Which classes mean the same thing is for people to say: that column is the paper's alone.
    """
    theirs = papers.loss_table("F.1")["softmax"]
    rows = []
    for task in study.transfer:
        train, test = study.task(task)
        short = dataset_name(task)
        for name in study.names:
            learnt, held = train[name], test[name]
            mapping = probes.assign_classes(learnt.predictions, learnt.labels)
            rows.append(
                {
                    "model": name, "task": short, "classes": len(learnt.label_classes or learnt.classes),
                    "assignment": 100 * mapping.accuracy,
                    "assignment_test": 100 * mapping.score(held.predictions, held.labels),
                    "linear": 100 * float(probes.probe(learnt, held)["score"].iloc[0]),
                    **{f"{what}_paper": theirs.get(f"{what}-{short}", (math.nan, None))[0] for what in QUOTED},
                }
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    drawn = frame.melt(["model", "task"], ["assignment", "assignment_test", "linear"], "row", "mean")
    drawn = drawn.rename(columns={"task": "column"}).assign(error=math.nan, seeds=1, paper=math.nan)
    return Result(frame, shapes.dots(drawn))


@figure(
    "loss/table-D.1", "Transfer to chest X-rays", [OBJECTIVES, transferred_to("chexpert")],
    None, "'resnet50-*.in1k' --data in1k --transfer chexpert", "CheXpert's images are given to those who sign for them",
)  # fmt: skip
def chest_x_rays(study: Study, *, iid: float = 0.0) -> Result:
    """AUC of each pathology, by classifiers of fixed features; with `iid`, on that share of the training images."""
    (task, *_) = [spec for spec in study.transfer if dataset_name(spec) == "chexpert"]
    train, test = study.task(task)
    if iid:
        kept, held = hold_out(strata(torch.from_numpy(next(iter(train.values())).targets)), iid, study.seed)
        train, test = train.select(kept), train.select(held)
    start = "chexpert-iid" if iid else "chexpert"
    values: list[Value] = []
    for name in study.names:
        y, test_y = labels_of(train[name], test[name])
        probe = MultilabelProbe(metric="auc", seed=study.seed).fit(train[name].embeddings, y)
        scores = METRICS["auc"][0](probe.decision_function(test[name].embeddings), test_y)
        classes = train[name].label_classes or train[name].classes
        learnt = [c for c, column in zip(classes, (train[name].targets == 1).any(0), strict=True) if column]  # type: ignore[union-attr]
        pairs = zip(learnt, scores, strict=True)
        values += [(name, f"{start}-{label.lower().replace(' ', '-')}", 100 * float(score)) for label, score in pairs]
    return by_row(study, values, papers.loss_table("D.1"))


@figure(
    "loss/D.2", "Transfer over training", [SNAPSHOTS, TASK],
    "'resnet8-s*.digits@epoch*' --transfer digits-rotated", "'resnet50-*.in1k@epoch*' --data in1k " + EIGHT,
)  # fmt: skip
def transfer_over_training(study: Study) -> Result:
    """Linear transfer accuracy of a model as it was at several epochs."""
    rows = []
    for name, task, score in transfer_values(study):
        parts = SNAPSHOT.match(name)
        if parts:
            rows.append({"model": parts["name"], "epoch": int(parts["epoch"]), "task": task, "transfer": score})
    frame = pd.DataFrame(rows).sort_values(["task", "model", "epoch"], ignore_index=True)
    return Result(frame, shapes.curves(frame, "epoch", "transfer", "model", "task"))
