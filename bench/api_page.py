"""Writes docs/api.md, the public names of `tosaic` with their signatures and docstrings: `python bench/api_page.py`."""

import inspect
import re
import sys

import tosaic

HEAD = """# The Python interface

`make docs` writes this page from the docstrings of what `import tosaic` offers; `help(tosaic.Session)` shows the same.
Every error is a `tosaic.Error`.
"""
SHORT = ("Device", "Evaluation", "RunReport")
"""Classes that users do not make themselves: their first sentence is enough."""
FUNCTIONS = (
    *("from_torch", "run", "function", "trace", "while_loop", "rescale"),
    *("evaluate", "write_report", "quantize", "dequantize", "register_custom"),
)
ATTRIBUTES = """
After `run` a session has `stats` (cycles, utilization, counters, layers), `state` (what the model remembers) and
`kept` (intermediate tensors, with `keep_layers`). `inputs` and `outputs` are lists of `NodeArg`; `labels`, `config`,
`program` and `graph` are those of the model.
"""
CLASSES = ("Session", "InferenceSession", "NodeArg", "Device", "Evaluation", "RunReport")


def signature(name: str, value: object) -> str:
    """The call with its parameters and defaults, without types."""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    shown, starred = [], False
    for one in parameters:
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        mark = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        starred |= one.kind is one.VAR_POSITIONAL
        default = "" if one.default is one.empty else f"={one.default!r}"
        shown.append(f"{mark}{one.name}{default}")
    return f"{name}({', '.join(shown)})"


def text(value: object) -> str:
    return inspect.getdoc(value) or ""


def whole(value: object) -> str:
    """A docstring, and that of a class's constructor where it has one."""
    made = vars(value).get("__init__") if inspect.isclass(value) else None
    return "\n\n".join(
        filter(
            None, (text(value).removesuffix(" See `Session.__init__`."), made and made.__doc__ and text(made))
        )
    )


def sentence(value: object) -> str:
    """The first sentence of a docstring, on one line."""
    return re.split(r"(?<=[.]) (?=[A-Z`])", " ".join(text(value).split("\n\n")[0].split()))[0]


def members(kind: type) -> list[str]:
    """A line for each public method and property that has a docstring."""
    lines = []
    for name, member in vars(kind).items():
        if name.startswith("_") or not text(member):
            continue
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        shown = name if isinstance(member, property) else signature(name, plain).replace("(cls, ", "(")
        if isinstance(member, property) or inspect.isfunction(plain):
            lines.append(f"- `{shown}`: {sentence(member)}")
    return lines


def page() -> str:
    parts = [HEAD]
    for name in (*CLASSES, *FUNCTIONS):
        value = getattr(tosaic, name)
        told = sentence(value) if name in SHORT else whole(value)
        parts.append(f"## {name}\n`tosaic.{signature(name, value)}`\n\n{told}\n")
        if inspect.isclass(value) and (lines := members(value)):
            parts.append("\n".join(lines) + "\n" + (ATTRIBUTES if name == "Session" else ""))
    parts.append("## Other names\n| name | what it is |\n|---|---|")
    others = [name for name in tosaic.__all__ if name not in (*CLASSES, *FUNCTIONS)]
    parts += [f"| `{name}` | {sentence(getattr(tosaic, name))} |" for name in others]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
