"""Cards from the configuration and image processor of a Hugging Face repository, as `transformers` reads them."""

from typing import Any

from zoo.cards import Card, Training, Transform
from zoo.catalogue import hub
from zoo.errors import InputError

_RESAMPLE: dict[int, Any] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box"}  # as Pillow numbers them
_IMAGENET = {1000: "imagenet-1k", 21841: "imagenet-21k", 21843: "imagenet-21k"}


def describe(id: str, name: str) -> Card:
    """The card of the repository `id`: a classifier, an encoder, or an image and a text tower."""
    for file in ("config.json", "preprocessor_config.json"):
        hub.fetch(id, file, name)
    from transformers import AutoConfig, AutoImageProcessor

    try:
        config = AutoConfig.from_pretrained(id, local_files_only=True)
        processor = AutoImageProcessor.from_pretrained(id, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: transformers cannot read it as an image model: {' '.join(str(error).split())}") from error
    return from_configuration(config, processor, id, name)


def from_configuration(config: Any, processor: Any, id: str, name: str) -> Card:
    """The card that a model's configuration and its image processor amount to."""
    two_towers = hasattr(config, "vision_config") and hasattr(config, "text_config")
    classifier = any(kind.endswith("ForImageClassification") for kind in config.architectures or ())
    pairwise = config.model_type.startswith("siglip")
    labels = "imagenet-1k" if two_towers else _IMAGENET.get(config.num_labels, name) if classifier else "none"
    objective = ("contrastive-sigmoid" if pairwise else "contrastive-softmax") if two_towers else "unknown"
    return Card(
        name=name,
        source="transformers",
        id=id,
        family=config.model_type,
        architecture=(config.architectures or [config.model_type])[0],
        labels=labels,
        link="sigmoid" if pairwise else "softmax",
        head="zero-shot" if two_towers else "trained" if classifier else "none",
        training=Training("unknown", "contrastive" if two_towers else "unknown", objective),
        transform=transform(processor, name),
        title=id,
        body=f"# {id}\n\nAs its configuration describes it. Its licence, which the configuration does not name, stands "
        f"on https://huggingface.co/{id}.",
    )


def transform(processor: Any, name: str) -> Transform:
    """What an image processor does, as one resize, one centre crop and one affine map of each channel."""
    size, crop = processor.size, processor.crop_size if getattr(processor, "do_center_crop", False) else None
    shortest = size.get("shortest_edge")
    share = getattr(processor, "crop_pct", None)  # ConvNeXt's: below 384 pixels the crop is this share of the picture
    resize: tuple[int, ...]
    if shortest and share:
        resize = (int(shortest / share),) if shortest < 384 else (shortest, shortest)
        height = width = shortest
    elif shortest and crop:
        resize, height, width = (shortest,), crop["height"], crop["width"]
    elif size.get("height") and size.get("width"):
        resize = size["height"], size["width"]
        height, width = (crop["height"], crop["width"]) if crop else resize
    else:
        raise InputError(f"{name}: its image processor has no fixed picture size ({size}), which no card can express")
    mean, std = _normalisation(processor)
    return Transform((3, height, width), resize, _RESAMPLE[int(processor.resample)], mean, std)


def _normalisation(processor: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and std that do to 0..1 what the processor does to 0..255.

    A step (y - m) / s after y = (v - mean) / std makes (v - (mean + m std)) / (std s).
    """
    scale = 255 * processor.rescale_factor if processor.do_rescale else 255.0
    offset = 1.0 if getattr(processor, "rescale_offset", False) else 0.0
    mean, std = [offset / scale] * 3, [1 / scale] * 3
    steps = [(processor.image_mean, processor.image_std)] if processor.do_normalize else []
    if getattr(processor, "include_top", False):  # EfficientNet's classifiers divide once more
        steps.append(([0.0] * 3, processor.image_std))
    for m, s in steps:
        mean = [centre + shift * width for centre, shift, width in zip(mean, m, std, strict=True)]
        std = [width * factor for width, factor in zip(std, s, strict=True)]
    return tuple(mean), tuple(std)
