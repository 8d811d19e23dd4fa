"""Why operators of ONNX are not imported, and what to do."""

_OUTSIDE = "compute it outside of the model"
_RANDOM = "it makes random numbers, and a program gives the same result each time", "make them an input"
_BY_DATA = "the size of its result depends on data, and TOSA's shapes are static", _OUTSIDE
_LISTS = (
    "it makes or reads a sequence or an optional, and TOSA has tensors only",
    "use Concat, Split or Slice",
)
_TEXT = "TOSA has no strings", _OUTSIDE
_NOT_YET = "Tosaic has no lowering for it yet", "replace it by other operators, or " + _OUTSIDE

_REASONS = {
    _RANDOM: """Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike""",
    _BY_DATA: "Compress NonMaxSuppression NonZero Unique",
    _LISTS: """ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct
        SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence""",
    _TEXT: "RegexFullMatch StringConcat StringNormalizer StringSplit",
    _NOT_YET: "Col2Im DeformConv Det MaxRoiPool MaxUnpool RoiAlign TfIdfVectorizer",
    ("TOSA reinterprets no bits", "use Cast, or " + _OUTSIDE): "BitCast",
    ("it reads files of images", "decode them outside of the model"): "ImageDecoder",
}
_BY_OPERATOR = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def why_not(operator: str) -> tuple[str, str]:
    """The reason and the way out; of an operator that nobody knows, that there is no lowering yet."""
    return _BY_OPERATOR.get(operator, _NOT_YET)
