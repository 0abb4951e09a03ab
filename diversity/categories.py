"""The category of a pair of models: the outermost difference in how they were trained (Gontijo-Lopes et al. 2021, 3.1)."""

from typing import get_args

from zoo.cards.card import Card, Category
from zoo.errors import InputError

CATEGORIES: tuple[Category, ...] = get_args(Category)  # from the least difference to the greatest
_UNKNOWN = "unknown"
_PRETRAINED = ("contrastive", "self-supervised")  # where the objective says which framework of its kind it is


def category(a: Card, b: Card) -> Category | None:
    """How far apart the training of two models is; None where a card does not say what would decide it.

    From the outermost difference inwards: `dataset`, then `fwork` (supervised, contrastive, distilled, ...), then `arch`
    (the architecture's family), then `hparam`, else `reinit`, which is also what a model is to itself.

    As in the paper's tables, depth and width of one family are hyper-parameters (ResNet-101x0.5 against ResNet-50), and so
    is label smoothing: a supervised objective, its settings and the kind of head count as `hparam`, never as `fwork`.
    Another objective of pre-training is another framework: DINO against MAE is `fwork`.

    >>> from zoo.cards import Training
    >>> def card(family, architecture, dataset="imagenet-1k", framework="supervised", **hyperparameters):
    ...     training = Training(dataset, framework, "softmax", hyperparameters)
    ...     return Card(architecture, "reference", family, architecture, dataset, "softmax", "trained", training)
    >>> base = card("resnet", "resnet50")
    >>> category(base, card("resnet", "resnet101")), category(base, card("resnet", "resnet50", dropout=0.1))
    ('hparam', 'hparam')
    >>> category(base, card("vgg", "vgg19")), category(base, card("vit", "vit-b-16", "wit-400m", "contrastive"))
    ('arch', 'dataset')
    """
    for card in (a, b):
        if card.sweep:
            raise InputError(
                f"{card.name} is a sweep of {len(card.sweep)} models, expected one of them: {card.sweep[0].name}, ..."
            )
    if _UNKNOWN in (a.dataset, b.dataset):
        return None
    if a.dataset != b.dataset:
        return "dataset"
    if _UNKNOWN in (a.framework, b.framework):
        return None
    if a.framework != b.framework:
        return "fwork"
    if a.framework in _PRETRAINED and a.objective != b.objective:
        return None if _UNKNOWN in (a.objective, b.objective) else "fwork"
    if a.family != b.family:
        return "arch"
    return "reinit" if _settings(a) == _settings(b) else "hparam"


def _settings(card: Card) -> tuple[object, ...]:
    """All that distinguishes two runs of one family under one framework on one dataset, except the seed.

    The precision of the arithmetic is no choice of method: it changes how a run is rounded, which a seed does too.
    """
    chosen = {name: value for name, value in card.hyperparameters.items() if name != "precision"}
    return card.architecture, card.objective, chosen, card.head
