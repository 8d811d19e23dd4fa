"""Sums of the bytes of each row, on the array: a convolution by ones.

VECTOR adds up a row in as many lanes as it has, and then the lanes, which takes half as long again for rows of some
hundred bytes. One column of the array does it in the cycles of the former, while VECTOR does something else.
"""

import numpy as np

from tosaic.compiler.cost import array
from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.machine_numbers import SUMMED_LANES_FACTOR
from tosaic.hw.config import Config


def sum_rows_on_array(graph: Graph, config: Config) -> Graph:
    """A graph with the same outputs; sums of bytes along the last axis on the array where that takes fewer cycles."""
    graph = graph.copy()
    index, done = graph.index(), list[Operator]()
    for operator in graph.operators:
        new = Rewriting(graph, operator)
        done += new.operators if operator.op == "REDUCE_SUM" and _by_ones(new, index, config) else [operator]
    graph.operators = done
    return graph


def _by_ones(new: Rewriting, index: GraphIndex, config: Config) -> bool:
    operator, result = new.operator, new.operator.outputs[0]
    *outer, length = new.shape(operator.inputs[0])
    rows, steps = int(np.prod(outer)), -(-length // config.columns)
    found = _bytes_of(new, index.producer(operator.inputs[0]))
    if found is None or operator.attributes["axis"] != len(outer) or rows < config.rows:
        return False
    source, zero_point = found
    maker = index.producer(source)
    # Bytes that VECTOR makes for nothing else are added up as it makes them.
    alone = len(index.consumers(source)) == 1 and source not in new.graph.outputs
    if alone and maker is not None and KIND.get(maker.op) is Kind.ELEMENTWISE:
        return False
    on_vector = rows * (steps + config.columns // SUMMED_LANES_FACTOR)
    if array.dense_cycles(steps, rows, config) > on_vector:
        return False
    ones = new.constant(np.ones((1, 1, 1, length), np.int8), DType.INT8)
    zero_points = [new.constant(np.array([value]), DType.INT8) for value in (zero_point, 0)]
    sums = new.add(
        "CONV2D",
        [new.reshape(source, (1, rows, 1, length)), ones, new.zeros(1, DType.INT32), *zero_points],
        (1, rows, 1, 1),
        DType.INT32,
        stride=[1, 1],
        pad=[0, 0, 0, 0],
        dilation=[1, 1],
        acc_type=DType.INT32,
        local_bound=False,
    )
    new.reshape(sums, (*outer, 1), result)
    return True


def _bytes_of(new: Rewriting, maker: Operator | None) -> tuple[str, int] | None:
    """The int8 tensor, and its zero point, that an operator makes int32 of without a scale; None for others."""
    if maker is None or maker.op not in ("CAST", "RESCALE") or new.dtype(maker.inputs[0]) is not DType.INT8:
        return None
    if maker.op == "CAST":
        return maker.inputs[0], 0
    if maker.attributes.get("input_unsigned") or new.dtype(maker.outputs[0]) is not DType.INT32:
        return None
    names = ("multiplier", "shift", "input_zp", "output_zp")
    values = [new.graph.tensors[new.graph.operand(maker, name) or ""].data for name in names]
    if any(value is None or value.size != 1 for value in values):
        return None
    multiplier, shift, input_zp, output_zp = (
        int(value.reshape(-1)[0]) for value in values if value is not None
    )
    return (maker.inputs[0], input_zp) if multiplier == 1 << shift and output_zp == 0 else None
