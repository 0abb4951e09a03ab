"""The table of known datasets: where to find them, their splits, label set and metric."""

from dataclasses import dataclass, field
from typing import Literal

from zoo.datasets.dataset import Metric, ResizeMode


@dataclass(frozen=True)
class Known:
    """One known dataset."""

    splits: dict[str, str]  # our name of each split -> the hub's, or several joined by +; the last split is the default
    hub: str | None = None  # Hugging Face repository
    label_set: str | None = None
    subset: Literal["imagenet-a", "imagenet-r"] | None = None  # if it has only some of the label set's classes
    metric: Metric = "accuracy"
    resize_mode: ResizeMode = "evaluation"
    source: str = ""  # where to get it, if the hub has no copy that can be loaded
    view_of: str | None = None  # the dataset that it is derived from (`zoo.datasets.views`)
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # further parts of the spec: name, and valid values

    @property
    def default(self) -> str:
        """The split on which results are reported."""
        return list(self.splits)[-1]


_TRAIN_TEST = {"train": "train", "test": "test"}
CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "snow",
    "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
    "speckle_noise", "gaussian_blur", "spatter", "saturate",
)  # fmt: skip

# Metrics are those the datasets' authors recommend: Kornblith et al. 2021, Table A.2.
KNOWN = {
    "cifar10": Known(_TRAIN_TEST, "uoft-cs/cifar10"),
    "cifar100": Known(_TRAIN_TEST, "uoft-cs/cifar100"),
    "fashion-mnist": Known(_TRAIN_TEST, "zalando-datasets/fashion_mnist"),
    "cifar10-half": Known(_TRAIN_TEST, view_of="cifar10"),
    "cifar10-other-half": Known(_TRAIN_TEST, view_of="cifar10"),
    "cifar10-grey": Known(_TRAIN_TEST, view_of="cifar10"),
    "in1k": Known({"train": "train", "validation": "validation"}, "ILSVRC/imagenet-1k", label_set="imagenet-1k"),
    "in-v2": Known(
        {"test": "test"}, label_set="imagenet-1k", source="https://huggingface.co/datasets/vaishaal/ImageNetV2 (tar files)"
    ),
    "in-a": Known({"test": "train"}, "barkermrl/imagenet-a", label_set="imagenet-1k", subset="imagenet-a"),
    "in-r": Known({"test": "test"}, "axiong/imagenet-r", label_set="imagenet-1k", subset="imagenet-r"),
    "in-sketch": Known({"test": "train"}, "songweig/imagenet_sketch", label_set="imagenet-1k"),
    "in-c": Known(
        {"test": "test"},
        label_set="imagenet-1k",
        resize_mode="transfer",  # published at 224 x 224, so that a network with this input size needs no resizing
        source="https://github.com/hendrycks/robustness",
        parts={"corruption": CORRUPTIONS, "severity": ("1", "2", "3", "4", "5")},
    ),
    "food101": Known({"train": "train", "test": "validation"}, "ethz/food101"),
    "birdsnap": Known(_TRAIN_TEST, source="https://thomasberg.org (the images have to be fetched one by one)"),
    "sun397": Known(_TRAIN_TEST, "tanganke/sun397"),
    "cars": Known(_TRAIN_TEST, "tanganke/stanford_cars"),
    "pets": Known(_TRAIN_TEST, "timm/oxford-iiit-pet", metric="mean-per-class"),
    "flowers": Known(  # 2,040 training images, which include the authors' validation images
        {"train": "train+validation", "validation": "validation", "test": "test"}, "dpdl-benchmark/oxford_flowers102",
        metric="mean-per-class",
    ),
    "voc2007": Known({"train": "trainval", "test": "test"}, metric="map", source="http://host.robots.ox.ac.uk/pascal/VOC"),
    "chexpert": Known({"train": "train", "test": "valid"}, metric="auc", source="https://stanfordmlgroup.github.io"),
}  # fmt: skip
