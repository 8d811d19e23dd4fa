"""`torch.compile(module, backend="tosaic")`: the back end that PyTorch finds by an entry point."""

from collections.abc import Mapping, Sequence
from typing import Any

from tosaic.compiler.importers.torch_models.program import is_quantized
from tosaic.driver.torch_session import TorchSession
from tosaic.errors import Error, InputError, UnsupportedError

_KEPT_SESSIONS = 8
DEFAULT_TARGET = "emulator"


def compile_graph_module(
    graph_module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Any:
    """What runs a graph that torch.compile traced, of a module that PT2E converted: tensors in, tensors out.

    `options` are those of `torch.compile(..., options={"target": "sim", "config": "small"})`: arguments of
    `tosaic.Session`. An error is raised when the module is called, as PyTorch would wrap it here.
    """
    compiled = CompiledGraph(graph_module, dict(options or {}))
    compiled.prepare(example_inputs)
    return compiled


class CompiledGraph:
    """A graph on the accelerator. It is compiled for each set of shapes that it is called with, and again when a weight
    of the module was changed."""

    def __init__(self, graph_module: Any, options: dict[str, Any]):
        self._graph_module = graph_module
        self._options = {"target": DEFAULT_TARGET, **options}
        self._nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self._fixed: set[int] = set()
        self._sessions: dict[Any, TorchSession] = {}

    def prepare(self, example_inputs: Sequence[Any]) -> None:
        """Finds the module's own tensors among the inputs; compiles for the examples where their sizes are known."""
        self._fixed = {
            number
            for number, value in enumerate(example_inputs)
            if getattr(value, "_dynamo_static_input_type", None) is not None
        }
        tensors = [value for value in example_inputs if hasattr(value, "shape")]
        sizes = [size for value in tensors for size in value.shape]
        if len(tensors) == len(example_inputs) and all(type(size) is int for size in sizes):
            try:
                self._session(example_inputs)
            except Error:
                return  # the call says it

    def __call__(self, *arguments: Any) -> Any:
        """The graph's outputs."""
        import torch

        given = [value for number, value in enumerate(arguments) if number not in self._fixed]
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        if torch.is_grad_enabled() and any(value.requires_grad for value in tensors):
            raise InputError("the accelerator computes no gradients: call the module within torch.no_grad()")
        return self._session(arguments)(*tensors)

    def _session(self, arguments: Sequence[Any]) -> TorchSession:
        key = tuple(
            (id(value), value._version)
            if number in self._fixed
            else (tuple(value.shape), value.dtype)
            if hasattr(value, "shape")
            else value
            for number, value in enumerate(arguments)
        )
        if key not in self._sessions:
            while len(self._sessions) >= _KEPT_SESSIONS:
                self._sessions.pop(next(iter(self._sessions))).close()
            self._sessions[key] = self._opened(arguments)
        return self._sessions[key]

    def _opened(self, arguments: Sequence[Any]) -> TorchSession:
        """A session for these shapes, with the module's own tensors as weights."""
        import torch

        from tosaic.driver.from_torch import from_torch

        if not is_quantized(self._graph_module):
            raise UnsupportedError(
                "torch.compile(..., backend='tosaic') takes modules that PT2E converted, and this graph computes "
                "floats: quantize the module by prepare_pt2e and convert_pt2e first, or give it to "
                "tosaic.from_torch(module, example_inputs, calibration), which quantizes it"
            )
        graph = torch.fx.Graph()
        values: dict[Any, Any] = {}
        root = torch.nn.Module()
        for name, each in self._graph_module.named_modules():
            if name and "." not in name:
                root.add_module(name, each)
        for name, tensor in (*self._graph_module.named_parameters(), *self._graph_module.named_buffers()):
            if "." not in name:
                root.register_buffer(name, tensor.detach())
        tensors = []
        for number, (node, value) in enumerate(zip(self._nodes, arguments, strict=True)):
            if number in self._fixed:
                root.register_buffer(f"fixed_{number}", value.detach().clone())
                values[node] = graph.get_attr(f"fixed_{number}")
            elif isinstance(value, torch.Tensor):
                values[node] = graph.placeholder(f"input_{number}")
                tensors.append(value)
            else:
                values[node] = int(value)
        results = graph.graph_copy(self._graph_module.graph, values)
        graph.output(tuple(results) if isinstance(results, list) else results)
        session = from_torch(torch.fx.GraphModule(root, graph), tuple(tensors), **self._options)
        assert isinstance(session, TorchSession)
        return session
