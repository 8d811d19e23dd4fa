"""Quantizes float models: calibration on golden, measurements, the report."""

from tosaic.driver.float_graphs import computes_floats
from tosaic.driver.quantize.encoded_models import import_encoded
from tosaic.driver.quantize.measurement import Difference, Measurement, measure
from tosaic.driver.quantize.prepared import Quantization
from tosaic.driver.quantize.quantization import check_floats, quantize_graph
from tosaic.driver.quantize.samples import hold_out, load_samples

__all__ = [
    "Difference",
    "Measurement",
    "Quantization",
    "check_floats",
    "computes_floats",
    "hold_out",
    "import_encoded",
    "load_samples",
    "measure",
    "quantize_graph",
]
