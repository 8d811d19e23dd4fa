"""Streams of published editions of ISO/IEC 15938-17, exchanged with the public codec nncodec both ways.

    python bench/nnr_interchange.py [--tensors 1000] [--seed 1] [--weights W.npz...] [--stub cv2,torchvision...]

Needs nncodec 2.1.3 (pip install nncodec, in an environment of its own: it asks for numpy below 2 and for torch). Each
random tensor is coded by nncodec with random options and decoded by tosaic, and coded by tosaic and decoded by nncodec;
the integers must be equal. --weights: whole files of arrays, coded with nncodec's default options and with tosaic's
"dependent". --stub: packages that nncodec imports and coding does not need, replaced by empty ones.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import io
import sys
import tempfile
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tosaic import nnr
from tosaic.nnr.payload import step_size
from tosaic.nnr.published_payload import decode_published
from tosaic.nnr.published_writer import published
from tosaic.nnr.units import PublishedDataUnit

# Longest side by number of dimensions: tensors of a few hundred values.
LONGEST = {1: 400, 2: 40, 3: 12, 4: 7}
# float32 holds levels up to this one.
EXACT_LEVEL = 1 << 24
LIMIT_BYTES = 1 << 30


class _Anything(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Thing


class _Thing(metaclass=_Anything):
    def __init__(self, *values: Any, **named: Any) -> None:
        pass

    def __call__(self, *values: Any, **named: Any) -> "_Thing":
        return _Thing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Thing()


class _EmptyModule(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Thing


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def random_tensor(rng: np.random.Generator) -> np.ndarray:
    """float32 or int32 of one to four dimensions, some pruned, some with rows of zeros."""
    dimensions = int(rng.integers(1, 5))
    shape = tuple(rng.integers(1, LONGEST[dimensions], dimensions).tolist())
    values = rng.laplace(0, 10 ** rng.uniform(-2, 2), shape).astype(np.float32)
    if rng.random() < 0.25:
        values = np.rint(rng.laplace(0, 10 ** rng.uniform(-1, 4), shape)).astype(np.int32)
    if rng.random() < 0.5:
        values *= (rng.random(shape) < rng.random()).astype(values.dtype)
    if rng.random() < 0.5 and dimensions > 1:
        values[rng.random(shape[0]) < rng.random()] = 0
    return values


class Oracle:
    """nncodec's encode and decode without its messages."""

    def __init__(self) -> None:
        import nncodec.nn

        self._codec = nncodec.nn
        # It keeps a copy of each stream in a folder.
        self._folder = tempfile.TemporaryDirectory()

    def encode(self, arrays: Mapping[str, np.ndarray], options: Mapping[str, Any] | None) -> bytes:
        told = {**(options or {}), "results": self._folder.name}
        with contextlib.redirect_stdout(io.StringIO()):
            return bytes(self._codec.encode({name: a.copy() for name, a in arrays.items()}, args=told))

    def decode(self, stream: bytes) -> dict[str, np.ndarray]:
        with contextlib.redirect_stdout(io.StringIO()):
            return {name: np.asarray(a) for name, a in self._codec.decode(bytearray(stream)).items()}


def same(stream: bytes, theirs: Mapping[str, np.ndarray]) -> bool:
    """Whether tosaic decodes the stream to nncodec's integers and values.

    nncodec rounds a level to float32 before it multiplies: where float32 does not hold the level, the integers are
    judged by that product.
    """
    tensors = nnr.read_bitstream(stream, limit_bytes=LIMIT_BYTES).tensors
    if [tensor.name for tensor in tensors] != list(theirs):
        return False
    for tensor in tensors:
        unit, values, mine = tensor.unit, theirs[tensor.name], tensor.decode()
        if mine.shape != values.shape:
            return False
        if mine.dtype.kind == "i":
            if not np.array_equal(mine, values):
                return False
            continue
        assert isinstance(unit, PublishedDataUnit)
        assert unit.tensor_dimensions is not None
        levels, qp = decode_published(
            unit.payload,
            unit.tensor_dimensions,
            cabac_unary_length=tensor.cabac_unary_length,
            dq_flag=unit.dq_flag,
            qp_bits=6 + tensor.qp_density,
            limit_bytes=LIMIT_BYTES,
        )
        step = np.float32(np.ldexp(*step_size(qp + tensor.quantization_parameter, tensor.qp_density)))
        products = (levels.astype(np.float32) * step).reshape(values.shape)
        exact = np.abs(levels.reshape(values.shape).astype(np.int64)) <= EXACT_LEVEL
        if not np.array_equal(products, values) or not np.array_equal(mine[exact], values[exact]):
            return False
    return True


def exchange(
    oracle: Oracle, arrays: dict[str, np.ndarray], options: Mapping[str, Any] | None, own: nnr.Settings
) -> str:
    """One set of arrays both ways: what went wrong, or ""."""
    stream = oracle.encode(arrays, options)
    if not same(stream, oracle.decode(stream)):
        return "tosaic decodes nncodec's stream to other values"
    written = published(nnr.read_bitstream(nnr.encode(arrays, own), limit_bytes=LIMIT_BYTES))
    if not same(written, oracle.decode(written)):
        return "nncodec decodes tosaic's stream to other values"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", nargs="*", default=[])
    parser.add_argument("--stub", default="", help="names of packages, separated by commas")
    arguments = parser.parse_args()
    sys.meta_path.insert(0, _Stubs(arguments.stub.split(",")))
    warnings.simplefilter("ignore", nnr.NnrWarning)
    oracle, rng = Oracle(), np.random.default_rng(arguments.seed)
    failures = 0
    for number in range(arguments.tensors):
        options = {
            "qp": int(rng.integers(-50, 8)),
            "nonweight_qp": int(rng.integers(-75, 0)),
            "use_dq": bool(rng.integers(2)),
            "param_opt": bool(rng.random() < 0.8),
            "row_skipping": bool(rng.random() < 0.8),
        }
        step, length = 10 ** rng.uniform(-4, -1), int(rng.integers(0, 21))
        own = nnr.Settings(("uniform", "dependent")[number % 2], length, relative_step=step)
        wrong = exchange(oracle, {"w": random_tensor(rng)}, options, own)
        if wrong:
            failures += 1
            print(f"tensor {number}, {options}, {own}: {wrong}")
    print(f"{arguments.tensors} random tensors each way: {failures} differ")
    for path in arguments.weights:
        arrays = dict(np.load(path).items())
        wrong = exchange(oracle, arrays, None, nnr.Settings("dependent"))
        print(f"{path}: {len(arrays)} tensors each way: {wrong or 'equal'}")
        failures += bool(wrong)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
