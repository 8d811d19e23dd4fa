# %% [markdown]
# # A proof
# `tosaic verify` proves of a program, on every path and for all inputs, that units do not wait for each other forever,
# that accesses keep their order, and that none leaves the memory. `make prove` proves properties of the RTL by SAT.
# %%
import importlib.resources
import pathlib
import subprocess
import sys
import tempfile

folder = pathlib.Path(tempfile.mkdtemp())
model = importlib.resources.files("tosaic.examples") / "digits" / "digits.tosa"


def tosaic(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tosaic", *arguments], capture_output=True, text=True, cwd=folder
    )


tosaic("compile", str(model), "-o", "digits.tsc").check_returncode()
done = tosaic("verify", "digits.tsc")
print(done.stdout)
assert done.returncode == 0

# %% [markdown]
# One flipped bit is found: by the checksum, before anything runs.
# %%
program = bytearray((folder / "digits.tsc").read_bytes())
program[len(program) // 2] ^= 1
(folder / "broken.tsc").write_bytes(program)
done = tosaic("verify", "broken.tsc")
print(done.stderr)
assert done.returncode == 1
