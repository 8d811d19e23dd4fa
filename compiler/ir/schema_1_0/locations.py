"""What an operator's location in a file says of the operator of the model that it stands for."""

import re

_MAX_LENGTH = 200
"""Characters of a name; some tools write whole call stacks there."""
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(:\d+)?')
_PARTS = ";"
"""TFLite's converter joins the names of what it fused, the last operator first."""


def source_name(location: str) -> str:
    """The name in a location: the text itself, or what MLIR's spelling of it quotes first; "" where it names nothing.

    `loc("relu;conv"("m.tflite":0:0))` is relu, `loc("net.py":12:3)` is net.py:12, `loc(unknown)` is nothing."""
    text = " ".join(location.split())
    if not text.startswith("loc("):
        return text[:_MAX_LENGTH]
    found = _QUOTED.search(text)
    if found is None:
        return ""
    name, line = found.groups()
    return (name.split(_PARTS)[0] + (line or ""))[:_MAX_LENGTH]
