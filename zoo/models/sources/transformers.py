"""Hugging Face transformers: classifiers, encoders and dual encoders, described by their configuration and image processor.

Code in a repository or folder is never run: every call passes `trust_remote_code=False`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import unknown
from zoo.core import files
from zoo.errors import InputError
from zoo.models import hub, weights
from zoo.models.sources.base import FromHub

if TYPE_CHECKING:
    from torch import Tensor, nn

    from zoo.models.heads.zero_shot import TextTower
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request
    from zoo.networks.network import Network

_FILES = ("model.safetensors", "model.safetensors.index.json")
_FINAL_LAYERS = ("classifier", "cls_classifier", "distillation_classifier", "head")
_RESAMPLE: dict[int, Any] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box"}  # as Pillow numbers them
_IMAGENET = {1000: "imagenet-1k", 21841: "imagenet-21k", 21843: "imagenet-21k"}


class Transformers(FromHub):
    def describe(self, id: str, name: str) -> Card:
        """Return the card of the repository `id`: a classifier, an encoder, or an image tower with a text tower."""
        for file in ("config.json", "preprocessor_config.json"):
            hub.fetch(name, id, (file,))
        return read_configuration(id, name)

    def repository(self, card: Card) -> str | None:
        return None if _folder(card) else card.id

    def files(self, card: Card) -> Sequence[Path]:
        folder = _folder(card)
        return super().files(card) if folder is None else sorted(path for path in folder.rglob("*") if path.is_file())

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources.assembly import assemble

        card = request.card
        kind = _class(card)
        if request.pretrained:
            digest, folder = _verified(card)
            model, first_token = _with_weights(kind, folder, card)
        else:
            digest, first_token = None, False
            with request.initialising():
                model = kind(_configuration(kind, card))
        model.eval().requires_grad_(False)
        if hasattr(model, "get_image_features"):
            loaded = assemble(request, _encoder(model), digest, text=lambda: _text(model, request))
            for side in ("text_model", "text_projection"):  # the head exists; the body needs only the image tower
                setattr(model, side, None)
            return loaded
        if card.head in ("trained", "fine-tuned", "class-mapping"):
            known = card.labels.startswith("imagenet")
            names = None if known else [model.config.id2label[index] for index in range(model.config.num_labels)]
            return assemble(request, _classifier(model, request), digest, classes=names)
        return assemble(request, _encoder(model, first_token), digest)


SOURCE = Transformers()


def read_configuration(place: str | Path, name: str) -> Card:
    """Return the card of a repository in the cache, or of a folder in the same format."""
    from transformers import AutoConfig, AutoImageProcessor

    try:
        config = AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False)
        processor = AutoImageProcessor.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        if "trust_remote_code" in reason:  # the library advises to run the model's code
            reason = "it needs Python code of its own, which is never run"
        raise InputError(f"transformers cannot read it as an image model: {reason}", where=name) from error
    return from_configuration(config, processor, str(place), name)


def from_configuration(config: Any, processor: Any, id: str, name: str) -> Card:
    """Return the card of a model from its configuration and its image processor."""
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
        body=f"# {id}\n\nAs its configuration describes it. Its licence, which the configuration does not name, is on "
        f"https://huggingface.co/{id}.",
    )


def transform(processor: Any, name: str) -> Transform:
    """Return the transform of an image processor: one resize, one centre crop and one affine map per channel."""
    size, crop = processor.size, processor.crop_size if getattr(processor, "do_center_crop", False) else None
    shortest = size.get("shortest_edge")
    fraction = getattr(processor, "crop_pct", None)  # ConvNeXt: below 384 pixels the crop is this fraction of the image
    resize: tuple[int, ...]
    if shortest and fraction:
        resize = (int(shortest / fraction),) if shortest < 384 else (shortest, shortest)
        height = width = shortest
    elif shortest and crop:
        resize, height, width = (shortest,), crop["height"], crop["width"]
    elif size.get("height") and size.get("width"):
        resize = size["height"], size["width"]
        height, width = (crop["height"], crop["width"]) if crop else resize
    else:
        raise InputError(f"a card cannot express an image processor without a fixed image size ({size})", where=name)
    mean, std = _normalisation(processor)
    return Transform((3, height, width), resize, _RESAMPLE[int(processor.resample)], mean, std)


def _normalisation(processor: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and std that do to values in 0..1 what the processor does to 0..255.

    A step (y - m) / s after y = (v - mean) / std gives (v - (mean + m std)) / (std s).
    """
    scale = 255 * processor.rescale_factor if processor.do_rescale else 255.0
    offset = 1.0 if getattr(processor, "rescale_offset", False) else 0.0
    mean, std = [offset / scale] * 3, [1 / scale] * 3
    steps = [(processor.image_mean, processor.image_std)] if processor.do_normalize else []
    if getattr(processor, "include_top", False):  # EfficientNet's classifiers divide a second time
        steps.append(([0.0] * 3, processor.image_std))
    for m, s in steps:
        mean = [centre + shift * width for centre, shift, width in zip(mean, m, std, strict=True)]
        std = [width * factor for width, factor in zip(std, s, strict=True)]
    return tuple(mean), tuple(std)


def _folder(card: Card) -> Path | None:
    """Return the folder of a card that describes a local folder instead of a repository."""
    folder = Path(card.id or "")
    return folder if folder.is_absolute() or card.name.startswith("file:") else None


def _class(card: Card) -> Any:
    import transformers

    kind = getattr(transformers, card.architecture, None)
    if kind is None or not hasattr(kind, "from_pretrained"):
        known_as = f"model of transformers {transformers.__version__}"
        raise unknown(known_as, card.architecture, dir(transformers), where=card.name)
    return kind


