"""The text of an exported program: which of its strings PyTorch may read.

torch.export.load hands strings of a program to sympy's evaluator, imports modules that they name, and looks operators
up by attribute; what it makes writes Python code of names and guards. So each string is here a name, unless its key
says that it is something else that does nothing.
"""

import ast
import json
import re
from collections.abc import Iterable
from typing import Any

from tosaic.compiler.importers.torch_models.packages import load_torch


class Refused(Exception):
    """What a program holds and PyTorch must not see, in words."""


_AGAIN = "export it again with torch.export.save"
_DOTTED = r"[\w.\-]*"
_SPECIAL = {
    **dict.fromkeys(
        ("parameter_name", "buffer_name", "tensor_constant_name", "user_input_name", "fqn"), _DOTTED
    ),
    **dict.fromkeys(("as_float", "as_floats", "as_float_lists", "real", "imag"), r"-?Infinity|NaN"),
    "torch_version": r"[\w.+<=\-]*",
    "as_string": r"[^\x00-\x1f]{0,1000}",
    "as_strings": r"[^\x00-\x1f]{0,1000}",
    "nn_module_stack": r"[^\x00-\x1f]*",
}
"""What a string may be that is no plain name, by key."""
_KEYS_OF = {"config": _DOTTED}
_SYMBOL = r"[a-z]+\d{1,6}"
_FUNCTIONS = {
    *("FloorDiv", "CleanDiv", "CeilDiv", "IntTrueDiv", "FloatTrueDiv", "Mod", "PythonMod", "ModularIndexing"),
    *("Max", "Min", "Where", "Identity", "ToFloat", "TruncToInt", "TruncToFloat", "FloorToInt", "CeilToInt"),
    *(
        "RoundToInt",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "And",
        "Or",
        "Not",
        "Equality",
        "Unequality",
        "StrictLessThan",
    ),
    *(
        "LessThan",
        "StrictGreaterThan",
        "GreaterThan",
        "Symbol",
        "Integer",
        "Rational",
        "Float",
        "Add",
        "Mul",
        "Pow",
    ),
}
"""Those of sympy and PyTorch's sizes that take no longer for larger numbers; Pow has a rule of its own."""
_EXPRESSION_CHARACTERS, _DIGITS, _EXPONENT_MAX = 2000, 20, 8
_NAMESPACES = {"aten", "prims", "quantized_decomposed", "torchao", "torchvision"}
_FILE_OPERATORS = {"from_file", "save"}
_CONTROL = {
    *("cond", "while_loop", "map_impl", "scan", "associative_scan", "invoke_subgraph", "out_dtype"),
    *("wrap_with_set_grad_enabled", "wrap_with_autocast"),
}
_PLAIN = {
    *(f"_operator.{name}" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "pos")),
    *(f"_operator.{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "getitem")),
    *(f"torch.sym_{name}" for name in ("int", "float", "not", "max", "min", "ite", "sqrt")),
    *("torch._sym_sqrt", "math.trunc", "math.ceil", "math.floor"),
}
_TREES = {
    *("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"),
    *("torch.fx.immutable_collections.immutable_list", "torch.fx.immutable_collections.immutable_dict"),
}


def checked_program(program: Any) -> Any:
    """The program without guards and notes, whose strings are all harmless. Refused names the first that is not."""
    program = checked_tree(program)
    program["guards_code"] = []
    module = program["graph_module"]
    # The others tell how the module's own layers call one another.
    module["module_call_graph"] = module["module_call_graph"][:1]
    module["treespec_namedtuple_fields"] = {}
    return program


def checked_tree(value: Any, key: str = "") -> Any:
    """A copy of a tree of JSON, its strings checked by their keys. Refused names a string that may run code."""
    if isinstance(value, str):
        return _string(value, key)
    if isinstance(value, list):
        return [checked_tree(each, key) for each in value]
    if not isinstance(value, dict):
        return value
    if key == "metadata" and all(isinstance(each, str) for each in value.values()):
        value = {name: each for name, each in value.items() if name == "nn_module_stack"}
    if key == "range_constraints":
        value = {name: each for name, each in value.items() if _is_symbol(name)}
    result = {}
    for name, each in value.items():
        if name in ("guards_code", "module_call_graph", "treespec_namedtuple_fields"):
            each = each[:1] if name == "module_call_graph" else []
        if name == "class_fqn":
            raise Refused(f"the program holds an object of class {each!r}; give it tensors only and {_AGAIN}")
        if key in _KEYS_OF:
            _each_is(_KEYS_OF[key], [name], key)
        elif not name.isidentifier():
            raise Refused(f"the program has the name {_short(name)}, which is no identifier; {_AGAIN}")
        result[name] = checked_tree(each, "" if key in _KEYS_OF else name)
    return result


