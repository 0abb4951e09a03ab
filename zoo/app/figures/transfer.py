"""Transfer of features to other tasks, and fine-tuning: the tables and figures on transfer of Kornblith et al. 2021."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import torch

import probes
from diversity import class_separation
from diversity.feature_charts import similarity_chart
from probes.finetuning import LEARNING_RATES, STEPS, WEIGHT_DECAYS, FineTuning
from probes.metrics import auc
from probes.model_probes import labels_of
from probes.multilabel import MultilabelProbe, strata
from probes.overlap import assign_classes
from zoo import datasets
from zoo.app.figures import needs, papers, shapes
from zoo.app.figures.layers import INCEPTION, TEN_EPOCHS, layer_cka
from zoo.app.figures.papers import PaperNumbers
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row, rank_correlations
from zoo.app.figures.study import Study
from zoo.cards.names import dataset_name
from zoo.cards.published import HOLDOUT
from zoo.core.splits import hold_out
from zoo.errors import InputError
from zoo.models import registry
from zoo.outputs.outputs import Outputs

EIGHT = "--transfer EIGHT"  # for the eight datasets of Table A.2, one option each
EXAMPLE, ALL_TASKS = f"{DIGITS} --transfer digits-rotated", f"{IMAGENET} {EIGHT}"
TAUS = "'cosine-tau-*'"  # cosine models of several temperatures
# Table 4 scales the loss of every temperature by tau, not only of those below 0.05 that need it (footnote 1).
TRAIN_TAUS = (
    "for tau in 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08; do "
    "zoo train resnet50-cosine.in1k --set tau=$tau --set scale_below=1 --name cosine-tau-$tau; done"
)
FEW_TAUS, ALL_TAUS = f"{TAUS} --transfer digits-rotated", f"MODELS --data in1k {EIGHT} after {TRAIN_TAUS}"
# The earlier version of the paper trains classifiers of the original classes on as many images as the holdout has.
RELEARNT = f"-O examples={HOLDOUT}"
FEW_RELEARNT, ALL_TAUS_RELEARNT = "-O examples=300", f"MODELS --data in1k {EIGHT} {RELEARNT} after {TRAIN_TAUS}"
QUICK = "--transfer digits-rotated -O steps=5 -O rates=0.01 -O decays=0"
OVERLAPS = ("semantic-overlap", "assignment", "linear")
SEPARATED = [needs.OBJECTIVES, needs.TASK, needs.TRAINING_SPLIT]  # to compare objectives in separation and transfer
BY_TAU = [needs.TEMPERATURES, needs.TASK, needs.TRAINING_SPLIT]
Probe = Literal["linear", "knn"]


def transfer_values(study: Study, kind: Probe = "linear") -> Iterator[Value]:
    """Yield the score of a probe of each model's features on each task, in percent, by the task's recommended metric."""
    for task in study.transfer:
        train, test = study.task(task)
        for name in study.names:
            score = probes.probe(train[name], test[name], kind)["score"].iloc[0]
            yield name, f"{kind}-{dataset_name(task)}", 100 * float(score)


def home_values(study: Study) -> Iterator[Value]:
    """Yield top-1 and top-5 accuracy on the study's dataset, in percent."""
    for name, outputs in study.runs.items():
        yield name, "top1", 100 * outputs.accuracy
        if outputs.top5 is not None:
            yield name, "top5", 100 * outputs.top5


def separation_values(study: Study) -> Iterator[Value]:
    """Yield the class separation of the training images' embeddings."""
    for name, outputs in study.train.items():
        yield name, "class-separation", class_separation(outputs.require_embeddings(), outputs.require_labels())


@figure("loss/table-1", "Accuracy and transfer by objective", [needs.OBJECTIVES, needs.TASK], EXAMPLE, ALL_TASKS)
def transfer_table(study: Study) -> Result:
    """Accuracy on the original dataset, and of linear and nearest-neighbour classifiers of fixed features on other tasks."""
    values = [*home_values(study), *transfer_values(study), *transfer_values(study, "knn")]
    return by_row(study, values, papers.loss_table("1"))


