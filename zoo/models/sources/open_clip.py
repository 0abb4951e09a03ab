"""open_clip: image towers with a zero-shot head, which the text tower computes once from sentences."""

import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import unknown
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
_INITIAL_SCALE = 1 / 0.07  # of open_clip, unless a configuration says otherwise


class OpenClip(FromHub):
    def describe(self, id: str, name: str) -> Card:
        """Return the card of open_clip's `ARCH/TAG`, with a zero-shot head, without building the network."""
        import open_clip

        architecture, tag = _names(id, name)
        config = open_clip.get_model_config(architecture)
        pretrained = open_clip.get_pretrained_cfg(architecture, tag)
        # Only the pairwise sigmoid loss has a bias in addition to the temperature.
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
            transform=transform(config["vision_cfg"], pretrained, name),
            title=f"{architecture} {tag}",
            body=f"# {architecture} {tag}\n\nAs open_clip {open_clip.__version__} describes it; weights from "
            f"{_origin(pretrained)}, which also states their licence: open_clip does not.",
        )

    def load(self, request: "Request") -> "Model":
        import open_clip
        from open_clip.model import _build_vision_tower

        from zoo.models.sources.assembly import assemble
        from zoo.networks import blocks
        from zoo.networks.network import Network

        card = request.card
        architecture, _, tag = (card.id or "").rpartition("/")
        config = open_clip.get_model_config(architecture)
        if config is None:
            raise _unknown_architecture(architecture, card.name)
        if not request.pretrained:
            with request.initialising():
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


def transform(vision: dict[str, Any], pretrained: dict[str, Any], name: str) -> Transform:
    """Return open_clip's evaluation transform: its defaults, overridden by the settings of the weights."""
    from open_clip.model import CLIPVisionCfg
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    data = merge_preprocess_dict(asdict(PreprocessCfg()), pretrained)
    side = vision.get("image_size", CLIPVisionCfg.image_size)
    height, width = (side, side) if isinstance(side, int) else side
    if data["resize_mode"] not in ("shortest", "squash"):
        raise InputError(f"a card cannot express open_clip's resize mode {data['resize_mode']!r}", where=name)
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
    """Return architecture and tag as open_clip spells them; `ViT-B/32` is accepted for `ViT-B-32`."""
    import open_clip

    architecture, _, tag = id.rpartition("/")
    architecture = architecture.replace("/", "-")
    if not architecture and id in open_clip.list_models():
        known = open_clip.list_pretrained_tags_by_model(id)
        hint = f"Tags of {id}: {', '.join(known)}"
        raise InputError(argument="name", expected="open_clip:ARCH/TAG", found=name, hint=hint)
    if architecture not in open_clip.list_models():
        raise _unknown_architecture(architecture or id, name)
    known = open_clip.list_pretrained_tags_by_model(architecture)
    spellings = {known_tag.lower().replace("-", "_"): known_tag for known_tag in known}
    spelt = spellings.get(tag.lower().replace("-", "_"))
    if spelt is None:
        raise _unknown_tag(architecture, tag, name)
    return _activation_variant(architecture, spelt), spelt


def _unknown_architecture(architecture: str, name: str) -> UnknownName:
    import open_clip

    kind = f"architecture of open_clip {open_clip.__version__}"
    return unknown(kind, architecture, open_clip.list_models(), where=name)


def _unknown_tag(architecture: str, tag: str, name: str) -> UnknownName:
    import open_clip

    known = open_clip.list_pretrained_tags_by_model(architecture)
    kind = f"weights of {architecture} in open_clip {open_clip.__version__}"
    return unknown(kind, tag, known, list_known=True, where=name)


def _activation_variant(architecture: str, tag: str) -> str:
    """Return the variant of the architecture with the activation that these weights were trained with.

    OpenAI's weights need QuickGELU; open_clip only warns when it loads them into a GELU network.
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


def _origin(pretrained: dict[str, Any]) -> str:
    return f"https://huggingface.co/{pretrained['hf_hub'].rstrip('/')}" if pretrained.get("hf_hub") else pretrained["url"]


def _random_text(config: dict[str, Any]) -> "Callable[[], TextTower]":
    import torch

    from zoo.models.heads.zero_shot import TextTower

    scale = float(torch.tensor(config["init_logit_scale"]).exp()) if "init_logit_scale" in config else _INITIAL_SCALE
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
    raise _unknown_tag(architecture, tag, name)


def _with_weights(name: str, architecture: str, path: Path) -> Any:
    """Return both towers with the weights of a file, whose keys must all fit; no code in the file is run."""
    import open_clip

    try:
        model = open_clip.create_model(architecture, pretrained=str(path), require_pretrained=True, weights_only=True)
    except pickle.UnpicklingError as error:
        problem = "refused, because it is a pickle with more than tensors, which could run code"
        raise InputError(problem, where=f"{name}: {path}", hint="Use a safetensors file") from error
    except (RuntimeError, KeyError) as error:
        if "weights_only" in str(error):
            raise weights.unsafe_file(path, name) from error
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"does not fit the network {architecture}: {reason}", where=f"{name}: {path}") from error
    return model.eval().requires_grad_(False)
