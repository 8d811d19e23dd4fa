"""What a model remembers from run to run: resource variables, and tensors that operators change (`is_variable`)."""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.source_graph import TfliteTensor
from tosaic.compiler.importers.tflite.values import STORAGE
from tosaic.compiler.ir.graph import State
from tosaic.errors import UnsupportedError


@dataclass
class _Variable:
    name: str
    initial: str
    """The constant that it starts as."""
    current: str = ""
    """What it is at this point of the run; "" before it is read or assigned."""
    entry: str = ""
    """The graph's input that carries it."""
    assigned: bool = False


class CarriedVariables:
    """Each variable is an input that takes the output of the run before. They have no place outside of the graph."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.initializing = False
        """Whether CALL_ONCE runs: what is assigned is what the variable starts as."""
        self._handles: dict[str, str] = {}
        self._variables: dict[str, _Variable] = {}

    # --- resources ------------------------------------------------------------------------------------------

    def handle(self, node: TfliteNode) -> str:
        """VAR_HANDLE: a marker that stands for the variable; it is in no operator of the result."""
        parts = [(node.option(name, b"") or b"").decode() for name in ("Container", "SharedName")]
        key = "/".join(filter(None, parts)) or node.name
        if key not in self._handles:
            self._handles[key] = f"resource {key}"
        return self._handles[key]

    def assign(self, node: TfliteNode) -> None:
        """ASSIGN_VARIABLE: from here on the variable is this tensor."""
        key, value = node.x(0), node.x(1)
        known = self._variables.get(key)
        if self.initializing:
            if self.low.data(value) is None:
                node.unsupported(
                    "it starts a variable with what is computed at run time", "start it with a constant"
                )
            self._variables[key] = _Variable(key.removeprefix("resource "), value)
            return
        if known is None:
            node.unsupported(
                f"the variable {key.removeprefix('resource ')!r} has no initial value",
                "give it one in the model's initialization (CALL_ONCE)",
            )
        have, wanted = self.low.shape(value), self.low.shape(known.initial)
        if have != wanted or self.low.dtype(value) is not self.low.dtype(known.initial):
            node.unsupported(
                f"a variable of {list(wanted)} becomes {list(have)}; TOSA's shapes are static",
                "keep the variable's shape and type",
            )
        known.current, known.assigned = value, True

    def read(self, node: TfliteNode) -> str:
        """READ_VARIABLE: what the variable is at this point of the run."""
        known = self._variables.get(node.x(0))
        if known is None:
            node.unsupported(
                f"the variable {node.x(0).removeprefix('resource ')!r} has no initial value",
                "give it one in the model's initialization (CALL_ONCE)",
            )
        return self._read(known)

    def _read(self, variable: _Variable) -> str:
        if not variable.current:
            name, tensor = f"{variable.name}.state", self.low.graph.tensors[variable.initial]
            variable.entry = variable.current = self.low.build.input(name, tensor.shape, tensor.dtype)
        return variable.current

    # --- tensors that operators change ----------------------------------------------------------------------

    def tensor(self, tensor: TfliteTensor) -> str:
        """A tensor that no operator computes: one that operators change, or an error."""
        if not tensor.is_variable or tensor.kind not in STORAGE:
            raise UnsupportedError(
                f"tensor {tensor.name!r} {tensor.kind.lower()}{list(tensor.shape)} is read, but nothing computes it "
                "and TOSA has no value for it; export the model again"
            )
        if tensor.name not in self._variables:
            zero = 0 if tensor.quantization is None else int(tensor.quantization.zero_point)
            initial = self.low.constant(np.full(tensor.shape, zero), STORAGE[tensor.kind])
            self._variables[tensor.name] = _Variable(tensor.name, initial)
        return self._read(self._variables[tensor.name])

    def change(self, tensor: str, value: str) -> None:
        """The operator leaves `value` in the tensor whose input is `tensor`."""
        variable = next(v for v in self._variables.values() if v.entry == tensor or v.current == tensor)
        variable.current, variable.assigned = value, True

    def snapshot(self) -> dict[str, str]:
        """What each variable that was assigned is at this point."""
        return {key: variable.current for key, variable in self._variables.items() if variable.assigned}

    # --- result ---------------------------------------------------------------------------------------------

    def finish(self) -> tuple[dict[str, State], list[tuple[str, str]]]:
        """The graph's states by input, and pairs of output name and tensor of what they become."""
        states, following = {}, []
        for variable in self._variables.values():
            if not variable.entry:
                # Never read before it is written: nothing that a run gives depends on the run before.
                continue
            initial = self.low.data(variable.initial)
            assert initial is not None
            states[variable.entry] = State(f"{variable.name}.next", initial)
            following.append((f"{variable.name}.next", variable.current))
        return states, following
