"""The extensions of TOSA that the conformance suites are generated with.

python bench/suite_extensions.py int    # as the generator's option wants them: for the Makefile
"""

import sys

INTEGER = ("int16", "int4", "doubleround", "inexactround", "controlflow", "dynamic")
SUITES = {
    "int": INTEGER,
    "draft": (*INTEGER, "variable", "int64", "shape"),
    "fp": ("bf16", "fft", "fp8e4m3", "fp8e5m2", "controlflow", "dynamic"),
}
"""Extensions of each suite: integers, the draft of version 1.1.0, floats."""


def options(suite: str) -> list[str]:
    """The words behind the generator's option `--extension`."""
    return [f"tosa-ext-{name}" for name in SUITES[suite]]


if __name__ == "__main__":
    print(*options(sys.argv[1]))
