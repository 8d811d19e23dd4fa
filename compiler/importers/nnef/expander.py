"""Expands a checked document to a flat graph: fragments are expanded, attributes computed, shapes propagated."""

from collections.abc import Collection, Mapping

from tosaic.compiler.importers.nnef.budget import TENSOR_WORK, Budget
from tosaic.compiler.importers.nnef.call import Call, shape_of
from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.evaluator import Environment, Evaluator
from tosaic.compiler.importers.nnef.graph import (
    FlatGraph,
    NnefOperation,
    Provenance,
    Shape,
    TensorValue,
    Value,
)
from tosaic.compiler.importers.nnef.shapes import COMPOUND_CHECKS, SHAPE_RULES
from tosaic.compiler.importers.nnef.standard_library import FILE, compound_operations
from tosaic.compiler.importers.nnef.syntax import (
    ArrayExpression,
    Expression,
    Fragment,
    GraphDefinition,
    Identifier,
    TupleExpression,
    identifiers_of,
)
from tosaic.compiler.importers.nnef.type_system import (
    ArrayType,
    PrimitiveType,
    TensorType,
    TupleType,
    Type,
    bind,
    candidates,
    kinds,
    literal_type,
)


def expand(
    graph: GraphDefinition,
    operations: Mapping[str, Fragment],
    *,
    whole: Collection[str] = (),
    shapes: Mapping[str, Shape] | None = None,
) -> FlatGraph:
    """The flat graph of a document that `checker.check_document` accepted.

    `whole` names standard compounds to keep as one operation; their bodies still check arguments and give shapes.
    `shapes` replaces the shapes of external tensors, by graph parameter. Raises NnefError for invalid arguments.
    """
    unknown = set(whole) - compound_operations()
    if unknown:
        raise ValueError(f"not compound operations of NNEF: {sorted(unknown)}")
    wrong = set(shapes or {}) - {parameter.name for parameter in graph.parameters}
    if wrong:
        raise NnefError(
            "V034", graph.position, f"the graph {graph.name} has no input {', '.join(sorted(wrong))}"
        )
    return _Expander(graph, operations, frozenset(whole), dict(shapes or {})).run()


