"""`zoo.train`: from a name to a trained model, taught by another model where the recipe says so."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo import settings
from zoo._numbers.links import to_probabilities
from zoo._running.runner import run
from zoo.datasets import Dataset
from zoo.errors import InputError
from zoo.training.making import Trained, make
from zoo.training.planning import plan


def train(
    name: str,
    data: str | None = None,
    seed: int | None = None,
    epochs: int | None = None,
    home: Path | str | None = None,
    progress: bool = True,
    restart: bool = False,
    save_as: str | None = None,
    checkpoint_every: float = 30.0,
    measure_every: int = 0,
    snapshots_every: int = 0,
    **hyperparameters: Any,
) -> Trained:
    """Make the model of a recipe, an architecture with an objective (Kornblith et al. 2021, A.1), or find it made.

    The data, the seed and the settings that are not given are the recipe's own; any hyper-parameter of the objective and
    any setting of the recipe may be given by name. A name is one recipe, so a model with other settings needs a name of
    its own, `save_as`. The model is stored in `<home>/weights/NAME`, where `zoo.load(NAME)` finds it. A finished model is
    left alone and an interrupted one goes on where it stopped, unless `restart`.

    Every `measure_every` epochs the log gets `train_*` and `test_*` figures of the weights that would be the result (the
    paper's Appendix E.4 has one every 8). Every `snapshots_every` epochs these weights are kept as a model of their own,
    `zoo.load("NAME@epoch12")`.

    >>> made = train("resnet8-cosine", data="digits", seed=1)  # doctest: +SKIP
    >>> made.name, made.card.hyperparameters["tau"]  # doctest: +SKIP
    ('resnet8-cosine-s1.digits', 0.15)
    >>> train("resnet8-cosine-s1").fresh  # doctest: +SKIP
    False
    """
    made = plan(name, data, seed, epochs, save_as, **hyperparameters)
    place = Path(home).expanduser() if home is not None else settings.home()

    def teach(teacher: str, train_set: Dataset) -> Tensor:
        return probabilities(teacher, train_set, place, progress)

    for option, every in {"measure_every": measure_every, "snapshots_every": snapshots_every}.items():
        if not isinstance(every, int) or every < 0:
            raise InputError(f"{option} is {every!r}, expected a number of epochs, or 0 for never")
    return make(made, place, progress, restart, checkpoint_every, teach, measure_every, snapshots_every)


def probabilities(name: str, train_set: Dataset, home: Path, progress: bool = True) -> Tensor:
    """The probabilities [N, K] of a model, such as a saved ensemble with its members' temperatures, for each image.

    They are for the images as prediction sees them, computed once and kept as the model's outputs: shifts and flips in
    training do not change what the teacher said, and a resumed run reads the same numbers.
    """
    outputs = run(name, data=train_set, home=home, embeddings=False, progress=progress)[name]
    if outputs.classes != train_set.classes or list(outputs.ids) != list(train_set.ids):
        raise InputError(
            f"teacher {name}: predicts {len(outputs.classes)} classes for {len(outputs)} images, expected the "
            f"{len(train_set.classes)} classes of {train_set.spec} for all {len(train_set)}; name a model of this dataset"
        )
    return torch.as_tensor(to_probabilities(torch.tensor(outputs.logits), 1.0, outputs.link))
