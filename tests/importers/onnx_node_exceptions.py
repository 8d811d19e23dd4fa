"""ONNX node tests that are not expected to pass, and why. The lists should only shrink.

By rule: what TOSA has no data type, rank or shape for. By operator: what has no static graph, or no lowering yet.
By name: single tests.
"""

import fnmatch
from typing import Any

import numpy as np
import onnx
from onnx_node_cases import cases, first_data_set

from tosaic.compiler.importers.onnx_models.values import KINDS, STORAGE

HIGHEST_RANK = 6

NO_STATIC_GRAPH = {
    "Bernoulli": "random",
    "RandomNormal": "random",
    "RandomNormalLike": "random",
    "RandomUniform": "random",
    "RandomUniformLike": "random",
    "BitCast": "TOSA reinterprets no bits",
    "Compress": "the result's shape depends on data",
    "Det": "TOSA factorises no matrices",
    "ImageDecoder": "files of images",
    "NonMaxSuppression": "the result's shape depends on data",
    "NonZero": "the result's shape depends on data",
    "OptionalGetElement": "an optional",
    "OptionalHasElement": "an optional",
    "RegexFullMatch": "strings",
    "StringConcat": "strings",
    "StringNormalizer": "strings",
    "StringSplit": "strings",
    "TfIdfVectorizer": "n-grams of data",
    "Unique": "the result's shape depends on data",
}

NO_LOWERING_YET = {
    "Col2Im": "sums of overlapping windows",
    "DeformConv": "run-time sampling",
    "LinearAttention": "unrolled in time",
    "MaxUnpool": "scatters",
    "RoiAlign": "run-time sampling",
}

NOT_PASSING = {
    "attention_*bf16": "short floats are rounded at other places than in the expected data",
    "batchnorm_*_training_mode": "training",
    "training_dropout*": "training",
    "dft_inverse*": "zeros that cancel: expected to 1e-7 beside terms of 450, as fp32 happens to round them",
    "convinteger_*groups": "zero points for each channel, with groups",
    "dynamicquantizelinear": "a tie: x / scale is computed as x * (1 / scale)",
    "maxpool_with_argmax*": "TOSA's pools give no indices",
    "scan_sum": "Scan of opset 8, with a batch axis",
    "qlinearmatmul_*_int8_*": "the expected data wraps where the operator saturates",
}


EARLIER_ATTENTION = {
    "attention_*qk_matmul_bias*": "expected as before onnx 1.22 corrected Attention: the mask before the soft cap",
    "attention_*qk_matmul_softcap*": "expected as before onnx 1.22 corrected Attention: the mask before the soft cap",
    "attention_*fp16": "expected as before onnx 1.22, which rounds the scale to the inputs' type",
}
"""Exceptions for packages before 1.23; their operators are those of later packages all the same."""


def reason_not_to_pass(name: str) -> str | None:
    """Why a node test is not expected to pass; None if it is."""
    by_rule = _no_tosa_form(cases()[name])
    if by_rule:
        return by_rule
    earlier = tuple(int(part) for part in onnx.__version__.split(".")[:2]) < (1, 23)
    names = NOT_PASSING | EARLIER_ATTENTION if earlier else NOT_PASSING
    return next((why for pattern, why in names.items() if fnmatch.fnmatch(name, pattern)), None)


def _no_tosa_form(case: Any) -> str | None:
    model, inputs, outputs = first_data_set(case)
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            return f"domain {node.domain}"
        reason = NO_STATIC_GRAPH.get(node.op_type) or NO_LOWERING_YET.get(node.op_type)
        if reason:
            return reason
    for value in (*model.graph.input, *model.graph.output):
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return f"a {kind.removesuffix('_type')}"
        if KINDS.get(value.type.tensor_type.elem_type) not in STORAGE:
            return "a data type that TOSA does not have"
    for array in (*inputs, *outputs):
        if np.ndim(array) > HIGHEST_RANK:
            return "rank above 6"
    if any(0 in np.shape(array) for array in outputs):
        return "an empty result"
    return None