def _string(value: str, key: str) -> str:
    if key == "expr_str":
        _check_expression(value)
    elif key in ("target", "as_operator"):
        _check_operator(value)
    elif key in ("in_spec", "out_spec"):
        # Names of inputs are arguments of the code that PyTorch writes.
        _check_structure(json.loads(value)[1], _DOTTED if key == "in_spec" else r"[^\x00-\x1f]*")
    elif key in _SPECIAL:
        _each_is(_SPECIAL[key], [value], key)
    elif value and not value.isidentifier():
        raise Refused(f"the program has the name {_short(value)}, which is no identifier; {_AGAIN}")
    return value


def _each_is(pattern: str, values: Iterable[str], key: str) -> None:
    for value in values:
        if not re.fullmatch(pattern, value):
            raise Refused(f"{key} of the program is {_short(value)}, which is not of its kind; {_AGAIN}")


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")


def _check_expression(text: str) -> None:
    """Refused unless it is arithmetic of symbols and numbers: sympy evaluates it as Python code."""
    try:
        tree = ast.parse(text.strip() if len(text) <= _EXPRESSION_CHARACTERS else "", mode="eval").body
    except SyntaxError:
        tree = None
    if tree is None or not _is_arithmetic(tree):
        raise Refused(
            f"a size of the program is the expression {_short(text)}, which is more than arithmetic of symbols and "
            "numbers and may run code; export the module without dynamic_shapes"
        )


def _is_arithmetic(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value):
            return isinstance(value, int | float) and len(str(value)) <= _DIGITS
        case ast.Name(name):
            return _is_symbol(name)
        case ast.UnaryOp(_, part):
            return _is_arithmetic(part)
        case ast.BinOp(base, ast.Pow(), exponent) | ast.Call(ast.Name("Pow"), [base, exponent], []):
            return _is_small_power(base, exponent)
        case ast.BinOp(
            left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod(), right
        ):
            return _is_arithmetic(left) and _is_arithmetic(right)
        case ast.Compare(left, _, others):
            return all(map(_is_arithmetic, [left, *others]))
        case ast.Call(ast.Name("Symbol" | "Float"), [ast.Constant(str(text))], options):
            facts = [option.value for option in options]
            known = all(isinstance(fact, ast.Constant) and isinstance(fact.value, int) for fact in facts)
            return known and (_is_symbol(text) or bool(re.fullmatch(r"-?[\d.]{1,20}", text)))
        case ast.Call(ast.Name(name), parts, []):
            return name in _FUNCTIONS and all(map(_is_arithmetic, parts))
    return False


def _is_small_power(base: ast.expr, exponent: ast.expr) -> bool:
    """Whether it is a symbol to a power that sympy does not compute at length."""
    symbol = isinstance(base, ast.Name) or (isinstance(base, ast.Call) and ast.unparse(base.func) == "Symbol")
    small = re.fullmatch(r"(Integer\()?-?(\d)\)?", ast.unparse(exponent))
    return symbol and _is_arithmetic(base) and small is not None and int(small[2]) <= _EXPONENT_MAX


def _is_symbol(text: str) -> bool:
    return re.fullmatch(_SYMBOL, text) is not None


def _check_operator(target: str) -> None:
    """Refused unless it is an operator on tensors: PyTorch would call any function that a file names."""
    if target in _PLAIN:
        return
    torch = load_torch()
    found = re.fullmatch(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?", target)
    if found is not None:
        space, name, overload = found.groups()
        if space == "higher_order" and name in _CONTROL and overload is None:
            return
        if space in _NAMESPACES and name not in _FILE_OPERATORS and overload is not None:
            operator = getattr(getattr(getattr(torch.ops, space), name, None), overload, None)
            if isinstance(operator, torch._ops.OpOverload):
                return
    raise Refused(
        f"the program calls {_short(target)}, which is not an operator of PyTorch that computes tensors only; write it "
        "in such operators"
        + (", and export without dynamic_shapes" if target.startswith("_operator") else "")
    )


def _check_structure(tree: Any, keys_are: str) -> None:
    """Refused unless it is of tuples, lists and dictionaries: PyTorch imports what other structures name."""
    if tree["type"] is None:
        return
    context = tree["context"]
    keys = json.loads(context) if isinstance(context, str) else context
    named = isinstance(keys, list) and all(isinstance(key, str | int) for key in keys)
    if tree["type"] not in _TREES or not (keys is None or named):
        raise Refused(
            f"forward() takes or returns a structure of type {_short(str(tree['type']))}; use tuples and dictionaries "
            "with names as keys"
        )
    _each_is(keys_are, map(str, keys or []), "a dictionary's key")
    for child in tree["children_spec"]:
        _check_structure(child, keys_are)
