# %% [markdown]
# # Why is this layer slow?
# The same network with a fast and with a slow external memory.
# %%
import importlib.resources

import numpy as np

import tosaic
from tosaic.driver.report import SavedRun, compare_runs

digits = importlib.resources.files("tosaic.examples") / "digits"
image = np.load(digits / "images.npz")["inputs"][:1]


def run(bandwidth):
    session = tosaic.Session(digits / "digits.tosa", target="emulator", memory_bandwidth=bandwidth)
    session.run({session.inputs[0].name: image.reshape(session.inputs[0].shape)}, check=True)
    return session


fast, slow = run(16), run(2)

# %% [markdown]
# The report names the layers that lose the most cycles, what limits them, and a way out.
# %%
tosaic.RunReport("digits, 2 bytes per cycle", slow)

# %% [markdown]
# Which layers does the memory make slower? `tosaic report a.json b.json` makes a page of this.
# %%
changes = compare_runs(SavedRun("16 B/cycle", fast.stats), SavedRun("2 B/cycle", slow.stats))
for layer in changes.changed():
    print(f"{layer.difference:+8,} cycles  {layer.name} ({layer.op})")
assert changes.difference > 0
