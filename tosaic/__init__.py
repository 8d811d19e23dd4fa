"""Tosaic: an open NPU that computes TOSA bit for bit.

session = tosaic.Session("model.tosa", target="sim", config="base")
outputs = session.run({"input": x})
"""

from importlib.metadata import version

from tosaic.driver.device import Device
from tosaic.driver.encodings import dequantize, quantize
from tosaic.driver.session import NodeArg, Session, run
from tosaic.driver.transports import register_scheme
from tosaic.errors import (
    DeviceError,
    Error,
    InputError,
    MismatchError,
    ModelError,
    ModelWarning,
    UnpredictableError,
    UnsupportedError,
)
from tosaic.nnr.errors import NnrError
from tosaic.virtual import open_virtual

register_scheme("virtual", open_virtual)

__version__ = version("tosaic")
__all__ = [
    "Device",
    "DeviceError",
    "Error",
    "InputError",
    "MismatchError",
    "ModelError",
    "ModelWarning",
    "NnrError",
    "NodeArg",
    "Session",
    "UnpredictableError",
    "UnsupportedError",
    "dequantize",
    "quantize",
    "run",
]
