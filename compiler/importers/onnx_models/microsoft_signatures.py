"""Operators of ONNX Runtime's own domain: their inputs, outputs and attributes, and which of them are imported.

The package onnx knows nothing of them, so what it checks of others is checked here.
"""

from dataclasses import dataclass
from typing import Any

from tosaic.compiler.importers.onnx_models.opsets import DEFAULT_DOMAINS, all_nodes, opset_of, opset_of_node
from tosaic.errors import ModelError, UnsupportedError

DOMAIN = "com.microsoft"
_LAYER_NORM_OPSET = 17
"""LayerNormalization is an operator of ONNX from here on; ONNX Runtime writes it into older models as well."""
_TYPES = {"float": 1, "int": 2, "string": 3, "floats": 6, "ints": 7}
"""Types of attributes by their number in AttributeProto.AttributeType."""


@dataclass(frozen=True)
class SignatureParameter:
    """An input, output or attribute. A `refused` one may not be given, an attribute only with value `only`."""

    name: str
    optional: bool = False
    refused: bool = False
    type: int = 0
    only: Any = None


@dataclass(frozen=True)
class Signature:
    """What an operator takes and gives, in order."""

    inputs: tuple[SignatureParameter, ...]
    outputs: tuple[SignatureParameter, ...]
    attributes: tuple[SignatureParameter, ...]

    @classmethod
    def of(cls, inputs: str, outputs: str, attributes: str = "") -> "Signature":
        """Names in order: NAME? is optional, NAME~ is not imported; attributes are NAME:TYPE, NAME:TYPE! is required,
        and NAME:TYPE=VALUE is imported with that value only."""
        return cls(_named(inputs), _named(outputs), tuple(map(_attribute, attributes.split())))


def _named(names: str) -> tuple[SignatureParameter, ...]:
    return tuple(
        SignatureParameter(name.rstrip("?~"), name[-1] in "?~", name[-1] == "~") for name in names.split()
    )


def _attribute(text: str) -> SignatureParameter:
    name, _, kind = text.partition(":")
    kind, _, only = kind.partition("=")
    value = None if not only else only.encode() if kind == "string" else float(only)
    return SignatureParameter(name, not kind.endswith("!"), False, _TYPES[kind.rstrip("!")], value)


_NORM = "epsilon:float"
SIGNATURES = {
    "Attention": Signature.of(
        "input weights bias? mask_index? past? attention_bias? past_sequence_length~",
        "output present?",
        "num_heads:int! scale:float mask_filter_value:float unidirectional:int qkv_hidden_sizes:ints do_rotary:int=0 "
        "past_present_share_buffer:int=0 rotary_embedding_dim:int=0",
    ),
    "BiasGelu": Signature.of("A B", "C"),
    "EmbedLayerNormalization": Signature.of(
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?",
        "output mask_index? embedding_sum?",
        f"{_NORM} mask_index_type:int",
    ),
    "FastGelu": Signature.of("X bias?", "Y"),
    "FusedMatMul": Signature.of(
        "A B", "Y", "alpha:float transA:int transB:int transBatchA:int transBatchB:int"
    ),
    "GatherBlockQuantized": Signature.of(
        "data indices scales zero_points?",
        "output",
        "bits:int block_size:int quantize_axis:int gather_axis:int",
    ),
    "Gelu": Signature.of("X", "Y"),
    "GroupQueryAttention": Signature.of(
        "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? position_ids? "
        "attention_bias? head_sink? k_scale~ v_scale~ q_norm_weight~ k_norm_weight~ query_seqlens~",
        "output present_key? present_value? output_qk~",
        "num_heads:int! kv_num_heads:int! scale:float softcap:float local_window_size:int do_rotary:int causal:int "
        "rotary_interleaved:int smooth_softmax:int sliding_window_cache:int=0 qk_output:int kv_cache_bit_width:int "
        "k_quant_type:string=NONE v_quant_type:string=NONE qk_norm_epsilon:float q_norm_epsilon:float "
        "k_norm_epsilon:float",
    ),
    "LayerNormalization": Signature.of(
        "X Scale B?", "Y Mean? InvStdDev?", f"axis:int {_NORM} stash_type:int"
    ),
    "MatMulNBits": Signature.of(
        "A B scales zero_points? g_idx~ bias?",
        "Y",
        "K:int! N:int! bits:int block_size:int! accuracy_level:int weight_prepacked:int=0",
    ),
    "MultiHeadAttention": Signature.of(
        "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length~ "
        "cache_indirection~",
        "output present_key? present_value? qk?",
        "num_heads:int! scale:float mask_filter_value:float unidirectional:int",
    ),
    "QuickGelu": Signature.of("X", "Y", "alpha:float"),
    "RotaryEmbedding": Signature.of(
        "input position_ids cos_cache sin_cache",
        "output",
        "num_heads:int rotary_embedding_dim:int interleaved:int is_packed_batching:int scale:float=1",
    ),
    "SimplifiedLayerNormalization": Signature.of(
        "X scale", "Y inv_std_var?", f"axis:int {_NORM} stash_type:int"
    ),
    "SkipLayerNormalization": Signature.of(
        "input skip gamma beta? bias?", "output mean? inv_std_var? input_skip_bias_sum?", _NORM
    ),
    "SkipSimplifiedLayerNormalization": Signature.of(
        "input skip gamma bias?", "output mean~ inv_std_var? input_skip_bias_sum?", _NORM
    ),
    "TransposeMatMul": Signature.of("A B", "Y", "alpha:float transA:int transB:int"),
}
"""Inputs and attributes as ONNX Runtime 1.32 names them."""

