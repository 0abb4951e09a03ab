"""The old names of `zoo.app.report.inputs`, for modules that still import them."""

from zoo.app.report.inputs import ReportInputs as Material
from zoo.app.report.inputs import available_images as images_of
from zoo.app.report.inputs import transfer_embeddings as feature_material

__all__ = ["Material", "feature_material", "images_of"]
