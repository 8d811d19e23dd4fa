"""The program of the process that `package_process` asks; it needs the package `onnx` and nothing of Tosaic.

On stdin a line of JSON (operation, options, number of bytes) and a serialized ModelProto; on stdout a line of JSON
(status, number of bytes) and a serialized ModelProto, or the error's text. It ends with stdin.
"""

import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

try:
    import resource
except ImportError:  # a system without limits
    resource = None  # type: ignore[assignment]  # mypy has no name for a module that is not there

import onnx
import onnx.inliner
import onnx.shape_inference
import onnx.version_converter

_FREE_BYTES, _MODEL_FACTOR = 1 << 30, 32
"""Memory beyond what the process has at its start: 1 GiB and 32 times the model."""


def check_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """An exception where types or shapes contradict each other; nothing otherwise."""
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    return onnx.ModelProto()


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The types and shapes that can be inferred, without the nodes."""
    found = onnx.shape_inference.infer_shapes(model, data_prop=True)
    del found.graph.node[:]
    del found.graph.initializer[:]
    return found


def inline_local_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own."""
    return onnx.inliner.inline_local_functions(model)


def inline_operator(model: onnx.ModelProto, operator: str) -> onnx.ModelProto:
    """The model with the function body that ONNX gives an operator in the place of its nodes."""
    return onnx.inliner.inline_selected_functions(
        model, [("", operator)], exclude=False, inline_schema_functions=True
    )


def convert_version(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model in the words of another opset."""
    return onnx.version_converter.convert_version(model, opset)


_OPERATIONS: dict[str, Callable[..., onnx.ModelProto]] = {
    operation.__name__: operation
    for operation in (check_types, infer_shapes, inline_local_functions, inline_operator, convert_version)
}


def main() -> None:
    """Answers until stdin ends."""
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the package prints
    if resource:
        _limit(resource.RLIMIT_CORE, 0)
    at_start = _address_space_bytes()
    while line := requests.readline():
        asked = json.loads(line)
        data = requests.read(asked["bytes"])
        if resource:
            _limit(resource.RLIMIT_CPU, int(time.process_time()) + 1 + asked["limit_seconds"])
            if at_start:
                _limit(resource.RLIMIT_AS, at_start + _FREE_BYTES + _MODEL_FACTOR * len(data))
        status, answer = _answer(asked["operation"], data, asked["options"])
        del data
        replies.write(json.dumps({"status": status, "bytes": len(answer)}).encode() + b"\n")
        replies.write(answer)
        replies.flush()


def _answer(operation: str, data: bytes, options: dict[str, Any]) -> tuple[str, bytes]:
    try:
        model = onnx.ModelProto.FromString(data)
        return "done", _OPERATIONS[operation](model, **options).SerializeToString()
    except MemoryError:
        return "memory", b""
    except Exception as error:  # noqa: BLE001 (the package's own classes)
        return "refused", (str(error) or type(error).__name__).encode(errors="replace")


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _address_space_bytes() -> int:
    """0 where the system does not tell."""
    try:
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize() if resource else 0


if __name__ == "__main__":
    main()
    sys.stdout.flush()
