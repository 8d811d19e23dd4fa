"""What passes ask about operators stands in the operator table: few tables of names are left beside it."""

import ast
import pathlib
from collections.abc import Iterator

from tosaic.compiler.ir import OPERATORS

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("boards", "compiler", "driver", "hw", "integrations", "nnr", "sim", "tosaic/cli")
TABLE = ROOT / "compiler/ir/operators"
ELSEWHERE = (
    *(ROOT / "compiler/importers" / name for name in ("coreml", "nnef", "onnx_models", "tflite")),
    ROOT / "driver/judge/random_graphs",
)
"""Tables with the names of other formats, some of which are TOSA's, too; and the recipes by which random graphs grow,
one for each operator."""
REASONS = {
    "compiler/cut/rules.py": "which boxes of the operands a box of the result needs, by operator",
    "compiler/fuse/reductions.py": "the micro-operation of a reduction",
    "compiler/ir/building/float_functions.py": "NumPy's function of a float operator",
    "compiler/ir/examples.py": "shapes of examples",
    "compiler/ir/schema_0_30/rules.py": "operators whose ranks 0.30 limits",
    "compiler/ir/schema_0_30/tables.py": "the numbers of operators in files of 0.30",
    "compiler/ir/schema_1_0/tables.py": "the numbers of operators in files",
    "compiler/legalize/oversize.py": "how what does not fit is split, by operator",
    "compiler/legalize/run_time_parameters.py": "how parameters of run time become operands, by operator",
    "compiler/machine.py": "operators that no unit computes as they are",
    "compiler/quantizer/arithmetic.py": "what a ReLU with a slope is made of",
    "compiler/quantizer/functions.py": "operators that change no real",
}
"""What each table that is left is for. A new one needs a reason; a trait is better."""


def names_of(node: ast.AST) -> list[str]:
    """The elements or keys of a display, or the words of a string, if two and half of them are operators."""
    match node:
        case ast.Set() | ast.Tuple() | ast.List():
            words = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
        case ast.Dict():
            words = [
                each.value if isinstance(each, ast.Constant) else None
                for each in node.keys
                if each is not None
            ]
        case ast.Constant(value=str(text)):
            words = [*text.split()]
        case _:
            return []
    found = [word for word in words if isinstance(word, str) and word in OPERATORS]
    return found if len(found) > 1 and 2 * len(found) >= len(words) else []


def tables() -> Iterator[tuple[str, str]]:
    """File and first line of each statement of a module, no function or class, that lists operators."""
    for path in sorted(each for room in ROOMS for each in (ROOT / room).rglob("*.py")):
        if path.is_relative_to(TABLE) or any(path.is_relative_to(folder) for folder in ELSEWHERE):
            continue
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
                continue
            if any(names_of(node) for node in ast.walk(statement)):
                yield str(path.relative_to(ROOT)), ast.unparse(statement).splitlines()[0][:60]


def test_a_dozen_tables_of_operator_names_at_most():
    found = list(tables())
    assert len(found) <= 12, found
    assert {file for file, _ in found} == REASONS.keys()
    assert len(found) == len(REASONS), found
