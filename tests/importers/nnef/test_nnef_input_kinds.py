"""NNEF networks of every kind of input, judged by the formulas of the text: floats, integers, the emulator.

NNEF knows reals (`scalar`), `integer` and `logical`. Images and codes are reals there: what integers stand for is in
graph.quant, beside the graph. It computes with reals only, and has no operation that reads rows of a table.
"""

import pathlib

import numpy as np
import pytest
from input_kinds import FEATURES, SAMPLES, SCALE, Kind, assert_equal, assert_near, kinds
from nnef_model_files import write_model
from nnef_reference import evaluate as reference

from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.tosa import import_nnef
from tosaic.errors import ModelError


def network(kind: Kind, folder: pathlib.Path) -> tuple[pathlib.Path, list[np.ndarray], list[np.ndarray]]:
    """The model that `USES` tells of, its inputs, and what the text's formulas give."""
    shape, last = list(kind.shape), len(kind.shape) - 1
    data = {"numbers": "integer", "ids": "integer", "mask": "logical"}.get(kind.use, "scalar")
    variables, inputs = {}, kind.samples(SAMPLES)
    match kind.use:
        case "reals" | "codes":
            if kind.use == "codes":
                inputs = [((x.astype(int) - kind.zero_point) * SCALE).astype(np.float32) for x in inputs]
            if last == 0:
                variables["w"], body = kind.constant(*shape), "y = tanh(mul(x, w));"
            else:
                ones = [1] * (last - 1)
                variables["w"] = kind.constant(*ones, shape[-1], FEATURES)
                body = f"y = {'relu' if kind.use == 'codes' else 'tanh'}(matmul(x, w));"
        case "image":
            inputs = [x.astype(np.float32) for x in inputs]
            variables["w"] = kind.constant(4, 1 if shape[-1] == 1 else 3, 3, 3)
            moved = "transpose(x, axes = [0,3,1,2])" if kind.channels_last else "copy(x)"
            body = f"i = {moved}; r = div(sub(i, 127.5), 64.0); b = conv(r, w, 0.0, padding = [(1,1),(1,1)]);"
            body += " y = relu(b);"
        case "numbers":
            body = "y = copy(x);"
        case "ids":
            body = "y = gather(x, x);"
        case "mask":
            variables["s"] = kind.constant(*shape) * 4
            body = f"v = select(x, s, -10000.0); y = softmax(v, axes = [{last}]);"
    lines = [f"x = external<{data}>(shape = {shape});"]
    lines += [f"{n} = variable(shape = {list(v.shape)}, label = '{n}');" for n, v in variables.items()]
    header = "version 1.0;\nextension KHR_enable_operator_expressions;\n"
    text = f"{header}graph g( x ) -> ( y )\n{{\n    " + "\n    ".join([*lines, body]) + "\n}\n"
    write_model(folder, text, variables)
    if kind.use == "ids":
        return folder, inputs, []
    document = expand_document(text)
    exact = {n: v.astype(np.float64) for n, v in variables.items()}
    wanted = []
    for x in inputs:
        given = x.astype({"scalar": np.float64, "integer": np.int64, "logical": np.bool_}[data])
        wanted.append(reference(document, {"x": given, **exact}, exact)[0]["y"])
    return folder, inputs, wanted


@kinds("reals", "image", "codes", "mask")
def test_floats_are_the_formulas_and_integers_near(kind: Kind, tmp_path) -> None:
    folder, inputs, wanted = network(kind, tmp_path)
    assert_near(import_nnef(folder), kind, [value.astype(np.float32) for value in wanted], inputs)


@kinds("numbers")
def test_integers_stay(kind: Kind, tmp_path) -> None:
    """Operations on integers only move them."""
    folder, inputs, _ = network(kind, tmp_path)
    assert_equal(folder, kind, inputs)


@kinds("ids")
def test_there_is_no_table(kind: Kind, tmp_path) -> None:
    with pytest.raises(ModelError, match="gather"):
        import_nnef(network(kind, tmp_path)[0])
