# %% [markdown]
# # A board without a board
# What a board's files look like, before you own it. (A whole board under Verilator, down to its UART pins, is
# `--on virtual://ulx3s-85f`; it takes two minutes to build and is left out here.)
# %%
import pathlib
import subprocess
import sys
import tempfile

folder = pathlib.Path(tempfile.mkdtemp())


def tosaic(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tosaic", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


print(tosaic("boards"))

# %% [markdown]
# The Verilog of the smallest configuration, with its register map. It has AXI4 and AXI4-Lite ports.
# %%
print(tosaic("verilog", "--config", "nano", "-o", str(folder)))
for file in sorted(folder.rglob("*")):
    print(f"{file.stat().st_size:>10,}  {file.relative_to(folder)}")
assert list(folder.rglob("*.v"))
