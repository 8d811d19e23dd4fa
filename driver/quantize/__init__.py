"""Quantization of float models: calibration on golden, measurements, the report."""

from tosaic.driver.quantize.quantization import Quantization, quantize_graph

__all__ = ["Quantization", "quantize_graph"]