def _configuration(kind: Any, card: Card) -> Any:
    """Return the repository's configuration if it is cached, else the architecture's default."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(card.id, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        config = kind.config_class()
    return _without_masking(config)


def _without_masking(config: Any) -> Any:
    """Switch off the random masking of a masked autoencoder, which by default hides most patches."""
    if hasattr(config, "mask_ratio"):
        config.mask_ratio = 0.0
    return config


def _verified(card: Card) -> tuple[str, Path]:
    """Return the hash of the weights, which may be several files, and the folder of weights and configuration."""
    local = _folder(card)
    if local is not None:
        first = next((local / file for file in _FILES if (local / file).is_file()), None)
        if first is None:
            raise InputError(f"the folder {local} has neither {' nor '.join(_FILES)}", where=card.name)
    else:
        hub.fetch(card.name, str(card.id), ("config.json",), card.revision)
        first = hub.fetch(card.name, str(card.id), _FILES, card.revision)
    if first.suffix != ".json":
        return weights.verify(card, first), first.parent
    try:
        shards = sorted(set(files.parse_json(first.read_bytes(), str(first))["weight_map"].values()))
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError("does not list the weights files", where=f"{card.name}: {first}") from error
    paths = [local / s if local else hub.fetch(card.name, str(card.id), (s,), card.revision) for s in shards]
    return files.digest([weights.verify(card, path) for path in paths]), first.parent


def _with_weights(kind: Any, folder: Path, card: Card) -> tuple[Any, bool]:
    """Return the model and whether its weights lack a pooling layer; any other missing key is an error."""
    from transformers import AutoConfig

    config = _without_masking(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
    try:
        model, report = kind.from_pretrained(
            folder, config=config, local_files_only=True, use_safetensors=True, output_loading_info=True,
            trust_remote_code=False,
        )  # fmt: skip
    except (OSError, RuntimeError, ValueError) as error:
        problem = f"does not fit {card.architecture}: {' '.join(str(error).split())}"
        raise InputError(problem, where=f"{card.name}: {folder}") from error
    pooling = [key for key in report["missing_keys"] if "pooler" in key]
    wrong = sorted({*map(str, report["missing_keys"])} - {*pooling}) + sorted(map(str, report["mismatched_keys"]))
    if wrong or (pooling and card.head != "none"):
        bad = wrong or pooling
        problem = f"{len(bad)} keys are missing or have another shape, e.g. {bad[0]!r}"
        raise InputError(f"does not fit {card.architecture}: {problem}", where=f"{card.name}: {folder}")
    return model, bool(pooling)


def _encoder(model: "nn.Module", first_token: bool = False) -> "Network":
    from zoo.models.sources.head_split import PooledEncoder
    from zoo.networks import blocks
    from zoo.networks.network import Network

    return Network(PooledEncoder(model, first_token), None, blocks.find(getattr(model, "vision_model", model)))


def _classifier(model: "nn.Module", request: "Request") -> "Network":
    """Return the classifier split before its final linear layer, which may be the last one of a sequence."""
    from torch import nn

    from zoo.models.sources.head_split import LogitsClassifier, split
    from zoo.networks import blocks
    from zoo.networks.network import Network

    body = LogitsClassifier(model)
    final = []
    for name in _FINAL_LAYERS:
        layer = getattr(model, name, None)
        if isinstance(layer, nn.Module) and not isinstance(layer, nn.Identity):
            inner = [path for path, module in layer.named_modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
            final.append(".".join(filter(None, ("model", name, inner[-1] if inner else ""))))
    if not final:
        problem = f"{type(model).__name__} has no final layer"
        raise InputError(problem, where=request.card.name, hint="Use the head `none` on its card, to load it as an encoder")
    head = split(body, final, request.example(), request.card.name)
    return Network(body, head, blocks.find(model))


def _text(model: Any, request: "Request") -> "TextTower":
    import torch

    from zoo.models.heads.zero_shot import TextTower
    from zoo.models.sources.head_split import PooledEncoder

    if not request.pretrained:
        with torch.inference_mode():
            width = PooledEncoder(model)(request.example()).shape[1]
        return TextTower(width, 1 / 0.07, 0.0, None)
    # Most models store the logarithm of the scale, ALIGN its inverse; SigLIP also has a bias.
    scale = float(1 / model.temperature) if hasattr(model, "temperature") else float(model.logit_scale.exp())
    bias = float(model.logit_bias) if getattr(model, "logit_bias", None) is not None else 0.0
    tokenizer = _tokenizer(request.card)
    # SigLIP was trained on sentences padded to a fixed length and is less accurate with any other length.
    padding = "max_length" if model.config.model_type.startswith("siglip") else True
    model.to(request.device)

    def encode(texts: list[str]) -> "Tensor":
        tokens = tokenizer(texts, padding=padding, truncation=True, return_tensors="pt").to(request.device)
        features = model.get_text_features(**tokens)
        return (features if isinstance(features, torch.Tensor) else features.pooler_output).cpu()

    with torch.inference_mode():
        width = encode(["a"]).shape[1]
    return TextTower(width, scale, bias, encode)


def _tokenizer(card: Card) -> Any:
    """Return the tokenizer of a repository. Its files are fetched first; without them the library returns an empty one."""
    from transformers import AutoTokenizer

    if not Path(card.id or "").is_dir():
        for candidates in (("tokenizer.json", "spiece.model", "vocab.txt"), ("tokenizer_config.json",)):
            hub.fetch(card.name, str(card.id), candidates, card.revision)
    revision = card.revision or "main"
    return AutoTokenizer.from_pretrained(card.id, revision=revision, local_files_only=True, trust_remote_code=False)
