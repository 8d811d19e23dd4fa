"""What the decoders learn: documentation that every Python carries."""

import ast
import pydoc_data.topics
import re
import sysconfig
import warnings
from pathlib import Path

import numpy as np

HELD_OUT = 0.05
"""The part of the text that training does not see."""
_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_NO_LIBRARY = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages"}


def load_reference() -> str:
    """Some 450,000 characters: the language reference, as `help()` shows it."""
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    return _cleaned(text)


def load_library() -> str:
    """Some 1,800,000 characters: the reference and the docstrings of the standard library, in an order by chance."""
    texts = dict.fromkeys(map(_cleaned, [*pydoc_data.topics.topics.values(), *_docstrings()]))
    order = np.random.default_rng(0).permutation(list(texts))
    return re.sub(" {2,}", " ", "\n\n".join(order))


def split(text: str) -> tuple[str, str]:
    """What is learned, and what is held out: the end."""
    first = int(len(text) * (1 - HELD_OUT))
    return text[:first], text[first:]


def _docstrings() -> list[str]:
    """Those of modules, classes and functions that say more than a line does."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found: list[str] = []
    for path in sorted(library.rglob("*.py")):
        if _NO_LIBRARY & set(path.relative_to(library).parts):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(ast.get_docstring(node) or "")
    return [text for text in found if len(text) > 60]


def _cleaned(text: str) -> str:
    """Plain quotes; underlines of headings and deep indentation say nothing."""
    text = text.translate(_PLAIN)
    text = re.sub(r"\n[=*~^\"+-]{4,}\n", "\n", text)
    text = re.sub(r"\n +", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text)
