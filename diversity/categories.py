"""Training category of a pair of models: the largest difference in training (Gontijo-Lopes et al. 2021, 3.1)."""

from typing import get_args

from zoo.cards.card import Card, Category
from zoo.errors import InputError

CATEGORIES: tuple[Category, ...] = get_args(Category)  # from the smallest difference to the largest
UNKNOWN = "unknown"
# Titles for text and charts, and Okabe and Ito's colours, which readers with a colour vision deficiency can tell apart.
TITLES = {
    "reinit": "same recipe, other seed",
    "hparam": "hyper-parameters",
    "arch": "architecture",
    "fwork": "training framework",
    "dataset": "training data",
    UNKNOWN: "unknown",
}
COLOURS = {
    "reinit": "#56b4e9",
    "hparam": "#0072b2",
    "arch": "#e69f00",
    "fwork": "#cc79a7",
    "dataset": "#d55e00",
    UNKNOWN: "#999999",
}
_PRETRAINED = ("contrastive", "self-supervised")  # frameworks whose objectives count as frameworks of their own


def category_title(category: object) -> str | None:
    """Return a training category in words; None if it is missing.

    >>> category_title("reinit"), category_title(float("nan"))
    ('same recipe, other seed', None)
    """
    return TITLES.get(category) if isinstance(category, str) else None


def category(a: Card, b: Card) -> Category | None:
    """Return the training category of two models, or None if a card lacks a field that decides it.

    From the largest difference to the smallest: `dataset`, `fwork` (framework: supervised, contrastive, distilled, ...),
    `arch` (architecture family), `hparam` (hyper-parameters), else `reinit`, which is also the category of a model with
    itself.

    As in the paper's tables, depth and width within a family are hyper-parameters (ResNet-101x0.5 and ResNet-50 differ in
    `hparam`). So are a supervised objective, its settings (label smoothing) and the kind of head. Different pre-training
    objectives are different frameworks: DINO and MAE differ in `fwork`.

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
                f"is a sweep of {len(card.sweep)} models",
                where=card.name,
                hint=f"Pass one of them, such as {card.sweep[0].name}",
            )
    if UNKNOWN in (a.dataset, b.dataset):
        return None
    if a.dataset != b.dataset:
        return "dataset"
    if UNKNOWN in (a.framework, b.framework):
        return None
    if a.framework != b.framework:
        return "fwork"
    if a.framework in _PRETRAINED and a.objective != b.objective:
        return None if UNKNOWN in (a.objective, b.objective) else "fwork"
    if a.family != b.family:
        return "arch"
    return "reinit" if _settings(a) == _settings(b) else "hparam"


def share_initialisation(a: Card, b: Card) -> bool:
    """Return whether two networks were trained from the same initial weights and in the same batch order.

    This is the case for two recipes with the same architecture and seed if neither card states its `initialisation`: such
    networks were trained when initial weights and batch order depended on the seed alone. Their errors are more alike than
    the errors of independent networks, so comparisons of training categories leave such pairs out.

    >>> from zoo.cards import Training
    >>> def card(name, seed, **more):
    ...     training = Training("digits", "supervised", name, seed=seed, **more)
    ...     return Card(name, "recipe", "resnet", "resnet8", "digits", "softmax", "trained", training)
    >>> old = card("softmax", 0)
    >>> share_initialisation(old, card("cosine", 0)), share_initialisation(old, card("cosine", 1))
    (True, False)
    >>> share_initialisation(old, card("cosine", 0, initialisation="name and seed"))
    False
    """
    return (
        a.source == b.source == "recipe"
        and a.architecture == b.architecture
        and a.seed is not None
        and a.seed == b.seed
        and a.training.initialisation is None
        and b.training.initialisation is None
    )


def _settings(card: Card) -> tuple[object, ...]:
    """Return everything, except the seed, that distinguishes runs of one family under one framework on one dataset.

    The arithmetic precision is not a setting: like a seed, it only changes the rounding of a run.
    """
    settings = {name: value for name, value in card.hyperparameters.items() if name != "precision"}
    return card.architecture, card.objective, settings, card.head
