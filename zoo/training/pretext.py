"""Training by a pretext task: what answers its questions during training, and the head that is fitted after it."""

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

STRENGTH = 1.0  # of the fitted head's penalty, against the sum of the losses of all images


class PretextTask(nn.Module):
    """The task of a head's objective: it poses questions about batches, and gives the loss of a network's answers."""

    def __init__(self, objective: Pretext, num_features: int, recipe: Recipe) -> None:
        super().__init__()
        self.objective, self.recipe = objective, recipe
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(recipe.entropy, For.PRETEXT))
            self.answerer = objective.answerer(num_features)

    def pose(self, pixels: Tensor, labels: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """The images of a step, the labels of these, and the right answers."""
        images, right = self.objective.pose(pixels, labels, generator(self.recipe.entropy, For.PRETEXT, step))
        return images, labels.repeat(len(images) // len(labels)), right

    def forward(self, features: Tensor, right: Tensor) -> Tensor:
        return self.objective.pretext_loss(self.answerer(features), right)


def task_of(head: ObjectiveHead, recipe: Recipe, processes: Processes) -> PretextTask | None:
    """The pretext task of a head's objective, if it has one."""
    objective = head.objective
    if not isinstance(objective, Pretext):
        return None
    if recipe.mixup:
        raise InputError(f"recipe: mixup is {recipe.mixup:g}, but {objective.name} asks about single images; leave it out")
    if not processes.alone:
        raise InputError(f"{objective.name}: compares the images of a whole batch, so it trains in one process, not several")
    return PretextTask(objective, head.in_features, recipe).to(processes.device)


@torch.no_grad()
def fit_head(network: Network, images: ImageBatches, processes: Processes) -> None:
    """Give the network the head that reads the classes of `images` best off its features."""
    features = torch.cat([embeddings for _, embeddings, _ in outputs(network, images, processes)])
    weight, bias = solve(features.double().cpu().numpy(), labels_of(images.dataset), STRENGTH)
    head: ObjectiveHead = network.head  # type: ignore[assignment]
    head.weight.copy_(torch.from_numpy(weight))
    head.bias.copy_(torch.from_numpy(bias))
