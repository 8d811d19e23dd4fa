"""The files of the C kit, side by side."""

import pathlib
import re

from tosaic.compiler.program import Program
from tosaic.driver.encodings import Encodings
from tosaic.driver.replacing import replacing
from tosaic.errors import InputError, UnsupportedError
from tosaic.hw.csr_export import csr_c_header

from .names import c_identifier
from .program_text import CModel

C_SUFFIXES = (".c", ".h")
SOURCES = pathlib.Path(__file__).parent
REGISTERS = "tosaic_registers.h"
RUNTIME_FILES = (
    *(path.name for pattern in ("*.h", "*.c") for path in sorted(SOURCES.glob(pattern))),
    REGISTERS,
)
"""What is written beside a model."""


def check_model_file(path: pathlib.Path) -> None:
    """Raises InputError for a name that a file of the runtime has, or that C cannot take for an identifier."""
    stem = path.stem
    if any(pathlib.Path(name).stem == stem for name in RUNTIME_FILES):
        raise InputError(f"{path}: the runtime has a file {stem} of its own: name the model's file otherwise")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", stem):
        raise InputError(
            f"{path}: what the file declares is called as it is, and {stem!r} is no name in C: "
            f"name it {path.with_stem(c_identifier('model_' + stem))}"
        )


def write_c_kit(path: pathlib.Path, program: Program, encodings: Encodings) -> None:
    """Writes a model and, beside it, the runtime.

    `path` ends in .h: all of the model is in one header, for one file that includes it. It ends in .c: the data are
    there, and the declarations in the header of the same name. InputError for a name that cannot be; UnsupportedError
    for programs of several cores; OSError.
    """
    check_model_file(path)
    if program.others:
        raise UnsupportedError(f"{path}: the C runtime starts one core: compile for a machine with cores=1")
    model = CModel(program, encodings, path.stem)
    texts = {name: (SOURCES / name).read_text() for name in RUNTIME_FILES if name != REGISTERS}
    texts[REGISTERS] = csr_c_header(program.config)
    texts |= _one_file(model) if path.suffix == ".h" else _two_files(model)
    for name, text in texts.items():
        with replacing(path.with_name(name)) as scratch:
            scratch.write_text(text)


def _one_file(model: CModel) -> dict[str, str]:
    return {f"{model.name}.h": _header(model, model.data("static "))}


def _two_files(model: CModel) -> dict[str, str]:
    extern = f"extern const struct tosaic_program {model.name}_program;\n"
    source = f'{_title(model)}\n#include "{model.name}.h"\n\n#include <stddef.h>\n\n{model.data("")}'
    return {f"{model.name}.h": _header(model, extern), f"{model.name}.c": source}


def _header(model: CModel, body: str) -> str:
    guard = f"{model.name.upper()}_H"
    start = (
        f'{_title(model)}\n#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n\n#include "tosaic.h"\n'
    )
    return f"{start}\n{model.declarations()}\n{body}\n#endif\n"


def _title(model: CModel) -> str:
    program = model.program
    return (
        f"/* {model.name}, compiled for the configuration {c_identifier(program.config.name)}: "
        f"{program.memory_bytes:,} bytes of external memory. Generated. */"
    )
