"""Fine-tuning of whole networks on another task: Table 2 and Figure D.3 of Kornblith et al. 2021."""

from collections.abc import Sequence

import pandas as pd

import probes
from diversity.feature_charts import similarity_chart
from probes.finetuning import LEARNING_RATES, STEPS, WEIGHT_DECAYS, FineTuning
from zoo import datasets
from zoo.app.figures import papers, shapes
from zoo.app.figures.layers import TEN_EPOCHS, layer_cka
from zoo.app.figures.needs import IMAGES, OBJECTIVES, TASK, models
from zoo.app.figures.record import IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.app.figures.transfer import EIGHT
from zoo.cards.names import dataset_name
from zoo.models import registry

QUICK = "--transfer digits-rotated -O steps=5 -O rates=0.01 -O decays=0"


@figure("loss/table-2", "Fine-tuning", [OBJECTIVES, TASK], f"resnet8-softmax resnet8-sigmoid {QUICK}", f"{IMAGENET} {EIGHT}")
def fine_tuned(study: Study, *, steps: int = STEPS, rates: tuple[str, ...] = (), decays: tuple[str, ...] = ()) -> Result:
    """Accuracy after fine-tuning. A validation split chooses learning rate and weight decay, the same for all seeds."""
    values: list[Value] = []
    for task in study.transfer:
        for members in study.members.values():
            tuned = _finetune(study, members, task, steps, rates, decays)
            values += [(name, f"finetuned-{dataset_name(task)}", 100 * score) for name, score in tuned.accuracies.items()]
    return by_row(study, values, papers.loss_table("2"), average={column for _, column, _ in values})


@figure("loss/D.3", "Layers before and after fine-tuning", [models(1), TASK, IMAGES], f"resnet8-softmax {QUICK}",
        f"resnet50-softmax.in1k --data in1k {EIGHT} {TEN_EPOCHS}")  # fmt: skip
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
    return probes.finetune(
        names,
        datasets.training_split(task) or task,
        task,
        steps=steps,
        seed=study.seed,
        learning_rates=[float(rate) for rate in rates or LEARNING_RATES],
        weight_decays=[float(decay) for decay in decays or WEIGHT_DECAYS],
    )
