# ---
# jupyter:
#   jupytext: {text_representation: {extension: .py, format_name: percent}}
# ---
# %% [markdown]
# # A network from PyTorch to the accelerator
# Needs `pip install '.[torch]'`. Where torch is missing this page shows the code and runs none of it;
# `make test-torch` executes it.
# %%
import importlib.util

have_torch = importlib.util.find_spec("torch") is not None

# %%
if have_torch:
    import torch

    import tosaic

    module = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.Flatten(), torch.nn.Linear(288, 10))
    session = tosaic.from_torch(
        module, torch.rand(1, 1, 8, 8), calibration=torch.rand(32, 1, 8, 8), target="emulator"
    )
    outputs = session.run({"input": torch.rand(1, 1, 8, 8)}, check=True)
    print(outputs["output"], session.stats["cycles"], "cycles")

# %% [markdown]
# The page with the layers, and why they take what they take:
# %%
if have_torch:
    tosaic.write_report("report.html", "my module", session)
