"""Datasets by spec: images, ids, labels, classes, metric and a fingerprint of the contents."""

from zoo.datasets.dataset import Dataset as Dataset
from zoo.datasets.dataset import Metric as Metric
from zoo.datasets.dataset import ResizeMode as ResizeMode
from zoo.datasets.image_files import Undecodable as Undecodable
from zoo.datasets.known import KNOWN as KNOWN
from zoo.datasets.loading import calibration_split as calibration_split
from zoo.datasets.loading import canonical as canonical
from zoo.datasets.loading import is_user_dataset as is_user_dataset
from zoo.datasets.loading import load as load
from zoo.datasets.loading import metric_of as metric_of
from zoo.datasets.loading import resize_mode_of as resize_mode_of
from zoo.datasets.loading import training_split as training_split

__all__ = ["KNOWN", "Dataset", "Undecodable", "calibration_split", "canonical", "is_user_dataset", "load", "training_split"]
