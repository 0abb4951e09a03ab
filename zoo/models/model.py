"""`Model`, the interface of every model: images in, embeddings, logits, hidden layers or class names out."""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.cards import labels
from zoo.cards.card import Card
from zoo.cards.names import unknown
from zoo.core.links import to_probabilities
from zoo.core.pages import kept_pages
from zoo.core.prediction_sets import SetRule, read_rule
from zoo.core.types import Link
from zoo.datasets import ResizeMode
from zoo.datasets.images import Images, decoded
from zoo.datasets.preprocessing import Preprocessing
from zoo.datasets.user_transform import UserTransform
from zoo.errors import InputError
from zoo.models.sources.user_models import AnyTransform, OutputKind, adopt
from zoo.networks.network import Network as Network
from zoo.networks.network import state_hash as state_hash


class Model:
    """A network with its card, its transform and its class names. `zoo.load` returns one; `Model.of` wraps your own code.

    The transform turns an image into the network's input and is part of the model. Embeddings [N, D] are the input of the
    network's final layer; logits [N, K] are in the order of `classes`. Wherever images are expected, pass one or many of:
    PIL images, paths, uint8 arrays [H, W, 3] or [N, H, W, 3], uint8 tensors [3, H, W] or [N, 3, H, W], or a generator.

    Args:
        card: description of the model.
        network: body and head.
        transform: preprocessing of images.
        classes: class names in the order of the logits; empty for an encoder without a head.
        weights_hash: identifies the weights; default: a hash of all numbers of the network.

    >>> import zoo
    >>> model = zoo.load("resnet8-cosine", pretrained=False, device="cpu")
    >>> model
    <Model resnet8-cosine.digits: 10 classes, 0.1 M parameters, on cpu>
    >>> images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    >>> model.embed(images).shape, model.predict(images).shape
    (torch.Size([2, 64]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        card: Card,
        network: Network,
        transform: Preprocessing,
        classes: Sequence[str],
        weights_hash: str | None = None,
    ) -> None:
        self.card = card
        self.network = network
        self.transform = transform
        self.classes = tuple(classes)
        self._weights_hash = weights_hash

    @classmethod
    def of(
        cls,
        classifier: "nn.Module | Callable[[Tensor], Any]",
        transform: AnyTransform,
        classes: str | Sequence[str] | None,
        *,
        name: str,
        final_layer: str | None = None,
        kind: OutputKind = "logits",
        link: Link = "softmax",
    ) -> "Model":
        """Return a model made from your own network or function.

        Args:
            classifier: a network, which is copied, or a function from a batch of inputs to numbers [N, K].
            transform: a `zoo.cards.Transform`, or a function from a PIL image to a tensor, such as torchvision's. If it
                does not resize (`ToTensor` and `Normalize` alone), all images must have the size of the first one.
            classes: names of the columns, the name of a label set (`imagenet-1k`), or None for an encoder.
            name: the model's name.
            final_layer: path of the layer whose input is the embedding; default: the last linear layer. There are no
                embeddings if the classifier is a function, or if operations after that layer change the result.
            kind: what the classifier returns.
            link: how logits become probabilities.

        >>> import numpy as np
        >>> def brightness(batch):
        ...     light = batch.mean((1, 2, 3))
        ...     return torch.stack([1 - light, light], 1)
        >>> def shrink(image):
        ...     return np.moveaxis(np.array(image.resize((8, 8))), 2, 0) / 255
        >>> model = Model.of(brightness, shrink, ["dark", "light"], name="brightness", kind="probabilities")
        >>> model.classify(torch.full((1, 3, 20, 20), 255, dtype=torch.uint8))
        [[('light', 1.0)]]
        """
        return cls(*adopt(classifier, transform, classes, name, final_layer, kind, link))

    def __repr__(self) -> str:
        head = f"{len(self.classes)} classes" if self.classes else "no head"
        sets = "" if self.sets is None else f", sets for {100 * (1 - self.sets.alpha):g}% coverage"
        return f"<Model {self.card.name}: {head}{sets}, {self.num_parameters / 1e6:.1f} M parameters, on {self.device}>"

    def _repr_html_(self) -> str:
        from zoo.core import notebook

        classes = f"{len(self.classes):,}" if self.classes else "no head"
        size = getattr(self.transform, "size", None)
        facts = {"parameters": f"{self.num_parameters:,}", "classes": classes, "device": self.device}
        facts["input"] = " x ".join(map(str, size)) if size else None
        return f"<p>Model <b>{notebook.escaped(self.name)}</b></p>" + notebook.facts(facts | self.card.summary())

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def body(self) -> nn.Module:
        return self.network.body

    @property
    def head(self) -> nn.Module | None:
        return self.network.head

    @property
    def device(self) -> torch.device:
        tensors = itertools.chain(self.network.parameters(), self.network.buffers())
        return next(tensors, torch.empty(0)).device  # a plain function has no tensors

    @property
    def embeds(self) -> bool:
        """Whether the model has embeddings; a network that cannot be split into body and head has none."""
        return self.network.embeds

    @cached_property
    def sets(self) -> SetRule | None:
        """The rule for prediction sets on the model's card; None if there is none."""
        return read_rule(self.card.details, self.name)

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def num_features(self) -> int:
        """The number of dimensions of the embeddings, found by running the network on zeros."""
        self.network.eval()
        with torch.inference_mode():
            return int(self.body(torch.zeros(1, *self.transform.size, device=self.device)).shape[1])

    @property
    def layer_names(self) -> list[str]:
        """The names of the hidden layers that `layers` returns: the network's blocks, in order of computation."""
        return list(self.network.blocks)

    @cached_property
    def weights_hash(self) -> str:
        """A hash that identifies the weights; random weights are hashed number by number."""
        return self._weights_hash or state_hash(self.network)

    def to(self, device: torch.device | str) -> "Model":
        """Move this model to another device and return it."""
        self.network.to(device)
        return self

    def with_resize_mode(self, resize_mode: ResizeMode) -> "Model":
        """Return a model with the same network and another resize mode of its transform."""
        if resize_mode == "evaluation":
            return self
        other = copy.copy(self)
        other.transform = self.transform.with_resize_mode(resize_mode)
        return other

    def embed(self, images: Images, batch_size: int = 64) -> Tensor:
        """Return the embeddings [N, D] of images, float32 on the CPU."""
        if not self.embeds:
            raise InputError(
                "has no embeddings, because its final layer is unknown",
                where=self.name,
                hint="Pass {final_layer} to Model.of, or use predict",
            )
        return self._map(images, batch_size, lambda batch: {"embeddings": self.forward(batch)[0]})["embeddings"]

    def predict(self, images: Images, batch_size: int = 64) -> Tensor:
        """Return the logits [N, K] of images, float32 on the CPU, in the order of `classes`."""
        if not self.classes:
            raise InputError(
                "is an encoder without classes",
                where=self.name,
                hint="Use embed, or fit a head with zoo.heads.fit_linear",
            )
        return self._map(images, batch_size, lambda batch: {"logits": self.forward(batch)[1]})["logits"]

    def classify(self, images: Images, top: int = 1, batch_size: int = 64) -> list[list[tuple[str, float]]]:
        """Return the most probable classes of each image with their probabilities, the most probable class first.

        WordNet ids (`n02123045`) are replaced by their words (`tabby, tabby cat`); other class names are those of
        `classes`. The probabilities are not calibrated.

        Args:
            images: one or many images.
            top: how many classes to return per image; all of them if there are fewer.
            batch_size: images per forward pass.

        >>> import zoo
        >>> model = zoo.load("resnet8-cosine", pretrained=False, device="cpu")
        >>> image = torch.zeros(3, 8, 8, dtype=torch.uint8)
        >>> [[(name, round(p, 2)) for name, p in classes] for classes in model.classify(image, top=2)]
        [[('6', 0.33), ('7', 0.18)]]
        """
        if top < 1:
            raise InputError(argument="top", expected="at least 1", found=top)
        best = self._probabilities(images, batch_size).topk(min(top, len(self.classes)), 1)
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [[(labels.describe(self.classes[k]), p) for k, p in zip(*row, strict=True)] for row in rows]

    def predict_sets(self, images: Images, sets: SetRule | None = None, seed: int = 0, batch_size: int = 64) -> np.ndarray:
        """Return prediction sets [N, K] of images as booleans, in the order of `classes`.

        A set holds the true class of a new image with probability 1 - alpha, if the image and the calibration examples come
        from the same distribution. Ensembles and cascades that were saved with sets have their rule on their card.

        Args:
            images: one or many images.
            sets: the rule that `zoo.calibration.conformal.fit_conformal` returns for this model; default: the card's.
            seed: of the randomisation of APS and RAPS.
            batch_size: images per forward pass.
        """
        rule = self.sets if sets is None else sets
        if rule is None:
            raise InputError(
                "has no prediction sets",
                where=self.name,
                argument="sets",
                hint="Save an ensemble with {sets}, or pass what fit_conformal returns",
            )
        return rule.predict_sets(self._probabilities(images, batch_size), seed)

    def _probabilities(self, images: Images, batch_size: int) -> Tensor:
        logits = self.predict(images, batch_size)
        return torch.as_tensor(to_probabilities(logits, link=self.card.link, name=f"{self.name} logits"))

    def layers(self, images: Images, names: Sequence[str] | None = None, batch_size: int = 64) -> dict[str, Tensor]:
        """Return hidden layers of images by name, [N, ...] float32 on the CPU.

        Args:
            images: one or many images.
            names: names of the layers; default: all of `layer_names`.
            batch_size: images per forward pass.
        """
        self._named_blocks(names)
        return self._map(images, batch_size, lambda batch: self.forward_layers(batch, names))

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return embeddings [N, D] and logits [N, K] (None without a head) of a transformed batch on the model's device.

        A uint8 batch, as `transform.pixels` returns, is normalised first. The network is set to evaluation mode, so that
        the result for an image does not depend on the rest of the batch.
        """
        self.network.eval()
        with torch.inference_mode():
            result: tuple[Tensor, Tensor | None] = self.network(self._inputs(batch))
            return result

    def forward_layers(self, batch: Tensor, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Return the outputs of blocks (default: all) for a transformed batch, in the network's own shapes."""
        blocks = self._named_blocks(names)
        outputs: dict[str, Tensor] = {}
        hooks = [block.register_forward_hook(_store_output(outputs, name)) for name, block in blocks.items()]
        try:
            self.network.eval()
            with torch.inference_mode():
                self.network.body(self._inputs(batch))
        finally:
            for hook in hooks:
                hook.remove()
        return {name: outputs[name] for name in blocks}

    def _inputs(self, batch: Tensor) -> Tensor:
        if isinstance(self.transform, UserTransform):
            self.transform.check_size(batch.shape[1:])
        return self.transform.normalise(batch) if batch.dtype == torch.uint8 else batch

    def _map(
        self, images: Images, batch_size: int, function: Callable[[Tensor], Mapping[str, Tensor | None]]
    ) -> dict[str, Tensor]:
        """Apply a function to each batch of images and concatenate its results."""
        parts: dict[str, list[Tensor]] = {}
        with contextlib.ExitStack() as stack:
            for number, batch in enumerate(self._batches(images, batch_size)):
                if number == 1:  # pays off only from the second batch on
                    stack.enter_context(kept_pages())
                for name, values in function(batch.to(self.device)).items():
                    if values is not None:
                        parts.setdefault(name, []).append(values.float().cpu())
        if not parts:
            raise InputError(where=self.name, argument="images", expected="at least one image", found=0)
        return {name: torch.cat(values) for name, values in parts.items()}

    def _batches(self, images: Images, batch_size: int) -> Iterator[Tensor]:
        if batch_size < 1:
            raise InputError(argument="batch_size", expected="at least 1", found=batch_size)
        queue = decoded(images)
        while group := list(itertools.islice(queue, batch_size)):
            yield torch.stack([self.transform.pixels(image) for image in group])

    def _named_blocks(self, names: Sequence[str] | None) -> dict[str, nn.Module]:
        blocks = self.network.blocks
        for name in names or ():
            if name not in blocks:
                raise unknown("layer", name, blocks, list_known=True, where=self.name)
        return blocks if names is None else {name: blocks[name] for name in names}


def _store_output(outputs: dict[str, Tensor], name: str) -> Callable[..., None]:
    """Return a hook that stores a block's output; if that is a tuple, its first tensor, the hidden state."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        outputs[name] = output if isinstance(output, Tensor) else output[0]

    return hook