@figure(
    "loss/table-B.1", "Accuracy, separation and transfer, Inception v3", [needs.INCEPTION_V3, *SEPARATED],
    None, f"MODELS --data in1k {EIGHT} after {INCEPTION}",
    "an Inception v3 takes images of 299 pixels; loss/table-1 is the same of resnet8",
)  # fmt: skip
def inception_table(study: Study) -> Result:
    """Accuracy and class separation on the original dataset, and linear transfer."""
    values = [*home_values(study), *separation_values(study), *transfer_values(study)]
    paper = papers.joined(*(papers.loss_table("B.1", "inception_v3", version) for version in (papers.LOSS, papers.EARLIER)))
    return by_row(study, values, paper, untested=["class-separation"])


@figure("loss/1", "Accuracy against transfer", [needs.models(), needs.TASK], EXAMPLE, ALL_TASKS)
def accuracy_against_transfer(study: Study) -> Result:
    """Mean linear transfer accuracy over the tasks against accuracy on the original dataset, one point per model.

    The rank correlation is that of the means over seeds, because the seeds of a row are not independent observations of it.
    """
    frame = _points(study)
    models = frame.groupby(["model", "row", "top1"], sort=False)["transfer"].mean().reset_index()
    means = models.groupby("row", sort=False)[["top1", "transfer"]].mean().reset_index()
    return Result(models, shapes.scatter(models, "top1", "transfer"), (_rank_correlation(means, "top1"),))


@figure("loss/D.1", "Accuracy against transfer, by task", [needs.models(), needs.TASK], EXAMPLE, ALL_TASKS)
def accuracy_against_each_transfer(study: Study) -> Result:
    """Linear transfer accuracy against accuracy on the original dataset, one panel per task."""
    frame = _points(study)
    return Result(frame, shapes.scatter(frame, "top1", "transfer", panel="task"))


def _points(study: Study) -> pd.DataFrame:
    rows = [
        {"model": name, "row": study.rows[name], "top1": 100 * study.runs[name].accuracy, "task": task, "transfer": score}
        for name, task, score in transfer_values(study)
    ]
    return pd.DataFrame(rows)


@figure("loss/5a", "Class separation against transfer", SEPARATED, EXAMPLE, ALL_TASKS)
def separation_against_transfer(study: Study) -> Result:
    """Mean linear transfer accuracy of each objective against its class separation, with the rank correlation."""
    paper = papers.joined(papers.loss_table("1"), papers.loss_table("3"))
    tasks = [name for name in paper["softmax"] if name.startswith("linear-")]
    points = pd.DataFrame(
        {
            "label": list(paper),
            "x": [numbers["class-separation"][0] for numbers in paper.values()],
            "y": [sum(numbers[task][0] for task in tasks) / len(tasks) for numbers in paper.values()],
        }
    )
    text = rank_correlations({"": points}, "objective")[""]
    return _against_transfer(study, separation_values(study), paper, f"the same in the paper's tables: {text}")


@figure("loss/table-4", "The temperature of cosine softmax", BY_TAU, FEW_TAUS, ALL_TAUS)
def temperatures(study: Study) -> Result:
    """Accuracy, class separation and linear transfer of cosine softmax at several temperatures."""
    return _by_temperature(study)


@figure("demystifying/table-4", "The temperature of cosine softmax, with relearnt classes", BY_TAU,
        f"{FEW_TAUS} {FEW_RELEARNT}", ALL_TAUS_RELEARNT)  # fmt: skip
def temperatures_and_relearned(study: Study, *, examples: int = HOLDOUT) -> Result:
    """Accuracy, class separation and linear transfer of cosine softmax at several temperatures, and relearnt classes.

    The last column is the accuracy of a linear classifier of the original classes, trained on `examples` of the training
    images.
    """
    return _by_temperature(study, examples)


def _by_temperature(study: Study, examples: int = 0) -> Result:
    study = study.of_objective("cosine")
    values = [value for value in home_values(study) if value[1] == "top1"]
    values += [*separation_values(study), *transfer_values(study)]
    values += relearned_values(study, examples) if examples else []
    return by_row(study, values, _at_temperatures(study), untested=["class-separation"])


