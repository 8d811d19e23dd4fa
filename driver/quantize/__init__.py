"""Quantization of float models: calibration on golden, measurements, the report."""

from tosaic.driver.quantize.encoded_models import import_encoded
from tosaic.driver.quantize.measurement import Difference, Measurement, measure
from tosaic.driver.quantize.quantization import Quantization, quantize_graph
from tosaic.driver.quantize.samples import load_samples

__all__ = [
    "Difference",
    "Measurement",
    "Quantization",
    "import_encoded",
    "load_samples",
    "measure",
    "quantize_graph",
]
