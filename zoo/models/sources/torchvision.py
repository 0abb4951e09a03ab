"""torchvision: `torchvision:NAME[.WEIGHTS]`, with cards from its registry (transform, classes, accuracy)."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from zoo.cards.card import Card, Reference, Training, Transform
from zoo.cards.names import unknown
from zoo.errors import CorruptFile, InputError
from zoo.models import hub, weights
from zoo.models.sources import tags
from zoo.models.sources.base import Source

if TYPE_CHECKING:
    from torch import Tensor, nn

    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request
    from zoo.networks.network import Network

_LICENCES = {"https://github.com/facebookresearch/SWAG/blob/main/LICENSE": "cc-by-nc-4.0"}
_HASH_IN_NAME = re.compile(r"-([0-9a-f]{8,64})\.pth\Z")  # the beginning of the file's sha256
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")


class Torchvision(Source):
    def describe(self, id: str, name: str) -> Card:
        """Return the card of torchvision's classifier `NAME[.WEIGHTS]`; default: torchvision's default weights."""
        import torchvision

        architecture, _, tag = id.partition(".")
        known = _known_weights(architecture, name)
        if tag and tag not in known.__members__:
            kind = f"weights of {architecture} in torchvision {torchvision.__version__}"
            raise unknown(kind, tag, known.__members__, list_known=True, where=name)
        found = known[tag] if tag else known.DEFAULT
        licence = found.meta.get("license")
        figures = found.meta.get("_metrics", {}).get("ImageNet-1K", {})
        version = torchvision.__version__.partition("+")[0]
        return Card(
            name=name,
            source="torchvision",
            id=f"{architecture}.{found.name}",
            family=tags.family(architecture),
            architecture=architecture,
            labels="imagenet-1k",
            link="softmax",
            head="trained",
            training=Training(
                "instagram-3.6b" if "SWAG" in found.name else "imagenet-1k",
                "supervised",
                "unknown",
                {"tag": found.name},
            ),
            transform=transform(found),
            license=_LICENCES.get(licence, licence or "unknown"),
            reference=[Reference("torchvision", version, found.name, figures["acc@1"])] if figures else [],
            details={"url": found.url},
            title=id,
            body=f"# {architecture}.{found.name}\n\nAs torchvision {version} describes it; weights from {found.url}.\n\n"
            f"{' '.join(found.meta.get('_docs', '').split())}".rstrip(),
        )

    def files(self, card: Card) -> Sequence[Path]:
        return (hub.url_cache() / Path(urlparse(_url(card)).path).name,)

    def prepare(self, card: Card, pretrained: bool) -> None:
        if pretrained:
            hub.url_file(card.name, _url(card))

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources.assembly import assemble, card_classes

        card, classes = request.card, card_classes(request.card)
        with request.initialising():
            model = untrained(card.architecture, len(classes), card.name, card.transform)
        digest = None
        if request.pretrained:
            path = hub.url_file(card.name, _url(card))
            digest = weights.verify(card, path)
            announced = _HASH_IN_NAME.search(path.name)
            if announced and not digest.startswith(announced[1]):
                problem = f"has the sha256 {digest}, but its name announces {announced[1]}..."
                raise CorruptFile(problem, where=f"{card.name}: {path}", hint="Delete the file to download it again")
            fill(card.name, model, weights.read_tensors(path, card.name), str(path))
        return assemble(request, network(request, model), digest, classes)


SOURCE = Torchvision()


def architectures() -> list[str]:
    """Return the names of torchvision's image classifiers."""
    import torchvision

    names: list[str] = torchvision.models.list_models(module=torchvision.models)
    return names


def transform(found: Any) -> Transform:
    """Return the evaluation transform of weights: shortest side, centre crop, mean and standard deviation."""
    preset = found.transforms()
    (crop,), (resize,) = preset.crop_size, preset.resize_size
    return Transform((3, crop, crop), (resize,), preset.interpolation.value, tuple(preset.mean), tuple(preset.std))


def usual_transform(architecture: str, name: str) -> Transform:
    """Return the transform of the architecture's first weights, which are those of its paper."""
    return transform(next(iter(_known_weights(architecture, name))))


def untrained(architecture: str, num_classes: int, name: str, spec: Transform | None = None) -> "nn.Module":
    """Return torchvision's network of an architecture with random weights, configured as for its published weights."""
    import torchvision

    _known_weights(architecture, name)
    options: dict[str, Any] = {"num_classes": num_classes}
    if architecture in ("googlenet", "inception_v3"):  # both were trained on differently scaled inputs
        options |= {"init_weights": False, "transform_input": True, "aux_logits": True}
    if architecture.startswith("vit_") and spec is not None:
        options["image_size"] = spec.size[1]
    model: nn.Module = torchvision.models.get_model(architecture, weights=None, **options)
    return model


def fill(name: str, model: "nn.Module", state: "dict[str, Tensor]", where: str) -> None:
    """Load a state dictionary into one of torchvision's networks; rename old DenseNet keys, add MNASNet's version."""
    from zoo.models.sources.assembly import fit

    renamed = OrderedDict((_OLD_DENSENET.sub(r"\1\2", key), values) for key, values in state.items())
    state_dict: Any = model.state_dict()
    renamed._metadata = {"": state_dict._metadata[""]}  # type: ignore[attr-defined]  # where torch keeps the version
    fit(name, model, renamed, where)


def network(request: "Request", model: "nn.Module") -> "Network":
    """Return the classifier split before its final layer, or unsplit if other operations follow that layer."""
    from zoo.models.sources.assembly import card_classes
    from zoo.models.sources.head_split import split_last
    from zoo.networks import blocks
    from zoo.networks.network import IdentityHead, Network

    outputs = len(card_classes(request.card))
    hidden = blocks.find(model)
    head = split_last(model, outputs, request.example())
    return Network(model, head, hidden) if head else Network(model, IdentityHead(outputs), hidden, embeds=False)


def _known_weights(architecture: str, name: str) -> Any:
    import torchvision

    if architecture not in architectures():
        raise unknown(f"classifier of torchvision {torchvision.__version__}", architecture, architectures(), where=name)
    return torchvision.models.get_model_weights(architecture)


def _url(card: Card) -> str:
    url = card.details.get("url")
    if not isinstance(url, str):
        raise InputError("the card has no field 'zoo.details.url' with the address of the weights", where=card.name)
    return url
