"""timm: its networks and weights, with cards from its registry (licence, transform, classes)."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import similar, unknown
from zoo.errors import InputError, MissingWeights, UnknownName
from zoo.models import hub, weights
from zoo.models.sources import tags
from zoo.models.sources.base import FromHub

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request
    from zoo.networks.network import Network

_FILES = ("model.safetensors", "pytorch_model.bin")


class Timm(FromHub):
    def describe(self, id: str, name: str) -> Card:
        """Return the card of timm's model `id`, with timm's default tag if it has none, without building the network."""
        import timm
        from timm.data.imagenet_info import infer_imagenet_subset

        id = timm.models.get_deprecated_models().get(id, id)
        config = _config(id, name)
        architecture, tag = config.architecture, config.tag
        id = f"{architecture}.{tag}" if tag else architecture
        # timm's CLIP towers call their projection a classifier; only a known number of classes means a label set.
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

    def load(self, request: "Request") -> "Model":
        import timm

        from zoo.models.sources.assembly import assemble

        card = request.card
        name = card.id or card.architecture
        if not request.pretrained:
            with request.initialising():
                model = timm.create_model(name)
            return assemble(request, network(request, model), None)
        path = _file(card)
        digest = weights.verify(card, path)
        return assemble(request, network(request, _with_weights(card, name, path)), digest)


SOURCE = Timm()


def transform(config: Any) -> Transform:
    """Return timm's evaluation transform, whose crop is the fraction `crop_pct` of the resized image."""
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
    _check_architecture(architecture, name)
    known = timm.models.get_arch_pretrained_cfgs(architecture)
    if tag and id not in known:
        kind, hint = f"weights of {architecture} in timm {timm.__version__}", f"Known: {', '.join(known)}"
        raise UnknownName(where=name, kind=kind, name=tag, suggestions=similar(id, known), hint=hint)
    return timm.models.get_pretrained_cfg(id)


def _check_architecture(architecture: str, name: str) -> None:
    import timm

    if not timm.is_model(architecture):
        raise unknown(f"architecture of timm {timm.__version__}", architecture, timm.list_models(), where=name)


def _origin(config: Any) -> str:
    if config.hf_hub_id:
        return f"https://huggingface.co/{config.hf_hub_id}"
    return config.url or "nowhere, since none were published"


def architectures() -> list[str]:
    """Return the architectures that timm can build."""
    import timm

    names: list[str] = timm.list_models()
    return names


def usual_transform(architecture: str, name: str) -> Transform:
    """Return the transform of the architecture's default weights."""
    return transform(_config(architecture, name))


def fill(name: str, model: Any, state: "dict[str, Tensor]", where: str) -> None:
    """Load a state dictionary into one of timm's networks."""
    from zoo.models.sources.assembly import fit

    fit(name, model, state, where)


def untrained(architecture: str, num_classes: int, name: str) -> Any:
    """Return timm's network of an architecture with random weights."""
    import timm

    _check_architecture(architecture, name)
    return timm.create_model(architecture, num_classes=num_classes)


def network(request: "Request", model: Any) -> "Network":
    """Return timm's model split before its final layer, or unsplit if the card says that it has no head."""
    from zoo.models.sources.head_split import split
    from zoo.networks import blocks
    from zoo.networks.network import Network

    paths = final_layers(model)
    head = None
    if paths and request.card.head != "none":
        head = split(model, paths, request.example(), request.card.name)
    return Network(model, head, blocks.find(model))


def final_layers(model: Any) -> list[str]:
    """Return the paths of a model's final layers; none for an encoder.

    The configuration names them, but in a few old models it omits the second of two.
    """
    if not model.num_classes:
        return []
    named = model.pretrained_cfg.get("classifier") or ()
    paths = [named] if isinstance(named, str) else [*named]
    actual = model.get_classifier()
    if isinstance(actual, (tuple, list)) and len(actual) > len(paths):
        return [next(path for path, module in model.named_modules() if module is layer) for layer in actual]
    return paths


def _file(card: Card) -> Path:
    import timm

    config = timm.models.get_pretrained_cfg(card.id)
    if config is not None and config.hf_hub_id:
        candidates = (config.hf_hub_filename,) if config.hf_hub_filename else _FILES
        return hub.fetch(card.name, config.hf_hub_id, candidates, card.revision)
    if config is not None and config.url:
        return hub.url_file(card.name, config.url)
    hint = "Pass {pretrained=False} for random weights"
    raise MissingWeights(f"timm has {card.id}, but no weights of it were published", where=card.name, hint=hint)


def _with_weights(card: Card, name: str, path: Path) -> Any:
    """Return timm's model with the weights of a file.

    timm renames the keys of old checkpoints, removes the background class of some, and loads strictly. A few of its
    architectures do not load strictly, so missing keys are checked here.
    """
    import timm

    if path.suffix == ".npz":  # arrays of the original authors, which timm reads itself
        overlay: dict[str, Any] = {"file": str(path), "custom_load": True}
        return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    state = weights.read_tensors(path, card.name)
    keys = set(state)
    try:
        model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"state_dict": state})
    except (RuntimeError, KeyError, IndexError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"does not fit the network {name}: {reason}", where=f"{card.name}: {path}") from error
    model.pretrained_cfg.pop("state_dict")  # timm would keep a second copy of the weights there
    expected = set(model.state_dict())
    missing = sorted(key for key in expected - keys if not key.endswith("num_batches_tracked"))  # old checkpoints lack these
    if missing and not keys - expected:
        problem = f"does not fit the network {name}: {len(missing)} keys are missing, e.g. {missing[0]!r}"
        raise InputError(problem, where=f"{card.name}: {path}")
    return model
