"""Datasets by spec string: images, ids, labels, classes, metric and a fingerprint of the contents."""

from zoo.datasets.dataset import Dataset as Dataset
from zoo.datasets.dataset import Framing as Framing
from zoo.datasets.dataset import Metric as Metric
from zoo.datasets.image_files import Undecodable as Undecodable
from zoo.datasets.known import KNOWN as KNOWN
from zoo.datasets.loading import calibration_split as calibration_split
from zoo.datasets.loading import canonical as canonical
from zoo.datasets.loading import framing_of as framing_of
from zoo.datasets.loading import is_own as is_own
from zoo.datasets.loading import load as load
from zoo.datasets.loading import metric_of as metric_of
from zoo.datasets.loading import training_split as training_split

__all__ = ["KNOWN", "Dataset", "Undecodable", "calibration_split", "canonical", "is_own", "load", "training_split"]
