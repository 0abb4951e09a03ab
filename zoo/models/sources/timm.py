"""timm: cards from its registry, which holds licence, input, transform and classes; its networks and weights."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import near
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

    def load(self, request: "Request") -> "Model":
        import timm

        from zoo.models.sources.assembly import assemble

        card = request.card
        name = card.id or card.architecture
        if not request.pretrained:
            with request.beginning():
                model = timm.create_model(name)
            return assemble(request, network(request, model), None)
        path = _file(card)
        digest = weights.verify(card, path)
        return assemble(request, network(request, _with_weights(card, name, path)), digest)


SOURCE = Timm()


def transform(config: Any) -> Transform:
    """timm's evaluation transform: the image is scaled so that the crop is `crop_pct` of it."""
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


def architectures() -> list[str]:
    """All that timm can build."""
    import timm

    names: list[str] = timm.list_models()
    return names


def usual_transform(architecture: str, name: str) -> Transform:
    """That of the architecture's default weights."""
    return transform(_config(architecture, name))


def fill(name: str, model: Any, state: "dict[str, Tensor]", where: str) -> None:
    """Load a state dictionary of timm's own."""
    from zoo.models.sources.assembly import fit

    fit(name, model, state, where)


def untrained(architecture: str, num_classes: int, name: str) -> Any:
    """timm's network of an architecture for so many classes, random."""
    import timm

    if not timm.is_model(architecture):
        raise UnknownName(f"{name}: timm {timm.__version__} has no architecture {architecture!r}"
                          f"{near(architecture, timm.list_models())}")  # fmt: skip
    return timm.create_model(architecture, num_classes=num_classes)


def network(request: "Request", model: Any) -> "Network":
    """timm's model cut before its final layer; whole where the card says that it has none."""
    from zoo.models.sources.head_split import split
    from zoo.networks import blocks
    from zoo.networks.network import Network

    paths = final_layers(model)
    head = None
    if paths and request.card.head != "none":
        head = split(model, paths, request.example(), request.card.name)
    return Network(model, head, blocks.find(model))


def final_layers(model: Any) -> list[str]:
    """The paths of a model's final layers; none for an encoder.

    Its configuration names them, except in a few old ones that do not know of a second one.
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
    raise MissingWeights(f"{card.name}: timm knows {card.id} but no weights of it were published; pass pretrained=False")


def _with_weights(card: Card, name: str, path: Path) -> Any:
    """timm's model with the state dictionary of a file.

    timm renames the keys of old checkpoints and cuts off the background class of some, then loads strictly; a few of its
    architectures do not, so keys that nothing in the file can stand for are looked for here.
    """
    import timm

    from zoo.core import state_dicts

    if path.suffix == ".npz":  # arrays of the original authors, which timm's models read by themselves
        overlay: dict[str, Any] = {"file": str(path), "custom_load": True}
        return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    state = state_dicts.read(path, card.name)
    keys = set(state)
    try:
        model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"state_dict": state})
    except (RuntimeError, KeyError, IndexError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{card.name}: {path} does not fit the network {name}: {reason}") from error
    model.pretrained_cfg.pop("state_dict")  # timm would keep a second copy of the weights there
    own = set(model.state_dict())
    missing = sorted(key for key in own - keys if not key.endswith("num_batches_tracked"))  # old checkpoints lack these
    if missing and not keys - own:
        raise InputError(
            f"{card.name}: {path} does not fit the network {name}: {len(missing)} keys missing, e.g. {missing[0]!r}"
        )
    return model
