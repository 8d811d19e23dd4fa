"""Tosaic: an open NPU that computes TOSA bit for bit.

session = tosaic.Session("model.tosa", target="sim", config="base")
outputs = session.run({"input": x})

Names are imported when they are first used, so that `import tosaic` takes a fraction of a second.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tosaic.driver.device_speeds import register_speeds
from tosaic.driver.schemes import register_scheme

if TYPE_CHECKING:
    import urllib.parse
    from collections.abc import Mapping

    from tosaic.compiler.ir.custom_kernels import register_custom
    from tosaic.compiler.numpy_in import rescale, trace, while_loop
    from tosaic.driver.arguments import NodeArg
    from tosaic.driver.device import Device
    from tosaic.driver.encodings import dequantize, quantize
    from tosaic.driver.evaluate import Evaluation, evaluate
    from tosaic.driver.from_torch import from_torch
    from tosaic.driver.numpy_functions import function
    from tosaic.driver.report.page import RunReport, write_report
    from tosaic.driver.session import Session, run
    from tosaic.driver.transports import Transport
    from tosaic.errors import (
        DeviceError,
        Error,
        InputError,
        MismatchError,
        ModelError,
        ModelWarning,
        TraceError,
        UnpredictableError,
        UnsupportedError,
    )
    from tosaic.nnr.errors import NnrError

    __version__: str

_HOMES = {
    "Device": "tosaic.driver.device",
    "DeviceError": "tosaic.errors",
    "Error": "tosaic.errors",
    "Evaluation": "tosaic.driver.evaluate.evaluation",
    "InputError": "tosaic.errors",
    "MismatchError": "tosaic.errors",
    "ModelError": "tosaic.errors",
    "ModelWarning": "tosaic.errors",
    "NnrError": "tosaic.nnr.errors",
    "NodeArg": "tosaic.driver.arguments",
    "RunReport": "tosaic.driver.report.page",
    "Session": "tosaic.driver.session",
    "TraceError": "tosaic.errors",
    "UnpredictableError": "tosaic.errors",
    "UnsupportedError": "tosaic.errors",
    "dequantize": "tosaic.driver.encodings",
    "evaluate": "tosaic.driver.evaluate.evaluation",
    "from_torch": "tosaic.driver.from_torch",
    "function": "tosaic.driver.numpy_functions",
    "quantize": "tosaic.driver.encodings",
    "register_custom": "tosaic.compiler.ir.custom_kernels",
    "rescale": "tosaic.compiler.numpy_in.control",
    "run": "tosaic.driver.session",
    "trace": "tosaic.compiler.numpy_in.functions",
    "while_loop": "tosaic.compiler.numpy_in.control",
    "write_report": "tosaic.driver.report.page",
}
"""The module that defines each public name."""
_PACKAGES = ("boards", "compiler", "driver", "errors", "hw", "nnr", "sim")
"""Subpackages that are attributes without an import of their own."""

__all__ = [
    "Device",
    "DeviceError",
    "Error",
    "Evaluation",
    "InputError",
    "MismatchError",
    "ModelError",
    "ModelWarning",
    "NnrError",
    "NodeArg",
    "RunReport",
    "Session",
    "TraceError",
    "UnpredictableError",
    "UnsupportedError",
    "dequantize",
    "evaluate",
    "from_torch",
    "function",
    "quantize",
    "register_custom",
    "rescale",
    "run",
    "trace",
    "while_loop",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """A public name, from its home; kept, so that the next use finds it at once."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _PACKAGES:
        value = importlib.import_module(f"tosaic.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("tosaic")
    else:
        raise AttributeError(f"module 'tosaic' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES, "__version__"})


def _open_virtual(uri: "urllib.parse.SplitResult", options: "Mapping[str, str]") -> "Transport":
    from tosaic.virtual import open_virtual

    return open_virtual(uri, options)


def _board_speed(name: str) -> Any:
    from tosaic.virtual import board_speed

    return board_speed(name)


register_scheme("virtual", _open_virtual, frozenset({"link", "flash"}))
register_speeds(_board_speed)
