"""Training data, framework and family from the names of pretrained weights: `augreg_in21k_ft_in1k`, `laion2b_s34b_b79k`.

Tags list datasets in the order of training, so the first one is the largest and fine-tuning comes later. Tags follow
conventions, not a registry; what they do not say is `unknown`.
"""

import re

from zoo.cards.card import Framework

_DATASETS = {
    r"in1k": "imagenet-1k",
    r"in12k": "imagenet-12k",
    r"inw?2[12]k": "imagenet-21k",
    r"openai": "wit-400m",
    r"laion400m": "laion-400m",
    r"laion2b": "laion-2b",
    r"laion5b": "laion-5b",
    r"laiona|laion_aesthetic": "laion-aesthetic",
    r"datacomp_?xl|datacomp1b|datacomp_s34b": "datacomp-1b",
    r"datacompdr": "datacomp-dr",
    r"datacomp_[sml]|commonpool_[a-z]+": "commonpool",
    r"metaclip_400m": "metaclip-400m",
    r"metaclip_(?:fullcc|2pt5b)": "metaclip-2.5b",
    r"dfndr2b": "dfndr-2b",
    r"dfn2b": "dfn-2b",
    r"dfn5b": "dfn-5b",
    r"webli": "webli",
    r"merged2b": "merged-2b",
    r"m38m": "merged-38m",
    r"m30m": "merged-30m",
    r"lvd142m": "lvd-142m",
    r"lvd1689m": "lvd-1689m",
    r"sat493m": "sat-493m",
    r"jft": "jft-300m",
    r"ig1b": "instagram-1b",
    r"yfcc100m": "yfcc-100m",
    r"yfcc15m": "yfcc-15m",
    r"cc12m": "cc-12m",
}
_CAPTIONED = re.compile(r"wit|laion|datacomp|commonpool|metaclip|dfn|webli|merged-2b|yfcc-15m|cc-12m")

# The first match decides: weights may be pre-trained by one framework and distilled by another.
_FRAMEWORKS: dict[str, Framework] = {
    r"distilled|[._]dist_": "distilled",
    r"[._](?:ns|ssl|swsl)_": "pseudo-label",
    r"dino|mae|[._]mim_|beit|seer|ijepa": "self-supervised",
}


def dataset(name: str) -> str:
    """Return the dataset that weights of this name were trained on first.

    >>> dataset("vit_small_patch16_224.augreg_in21k_ft_in1k")
    'imagenet-21k'
    """
    tokens = {re.compile(rf"(?<=[._])(?:{pattern})(?![a-z0-9])"): data for pattern, data in _DATASETS.items()}
    found = {match.start(): data for token, data in tokens.items() if (match := token.search(name))}
    return found[min(found)] if found else "unknown"


def framework(name: str) -> Framework:
    """Return the training framework of weights of this name: from the tag, else from the kind of data.

    >>> framework("ViT-B-32.laion2b_s34b_b79k"), framework("deit_tiny_distilled_patch16_224.fb_in1k")
    ('contrastive', 'distilled')
    """
    for pattern, found in _FRAMEWORKS.items():
        if re.search(pattern, name):
            return found
    data = dataset(name)
    if _CAPTIONED.match(data):
        return "contrastive"
    return "supervised" if data.startswith("imagenet") or data == "instagram-1b" else "unknown"


_FAMILY_WORD = re.compile(r"[a-z]+(?:\d[a-z]{2,})*(?:0?\d(?!\d))?")
_TWO_WORD_FAMILIES = {"bat", "dm", "eca", "ese", "gc", "inception", "lambda", "nf", "sam2", "tiny"}


def family(architecture: str) -> str:
    """Return the family of an architecture: its name without depth, width, patch, window and image size.

    >>> [family(name) for name in ("resnet50", "wide_resnet50_2", "vit_base_patch16_224", "ese_vovnet19b_dw", "eva02_base")]
    ['resnet', 'resnet', 'vit', 'ese_vovnet', 'eva02']
    """
    words = re.sub(r"^(?:tf|legacy|wide|test)_", "", architecture.lower()).split("_")
    kept = words[:2] if words[0] in _TWO_WORD_FAMILIES else words[:1]
    return "_".join(match.group() for word in kept if (match := _FAMILY_WORD.match(word)))
