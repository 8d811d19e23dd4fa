"""Numbers that the compiler decides by stand in `compiler/machine_numbers.py`, with a unit and where they come from.

What is looked at are the rooms that make a program of a graph. Three rules:

1. No module and no class names a number, but 0, 1 and what `FORMATS` lists with its reason.
2. A memory (`am_bytes`, `wm_bytes`, `limit_bytes`) is neither divided nor multiplied by a number, nor compared with
   what is.
3. No function has a number above 3, nor a fraction, but places and ranks, 8 (bits of a byte), orders of axes, and in
   the files of `ARITHMETIC` limits and shifts of integers.
"""

import ast
import pathlib
import re
from collections.abc import Iterator

COMPILER = pathlib.Path(__file__).parents[2] / "compiler"
NUMBERS = COMPILER / "machine_numbers.py"
ROOMS = ("legalize", "fuse", "place", "tile", "cores", "emit", "schedule", "cost")
ALONE = ("machine.py", "memory_speed.py", "search.py", "build.py", "batches.py", "memory_history.py")
FORMATS = {
    "memory_speed.py": {
        "MEMORY_LATENCY_CYCLES": "what an option is unless told",
        "LEAST_BANDWIDTH_BYTES": "a limit of an option",
        "_BYTE_PARTS": "how fine an option is",
    },
    "legalize/constant_channels.py": {"_DOUBLE_ROUND_SHIFT": "of TOSA's RESCALE"},
    "legalize/narrow_constants.py": {"_MULTIPLIER_BITS": "of a RESCALE", "_LARGEST_STEP": "of a RESCALE"},
    "legalize/planes.py": {"LOW_ZERO_POINT": "of int8", "_LIMIT": "of int32"},
    "legalize/resize.py": {"HEIGHT": "an axis", "WIDTH": "an axis"},
    "legalize/run_time_scales.py": {"_SPLIT": "half of an int32"},
    "fuse/expression.py": {"_INT32": "limits of int32", "_WIDEST": "limits of int48"},
    "fuse/fold.py": {"_SOON": "how far a comparison looks at first"},
    "place/external.py": {
        "ALIGNMENT_BYTES": "of everything in a program's image",
        "_PART_BYTES": "how an image is written",
    },
    "tile/box_search.py": {"turns": "of two buffers one is filled while the other is read"},
    "emit/elementwise.py": {"_MOST_ROW_AXES": "of a stream's axes"},
    "emit/vector_go.py": {"_PAIRS": "of a stream's axes"},
    "schedule/image.py": {"_PAGE_BYTES": "alignment of the parts of a program's image"},
}
"""Constants that are no decisions, by file, with what they are."""
ARITHMETIC = {
    *("legalize/constant_channels.py", "legalize/integer_division.py", "legalize/interleaved_planes.py"),
    *("legalize/planes.py", "legalize/run_time_values.py", "legalize/split_pool.py", "legalize/resize.py"),
    *("fuse/fold.py", "fuse/microprogram.py", "fuse/reductions.py", "fuse/translate.py", "place/params.py"),
    *("place/external.py", "schedule/image.py", "cores/share_plan.py", "machine.py"),
}
"""Files that compute with limits, shifts and bytes of integers and addresses."""
MEMORIES = {"am_bytes", "wm_bytes", "limit_bytes"}
SMALL = {0, 1, 2, 3, 8}


def product_files() -> Iterator[pathlib.Path]:
    for room in ROOMS:
        yield from sorted((COMPILER / room).rglob("*.py"))
    yield from (COMPILER / name for name in ALONE)


def numbers_in(node: ast.AST) -> list[ast.Constant]:
    return [
        found
        for found in ast.walk(node)
        if isinstance(found, ast.Constant) and type(found.value) in (int, float)
    ]