def _at_temperatures(study: Study) -> PaperNumbers:
    """Return the paper's numbers at the temperature of each row."""
    quoted = papers.joined(papers.loss_table("4"), papers.loss_table("4", paper=papers.EARLIER))["cosine"]
    by_temperature = {}
    for row, (first, *_) in study.members.items():
        prefix = f"tau-{study.setting(first, 'tau')}-"
        by_temperature[row] = {name.removeprefix(prefix): x for name, x in quoted.items() if name.startswith(prefix)}
    return by_temperature


@figure("loss/5b", "Class separation against transfer, cosine softmax", BY_TAU, FEW_TAUS, ALL_TAUS)
def temperature_against_transfer(study: Study) -> Result:
    """Mean linear transfer accuracy against class separation, one point per temperature."""
    study = study.of_objective("cosine")
    return _against_transfer(study, separation_values(study), _at_temperatures(study))


def _against_transfer(study: Study, values: Iterable[Value], paper: PaperNumbers, *notes: str) -> Result:
    """Return the table of one quantity and of linear transfer, and a chart of mean transfer against that quantity by row."""
    values, tasks = list(values), [f"linear-{dataset_name(task)}" for task in study.transfer]
    column = values[0][1]
    untested = [column] if column == "class-separation" else []
    table = by_row(study, [*values, *transfer_values(study)], paper, untested=untested, average=tasks)
    means, x = table.means(list(study.members)), column.replace("-", "_")
    points = pd.DataFrame({"row": means.index, x: means[column], "transfer": means[tasks].mean(axis=1)})
    chart = shapes.scatter(points, x, "transfer", label="row", named=True)
    return Result(table.frame, chart, (_rank_correlation(points, x), *notes, *table.notes), table.shown)


def _rank_correlation(rows: pd.DataFrame, x: str) -> str:
    texts = rank_correlations({"": rows.rename(columns={x: "x", "transfer": "y", "row": "label"})})
    if not texts:
        return "too few points for a rank correlation"
    return f"Spearman's rank correlation of {x.replace('_', ' ')} and transfer: {texts['']}"


@figure("loss/6", "Relearning the classes from few examples", [needs.OBJECTIVES, needs.TRAINING_SPLIT], DIGITS, IMAGENET)
def relearned(study: Study, *, test: float = 0.2) -> Result:
    """Accuracy of each model's final layer, and of one trained on held-out examples, against class separation."""
    values = list(separation_values(study))
    for row in probes.relearn(study.runs, test=test, seed=study.seed).to_dict("records"):
        values += [(row["model"], name, 100 * row[name]) for name in ("original", "relearned", "gap")]
    table = by_row(study, values, papers.loss_table("3"), lower=["gap"], untested=["class-separation"])
    long = (
        table.means(list(study.members))
        .reset_index()
        .rename(columns={"class-separation": "class_separation"})
        .melt(["row", "class_separation"], ["original", "relearned"], "classifier", "accuracy")
    )
    chart = shapes.scatter(
        long, "class_separation", "accuracy", "classifier", fit=False, label="row", connect="row", named=True
    )
    note = f"both classifiers are tested on the same {test:.0%} of the examples"
    return Result(table.frame, chart, (note, *table.notes), table.shown)


def relearned_values(study: Study, examples: int) -> Iterator[Value]:
    """Yield the accuracy of linear classifiers of the model's own classes, in percent.

    They are trained on a stratified sample of the training images and tested on the study's dataset: IN(50k) in the paper.

    Args:
        study: the models.
        examples: number of training images.
    """
    for name, outputs in study.train.items():
        labels = outputs.require_labels()
        if not 0 < examples < len(labels):
            expected = f"from 1 to {len(labels) - 1}, the number of training images less one"
            raise InputError(argument="examples", expected=expected, found=examples)
        _, sample = hold_out(labels, examples / len(labels), study.seed)
        score = probes.probe(outputs.select(sample), study.runs[name])["score"].iloc[0]
        yield name, "in50k", 100 * float(score)


@figure("demystifying/5a", "Transfer against relearnt classes", SEPARATED,
        f"{EXAMPLE} {FEW_RELEARNT}", f"{ALL_TASKS} {RELEARNT}")  # fmt: skip
