"""Models and features put together: Figures 5 to 7 of Gontijo-Lopes et al. 2021, and the front of cost and accuracy."""

import math

import pandas as pd

import diversity
import ensembles
import probes
from diversity.charts import matrix_chart
from ensembles.charts import front_chart, path_chart
from probes.charts import compression_chart, concatenation_chart, stacking_chart, transfer_chart
from probes.transfer import features_of, labels_of
from zoo import datasets
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import CARDS, TASK, TRAINING_SPLIT, models
from zoo.app.figures.record import DIGITS, figure
from zoo.app.figures.result import Result, number, with_error
from zoo.app.figures.study import Study
from zoo.errors import InputError

STARTS = 4  # high-accuracy models that a search starts from in the paper


@figure(
    "representation/5", "What low-accuracy models add to high-accuracy ones", [models(3), CARDS],
    f"{DIGITS} -O steps=3", "NAMES --data in1k -O below=78",
)  # fmt: skip
def low_accuracy(study: Study, *, steps: int = 10, below: float | None = None) -> Result:
    """Greedy ensembles from the best models, to which only models less accurate than `below` percent are added.

    The base, or the four models that are best on the selection half, are the starts; without `below` all the others may be
    added. The table has the best first partner of each start, judged on the other half.
    """
    runs = study.calibrated
    halves = ensembles.stratified_split(runs.labels, seed=study.seed)
    chosen = runs.select(halves[0])
    accuracy = {name: 100 * outputs.accuracy for name, outputs in chosen.items()}
    ranked = sorted(accuracy, key=lambda name: (-accuracy[name], name))
    limit = math.inf if below is None else below
    most = max(1, min(STARTS, len(ranked) // 2))
    starts = (
        [study.base_name]
        if study.base_name
        else [name for name in ranked if accuracy[name] >= limit or below is None][:most]
    )
    added = [name for name in ranked if name not in starts and accuracy[name] < limit]
    if not starts or not added:
        raise InputError(
            f"representation/5: below={below:g} leaves {len(starts)} models to start from and {len(added)} to add"
        )
    search = {start: ensembles.Search(runs, base=start, candidates=added, split=halves, progress=False) for start in starts}
    paths = {start: found.greedy(steps) for start, found in search.items()}
    partners = pd.concat([found.best_partners([start]) for start, found in search.items()], ignore_index=True)
    rows = [
        {
            "start": row["base"], "alone": 100 * row["test_alone"], "first partner": row["partner"],
            "pair": 100 * row["test_pair"], "category": row["category"], "members": path.best,
            "ensemble": 100 * (path.best_test_score or math.nan),
            "pair, paper": papers.stated(str(row["base"]), "Fig. 5").get(f"with-{row['partner']}", math.nan),
        }
        for row, path in zip(partners.to_dict("records"), paths.values(), strict=True)
    ]  # fmt: skip
    return Result(
        pd.DataFrame(rows), path_chart(paths), (f"chosen on {len(halves[0]):,} examples, judged on {len(halves[1]):,}",)
    )


@figure(
    "representation/6", "Parts of two models' features, and how few are enough", [models(), CARDS, TRAINING_SPLIT],
    "resnet8-softmax resnet8-sigmoid -O draws=1 -O multiples=64",
    "resnet50-ra resnet50-a1 efficientnet-b0 clip-vit-b32 --data in1k -O target=0.76",
)  # fmt: skip
def features_together(study: Study, *, draws: int = 3, multiples: int = 256, target: float | None = None) -> Result:
    """Linear probes on shares of the base's dimensions with another's, and on the least redundant dimensions of both.

    Without a `target` (a share) it is what the base's own features reach.
    """
    base = study.base_name or study.names[0]
    (train, y), (test, test_y) = features_of(study.train), features_of(study.runs)
    metric = datasets.metric_of(study.data)
    mixed = probes.concatenate(train, y, base, seeds=draws, test=(test, test_y), metric=metric)
    alone = float(mixed.loc[mixed["rate"] == 1, "accuracy"].iloc[0])
    wanted = alone if target is None else target
    stated = papers.stated(papers.BASE, "Section 4.6")
    rows, shown, squeezed = [], [], {}
    for other in mixed["other"].unique():
        pair = (base, other)
        squeezed[other] = probes.compress(
            {name: train[name] for name in pair}, y, multiples, wanted, ({n: test[n] for n in pair}, test_y), metric=metric
        )
        first, second = (study.cards[name] for name in pair)
        kind = diversity.category(first, second) if first and second else None
        row = {"with": other, "category": kind, "dimensions": squeezed[other].dimensions}
        row["dimensions, paper"] = stated.get(f"dimensions-{kind}", math.nan)
        texts = {"with": other, "dimensions": number(row["dimensions"]), "paper": number(row["dimensions, paper"])}
        for rate, values in mixed[mixed["other"] == other].groupby("rate", sort=False)["accuracy"]:
            mean, error = probes.mean_and_error(100 * values)
            mix = f"{100 * rate:g}/{100 * (1 - rate):g}"
            row |= {mix: mean, f"{mix} error": error}
            texts[mix] = with_error(mean, error)
        rows.append(row)
        shown.append(texts)
    notes = f"dimensions are the fewest multiple of {multiples} that reaches {100 * wanted:.1f}%; the paper's are for 76%"
    chart = shapes.side_by_side(concatenation_chart(mixed), compression_chart(squeezed))
    return Result(pd.DataFrame(rows), chart, (f"base: {base}", notes), pd.DataFrame(shown))


@figure(
    "representation/7", "Which models, and which two together, transfer best", [models(), TASK],
    "resnet8-softmax resnet8-cosine resnet8-sigmoid --transfer digits-rotated",
    "vit-l16-augreg eva02-large clip-vit-b32-linear --data in1k --transfer voc2007",
)  # fmt: skip
def stacked(study: Study) -> Result:
    """Accuracy at home against transfer; error inconsistency at home; and linear probes on two models' features at once."""
    (task, *_), metric = study.transfer, datasets.metric_of(study.transfer[0])
    train, test = study.task(task)
    (x, y), (test_x, test_y) = features_of(train), features_of(test)
    several = y.ndim == 2
    if several:
        y, test_y = labels_of(next(iter(train.values())), next(iter(test.values())))
    frame = probes.stack(x, y, test=(test_x, test_y), multilabel=several, metric=metric)
    alone = frame[frame["second"].isna()].set_index("first")["score"]
    matrix = diversity.pairwise(study.runs).matrix("inconsistency")
    home = pd.DataFrame({"model": list(alone.index), "transfer": alone.to_numpy()})
    home["source"] = [study.runs[name].accuracy for name in alone.index]
    shown = frame.assign(score=100 * frame["score"], gain=100 * frame["gain"])
    shown["inconsistency"] = [
        100 * matrix.loc[a, b] if isinstance(b, str) else math.nan
        for a, b in zip(frame["first"], frame["second"], strict=True)
    ]
    chart = shapes.side_by_side(transfer_chart(home), matrix_chart(matrix, "error inconsistency"), stacking_chart(frame))
    return Result(shown, chart, (f"{metric} on {task}",))


@figure("ensemble/pareto", "The best ensemble for what it costs", [models()], DIGITS, "NAMES --data in1k")
def pareto(study: Study, *, cost: str = "params", size: int = 3) -> Result:
    """Ensembles for which no other is both cheaper (`params`, `flops`, `latency`) and better on the selection half."""
    front = ensembles.pareto(study.calibrated, cost=cost, max_size=size, seed=study.seed, progress=False)  # type: ignore[arg-type]
    shown = front.assign(members=[" + ".join(map(str, members)) for members in front["members"]])
    return Result(shown.assign(selection=100 * front["selection"], test=100 * front["test"]), front_chart(front),
                  (f"found by {front.attrs['method']}",))  # fmt: skip
