"""Picture towers of open_clip; their text towers make zero-shot heads and are let go."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import open_clip
import torch
from open_clip.model import _build_vision_tower
from torch import Tensor

from zoo import weights
from zoo.errors import InputError
from zoo.heads.zero_shot import TextTower
from zoo.model import Model, Network
from zoo.sources import blocks
from zoo.sources.assembly import Request, assemble

_OPEN_CLIP_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
_SCALE = 1 / 0.07  # what open_clip starts from where a configuration does not say


def load(request: Request) -> Model:
    """The model of a card whose source is open_clip; `id` is `ARCH/TAG`."""
    card = request.card
    architecture, _, tag = (card.id or "").rpartition("/")
    config = open_clip.get_model_config(architecture)
    if config is None:
        raise InputError(f"{card.name}: open_clip {open_clip.__version__} has no architecture {architecture!r}")
    if not request.weights:
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


def _random_text(config: dict[str, Any]) -> Callable[[], TextTower]:
    scale = float(torch.tensor(config["init_logit_scale"]).exp()) if "init_logit_scale" in config else _SCALE
    return lambda: TextTower(config["embed_dim"], scale, config.get("init_logit_bias", 0.0), None)


def _text(model: Any, architecture: str, device: torch.device) -> TextTower:
    tokenizer = open_clip.get_tokenizer(architecture)

    def encode(texts: list[str]) -> Tensor:
        features: Tensor = model.encode_text(tokenizer(texts).to(device))
        return features.cpu()

    with torch.inference_mode():
        width = encode(["a"]).shape[1]
    bias = 0.0 if model.logit_bias is None else float(model.logit_bias)
    return TextTower(width, float(model.logit_scale.exp()), bias, encode)


def _file(name: str, architecture: str, tag: str, revision: str | None) -> Path:
    config = open_clip.get_pretrained_cfg(architecture, tag)
    if config.get("hf_hub"):
        repository, _, file = config["hf_hub"].rpartition("/")
        candidates = (file.rsplit(".", 1)[0] + ".safetensors", file) if file else _OPEN_CLIP_FILES
        return weights.hub_file(name, repository, tuple(dict.fromkeys(candidates)), revision)
    if config.get("url"):
        return weights.url_file(name, config["url"])
    raise InputError(f"{name}: open_clip {open_clip.__version__} has no weights {tag!r} for {architecture}")


def _with_weights(name: str, architecture: str, path: Path) -> Any:
    """Both towers with the weights of a file, every key of which must fit; read without unpickling."""
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