def is_memory(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lstrip("_") in MEMORIES


def named_numbers(tree: ast.Module) -> Iterator[str]:
    """Names of modules and classes that are given a number, or values with numbers, other than 0 and 1."""
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for statement in (each for body in bodies for each in body):
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            if any(number.value not in (0, 1) for number in numbers_in(statement.value)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                yield from (
                    found.id
                    for target in targets
                    for found in ast.walk(target)
                    if isinstance(found, ast.Name)
                )


def shares_of_memories(tree: ast.AST) -> Iterator[int]:
    """Lines with a memory and a number in one product, quotient or comparison."""
    factors = ast.Div | ast.FloorDiv | ast.Mult | ast.LShift | ast.RShift | ast.Mod
    for node in ast.walk(tree):
        products = [
            found
            for found in (ast.walk(node) if isinstance(node, ast.Compare) else [node])
            if isinstance(found, ast.BinOp) and isinstance(found.op, factors)
        ]
        near = isinstance(node, ast.Compare) and any(map(is_memory, ast.walk(node)))
        for product in products:
            literal = any(isinstance(side, ast.Constant) for side in (product.left, product.right))
            if literal and (near or any(map(is_memory, ast.walk(product)))):
                yield product.lineno


def large_numbers(tree: ast.AST) -> Iterator[tuple[int, float]]:
    """(line, number) of what functions compute with, but places, ranks and orders of axes."""
    passed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            passed |= {id(number) for number in numbers_in(node.slice)}
        elif isinstance(node, ast.Compare) and "len(" in ast.unparse(node):
            passed |= {id(number) for number in numbers_in(node)}
        elif isinstance(node, ast.List | ast.Tuple):
            values = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
            if set(values) == set(range(len(values))):
                passed |= {id(number) for number in numbers_in(node)}
        elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Tuple) and len(node.left.elts) == 1:
            passed |= {id(node.right)}
        elif isinstance(node, ast.keyword) and node.arg == "stacklevel":
            passed |= {id(number) for number in numbers_in(node)}
        elif isinstance(node, ast.FunctionDef):
            passed |= {id(number) for each in node.decorator_list for number in numbers_in(each)}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    found = {id(number): number for function in functions for number in numbers_in(function)}
    for number in found.values():
        if id(number) not in passed and number.value not in SMALL:
            yield number.lineno, number.value


def is_limit(value: float) -> bool:
    """Whether a number is a power of two or next to one, or a shift of fewer than 64 bits."""
    whole = int(value)
    return whole == value and (whole < 64 or any((whole + d).bit_count() == 1 for d in (-1, 0, 1)))


def test_no_module_or_class_names_a_number_of_its_own() -> None:
    found = {
        path.relative_to(COMPILER).as_posix(): names
        for path in product_files()
        if (names := set(named_numbers(ast.parse(path.read_text()))))
    }
    assert found == {name: set(reasons) for name, reasons in FORMATS.items()}


def test_no_share_of_a_memory_stands_elsewhere() -> None:
    wrong = [
        f"{path.relative_to(COMPILER)}:{line}"
        for path in product_files()
        for line in shares_of_memories(ast.parse(path.read_text()))
    ]
    assert wrong == []


def test_no_function_has_a_number_that_decides() -> None:
    wrong = [
        f"{name}:{line} {value}"
        for path in product_files()
        for name in [path.relative_to(COMPILER).as_posix()]
        for line, value in large_numbers(ast.parse(path.read_text()))
        if not (name in ARITHMETIC and is_limit(value))
    ]
    assert wrong == []


def test_the_rules_see_shares_and_numbers() -> None:
    def shares(text: str) -> bool:
        return bool(list(shares_of_memories(ast.parse(text))))

    assert shares("limit = config.am_bytes // 4") and shares("limit = min(3, self.config.wm_bytes >> 2)")
    assert shares("fits = 2 * size <= config.am_bytes") and shares("step = 0.5 * placer.limit_bytes")
    assert not shares("limit = config.am_bytes // COPY_BLOCK_AM_PART") and not shares("size = size // 2")
    assert list(named_numbers(ast.parse("A = 4\nB = (1, 0)\nclass C:\n    D: int = 1 << 9"))) == ["A", "D"]
    assert sorted(large_numbers(ast.parse("def f(x):\n    return 40 + x[7] * (2, 0, 1) + 0.5"))) == [
        (2, 0.5),
        (2, 40),
    ]


def documented_numbers() -> dict[str, str]:
    body = ast.parse(NUMBERS.read_text()).body
    return {
        name.targets[0].id: text.value.value
        for name, text in zip(body, [*body[1:], None], strict=True)
        if isinstance(name, ast.Assign)
    }


UNITS = {
    *("CYCLES", "INSTRUCTIONS", "BYTES", "SHARE", "SHARES", "PART", "FACTOR", "LAYERS", "ITEMS", "ELEMENTS"),
    *("STEPS", "BOXES", "STRIPES", "COLUMNS", "CHANNELS", "ROWS", "WORDS", "WEIGHTS", "TOKENS", "VALUES"),
    *("PIXELS", "PLANES", "TABLES", "PARTIALS", "PRODUCTS", "BUFFERS", "CUTS", "BEHIND", "AHEAD", "COMPARED"),
    *("LENGTH", "JOINED"),
}


def test_each_number_says_its_unit_and_where_it_comes_from() -> None:
    for name, text in documented_numbers().items():
        assert name.split("_")[-1] in UNITS, name
        assert re.search(r"\b[0-9a-f]{8}\b|decision \d{4}", text, re.IGNORECASE), name


def test_each_number_is_used() -> None:
    text = "\n".join(path.read_text() for path in product_files())
    assert [name for name in documented_numbers() if not re.search(rf"\b{name}\b", text)] == []
