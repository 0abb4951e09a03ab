"""open_clip: image and text towers whose classes are sentences. The text tower makes the zero-shot head and is let go."""

import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import near
from zoo.errors import InputError, UnknownName
from zoo.models import hub, weights
from zoo.models.sources import tags
from zoo.models.sources.base import FromHub

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from zoo.models.heads.zero_shot import TextTower
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request

_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
_SCALE = 1 / 0.07  # what open_clip starts from where a configuration does not say


class OpenClip(FromHub):
    def describe(self, id: str, name: str) -> Card:
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

    def load(self, request: "Request") -> "Model":
        """The image tower of a card whose `id` is `ARCH/TAG`, with its head."""
        import open_clip
        from open_clip.model import _build_vision_tower

        from zoo.models.sources.assembly import assemble
        from zoo.networks import blocks
        from zoo.networks.network import Network

        card = request.card
        architecture, _, tag = (card.id or "").rpartition("/")
        config = open_clip.get_model_config(architecture)
        if config is None:
            raise InputError(f"{card.name}: open_clip {open_clip.__version__} has no architecture {architecture!r}")
        if not request.pretrained:
            with request.beginning():
                quick = config.get("quick_gelu", False)
                tower = _build_vision_tower(config["embed_dim"], config["vision_cfg"], quick)
            text = _random_text(config)
            return assemble(request, Network(tower, None, blocks.find(tower)), None, text=text)
        path = _file(card.name, architecture, tag, card.revision)
        digest = weights.verify(card, path)
        model = _with_weights(card.name, architecture, path)
        network = Network(model.visual, None, blocks.find(model.visual))
        return assemble(request, network, digest, text=lambda: _text(model.to(request.device), architecture, request.device))


SOURCE = OpenClip()


def transform(vision: dict[str, Any], weights: dict[str, Any], name: str) -> Transform:
    """open_clip's evaluation transform: its defaults, overlaid by what the weights were trained with."""
    from open_clip.model import CLIPVisionCfg
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    data = merge_preprocess_dict(asdict(PreprocessCfg()), weights)
    side = vision.get("image_size", CLIPVisionCfg.image_size)
    height, width = (side, side) if isinstance(side, int) else side
    if data["resize_mode"] not in ("shortest", "squash"):
        raise InputError(f"{name}: open_clip resizes its images by {data['resize_mode']!r}, which no card can express")
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


def _random_text(config: dict[str, Any]) -> "Callable[[], TextTower]":
    import torch

    from zoo.models.heads.zero_shot import TextTower

    scale = float(torch.tensor(config["init_logit_scale"]).exp()) if "init_logit_scale" in config else _SCALE
    return lambda: TextTower(config["embed_dim"], scale, config.get("init_logit_bias", 0.0), None)


def _text(model: Any, architecture: str, device: "torch.device") -> "TextTower":
    import open_clip
    import torch

    from zoo.models.heads.zero_shot import TextTower

    tokenizer = open_clip.get_tokenizer(architecture)

    def encode(texts: list[str]) -> "Tensor":
        features: Tensor = model.encode_text(tokenizer(texts).to(device))
        return features.cpu()

    with torch.inference_mode():
        width = encode(["a"]).shape[1]
    bias = 0.0 if model.logit_bias is None else float(model.logit_bias)
    return TextTower(width, float(model.logit_scale.exp()), bias, encode)


def _file(name: str, architecture: str, tag: str, revision: str | None) -> Path:
    import open_clip

    config = open_clip.get_pretrained_cfg(architecture, tag)
    if config.get("hf_hub"):
        repository, _, file = config["hf_hub"].rpartition("/")
        candidates = (file.rsplit(".", 1)[0] + ".safetensors", file) if file else _FILES
        return hub.fetch(name, repository, tuple(dict.fromkeys(candidates)), revision)
    if config.get("url"):
        return hub.url_file(name, config["url"])
    raise InputError(f"{name}: open_clip {open_clip.__version__} has no weights {tag!r} for {architecture}")


def _with_weights(name: str, architecture: str, path: Path) -> Any:
    """Both towers with the weights of a file, every key of which must fit; read without unpickling."""
    import open_clip

    try:
        model = open_clip.create_model(architecture, pretrained=str(path), require_pretrained=True, weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{name}: {path} is a pickle that holds more than tensors, which could run code; refused"
        ) from error
    except (RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{name}: {path} does not fit the network {architecture}: {reason}") from error
    return model.eval().requires_grad_(False)
