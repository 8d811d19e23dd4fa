"""A TFLite graph that grows by random operators, as long as LiteRT's reference kernels take them."""

from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_operator_cases import Case, Tensor, packed_operator, packed_tensor

Step = Callable[["Builder", int], Case | None]
"""Makes an operator that reads tensor `x` first; its inputs are indices of tensors, or new tensors."""
STEPS: dict[str, tuple[Step, tuple[str, ...]]] = {}
"""Makers of operators by name, with the types whose reference kernels LiteRT has."""
ALL = ("int8", "uint8", "int16")
_ATTEMPTS = 60
_ELEMENTS = 4096
"""Elements of a tensor at most."""


def step(name: str, *dtypes: str) -> Callable[[Step], Step]:
    def register(make: Step) -> Step:
        STEPS[name] = (make, dtypes or ALL)
        return make

    return register


class Builder:
    """A graph that grows by operators which LiteRT accepts."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.tensors: list[Tensor] = []
        self.inputs: list[int] = []
        self.operators: list[tuple[Case, list[int], list[int]]] = []
        dtype = str(random.choice(ALL))
        for _ in range(int(random.integers(1, 3))):
            rank = int(random.choice([2, 3, 4, 4, 4]))
            shape = [int(random.integers(1, 3)), *(int(n) for n in random.integers(2, 9, rank - 1))]
            self.inputs.append(self.add(Tensor(shape, dtype, **self.encoding(dtype))))
        self.feeds = [self._values(self.tensors[index]) for index in self.inputs]

    def add(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def encoding(self, dtype: str, scale: float = 0.0) -> dict[str, Any]:
        """A scale that is a power of two or not, and a zero point, often at an end."""
        random = self.random
        if not scale:
            scale = 2.0 ** -int(random.integers(1, 10))
            if random.random() < 0.5:
                scale = float(np.exp(random.uniform(np.log(0.003), np.log(0.3))))
            scale = scale / 128 if dtype == "int16" else scale
        if dtype == "int16":
            return {"scales": np.float32(scale), "zero_points": 0}
        info = np.iinfo(dtype)
        ends = [info.min, info.max, info.min + 128]
        zero = (
            int(random.choice(ends))
            if random.random() < 0.6
            else int(random.integers(info.min, info.max + 1))
        )
        return {"scales": np.float32(scale), "zero_points": zero}

    def like(self, x: int, **changes: Any) -> Tensor:
        """A result with the type and the encoding of tensor `x`."""
        given = self.tensors[x]
        return Tensor([1], given.dtype, given.scales, given.zero_points)

    def fresh(self, x: int, scale: float = 0.0) -> Tensor:
        """A result with the type of tensor `x` and an encoding of its own."""
        dtype = self.tensors[x].dtype
        return Tensor([1], dtype, **self.encoding(dtype, scale))

    def shape(self, x: int) -> list[int]:
        return list(self.tensors[x].shape)

    def partner(self, x: int) -> int | Tensor:
        """A second operand: a tensor of the same type and shape, or a constant that broadcasts."""
        random, given = self.random, self.tensors[x]
        same = [
            i
            for i, t in enumerate(self.tensors)
            if t.data is None and t.dtype == given.dtype and list(t.shape) == list(given.shape)
        ]
        if random.random() < 0.6:
            return int(random.choice(same))
        shape = [n if random.random() < 0.6 else 1 for n in given.shape]
        if random.random() < 0.3:
            shape = [shape[-1]]
        return self.constant(given.dtype, shape)

    def constant(self, dtype: str, shape: list[int], **encoding: Any) -> Tensor:
        info = np.iinfo(dtype)
        data = self.random.integers(info.min, info.max + 1, shape)
        return Tensor(shape, dtype, **(encoding or self.encoding(dtype)), data=data)

    def grow(self) -> None:
        """One more operator that LiteRT accepts, behind a random tensor of those that exist."""
        for _ in range(_ATTEMPTS):
            live = [i for i, t in enumerate(self.tensors) if t.data is None and t.dtype in ALL and t.shape]
            # Mostly the newest.
            x = live[-1] if self.random.random() < 0.6 else int(self.random.choice(live))
            name = str(self.random.choice(list(STEPS)))
            make, dtypes = STEPS[name]
            if self.tensors[x].dtype not in dtypes:
                continue
            case = make(self, x)
            if case is not None and self._accepted(case):
                return

    def _accepted(self, case: Case) -> bool:
        kept = len(self.tensors)
        reads = [
            each if isinstance(each, int) else -1 if each is None else self.add(each) for each in case.inputs
        ]
        writes = [self.add(each) for each in case.outputs]
        self.operators.append((case, reads, writes))
        interpreter = litert(self.packed(), self.feeds)
        details = {each["index"]: each for each in interpreter.get_tensor_details()} if interpreter else {}
        shapes = [[int(n) for n in details[i]["shape"]] for i in writes] if details else []
        if not shapes or any(0 in shape or np.prod(shape) > _ELEMENTS for shape in shapes):
            del self.tensors[kept:], self.operators[-1:]
            return False
        for index, shape in zip(writes, shapes, strict=True):
            self.tensors[index].shape = shape
        return True

    def packed(self) -> bytes:
        """The file; what nobody reads is an output."""
        buffers = [schema.BufferT()]
        graph, codes = schema.SubGraphT(), []
        graph.name, graph.inputs = b"main", self.inputs
        graph.tensors = [packed_tensor(t, i, buffers) for i, t in enumerate(self.tensors)]
        graph.operators = []
        for number, (case, reads, writes) in enumerate(self.operators):
            graph.operators.append(packed_operator(case, number, reads, writes))
            code = schema.OperatorCodeT()
            code.builtinCode = getattr(schema.BuiltinOperator, case.kind)
            code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
            codes.append(code)
        read = {i for _, reads, _ in self.operators for i in reads}
        graph.outputs = [i for _, _, writes in self.operators for i in writes if i not in read]
        model = schema.ModelT()
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, codes, [graph], buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _values(self, tensor: Tensor) -> np.ndarray:
        """Integers of the whole range; now and then only its ends."""
        info = np.iinfo(tensor.dtype)
        x = self.random.integers(info.min, info.max + 1, tensor.shape)
        if self.random.random() < 0.15:
            x = self.random.choice([info.min, info.max], tensor.shape)
        return x.astype(tensor.dtype)


def litert(data: bytes, feeds: list[np.ndarray]) -> Interpreter | None:
    """LiteRT's reference kernels after a run; None if they do not take the file, or the values."""
    try:
        made = Interpreter(
            model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
        )
        made.allocate_tensors()
        for details, feed in zip(made.get_input_details(), feeds, strict=True):
            made.set_tensor(details["index"], feed)
        made.invoke()
    except (RuntimeError, ValueError):
        return None
    return made
