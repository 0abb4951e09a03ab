"""Cards from timm's registry: its pretrained configurations hold licence, input, transform and classes."""

import math
from typing import Any

from zoo.cards import Card, Training, Transform
from zoo.catalogue import tags
from zoo.errors import UnknownName
from zoo.names import near


def describe(id: str, name: str) -> Card:
    """The card of timm's model `id`; without a tag, of timm's default one. Does not build the network."""
    import timm
    from timm.data.imagenet_info import infer_imagenet_subset

    id = timm.models.get_deprecated_models().get(id, id)
    config = _config(id, name)
    architecture, tag = config.architecture, config.tag
    id = f"{architecture}.{tag}" if tag else architecture
    # timm's CLIP towers call their projection a classifier; only a known number of classes is a label set.
    labels = infer_imagenet_subset(config.to_dict()) if config.num_classes else None
    return Card(
        name=name,
        source="timm",
        id=id,
        family=tags.family(architecture),
        architecture=architecture,
        labels=labels or "none",
        link="softmax",
        head="trained" if labels else "none",
        training=Training(
            dataset=tags.dataset(id),
            framework=tags.framework(id),
            objective="unknown",
            hyperparameters={"tag": tag} if tag else {},
        ),
        transform=transform(config),
        license=config.license or "unknown",
        title=id,
        body=f"# {id}\n\nAs timm {timm.__version__} describes it; weights from {_origin(config)}.",
    )


def transform(config: Any) -> Transform:
    """timm's evaluation transform: the picture is scaled so that the crop is `crop_pct` of it."""
    from timm.data import resolve_data_config

    data = resolve_data_config(pretrained_cfg=config.to_dict())
    _, height, width = data["input_size"]
    resize: tuple[int, ...] = tuple(math.floor(side / data["crop_pct"]) for side in (height, width))
    if data["crop_mode"] == "center" and height == width:
        resize = resize[:1]
    return Transform(
        size=tuple(data["input_size"]),
        resize=resize,
        interpolation=data["interpolation"],
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
        fit="squash" if len(resize) == 1 else _FITS[data["crop_mode"]],
    )


_FITS: dict[str, Any] = {"squash": "squash", "center": "cover", "border": "inside"}


def _config(id: str, name: str) -> Any:
    import timm

    architecture, _, tag = id.partition(".")
    if not timm.is_model(architecture):
        raise UnknownName(f"{name}: timm {timm.__version__} has no architecture {architecture!r}"
                          f"{near(architecture, timm.list_models())}")  # fmt: skip
    known = timm.models.get_arch_pretrained_cfgs(architecture)
    if tag and id not in known:
        raise UnknownName(f"{name}: timm {timm.__version__} has no weights {tag!r} for {architecture}"
                          f"{near(id, known) or '; it has ' + ', '.join(known)}")  # fmt: skip
    return timm.models.get_pretrained_cfg(id)


def _origin(config: Any) -> str:
    if config.hf_hub_id:
        return f"https://huggingface.co/{config.hf_hub_id}"
    return config.url or "nowhere: none are published"