@figure("demystifying/table-3", "Transfer and relearnt classes", SEPARATED,
        f"{EXAMPLE} {FEW_RELEARNT}", f"{ALL_TASKS} {RELEARNT}")  # fmt: skip
def transfer_against_relearned(study: Study, *, examples: int = HOLDOUT) -> Result:
    """Linear transfer accuracy against the accuracy of a linear classifier of the original classes.

    The latter is trained on `examples` of the training images.
    """
    paper = papers.joined(papers.loss_table("1"), papers.loss_table("3", paper=papers.EARLIER))
    return _against_transfer(study, relearned_values(study, examples), paper)


@figure("demystifying/5b", "Transfer against relearnt classes, cosine softmax", BY_TAU,
        f"{FEW_TAUS} {FEW_RELEARNT}", ALL_TAUS_RELEARNT)  # fmt: skip
def temperature_against_relearned(study: Study, *, examples: int = HOLDOUT) -> Result:
    """Linear transfer accuracy against the accuracy of a linear classifier of the original classes, by temperature.

    The latter is trained on `examples` of the training images.
    """
    study = study.of_objective("cosine")
    return _against_transfer(study, relearned_values(study, examples), _at_temperatures(study))


@figure("loss/table-F.1", "Overlap of a model's classes with a task's classes", [needs.models(1), needs.TASK],
        "resnet8-softmax --transfer digits-rotated", f"resnet50-softmax.in1k --data in1k {EIGHT}")  # fmt: skip
