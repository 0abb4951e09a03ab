"""Whole networks trained further on another task: Table 2 and Figure D.3 of Kornblith et al. 2021."""

from collections.abc import Sequence

import pandas as pd

import probes
from diversity.feature_charts import similarity_chart
from probes.finetuning import LEARNING_RATES, STEPS, WEIGHT_DECAYS, FineTuning
from zoo import datasets
from zoo.app.figures import papers, shapes
from zoo.app.figures.layers import layer_cka
from zoo.app.figures.needs import IMAGES, OBJECTIVES, TASK, models
from zoo.app.figures.record import IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.cards.names import dataset_name
from zoo.models import registry

TWO, BRIEFLY = "resnet8-softmax resnet8-sigmoid", "--transfer digits-rotated -O steps=5 -O rates=0.01 -O decays=0"


@figure("loss/table-2", "Fine-tuning", [OBJECTIVES, TASK], f"{TWO} {BRIEFLY}", f"{IMAGENET} --transfer EIGHT")
def fine_tuned(study: Study, *, steps: int = STEPS, rates: tuple[str, ...] = (), decays: tuple[str, ...] = ()) -> Result:
    """Accuracy after fine-tuning; learning rate and weight decay by a validation split, the same for all seeds."""
    values: list[Value] = []
    for task in study.transfer:
        for members in study.members.values():
            found = _tuned(study, members, task, steps, rates, decays)
            values += [(name, f"finetuned-{dataset_name(task)}", 100 * score) for name, score in found.accuracies.items()]
    return by_row(study, values, papers.loss_table("2"), average={column for _, column, _ in values})


@figure(
    "loss/D.3", "Layers before and after fine-tuning", [models(1), TASK, IMAGES],
    f"resnet8-softmax {BRIEFLY}", "resnet50-softmax.in1k --data in1k --transfer EIGHT",
)  # fmt: skip
def before_and_after(
    study: Study, *, steps: int = STEPS, rates: tuple[str, ...] = (), decays: tuple[str, ...] = (), epochs: int = 1
) -> Result:
    """CKA of a model's layers with those of the same model fine-tuned on each task, on the data it was trained for."""
    rows, drawn = [], []
    for name in study.names:
        for task in study.transfer:
            (tuned,) = _tuned(study, [name], task, steps, rates, decays).models
            frame = layer_cka(registry.load(name), tuned, study, epochs)
            rows += [(name, dataset_name(task), str(layer), frame.loc[layer, layer]) for layer in frame.index]
            drawn.append(similarity_chart(frame, f"{name} before and after {dataset_name(task)}"))
    return Result(pd.DataFrame(rows, columns=["model", "task", "layer", "cka"]), shapes.side_by_side(*drawn))


def _tuned(
    study: Study, names: Sequence[str], task: str, steps: int, rates: Sequence[str], decays: Sequence[str]
) -> FineTuning:
    return probes.finetune(
        names,
        datasets.training_split(task) or task,
        task,
        steps=steps,
        seed=study.seed,
        learning_rates=[float(rate) for rate in rates or LEARNING_RATES],
        weight_decays=[float(decay) for decay in decays or WEIGHT_DECAYS],
    )
