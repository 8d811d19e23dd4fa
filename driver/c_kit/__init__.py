"""The C kit: a compiled model as C, and the runtime in C99 that runs it.

In comes a `Program`, out go C files. `program_text` writes the model, `folder` puts runtime and model side by side.
"""

from tosaic.driver.c_kit.folder import C_SUFFIXES, RUNTIME_FILES, check_model_file, write_c_kit

__all__ = ["C_SUFFIXES", "RUNTIME_FILES", "check_model_file", "write_c_kit"]