def class_overlap(study: Study) -> Result:
    """Accuracy of a model's own predictions on a task, after assigning each of its classes to a class of the task.

    Classes are assigned on the task's training images. `assignment` is the accuracy there, `assignment_test` on the test
    images. The paper's column `semantic-overlap` was judged by people and is quoted only.
    """
    quoted = papers.loss_table("F.1")["softmax"]
    rows = []
    for task in study.transfer:
        train, test = study.task(task)
        dataset = dataset_name(task)
        for name in study.names:
            training, testing = train[name], test[name]
            assignment = assign_classes(training.predictions, _task_labels(training))
            rows.append(
                {
                    "model": name, "task": dataset, "classes": len(training.label_classes or training.classes),
                    "assignment": 100 * assignment.accuracy,
                    "assignment_test": 100 * assignment.score(testing.predictions, _task_labels(testing)),
                    "linear": 100 * float(probes.probe(training, testing)["score"].iloc[0]),
                    **{f"{what}_paper": quoted.get(f"{what}-{dataset}", (math.nan, None))[0] for what in OVERLAPS},
                }
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    drawn = frame.melt(["model", "task"], ["assignment", "assignment_test", "linear"], "row", "mean")
    return Result(frame, shapes.dots(drawn.rename(columns={"task": "column"})))


def _task_labels(outputs: Outputs) -> np.ndarray:
    """Return labels [N], which index the classes of the task and not those of the model."""
    if outputs.labels is None:
        raise InputError("has no labels with one class per example", where=outputs.dataset)
    return outputs.labels


@figure("loss/table-D.1", "Transfer to chest X-rays", [needs.OBJECTIVES, needs.transferred_to("chexpert")], None,
        f"{IMAGENET} --transfer chexpert -O bins=1000",
        "the images of CheXpert are available on request only")  # fmt: skip
def chest_x_rays(study: Study, *, iid: float = 0.0, bins: int = 0) -> Result:
    """AUC of each pathology, by linear classifiers of fixed features.

    If `iid` is above 0, that fraction of the training images is the test set. The paper computes the AUC from
    probabilities in 1,000 bins (`bins`); 0 is the exact AUC.
    """
    (task, *_) = [spec for spec in study.transfer if dataset_name(spec) == "chexpert"]
    train, test = study.task(task)
    if iid:
        training, held_out = hold_out(strata(torch.from_numpy(next(iter(train.values())).targets)), iid, study.seed)
        train, test = train.select(training), train.select(held_out)
    prefix = "chexpert-iid" if iid else "chexpert"
    values: list[Value] = []
    for name in study.names:
        y, test_y = labels_of(train[name], test[name])
        probe = MultilabelProbe(metric="auc", seed=study.seed).fit(train[name].require_embeddings(), y)
        logits = torch.as_tensor(probe.decision_function(test[name].require_embeddings()))
        scores = auc(torch.sigmoid(logits.double()) if bins else logits, test_y, bins=bins or None)
        classes = train[name].label_classes or train[name].classes
        positives = (train[name].targets == 1).any(0)  # type: ignore[union-attr]
        learnt = [label for label, positive in zip(classes, positives, strict=True) if positive]
        columns = [f"{prefix}-{label.lower().replace(' ', '-')}" for label in learnt]
        values += [(name, column, 100 * float(score)) for column, score in zip(columns, scores, strict=True)]
    return by_row(study, values, papers.loss_table("D.1"))


@figure("loss/D.2", "Transfer over training", [needs.SNAPSHOTS, needs.TASK],
        "'resnet8-s*.digits@epoch*' --transfer digits-rotated",
        f"'resnet50-*.in1k@epoch*' --data in1k {EIGHT} after zoo train 'resnet50-*.in1k' --snapshots-every 6")  # fmt: skip
def transfer_over_training(study: Study) -> Result:
    """Linear transfer accuracy of a model's snapshots over training, coloured by objective."""
    rows = []
    for name, task, score in transfer_values(study):
        parts = needs.SNAPSHOT.match(name)
        if parts:
            row = {"model": parts["name"], "objective": study.objective(name), "epoch": int(parts["epoch"])}
            rows.append({**row, "task": task, "transfer": score})
    frame = pd.DataFrame(rows).sort_values(["task", "model", "epoch"], ignore_index=True)
    return Result(frame, shapes.curves(frame, "epoch", "transfer", "objective", "task"))


@figure("loss/table-2", "Fine-tuning", [needs.OBJECTIVES, needs.TASK], f"resnet8-softmax resnet8-sigmoid {QUICK}", ALL_TASKS)
def fine_tuned(study: Study, *, steps: int = STEPS, rates: tuple[str, ...] = (), decays: tuple[str, ...] = ()) -> Result:
    """Accuracy after fine-tuning. A validation split chooses learning rate and weight decay, the same for all seeds."""
    values: list[Value] = []
    for task in study.transfer:
        for members in study.members.values():
            tuned = _finetune(study, members, task, steps, rates, decays)
            values += [(name, f"finetuned-{dataset_name(task)}", 100 * score) for name, score in tuned.accuracies.items()]
    return by_row(study, values, papers.loss_table("2"), average={column for _, column, _ in values})


@figure("loss/D.3", "Layers before and after fine-tuning", [needs.models(1), needs.TASK, needs.IMAGES],
        f"resnet8-softmax {QUICK}", f"resnet50-softmax.in1k --data in1k {EIGHT} {TEN_EPOCHS}")  # fmt: skip
def before_and_after(
    study: Study, *, steps: int = STEPS, rates: tuple[str, ...] = (), decays: tuple[str, ...] = (), epochs: int = 1
) -> Result:
    """CKA between a model's layers before and after fine-tuning on each task, on the model's original dataset."""
    rows, drawn = [], []
    for name in study.names:
        for task in study.transfer:
            (tuned,) = _finetune(study, [name], task, steps, rates, decays).models
            frame = layer_cka(registry.load(name), tuned, study, epochs)
            rows += [(name, dataset_name(task), str(layer), frame.loc[layer, layer]) for layer in frame.index]
            drawn.append(similarity_chart(frame, f"{name} before and after {dataset_name(task)}"))
    return Result(pd.DataFrame(rows, columns=["model", "task", "layer", "cka"]), shapes.side_by_side(*drawn))


def _finetune(
    study: Study, names: Sequence[str], task: str, steps: int, rates: Sequence[str], decays: Sequence[str]
) -> FineTuning:
    options = {"learning_rates": rates or LEARNING_RATES, "weight_decays": decays or WEIGHT_DECAYS}
    grids = {name: [float(value) for value in values] for name, values in options.items()}
    return probes.finetune(names, datasets.training_split(task) or task, task, steps=steps, seed=study.seed, **grids)  # type: ignore[arg-type]