class _Expander:
    def __init__(
        self,
        graph: GraphDefinition,
        declared: Mapping[str, Fragment],
        whole: frozenset[str],
        shapes: dict[str, Shape],
    ) -> None:
        self.graph = graph
        self.declared = declared
        self.whole = whole
        self.shapes = shapes
        self.budget = Budget()
        self.evaluator = Evaluator(self.budget, self.invoke, declared)
        self.operations: list[NnefOperation] = []
        self.variables: dict[str, list[TensorValue]] = {}
        self.updated: set[str] = set()
        # Standard compounds around the present invocation, and the invocation of the first of them.
        self.within: list[str] = []
        self.origin: Provenance | None = None
        self.taken = {name.name for each in graph.body for name in identifiers_of(each.target)}
        self.target = ""
        self.serial = 0

    def run(self) -> FlatGraph:
        environment = Environment({}, None)
        for assignment in self.graph.body:
            self.target = next((name.name for name in identifiers_of(assignment.target)), "unnamed")
            value = self.evaluator.value(assignment.value, environment)
            self._assign(assignment.target, value, environment)
        named: dict[int, str] = {}
        tensors: dict[str, TensorValue] = {}
        for name, value in environment.names.items():
            assert isinstance(value, TensorValue)
            tensors[name] = value
            # The first identifier is the tensor's name; others are aliases.
            value.name = named.setdefault(id(value), name)
        self._check_externals(tensors)
        return FlatGraph(
            self.graph.name,
            tuple(parameter.name for parameter in self.graph.parameters),
            tuple(result.name for result in self.graph.results),
            self.operations,
            tensors,
            self.variables,
        )

    def _check_externals(self, tensors: Mapping[str, TensorValue]) -> None:
        inputs = set()
        for parameter in self.graph.parameters:
            tensor = tensors[parameter.name]
            if tensor.producer is None or tensor.producer.name != "external":
                raise NnefError(
                    "V034",
                    parameter.position,
                    f"the graph parameter {parameter.name} is no result of external",
                    f"write {parameter.name} = external(shape = [...]);",
                )
            inputs.add(id(tensor))
        for operation in self.operations:
            if operation.name == "external" and id(operation.results["output"]) not in inputs:
                raise NnefError(
                    "V035", operation.position, "an external tensor is no graph parameter", "list it as one"
                )

    def _assign(self, target: Expression, value: Value, environment: Environment) -> None:
        """Binds identifiers; in the graph body every one becomes a tensor."""
        if isinstance(target, Identifier):
            if environment.graph_body and not isinstance(value, TensorValue):
                assert not isinstance(value, list | tuple)
                value = self._constant(value, target.position)
            environment.names[target.name] = value
            return
        assert isinstance(target, ArrayExpression | TupleExpression) and isinstance(value, list | tuple)
        if len(target.items) != len(value):
            raise NnefError(
                "unpacking", target.position, f"{len(value)} items are unpacked to {len(target.items)} names"
            )
        for item, part in zip(target.items, value, strict=True):
            self._assign(item, part, environment)

    def _constant(self, value: int | float | bool | str, position: Position) -> TensorValue:
        arguments: dict[str, Value] = {"shape": [], "value": [value]}
        origin = Provenance("constant", self.target, position)
        made = self._primitive(self.declared["constant"], str(literal_type(value)), arguments, origin)
        assert isinstance(made, TensorValue)
        return made

    def invoke(self, name: str, generic: str | None, given: dict[str, Value], position: Position) -> Value:
        """The results of an operation: one value, or a tuple of them."""
        fragment = self.declared[name]
        arguments: dict[str, Value] = {}
        for parameter in fragment.parameters:
            if parameter.name in given:
                arguments[parameter.name] = given[parameter.name]
            else:
                assert parameter.default is not None
                arguments[parameter.name] = self.evaluator.value(parameter.default, Environment({}, None))
        data = generic or fragment.generic_default
        if fragment.generic and data is None:
            data = self._deduced(fragment, arguments)
        origin = self.origin or Provenance(name, self.target, position)
        if fragment.body is None:
            return self._primitive(fragment, data, arguments, origin)
        if fragment.position.file != FILE:
            return self._body(fragment, data, arguments)
        return self._compound(fragment, data, arguments, origin)

    def _compound(
        self, fragment: Fragment, data: str | None, arguments: dict[str, Value], origin: Provenance
    ) -> Value:
        """A standard compound; errors in it are reported where the document invokes it."""
        outermost = self.origin is None
        self.origin = origin
        if fragment.name in COMPOUND_CHECKS:
            COMPOUND_CHECKS[fragment.name](Call(fragment.name, arguments, origin.position, self.within))
        self.within.append(fragment.name)
        before = len(self.operations)
        result = self._body(fragment, data, dict(arguments))
        self.within.pop()
        if outermost:
            self.origin = None
        if fragment.name not in self.whole or not kinds(fragment.results[0].type) == {True}:
            return result
        del self.operations[before:]
        parts = [result] if len(fragment.results) == 1 else result
        assert isinstance(parts, list | tuple)
        shapes = [
            [shape_of(item) for item in p] if isinstance(p, list | tuple) else shape_of(p) for p in parts
        ]
        return self._emit(fragment, data, arguments, shapes, origin)

    def _body(self, fragment: Fragment, data: str | None, arguments: dict[str, Value]) -> Value:
        assert fragment.body is not None
        environment = Environment(arguments, data, graph_body=False)
        for assignment in fragment.body:
            value = self.evaluator.value(assignment.value, environment)
            self._assign(assignment.target, value, environment)
        results = tuple(environment.names[result.name] for result in fragment.results)
        return results[0] if len(results) == 1 else results

    def _primitive(
        self, fragment: Fragment, data: str | None, arguments: dict[str, Value], origin: Provenance
    ) -> Value:
        if fragment.name == "external" and self.target in self.shapes:
            arguments["shape"] = list(self.shapes[self.target])
        call = Call(fragment.name, arguments, origin.position, self.within)
        shape = SHAPE_RULES[fragment.name](call)
        self.budget.spend(len(shape), origin.position)
        if fragment.name == "update":
            self._check_update(call)
        result = self._emit(fragment, data, arguments, [shape], origin)
        if fragment.name == "variable":
            assert isinstance(result, TensorValue)
            self._register(call, result)
        return result

    def _register(self, call: Call, tensor: TensorValue) -> None:
        """Variables with one label, whatever its case, are one variable (4.1.3)."""
        shared = self.variables.setdefault(call["label"].lower(), [])
        if shared and (shared[0].shape, shared[0].data) != (tensor.shape, tensor.data):
            raise call.error(
                "V058",
                f"the label {call['label']!r} names {tensor.data} of {list(tensor.shape)} here,"
                f" and {shared[0].data} of {list(shared[0].shape)} before",
                "give one of them another label",
            )
        shared.append(tensor)

    def _check_update(self, call: Call) -> None:
        producer = call["variable"].producer
        label = producer.arguments["label"]
        call.require(
            label.lower() not in self.updated,
            "V100",
            f"the variable {label!r} is updated again",
            "update it once",
        )
        self.updated.add(label.lower())

    def _emit(
        self,
        fragment: Fragment,
        data: str | None,
        arguments: dict[str, Value],
        shapes: list[Shape | list[Shape]] | list[Shape] | list[list[Shape]],
        origin: Provenance,
    ) -> Value:
        operation = NnefOperation(fragment.name, data if fragment.generic else None, arguments, origin)
        for result, shape in zip(fragment.results, shapes, strict=True):
            of = bind(result.type, data) if data else result.type
            if isinstance(of, ArrayType):
                assert isinstance(shape, list)
                operation.results[result.name] = [self._tensor(of.item, each, operation) for each in shape]
            else:
                assert isinstance(shape, tuple)
                operation.results[result.name] = self._tensor(of, shape, operation)
        self.operations.append(operation)
        values: list[Value] = [v if isinstance(v, TensorValue) else [*v] for v in operation.results.values()]
        return values[0] if len(values) == 1 else tuple(values)

    def _tensor(self, of: Type | None, shape: Shape, producer: NnefOperation) -> TensorValue:
        assert isinstance(of, TensorType) and of.data is not None
        self.budget.spend(TENSOR_WORK, producer.position)
        while True:
            self.serial += 1
            name = f"{self.target}_{self.serial}"
            if name not in self.taken:
                return TensorValue(name, of.data, shape, producer)

    def _deduced(self, fragment: Fragment, arguments: dict[str, Value]) -> str:
        for parameter in fragment.parameters:
            for found in candidates(parameter.type, _type_of(arguments[parameter.name])):
                return found
        raise AssertionError(f"{fragment.name} passed the checker without a data-type")


def _type_of(value: Value) -> Type:
    if isinstance(value, TensorValue):
        return TensorType(value.data)
    if isinstance(value, list):
        return ArrayType(_type_of(value[0]) if value else None)
    if isinstance(value, tuple):
        return TupleType(tuple(_type_of(item) for item in value))
    return PrimitiveType(str(literal_type(value)))
