"""The optional packages of PyTorch models."""

import importlib
from typing import Any

from tosaic.errors import UnsupportedError
from tosaic.install import install_command


def load_torch() -> Any:
    """The module `torch` with its exporter; UnsupportedError with the way to install it."""
    return _load("torch.export") and importlib.import_module("torch")


def load_onnx_exporter() -> Any:
    """The module `torch.onnx`, whose exporter needs `onnxscript`."""
    _load("onnxscript")
    return _load("torch.onnx")


def load_executorch() -> tuple[Any, Any]:
    """ExecuTorch's `exir` and its package of the Arm backend's TOSA partitioner and specification."""
    for name in ("quantizer", "tosa.partitioner", "tosa.compile_spec"):
        _load(f"executorch.backends.arm.{name}")
    return _load("executorch.exir"), _load("executorch.backends.arm")


def load_pt2e() -> Any:
    """The package `torchao.quantization.pt2e`: prepare, convert and the observers."""
    _load("torchao.quantization.pt2e.quantize_pt2e")
    return _load("torchao.quantization.pt2e")


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = (getattr(error, "name", None) or name).split(".")[0]
        install = f"{install_command('torch')} (a CPU build of torch is enough)"
        raise UnsupportedError(f"PyTorch models need the package {missing}: {install}") from None
