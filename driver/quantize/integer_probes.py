"""Integer and boolean inputs of a model that brings its encodings: which values it has a use for."""

import warnings
import zlib
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Trait, operators_with
from tosaic.compiler.quantizer.functions import COMPARISONS, is_real
from tosaic.errors import ModelWarning

_UNKNOWN = 1023
"""The largest count that is tried where neither the type nor a reader tells one: above steps and positions in use."""
_STEEP = 50.0
"""What one more of a count adds to a real, where the count can only be a mask."""
_LINES = frozenset({"CAST", *operators_with(Trait.LINEAR), *operators_with(Trait.MOVES)})
_INDEXED = operators_with(Trait.INDEXED)


class IntegerProbes:
    """Values of the integer and boolean inputs of a canonical float graph.

    Indices are from all of the table that they point into, the rows of the table that stand out among them. Booleans,
    and counts that others are multiplied by, are masks: 0 and 1, also everywhere. What 8 or 16 bits hold may be
    anything they hold.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph, self._index = graph, graph.index()
        self._choices: dict[str, np.ndarray] = {}
        self._guessed: set[str] = set()

    def warn(self) -> None:
        """A ModelWarning for each input whose range was guessed, and matters: lines are exact for all integers."""
        for name in sorted(filter(self._is_bent, self._guessed)):
            warnings.warn(
                f"input {name!r} is {self._graph.tensors[name].dtype.spelling}, and nothing in the model tells which "
                f"integers it takes: 0 to {_UNKNOWN:,} are taken for granted, others may saturate; give it an 8-bit or "
                "16-bit type, or a QuantizeLinear behind its Cast",
                ModelWarning,
                stacklevel=3,
            )

    def values(self, name: str, number: int) -> np.ndarray:
        """The input's values in a probe, the same whoever asks: two of three are random, the others one value."""
        tensor = self._graph.tensors[name]
        if name not in self._choices:
            self._choices[name] = self._chosen(name)
        choices = self._choices[name]
        random = np.random.default_rng([zlib.crc32(name.encode()), number])
        if number % 3 == 1:
            found = np.broadcast_to(choices[-1 if number % 2 else 0], tensor.shape)
        elif number % 3 == 2 and len(choices) > 2:
            # One after the other, so that nothing is left out where there is room.
            size = max(int(np.prod(tensor.shape)), 1)
            found = np.resize(np.roll(choices, -(number // 3) * size), tensor.shape)
        else:
            found = random.choice(choices, tensor.shape)
        return found.astype(tensor.dtype.numpy)

    def _chosen(self, name: str) -> np.ndarray:
        dtype = self._graph.tensors[name].dtype
        if dtype is DType.BOOL:
            return np.array([False, True])
        readers = list(self._readers(name))
        tables = [op.inputs[0] for op, read in readers if op.op in _INDEXED and op.inputs[1] == read]
        if tables:
            return _rows(self._graph, min(tables, key=lambda name: self._graph.tensors[name].shape[1]))
        if dtype.bits <= 16:
            return np.arange(dtype.min, dtype.max + 1)
        edges = self._compared(readers)
        if self._masks(name, readers):
            return np.unique([0, 1, *edges])
        self._guessed.add(name)
        return np.unique([*range(_UNKNOWN + 1), *edges])

    def _readers(self, name: str) -> Iterator[tuple[Operator, str]]:
        """The operators that read an input's integers, moved or computed with as they may be."""
        seen, pending = {name}, [name]
        while pending:
            tensor = pending.pop()
            for op in self._index.consumers(tensor):
                yield op, tensor
                for result in op.outputs:
                    whole = self._graph.tensors[result].dtype.is_integer
                    if whole and result not in seen and not (op.op in _INDEXED and tensor == op.inputs[1]):
                        seen.add(result)
                        pending.append(result)

    def _compared(self, readers: list[tuple[Operator, str]]) -> list[int]:
        """Constants that the integers are compared with, and their neighbours."""
        found: list[int] = []
        for op, _ in readers:
            if op.op in COMPARISONS:
                for operand in op.inputs:
                    data = self._graph.tensors[operand].data
                    if data is not None and data.size == 1:
                        found += [int(data.reshape(-1)[0]) + step for step in (-1, 0, 1)]
        return found

    def _masks(self, name: str, readers: list[tuple[Operator, str]]) -> bool:
        """Whether a count is compared only, multiplies other reals, or moves a real by more than any count would."""
        casts = [op for op, _ in readers if op.op == "CAST" and is_real(self._graph, op.outputs[0])]
        return not casts or any(self._is_mask(op.outputs[0]) for op in casts)

    def _is_bent(self, name: str) -> bool:
        """Whether anything but lines leads from an input to where the model rounds."""
        pending = [op.outputs[0] for op, _ in self._readers(name) if is_real(self._graph, op.outputs[0])]
        seen = set(pending)
        while pending:
            for op in self._index.consumers(pending.pop()):
                if op.op not in (*_LINES, "CUSTOM"):
                    return True
                if op.op != "CUSTOM" and op.outputs[0] not in seen:
                    seen.add(op.outputs[0])
                    pending.append(op.outputs[0])
        return False

    def _is_mask(self, real: str) -> bool:
        slopes, pending = {real: 1.0}, [real]
        while pending:
            tensor = pending.pop()
            for op in self._index.consumers(tensor):
                others = [name for name in op.inputs[:2] if name != tensor]
                data = [self._graph.tensors[name].data for name in others]
                if op.op == "MUL" and others and data[0] is None:
                    return True
                slope = slopes[tensor]
                if op.op == "MUL" and others:
                    slope *= float(np.abs(data[0]).max(initial=0.0))  # type: ignore[arg-type]
                elif op.op not in _LINES:
                    continue
                if slope > _STEEP:
                    return True
                if not is_real(self._graph, op.outputs[0]) or op.outputs[0] in slopes:
                    continue
                slopes[op.outputs[0]] = slope
                pending.append(op.outputs[0])
        return False


def _rows(graph: Graph, table: str) -> np.ndarray:
    """Indices into a table: first those of the rows that stand out, if it is known, then all."""
    found = graph.tensors[table]
    every = np.arange(found.shape[1])
    if found.data is None:
        return every
    rows = found.data.astype(np.float32).transpose(1, 0, 2).reshape(len(every), -1)
    kinds = (rows.min(1), -rows.max(1), rows.std(1), -rows.std(1), rows.mean(1), -rows.mean(1))
    first = np.concatenate([np.argsort(kind, kind="stable")[:_OUTSTANDING] for kind in kinds])
    return np.concatenate([first, every])


_OUTSTANDING = 4
