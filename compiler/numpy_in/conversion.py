"""Types of results: what wraps, what has proved to fit, and `astype`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in import words
from tosaic.compiler.numpy_in.forms import BOOL, BYTES, INT64, INTEGERS, NARROW, UINT32, Form
from tosaic.compiler.numpy_in.intervals import INT32, Interval, of_type
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, lift, plain


def two_words(
    recorder: Recorder, pair: words.Words, interval: Interval, shape: Sequence[int], dtype: np.dtype = INT64
) -> TracedArray:
    """An integer of 64 bits; where its values fit one word, that."""
    forms = {Form.LOW: pair[0], Form.HIGH: pair[1]}
    return TracedArray(
        recorder, shape, dtype, interval, forms={Form.WIDE: pair[0]} if INT32.holds(interval) else forms
    )


def wrapped(
    recorder: Recorder, name: str, interval: Interval, dtype: Any, shape: Sequence[int]
) -> TracedArray:
    """The array of `dtype` that NumPy gives for true values in `interval`: these, or modulo the type's width.

    `name` holds the low 32 bits of the true values.
    """
    kind = np.dtype(dtype)
    limits = of_type(kind)
    if limits.holds(interval) and (INT32.holds(interval) or kind == UINT32):
        return TracedArray(recorder, shape, kind, interval, forms={Form.WIDE: name})
    if kind.itemsize == 8:
        refuse(
            f"a result of NumPy's type {kind} may be {interval}, more than the accelerator's 32 bits: use "
            "dtype=np.int32 (wraps), narrow what goes in (np.clip, astype), or tosaic.rescale for "
            "(x * multiplier) >> shift"
        )
    if kind in NARROW and kind.kind == "i":
        narrow = recorder.add("CAST", [name], dtype=NARROW[kind])
        return TracedArray(recorder, shape, kind, forms={Form.NARROW: narrow})
    if kind in NARROW:
        name = recorder.elementwise("BITWISE_AND", name, recorder.number(limits.high))
    return TracedArray(recorder, shape, kind, forms={Form.WIDE: name})


@function_rule(TracedArray.astype)
def convert(a: TracedArray, dtype: np.dtype) -> TracedArray:
    """As `a.astype(dtype)`."""
    if dtype == a.dtype:
        return a.copy()
    if a.value is not None:
        return lift(a.recorder, plain(a).astype(dtype))
    if dtype not in INTEGERS:
        refuse(
            f"astype({dtype}): the accelerator has integers of up to 32 bits; tosaic.rescale is fixed point"
        )
    if dtype == BOOL:
        return a != 0
    limits = of_type(dtype)
    if dtype in NARROW and a.dtype in NARROW and a.itemsize == dtype.itemsize and Form.NARROW in a.forms:
        interval = a.interval if limits.holds(a.interval) else limits
        made = TracedArray(a.recorder, a.shape, dtype, interval, forms={Form.NARROW: a.forms[Form.NARROW]})
    elif a.content.product is not None or Form.LOW in a.forms:
        made = _narrowed_words(a, dtype)
    else:
        made = wrapped(a.recorder, a.wide, a.interval, dtype, a.shape)
        if made.interval == a.interval:
            if a.itemsize == 1 and a.dtype != BOOL and Form.NARROW in a.forms:
                byte = Form.SIGNED_BYTE if a.dtype.kind == "i" else Form.UNSIGNED_BYTE
                made.forms[byte] = a.forms[Form.NARROW]
            made.forms.update({form: a.forms[form] for form in BYTES if form in a.forms})
            made.windows_of = a.windows_of
    made.scalar = a.scalar
    return made


def _narrowed_words(a: TracedArray, dtype: np.dtype) -> TracedArray:
    """Of two words: the low one, modulo the type's width."""
    if dtype.itemsize == 8:
        if of_type(dtype).holds(a.interval):
            made = a.copy()
            made.dtype = dtype
            return made
        refuse(f"astype({dtype}) of {a!r} wraps beyond 32 bits; keep to int64")
    low = a.tensor(Form.LOW)
    return wrapped(a.recorder, low, a.interval, dtype, a.shape)