_BEAMS = "beam search shares its cache between sequences"
_PACKED = "its tokens without padding have a number that only a run tells"
_REASONS = {
    "DecoderMaskedMultiHeadAttention": _BEAMS,
    "DecoderMaskedSelfAttention": _BEAMS,
    "DecoderAttention": _BEAMS,
    "PackedAttention": _PACKED,
    "PackedMultiHeadAttention": _PACKED,
    "PagedAttention": _PACKED,
    "RemovePadding": _PACKED,
    "RestorePadding": _PACKED,
    "QAttention": "its activations are integers, with scales inside; quantize the float model",
    "SparseAttention": "its layout of blocks is not read",
    "MoE": "its experts are chosen at run time",
    "QMoE": "its experts are chosen at run time",
}


def adopt_operators(model: Any) -> None:
    """Moves what ONNX Runtime adds to the default domain into its own one, in place."""
    opset = opset_of(model)
    for node in all_nodes(model.graph.node):
        old = node.op_type == "LayerNormalization" and opset_of_node(node, opset) < _LAYER_NORM_OPSET
        if node.domain in DEFAULT_DOMAINS and (old or node.op_type == "SimplifiedLayerNormalization"):
            node.domain = DOMAIN
    if not any(entry.domain == DOMAIN for entry in model.opset_import):
        model.opset_import.add(domain=DOMAIN, version=1)


def check_signature(node: Any, label: str) -> None:
    """Raises ModelError where a node contradicts its operator, UnsupportedError for what is not imported."""
    signature = SIGNATURES.get(node.op_type) if node.domain == DOMAIN else None
    if signature is None:
        raise UnsupportedError(_no_importer(node, label))
    for what, given, parameters in (
        ("input", node.input, signature.inputs),
        ("output", node.output, signature.outputs),
    ):
        if len(given) > len(parameters):
            raise ModelError(f"{label} has {len(given)} {what}s, not at most {len(parameters)}")
        for index, parameter in enumerate(parameters):
            here = index < len(given) and bool(given[index])
            if not here and not parameter.optional:
                raise ModelError(f"{label}: required {what} {parameter.name} is missing")
            if here and parameter.refused:
                raise UnsupportedError(
                    f"{label}: {what} {parameter.name} is not imported; take the model as it was exported"
                )
    known = {parameter.name: parameter for parameter in signature.attributes}
    for attribute in node.attribute:
        if attribute.name not in known:
            raise UnsupportedError(
                f"{label}: attribute {attribute.name!r} is not known; take the model as it was exported"
            )
        parameter = known[attribute.name]
        if attribute.type != parameter.type:
            raise ModelError(f"{label}: attribute {attribute.name!r} has another type than {node.op_type}'s")
        value = attribute.s if parameter.type == _TYPES["string"] else attribute.f or attribute.i
        if parameter.only is not None and value != parameter.only:
            told = value.decode(errors="replace") if isinstance(value, bytes) else f"{value:g}"
            raise UnsupportedError(
                f"{label}: attribute {attribute.name} of {told} is not imported; take the model as it was exported"
            )
    given = {attribute.name for attribute in node.attribute}
    for parameter in signature.attributes:
        if not parameter.optional and parameter.name not in given:
            raise ModelError(f"{label}: required attribute {parameter.name!r} is missing")


def _no_importer(node: Any, label: str) -> str:
    way_out = "replace it by operators of the default domain, or give it as a local function"
    if node.domain == DOMAIN:
        way_out = (
            "dynamic quantization and ONNX Runtime's own optimizations make such operators: take the model as it was "
            "exported"
        )
    elif str(node.domain).startswith(f"{DOMAIN}."):  # bytes where they are no text
        way_out = (
            "ONNX Runtime's level 'all' lays tensors out for one processor: take the model as it was exported, or "
            "optimize it to level 'extended'"
        )
    reason = _REASONS.get(node.op_type) if node.domain == DOMAIN else None
    return (
        f"{label}: operator {node.op_type} of domain {node.domain!r} has no importer"
        f"{f' ({reason})' if reason else ''}; {way_out}"
    )
