"""Classifiers, encoders and dual encoders of Hugging Face transformers."""

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from zoo import files, weights
from zoo.cards import Card
from zoo.errors import InputError, UnknownName
from zoo.heads.zero_shot import TextTower
from zoo.model import Model, Network
from zoo.names import near
from zoo.sources import blocks
from zoo.sources.assembly import Request, assemble
from zoo.sources.splitting import split

_FILES = ("model.safetensors", "model.safetensors.index.json")
_FINAL_LAYERS = ("classifier", "cls_classifier", "distillation_classifier", "head")


class Pooled(nn.Module):
    """An encoder or a picture tower as a function from pixels [N, C, H, W] to one vector a picture [N, D]."""

    def __init__(self, model: nn.Module, first_token: bool = False) -> None:
        super().__init__()
        self.model = model
        self.first_token = first_token  # instead of the pooled output, where the weights have no pooling layer

    def forward(self, pixels: Tensor) -> Tensor:
        image_features = getattr(self.model, "get_image_features", None)
        output = self.model(pixel_values=pixels) if image_features is None else image_features(pixel_values=pixels)
        if isinstance(output, Tensor):
            return output
        pooled = getattr(output, "pooler_output", None)
        if pooled is None or self.first_token:
            hidden: Tensor = output.last_hidden_state
            return hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))
        return pooled.flatten(1)


