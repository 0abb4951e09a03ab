"""Label sets: the class names of the columns of a model's logits.

Models and datasets are aligned by class name, so names must be unique. ImageNet's words are not (there are two cranes and
two maillots). So the classes of ImageNet and its relatives are WordNet ids such as `n01440764`; `describe` returns their
words.

Lists of WordNet ids are read from the installed timm, without importing it.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from zoo.cards import names
from zoo.errors import InputError

_WORDNET = {
    "imagenet-1k": "imagenet_synsets.txt",
    "imagenet-12k": "imagenet12k_synsets.txt",
    "imagenet-21k": "imagenet21k_goog_synsets.txt",
    "imagenet-21k-goog": "imagenet21k_goog_synsets.txt",
    "imagenet-21k-miil": "imagenet21k_miil_synsets.txt",
    "imagenet-22k": "imagenet22k_synsets.txt",
    "imagenet-22k-ms": "imagenet22k_ms_synsets.txt",
    "imagenet-a": "imagenet_a_synsets.txt",
    "imagenet-r": "imagenet_r_synsets.txt",
}
_WORDS = {
    "digits": "0 1 2 3 4 5 6 7 8 9",
    "cifar10": "airplane automobile bird cat deer dog frog horse ship truck",
    "cifar100": """
        apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
        caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
        flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man
        maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
        plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail
        snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout
        tulip turtle wardrobe whale willow_tree wolf woman worm""",
    "fashion-mnist": "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot",
}
# Datasets derived from another one (`zoo.datasets.views`): the original, and the classes that they keep.
_PARTS = {
    "cifar10-half": ("cifar10", slice(0, 5)),
    "cifar10-other-half": ("cifar10", slice(5, 10)),
    "cifar10-grey": ("cifar10", slice(0, 10)),
}


def known() -> list[str]:
    """Return the names of the label sets."""
    return sorted([*_WORDNET, *_WORDS, *_PARTS])


@cache
def classes(name: str) -> tuple[str, ...]:
    """Return the unique class names of a label set, in the order of its logits.

    >>> classes("imagenet-1k")[:2], len(classes("imagenet-a"))
    (('n01440764', 'n01443537'), 200)
    """
    label_set = names.label_set(name)
    if label_set in _WORDS:
        text = _WORDS[label_set]
        return tuple(text.split("," if "," in text else None))
    if label_set in _PARTS:
        original, part = _PARTS[label_set]
        return classes(original)[part]
    if label_set in _WORDNET:
        return tuple(_timm_file(_WORDNET[label_set]).split())
    raise names.unknown("label set", label_set, known(), list_known=True)


def whole(name: str) -> str:
    """Return the label set or dataset that this one is derived from; any other name is returned unchanged."""
    return _PARTS[name][0] if name in _PARTS else name


def describe(name: str) -> str:
    """Return the words of a WordNet id; any other class name is returned unchanged."""
    return _lemmas().get(name, name)


def indices(subset: Sequence[str], of: Sequence[str]) -> list[int]:
    """Return the index in `of` of each class in `subset`, or raise an error if one is missing.

    >>> indices(classes("imagenet-a"), classes("imagenet-1k"))[:3]
    [6, 11, 13]
    """
    position = {name: index for index, name in enumerate(of)}
    missing = [name for name in subset if name not in position]
    if missing:
        problem = f"{len(missing)} of {len(subset)} classes are not among the {len(of)}, for example {missing[0]!r}"
        raise InputError(problem, argument="classes")
    return [position[name] for name in subset]


@cache
def _lemmas() -> dict[str, str]:
    return dict(line.split("\t", 1) for line in _timm_file("imagenet_synset_to_lemma.txt").splitlines())


def _timm_file(name: str) -> str:
    spec = find_spec("timm")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("ImageNet's class names come with timm, which is not installed", hint="Run `pip install timm`")
    return (Path(spec.submodule_search_locations[0]) / "data" / "_info" / name).read_text(encoding="utf-8")
