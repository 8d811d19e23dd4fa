"""Which rule takes the place of which NumPy function: rules register themselves by decorators."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.errors import InputError

if np.lib.NumpyVersion(np.__version__) < "2.0.0":
    # Before any rule names a function that older releases have not.
    raise InputError(
        f"tracing needs NumPy 2, whose types follow other rules; this is {np.__version__}: pip install 'numpy>=2'"
    )

Rule = Callable[..., Any]
UFUNCS: dict[np.ufunc, Rule] = {}
"""By ufunc: rule(recorder, dtype, shape, *arrays)."""
METHODS: dict[str, Rule] = {}
"""By method of ufuncs ("__call__", "reduce"): rule(ufunc, *inputs, **keywords)."""
FUNCTIONS: dict[Rule, Rule] = {}
"""By NumPy function, and by method of the traced array: the rule in its place."""
OUT_OF_ONE_TYPE: set[Rule] = set()
"""NumPy functions, and ufuncs that reduce, whose out= has to have the type of the array."""
WAYS_OUT: dict[str, str] = {}
"""By NumPy function without a rule: what to write instead."""


def way_out(name: str) -> str:
    """What a refusal says to write in the place of a NumPy function."""
    return WAYS_OUT.get(name, "; docs/numpy.md lists what is")


def ufunc_rule(*ufuncs: np.ufunc) -> Callable[[Rule], Rule]:
    """Registers the rule of ufuncs."""

    def register(rule: Rule) -> Rule:
        UFUNCS.update(dict.fromkeys(ufuncs, rule))
        return rule

    return register


def function_rule(*functions: Rule) -> Callable[[Rule], Rule]:
    """Registers the rule of NumPy functions."""

    def register(rule: Rule) -> Rule:
        FUNCTIONS.update(dict.fromkeys(functions, rule))
        return rule

    return register


def method_rule(name: str) -> Callable[[Rule], Rule]:
    """Registers the rule of a method of ufuncs."""

    def register(rule: Rule) -> Rule:
        METHODS[name] = rule
        return rule

    return register
