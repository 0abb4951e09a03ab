"""Combined models and features: Figures 5 to 7 of Gontijo-Lopes et al. 2021, and the Pareto front of cost and accuracy."""

import math

import pandas as pd

import diversity
import ensembles
import probes
from diversity.charts import matrix_chart
from ensembles.charts import front_chart, path_chart
from probes.model_probes import features_of, labels_of
from probes.probe_charts import compression_chart, concatenation_chart, stacking_chart
from zoo import datasets
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import CARDS, TASK, TRAINING_SPLIT, models
from zoo.app.figures.predictions import without_diagonal
from zoo.app.figures.record import DIGITS, figure
from zoo.app.figures.result import Result, number, with_error
from zoo.app.figures.study import Study
from zoo.cards.names import shared_ending
from zoo.errors import InputError

STARTS = 4  # high-accuracy models that the paper's searches start from


@figure("representation/5", "Low-accuracy models in ensembles with high-accuracy ones", [models(3), CARDS],
        f"{DIGITS} -O steps=3", "MODELS --data in1k -O below=78")  # fmt: skip
def low_accuracy(study: Study, *, steps: int = 10, below: float | None = None) -> Result:
    """Greedy ensembles that start from an accurate model and add only models of an accuracy below `below` percent.

    Searches start from the base, or from the four models that are best on the selection split. Without `below`, all other
    models may be added. The table lists the best first partner of each start, with accuracies on the test split.
    """
    runs = study.calibrated
    split = ensembles.stratified_split(runs.labels, seed=study.seed)
    accuracy = {name: 100 * outputs.accuracy for name, outputs in runs.select(split[0]).items()}
    ranked = sorted(accuracy, key=lambda name: (-accuracy[name], name))
    limit = math.inf if below is None else below
    count = max(1, min(STARTS, len(ranked) // 2))
    accurate = [name for name in ranked if accuracy[name] >= limit or below is None][:count]
    starts = [study.base_name] if study.base_name else accurate
    candidates = [name for name in ranked if name not in starts and accuracy[name] < limit]
    if not starts or not candidates:
        raise InputError(
            f"leaves {len(starts)} models to start from and {len(candidates)} to add",
            argument="below",
            hint="Choose a number between the models' accuracies in percent",
        )
    searches = {
        start: ensembles.Search(runs, base=start, candidates=candidates, split=split, progress=False) for start in starts
    }
    paths = {start: search.greedy(steps) for start, search in searches.items()}
    partners = pd.concat([search.best_partners([start]) for start, search in searches.items()], ignore_index=True)
    rows = [
        {
            "start": row["base"], "alone": 100 * row["test_alone"], "first partner": row["partner"],
            "pair": 100 * row["test_pair"], "category": row["category"], "members": path.best,
            "ensemble": 100 * (path.best_test_score or math.nan),
            "pair, paper": papers.stated(str(row["base"]), "Fig. 5").get(f"with-{row['partner']}", math.nan),
        }
        for row, path in zip(partners.to_dict("records"), paths.values(), strict=True)
    ]  # fmt: skip
    note = f"{len(split[0]):,} examples choose the members, {len(split[1]):,} others test them"
    return Result(pd.DataFrame(rows), path_chart(paths), (note,))


@figure(
    "representation/6", "Combined features of two models, and how few dimensions suffice", [models(), CARDS, TRAINING_SPLIT],
    "resnet8-softmax resnet8-sigmoid -O draws=1 -O multiples=64",
    "resnet50-ra resnet50-a1 efficientnet-b0 clip-vit-b32 --data in1k -O target=0.76",
)  # fmt: skip
def features_together(study: Study, *, draws: int = 3, multiples: int = 256, target: float | None = None) -> Result:
    """Linear probes on some dimensions of the base with some of another model, and on the least redundant of both.

    `target` is the accuracy, as a fraction, that the dimensions must suffice for; by default that of the base's features.
    """
    base = study.base_name or study.names[0]
    (train, y), (test, test_y) = features_of(study.train), features_of(study.runs)
    metric = datasets.metric_of(study.data)
    mixed = probes.concatenate(train, y, base, seeds=draws, test=(test, test_y), metric=metric)
    base_accuracy = float(mixed.loc[mixed["rate"] == 1, "accuracy"].iloc[0])
    reached = base_accuracy if target is None else target
    stated = papers.stated(papers.BASE, "Section 4.6")
    rows, shown, compressed, kinds = [], [], {}, {}
    for other in mixed["other"].unique():
        pair = (base, other)
        compressed[other] = probes.compress(
            {name: train[name] for name in pair}, y, multiples, reached, ({n: test[n] for n in pair}, test_y), metric=metric
        )
        first, second = (study.cards[name] for name in pair)
        kinds[other] = diversity.category(first, second) if first and second else None
        row = {"with": other, "category": kinds[other], "dimensions": compressed[other].dimensions}
        row["dimensions, paper"] = stated.get(f"dimensions-{kinds[other]}", math.nan)
        texts = {"with": other, "dimensions": number(row["dimensions"]), "paper": number(row["dimensions, paper"])}
        for rate, values in mixed[mixed["other"] == other].groupby("rate", sort=False)["accuracy"]:
            mean, error = probes.mean_and_error(100 * values)
            mix = f"{100 * rate:g}/{100 * (1 - rate):g}"
            row |= {mix: mean, f"{mix} error": error}
            texts[mix] = with_error(mean, error)
        rows.append(row)
        shown.append(texts)
    frame = pd.DataFrame(rows)
    means = frame.dropna(subset=["category"]).groupby("category", sort=False)["dimensions"].agg(["mean", "count"])
    by_kind = "; ".join(
        f"{kind} {row['mean']:.0f} ({row['count']:.0f} models)" for kind, row in means.iterrows() if row["count"]
    )
    suffice = f"dimensions: the smallest multiple of {multiples} that reaches {100 * reached:.1f}%; the paper's are for 76%"
    notes = [f"base: {base}", suffice]
    notes += [f"mean dimensions by category: {by_kind}"] if by_kind else []
    by_category = mixed.assign(other=mixed["other"].map(kinds)).dropna(subset=["other"])
    drawn = [concatenation_chart(mixed)]
    drawn += [concatenation_chart(by_category).properties(title="means by category")] if len(by_category) else []
    chart = shapes.side_by_side(*drawn, compression_chart(compressed))
    return Result(frame, chart, tuple(notes), pd.DataFrame(shown))


@figure(
    "representation/7", "Transfer of single models and of two models together", [models(), TASK],
    "resnet8-softmax resnet8-cosine resnet8-sigmoid --transfer digits-rotated",
    "vit-l16-augreg eva02-large clip-vit-b32-linear --data in1k --transfer voc2007",
)  # fmt: skip
def stacked(study: Study) -> Result:
    """Transfer against accuracy, error inconsistency on the original dataset, and linear probes on two models' features."""
    (task, *_), metric = study.transfer, datasets.metric_of(study.transfer[0])
    train, test = study.task(task)
    (x, y), (test_x, test_y) = features_of(train), features_of(test)
    multilabel = y.ndim == 2
    if multilabel:
        y, test_y = labels_of(next(iter(train.values())), next(iter(test.values())))
    frame = probes.stack(x, y, test=(test_x, test_y), multilabel=multilabel, metric=metric)
    single = frame[frame["second"].isna()].set_index("first")["score"]
    matrix = diversity.pairwise(study.runs).matrix("inconsistency")
    ending = shared_ending(list(single.index))
    labels = [name.removesuffix(ending) for name in single.index]
    points = pd.DataFrame({"model": labels, f"{metric}_on_the_task": 100 * single.to_numpy()})
    points["accuracy"] = [100 * study.runs[name].accuracy for name in single.index]
    shown = frame.assign(score=100 * frame["score"], gain=100 * frame["gain"])
    shown["inconsistency"] = [
        100 * matrix.loc[a, b] if isinstance(b, str) else math.nan
        for a, b in zip(frame["first"], frame["second"], strict=True)
    ]
    trend = shapes.scatter(points, "accuracy", f"{metric}_on_the_task", "model", named=True)
    errors = matrix_chart(without_diagonal(matrix), "error inconsistency")
    return Result(shown, shapes.side_by_side(trend, errors, stacking_chart(frame)), (f"{metric} on {task}",))


@figure("ensemble/pareto", "Pareto front of accuracy and cost", [models()], DIGITS, "MODELS --data in1k")
def pareto(study: Study, *, cost: str = "params", size: int = 3) -> Result:
    """Ensembles for which no other is both cheaper and more accurate on the selection split.

    `cost` is `params`, `flops` or `latency`; `size` is the maximum number of members.
    """
    front = ensembles.pareto(study.calibrated, cost=cost, max_size=size, seed=study.seed, progress=False)  # type: ignore[arg-type]
    shown = front.assign(members=[" + ".join(map(str, members)) for members in front["members"]])
    return Result(
        shown.assign(selection=100 * front["selection"], test=100 * front["test"]),
        front_chart(front),
        (f"search: {front.attrs['method']}",),
    )
