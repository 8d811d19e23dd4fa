"""Damaged NNEF models: graphs, tensor files, quantization files and archives, imported and run.

Each must end in a graph that golden runs, or in an error of Tosaic's own in one line, within memory that goes with its
size.
"""

import io
import math
import pathlib
import random
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from failed_case import Case
from fuzz_runner import Tally, allowed_bytes
from nnef_cases import BOTH, CASES, flat
from nnef_model_files import dat
from nnef_operations import CASES as OPERATIONS

from tosaic.compiler.importers import survey_model
from tosaic.compiler.importers.nnef.lexer import tokenize
from tosaic.compiler.importers.nnef.standard_library import standard_operations
from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, write_tensor
from tosaic.compiler.importers.nnef.tosa import import_nnef
from tosaic.compiler.importers.survey import LoweringForm
from tosaic.compiler.ir import DType, Graph
from tosaic.errors import Error, UnsupportedError
from tosaic.sim.golden import evaluate

_HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = (str(_HERE.parents[1] / "fuzzing"), str(_HERE))
Files = dict[str, bytes]
RUN_ELEMENTS = 1 << 16
"""Graphs with larger tensors are not run."""

_WORDS = (
    sorted(standard_operations()) + "0 1 -1 2 3 7 64 65536 99999999 0.5 -0.0 1e30 true [] [1] [1,1]".split()
)
_WORDS += "'constant' 'ignore' 'reflect' 'replicate' x y f ( ) [ ] , = ; <scalar> <integer> <logical>".split()

_MODES = [
    "constant",
    "ignore",
    "replicate",
    "reflect",
    "reflect-even",
    "symmetric",
    "asymmetric",
    "aligned",
    "v",
]


def make_samples() -> list[Files]:
    """Small whole models of every kind: each operation, quantized files, state, fragments."""
    random_numbers = np.random.default_rng(1)
    samples = []
    for case in OPERATIONS:
        values = case.values()
        files = {f"{n}.dat": dat(v) for n, v in values.items() if n != "x"}
        samples.append({"graph.nnef": case.text(True).encode(), **files})
        samples.append({"graph.nnef": case.text(False).encode()})
    filters = random_numbers.uniform(-1, 1, (6, 4, 3, 3)).astype(np.float32)
    text = flat("f = variable(shape = [6,4,3,3], label = 'conv/f'); y = conv(x, f);").encode()
    quantization = b"'x': linear_quantize(min = -1.0, max = 1.0, bits = 8);\n"
    quantization += b"'f': logarithmic_quantize(max = 2.0, bits = 4);\n"
    linear, logarithmic, plain = Algorithm.LINEAR, Algorithm.LOGARITHMIC, Algorithm.FLOAT
    for algorithm, bits in ((linear, 5), (linear, 8), (logarithmic, 6), (plain, 16)):
        stored = write_tensor(filters, ItemEncoding(algorithm, bits, minimum=-1.0, maximum=1.0))
        for _ in range(5):
            samples.append({"graph.nnef": text, "conv/f.dat": stored, "graph.quant": quantization})
    state = flat("v = variable(shape = [1,4,8,8], label = 'V'); s = add(v, x); y = update(v, s);").encode()
    samples += [{"graph.nnef": state, "V.dat": dat(np.ones((1, 4, 8, 8), np.float32))}] * 5
    samples += [{"graph.nnef": t.encode()} for _, t, rule in CASES if rule is None and "variable" not in t]
    fragment = "fragment f( a: tensor<scalar>, n: integer ) -> ( b: tensor<scalar> )\n"
    fragment += "{ b = f(a + a, n = n - 1) if n > 0 else a; }\n"
    samples += [{"graph.nnef": flat("y = f(x, n = 3);", BOTH + fragment).encode()}] * 5
    return samples


# --- damage -----------------------------------------------------------------------------------------------------


def _tokens(chance: random.Random, text: bytes) -> bytes:
    words = [token.text for token in tokenize(text.decode(), "graph.nnef")[:-1]]
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = chance.randrange(len(words))
        kind = chance.randrange(5)
        if kind == 0:
            words[at] = chance.choice(_WORDS)
        elif kind == 1:
            del words[at]
        elif kind == 2:
            words.insert(at, chance.choice(_WORDS))
        elif kind == 3:
            numbers = [i for i, word in enumerate(words) if word.isdigit()] or [at]
            words[chance.choice(numbers)] = str(chance.choice([0, 1, 2, 3, 5, 17, 255, 10**6, 2**31, 2**62]))
        else:
            other = chance.randrange(len(words))
            words[at], words[other] = words[other], words[at]
    return " ".join(words).encode()


