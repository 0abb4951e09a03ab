"""Training with a pretext task, such as predicting rotations, and fitting the classifier head afterwards."""

import torch
from torch import Tensor, nn

from zoo.cards.recipes import Recipe
from zoo.errors import InputError
from zoo.models.heads.linear import solve
from zoo.networks.network import Network
from zoo.objectives import ObjectiveHead
from zoo.objectives.frameworks import Pretext
from zoo.training.batches import ImageBatches, labels_of
from zoo.training.evaluation import outputs
from zoo.training.processes import Processes
from zoo.training.randomness import For, generator, seed_of

PENALTY = 1.0  # L2 penalty of the fitted head, relative to the sum of the losses of all images


class PretextTask(nn.Module):
    """The pretext task of an objective: makes inputs and answers from batches, and computes the loss of predictions."""

    def __init__(self, objective: Pretext, num_features: int, recipe: Recipe) -> None:
        super().__init__()
        self.objective, self.recipe = objective, recipe
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(recipe.entropy, For.PRETEXT))
            self.answerer = objective.answerer(num_features)

    def pose(self, pixels: Tensor, labels: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the images of a step, the class labels of these images, and the task's correct answers."""
        images, answers = self.objective.pose(pixels, labels, generator(self.recipe.entropy, For.PRETEXT, step))
        return images, labels.repeat(len(images) // len(labels)), answers

    def forward(self, embeddings: Tensor, answers: Tensor) -> Tensor:
        return self.objective.pretext_loss(self.answerer(embeddings), answers)


def task_of(head: ObjectiveHead, recipe: Recipe, processes: Processes) -> PretextTask | None:
    """Return the pretext task of a head's objective; None if it has none."""
    objective = head.objective
    if not isinstance(objective, Pretext):
        return None
    if recipe.mixup:
        expected = f"0 for {objective.name}, whose task needs unmixed images"
        raise InputError(argument="mixup", expected=expected, found=recipe.mixup)
    if not processes.alone:
        raise InputError(
            f"compares all images of a batch, so it trains in one process (got {processes.count})", where=objective.name
        )
    return PretextTask(objective, head.in_features, recipe).to(processes.device)


@torch.no_grad()
def fit_head(network: Network, images: ImageBatches, processes: Processes) -> None:
    """Fit the head's weights by logistic regression on the network's embeddings of labelled images."""
    embeddings = torch.cat([batch for _, batch, _ in outputs(network, images, processes)])
    weight, bias = solve(embeddings.double().cpu().numpy(), labels_of(images.dataset), PENALTY)
    head: ObjectiveHead = network.head  # type: ignore[assignment]
    head.weight.copy_(torch.from_numpy(weight))
    head.bias.copy_(torch.from_numpy(bias))