class Logits(nn.Module):
    """A classifier as a function from pixels to its logits; with its final layer taken out, to its embeddings."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=pixels).logits
        return logits


def load(request: Request) -> Model:
    """The model of a card whose `id` is a repository on the hub, or a folder in the same form."""
    card = request.card
    kind = _class(card)
    if request.weights:
        digest, folder = _verified(card)
        model, first_token = _with_weights(kind, folder, card)
    else:
        digest, first_token = None, False
        with request.beginning():
            model = kind(_configuration(kind, card))
    model.eval().requires_grad_(False)
    if hasattr(model, "get_image_features"):
        loaded = assemble(request, _encoder(model), digest, text=lambda: _text(model, request))
        for side in ("text_model", "text_projection"):  # the head is made; the body needs the picture's side alone
            setattr(model, side, None)
        return loaded
    if card.head in ("trained", "fine-tuned", "class-mapping"):
        known = card.labels.startswith("imagenet")
        names = None if known else [model.config.id2label[index] for index in range(model.config.num_labels)]
        return assemble(request, _classifier(model, request), digest, classes=names)
    return assemble(request, _encoder(model, first_token), digest)


def _class(card: Card) -> Any:
    kind = getattr(transformers, card.architecture, None)
    if kind is None or not hasattr(kind, "from_pretrained"):
        raise UnknownName(f"{card.name}: transformers {transformers.__version__} has no model {card.architecture!r}"
                          f"{near(card.architecture, dir(transformers))}")  # fmt: skip
    return kind


def _configuration(kind: Any, card: Card) -> Any:
    """The repository's configuration where it is cached, else the architecture's default one."""
    try:
        config = transformers.AutoConfig.from_pretrained(card.id, local_files_only=True)
    except (OSError, ValueError):
        config = kind.config_class()
    return _whole_picture(config)


def _whole_picture(config: Any) -> Any:
    """Masked autoencoders hide most patches, at random, unless told not to."""
    if hasattr(config, "mask_ratio"):
        config.mask_ratio = 0.0
    return config


def _verified(card: Card) -> tuple[str, Path]:
    """The hash of the weights, one file or several, and the folder they and the configuration are in."""
    local = Path(card.id or "")
    if local.is_dir():
        first = next((local / file for file in _FILES if (local / file).is_file()), None)
        if first is None:
            raise InputError(f"{card.name}: the folder {local} has neither {' nor '.join(_FILES)}")
    else:
        weights.hub_file(card.name, str(card.id), ("config.json",), card.revision)
        first = weights.hub_file(card.name, str(card.id), _FILES, card.revision)
    if first.suffix != ".json":
        return weights.verify(card, first), first.parent
    try:
        shards = sorted(set(files.parse_json(first.read_bytes(), str(first))["weight_map"].values()))
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{card.name}: {first} does not list the files of the weights") from error
    paths = [local / s if local.is_dir() else weights.hub_file(card.name, str(card.id), (s,), card.revision) for s in shards]
    return files.digest([weights.verify(card, path) for path in paths]), first.parent


def _with_weights(kind: Any, folder: Path, card: Card) -> tuple[Any, bool]:
    """The model, and whether its pooling layer is missing from the weights; anything else missing is an error."""
    config = _whole_picture(transformers.AutoConfig.from_pretrained(folder, local_files_only=True))
    try:
        model, report = kind.from_pretrained(
            folder, config=config, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{card.name}: {folder} does not fit {card.architecture}: {' '.join(str(error).split())}"
        ) from error
    pooling = [key for key in report["missing_keys"] if "pooler" in key]
    wrong = sorted({*map(str, report["missing_keys"])} - {*pooling}) + sorted(map(str, report["mismatched_keys"]))
    if wrong or (pooling and card.head != "none"):
        bad = wrong or pooling
        raise InputError(
            f"{card.name}: the weights in {folder} do not fit {card.architecture}: {len(bad)} keys missing or of another "
            f"shape, e.g. {bad[0]!r}"
        )
    return model, bool(pooling)


def _encoder(model: nn.Module, first_token: bool = False) -> Network:
    body = Pooled(model, first_token)
    return Network(body, None, blocks.find(getattr(model, "vision_model", model)))


def _classifier(model: nn.Module, request: Request) -> Network:
    """The classifier cut before its final linear layer, which some models keep at the end of a sequence."""
    body = Logits(model)
    final = []
    for name in _FINAL_LAYERS:
        layer = getattr(model, name, None)
        if isinstance(layer, nn.Module) and not isinstance(layer, nn.Identity):
            inner = [path for path, module in layer.named_modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
            final.append(".".join(filter(None, ("model", name, inner[-1] if inner else ""))))
    if not final:
        raise InputError(f"{request.card.name}: no final layer found in {type(model).__name__}; load it as an encoder")
    head = split(body, final, request.example(), request.card.name)
    return Network(body, head, blocks.find(model))


def _text(model: Any, request: Request) -> TextTower:
    if not request.weights:
        with torch.inference_mode():
            width = Pooled(model)(request.example()).shape[1]
        return TextTower(width, 1 / 0.07, 0.0, None)
    # Most towers keep the logarithm of the scale, ALIGN its inverse; SigLIP has a bias beside it.
    scale = float(1 / model.temperature) if hasattr(model, "temperature") else float(model.logit_scale.exp())
    bias = float(model.logit_bias) if getattr(model, "logit_bias", None) is not None else 0.0
    tokenizer = _tokenizer(request.card)
    # SigLIP was trained on sentences filled up to a fixed length and does worse with any other.
    padding = "max_length" if model.config.model_type.startswith("siglip") else True
    model.to(request.device)

    def encode(texts: list[str]) -> Tensor:
        tokens = tokenizer(texts, padding=padding, truncation=True, return_tensors="pt").to(request.device)
        features = model.get_text_features(**tokens)
        return (features if isinstance(features, Tensor) else features.pooler_output).cpu()

    with torch.inference_mode():
        width = encode(["a"]).shape[1]
    return TextTower(width, scale, bias, encode)


def _tokenizer(card: Card) -> Any:
    """The tokenizer of a repository; its files are asked for by name, since without them the library makes an empty one."""
    if not Path(card.id or "").is_dir():
        for candidates in (("tokenizer.json", "spiece.model", "vocab.txt"), ("tokenizer_config.json",)):
            weights.hub_file(card.name, str(card.id), candidates, card.revision)
    return transformers.AutoTokenizer.from_pretrained(card.id, revision=card.revision or "main", local_files_only=True)