def _bytes(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(4)
        at = chance.randrange(min(len(changed), chance.choice([64, 128, 10**9]))) if changed else 0
        if kind == 0 and changed:
            changed[at] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        elif kind == 1 and changed:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[at : at + chance.randint(1, 40)]
        else:
            changed[at:at] = chance.randbytes(chance.randint(1, 40))
    return bytes(changed)


def _graph(chance: random.Random, files: Files) -> Files:
    return {**files, "graph.nnef": _tokens(chance, files["graph.nnef"])}


def _text(chance: random.Random, files: Files) -> Files:
    return {**files, "graph.nnef": _bytes(chance, files["graph.nnef"])}


def _data(chance: random.Random, files: Files) -> Files:
    names = [name for name in files if name.endswith(".dat")] or ["graph.nnef"]
    name = chance.choice(names)
    if chance.random() < 0.3 and len(files[name]) > 128:
        items = bytearray(files[name])
        items[chance.randrange(128, len(items))] = chance.choice([0, 1, 127, 128, 255])
        return {**files, name: bytes(items)}
    return {**files, name: _bytes(chance, files[name])}


def _quant(chance: random.Random, files: Files) -> Files:
    line = files.get("graph.quant", b"'y': linear_quantize(min = 0.0, max = 1.0, bits = 8);")
    return {**files, "graph.quant": _bytes(chance, line) if chance.random() < 0.5 else _tokens(chance, line)}


def _members(chance: random.Random, files: Files) -> Files:
    found = dict(files)
    name = chance.choice(sorted(found))
    content = found.pop(name)
    new = chance.choice(["../" + name, "/" + name, name.upper(), name + ".q8", "a/" + name, "\n", name[:-1]])
    if chance.random() < 0.7:
        found[new] = content
    return found


def _parameters(chance: random.Random, files: Files) -> Files:
    """Other numbers and words of the same kind: most such graphs are well-formed, and many are legal."""
    tokens = tokenize(files["graph.nnef"].decode(), "graph.nnef")[:-1]
    words = [token.text for token in tokens]
    places = [i for i, t in enumerate(tokens) if t.kind in ("number", "string", "logical") and i > 3] or [1]
    for _ in range(chance.randint(1, 2)):
        at = chance.choice(places)
        kind, value = tokens[at].kind, tokens[at].value
        if kind == "number" and isinstance(value, int):
            words[at] = str(max(value + chance.choice([-2, -1, 1, 2, value, 10 * value, 10**5]), -9))
        elif kind == "number":
            words[at] = repr(float(str(value)) * chance.choice([-1.0, 0.0, 0.5, 3.0, 1e20]))
        elif kind == "string" and chance.random() < 0.9:
            words[at] = f"'{chance.choice(_MODES)}'"
        elif kind == "logical":
            words[at] = "false" if value else "true"
    return {**files, "graph.nnef": " ".join(words).encode()}


DAMAGE: dict[str, Callable[[random.Random, Files], Files]] = {
    "graph": _graph,
    "parameters": _parameters,
    "text": _text,
    "data": _data,
    "quantization": _quant,
    "members": _members,
}


def packed(files: Files, mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]  # mode is a variable
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


# --- runs -------------------------------------------------------------------------------------------------------


def run_mutations(
    count: int, seed: int, samples: list[Files], folder: pathlib.Path, traced: bool = True
) -> Tally:
    """Imports `count` damaged models; `traced` measures the memory that Python takes, which is slow."""
    chance, tally = random.Random(seed), Tally()
    kinds = [*DAMAGE, "parameters", "parameters", "archive"]
    path = folder / "model.tgz"
    for number in range(count):
        files, kind = chance.choice(samples), chance.choice(kinds)
        mode = chance.choice(["w", "w:gz", "w:xz"])
        if kind == "archive":
            data = plain = _bytes(chance, packed(files, mode))
        else:
            damaged = DAMAGE[kind](chance, files)
            data, plain = packed(damaged, mode), packed(damaged, "w")
        path.write_bytes(data)
        before = len(tally.wrong)
        _attempt(tally, kind, path, f"input {number} ({kind})", traced)
        # Uncompressed, the bytes that matter are few.
        case = Case("nnef_mutations:judge", FOLDERS, plain, {"traced": traced})
        tally.note(before, case, packed(files, mode if kind == "archive" else "w"))
    return tally


def judge(data: bytes, settings: dict[str, Any]) -> str:
    """What is wrong with one damaged archive."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.tgz"
        path.write_bytes(data)
        _attempt(tally, "case", path, "it", settings["traced"])
    return "; ".join(tally.wrong)


def _attempt(tally: Tally, kind: str, path: pathlib.Path, label: str, traced: bool) -> None:
    allowed = allowed_bytes(path.stat().st_size) if traced else None
    found = tally.attempt(kind, label, lambda: import_nnef(path), allowed=allowed)
    if isinstance(found, UnsupportedError):
        _survey(tally, path, label)
    elif isinstance(found, Graph) and graph_elements(found) <= RUN_ELEMENTS:
        _run(tally, found, label)


def _survey(tally: Tally, path: pathlib.Path, label: str) -> None:
    """What TOSA has no form for is told of, and so is everything behind it."""
    try:
        operators, graph = survey_model(path)
    except Exception as error:
        tally.wrong.append(f"{label}: survey: {type(error).__name__}: {error}")
        return
    if graph is not None or all(o.form is not LoweringForm.NOT_REPRESENTABLE for o in operators):
        tally.wrong.append(f"{label}: the survey refuses nothing")


def graph_elements(graph: Graph) -> int:
    """Elements of the largest tensor."""
    return max((math.prod(tensor.shape) for tensor in graph.tensors.values()), default=0)


def _run(tally: Tally, graph: Graph, label: str) -> None:
    """What is accepted must run; indices outside of their windows are errors of the run."""
    random_numbers = np.random.default_rng(0)
    feeds = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype is DType.FP32:
            feeds[name] = random_numbers.standard_normal(tensor.shape).astype(np.float32)
        else:
            feeds[name] = np.zeros(tensor.shape, tensor.dtype.numpy)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluate(graph, feeds)
        tally.run += 1
    except Error:
        pass
    except Exception as error:
        tally.wrong.append(f"{label}: golden: {type(error).__name__}: {error}")
