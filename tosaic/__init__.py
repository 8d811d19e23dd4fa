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
    from tosaic.driver.certify import Certificate, certify, check_certificate
    from tosaic.driver.device import Device
    from tosaic.driver.encodings import dequantize, quantize
    from tosaic.driver.evaluate import Evaluation, evaluate
    from tosaic.driver.from_torch import from_torch
    from tosaic.driver.inference.description import ModelMetadata
    from tosaic.driver.inference.environment import (
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_device,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_seed,
    )
    from tosaic.driver.inference.options import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
    )
    from tosaic.driver.inference.session import InferenceSession
    from tosaic.driver.inference.values import IOBinding, OrtValue
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
    from tosaic.sim.rtl.wave import Wave

    __version__: str

_HOMES = {
    "Certificate": "tosaic.driver.certify.certificate",
    "Device": "tosaic.driver.device",
    "DeviceError": "tosaic.errors",
    "Error": "tosaic.errors",
    "Evaluation": "tosaic.driver.evaluate.evaluation",
    "ExecutionMode": "tosaic.driver.inference.options",
    "ExecutionOrder": "tosaic.driver.inference.options",
    "GraphOptimizationLevel": "tosaic.driver.inference.options",
    "IOBinding": "tosaic.driver.inference.values",
    "InferenceSession": "tosaic.driver.inference.session",
    "InputError": "tosaic.errors",
    "MismatchError": "tosaic.errors",
    "ModelError": "tosaic.errors",
    "ModelMetadata": "tosaic.driver.inference.description",
    "ModelWarning": "tosaic.errors",
    "NnrError": "tosaic.nnr.errors",
    "NodeArg": "tosaic.driver.arguments",
    "OrtValue": "tosaic.driver.inference.values",
    "RunOptions": "tosaic.driver.inference.options",
    "RunReport": "tosaic.driver.report.page",
    "Session": "tosaic.driver.session",
    "SessionOptions": "tosaic.driver.inference.options",
    "TraceError": "tosaic.errors",
    "UnpredictableError": "tosaic.errors",
    "UnsupportedError": "tosaic.errors",
    "Wave": "tosaic.sim.rtl.wave",
    "certify": "tosaic.driver.certify",
    "check_certificate": "tosaic.driver.certify",
    "dequantize": "tosaic.driver.encodings",
    "disable_telemetry_events": "tosaic.driver.inference.environment",
    "enable_telemetry_events": "tosaic.driver.inference.environment",
    "evaluate": "tosaic.driver.evaluate.evaluation",
    "from_torch": "tosaic.driver.from_torch",
    "get_all_providers": "tosaic.driver.inference.environment",
    "get_available_providers": "tosaic.driver.inference.environment",
    "get_device": "tosaic.driver.inference.environment",
    "function": "tosaic.driver.numpy_functions",
    "quantize": "tosaic.driver.encodings",
    "register_custom": "tosaic.compiler.ir.custom_kernels",
    "rescale": "tosaic.compiler.numpy_in.control",
    "run": "tosaic.driver.session",
    "set_default_logger_severity": "tosaic.driver.inference.environment",
    "set_default_logger_verbosity": "tosaic.driver.inference.environment",
    "set_seed": "tosaic.driver.inference.environment",
    "trace": "tosaic.compiler.numpy_in.functions",
    "while_loop": "tosaic.compiler.numpy_in.control",
    "write_report": "tosaic.driver.report.page",
}
"""The module that defines each public name."""
_PACKAGES = ("boards", "compiler", "driver", "errors", "hw", "nnr", "sim")
"""Subpackages that are attributes without an import of their own."""

__all__ = [
    "Certificate",
    "Device",
    "DeviceError",
    "Error",
    "Evaluation",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InputError",
    "MismatchError",
    "ModelError",
    "ModelMetadata",
    "ModelWarning",
    "NnrError",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "RunReport",
    "Session",
    "SessionOptions",
    "TraceError",
    "UnpredictableError",
    "UnsupportedError",
    "Wave",
    "certify",
    "check_certificate",
    "dequantize",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "evaluate",
    "from_torch",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "function",
    "quantize",
    "register_custom",
    "rescale",
    "run",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
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
