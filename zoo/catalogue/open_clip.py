"""Cards from open_clip's registry: image and text towers whose classes are sentences."""

from dataclasses import asdict
from typing import Any

from zoo.cards import Card, Training, Transform
from zoo.catalogue import tags
from zoo.errors import InputError, UnknownName
from zoo.names import near


def describe(id: str, name: str) -> Card:
    """The card of open_clip's `ARCH/TAG`, with a zero-shot head. Does not build the network."""
    import open_clip

    architecture, tag = _names(id, name)
    config = open_clip.get_model_config(architecture)
    weights = open_clip.get_pretrained_cfg(architecture, tag)
    # A bias beside the temperature is what the pairwise sigmoid loss adds to the softmax one.
    pairwise = "init_logit_bias" in config
    return Card(
        name=name,
        source="open_clip",
        id=f"{architecture}/{tag}",
        family=_family(config["vision_cfg"]),
        architecture=architecture,
        labels="imagenet-1k",
        link="sigmoid" if pairwise else "softmax",
        head="zero-shot",
        training=Training(
            dataset=tags.dataset(f"{architecture}.{tag}"),
            framework="contrastive",
            objective="contrastive-sigmoid" if pairwise else "contrastive-softmax",
            hyperparameters={"tag": tag},
        ),
        transform=transform(config["vision_cfg"], weights, name),
        title=f"{architecture} {tag}",
        body=f"# {architecture} {tag}\n\nAs open_clip {open_clip.__version__} describes it; weights from "
        f"{_origin(weights)}, which also states their licence: open_clip does not.",
    )


def transform(vision: dict[str, Any], weights: dict[str, Any], name: str) -> Transform:
    """open_clip's evaluation transform: its defaults, overlaid by what the weights were trained with."""
    from open_clip.model import CLIPVisionCfg
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    data = merge_preprocess_dict(asdict(PreprocessCfg()), weights)
    side = vision.get("image_size", CLIPVisionCfg.image_size)
    height, width = (side, side) if isinstance(side, int) else side
    if data["resize_mode"] not in ("shortest", "squash"):
        raise InputError(f"{name}: open_clip resizes its pictures by {data['resize_mode']!r}, which no card can express")
    cover = data["resize_mode"] == "shortest"
    return Transform(
        size=(3, height, width),
        resize=(height,) if cover and height == width else (height, width),
        interpolation=data["interpolation"],
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
        fit="cover" if cover and height != width else "squash",
    )


def _names(id: str, name: str) -> tuple[str, str]:
    """Architecture and tag as open_clip spells them; it takes `ViT-B/32` for `ViT-B-32`."""
    import open_clip

    architecture, _, tag = id.rpartition("/")
    architecture = architecture.replace("/", "-")
    if not architecture and id in open_clip.list_models():
        raise InputError(f"{name}: expected open_clip:ARCH/TAG; tags of {id}: "
                         f"{', '.join(open_clip.list_pretrained_tags_by_model(id))}")  # fmt: skip
    if architecture not in open_clip.list_models():
        raise UnknownName(f"{name}: open_clip {open_clip.__version__} has no architecture {architecture or id!r}"
                          f"{near(architecture or id, open_clip.list_models())}")  # fmt: skip
    known = open_clip.list_pretrained_tags_by_model(architecture)
    spelt = {known_tag.lower().replace("-", "_"): known_tag for known_tag in known}
    if tag.lower().replace("-", "_") not in spelt:
        raise UnknownName(f"{name}: open_clip {open_clip.__version__} has no weights {tag!r} for {architecture}"
                          f"{near(tag, known) or '; it has ' + (', '.join(known) or 'none at all')}")  # fmt: skip
    return _activation(architecture, tag := spelt[tag.lower().replace("-", "_")]), tag


def _activation(architecture: str, tag: str) -> str:
    """The variant of the architecture that has the activation these weights were trained with.

    OpenAI's weights need QuickGELU; open_clip puts them into a GELU network with no more than a warning.
    """
    import open_clip

    quick = open_clip.get_pretrained_cfg(architecture, tag).get("quick_gelu", False)
    variant = f"{architecture}-quickgelu"
    if (
        quick
        and not open_clip.get_model_config(architecture).get("quick_gelu", False)
        and variant in open_clip.list_models()
    ):
        return variant
    return architecture


def _family(vision: dict[str, Any]) -> str:
    if "timm_model_name" in vision:
        return tags.family(vision["timm_model_name"])
    return "vit" if isinstance(vision.get("layers"), int) else "clip_resnet"


def _origin(weights: dict[str, Any]) -> str:
    return f"https://huggingface.co/{weights['hf_hub'].rstrip('/')}" if weights.get("hf_hub") else weights["url"]
