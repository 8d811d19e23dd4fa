# %% [markdown]
# # Sobel in NumPy, on the RTL
# Edges of an image by plain NumPy. `@tosaic.function` leaves it what it is: called with arrays, it is NumPy.
# %%
import numpy as np

import tosaic


@tosaic.function(x="uint8[32,32]")
def sobel(x):
    p = np.pad(x.astype(np.int16), 1, mode="edge")
    gx = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    gy = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    return np.minimum(np.abs(gx) + np.abs(gy), 255).astype(np.uint8)


rows, columns = np.mgrid[-16:16, -16:16]
image = np.where(rows**2 + columns**2 < 120, 200, 40).astype(np.uint8)
for line in sobel(image)[4:16:2]:
    print("".join(" .:*#"[pixel // 52] for pixel in line))

# %% [markdown]
# Does the accelerator give the same? `check` runs the function, golden and the emulator, and compares every integer.
# %%
edges = sobel.check(image)
assert edges.dtype == np.uint8 and np.array_equal(edges, sobel(image))

# %% [markdown]
# The graph is ordinary TOSA, and the emulator knows its cycles.
# %%
session = sobel.session("emulator", "base")
session(image)
print(len(session.graph.operators), "operators,", session.stats["cycles"], "cycles")
session

# %% [markdown]
# The array of multipliers is idle in that: sums of shifted images are work for the vector unit. As products of windows
# with two kernels they are convolutions, and the results are the same.
# %%
KERNEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.int16)


@tosaic.function(x="uint8[32,32]")
def convolved(x):
    p = np.pad(x.astype(np.int16), 1, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3))
    gx, gy = (np.tensordot(windows, kernel, ([2, 3], [0, 1])) for kernel in (KERNEL, KERNEL.T))
    return np.minimum(np.abs(gx) + np.abs(gy), 255).astype(np.uint8)


faster = convolved.session("emulator", "base")
assert np.array_equal(faster(image), edges)
print(faster.stats["cycles"], "cycles")
assert faster.stats["cycles"] < session.stats["cycles"]

# %% [markdown]
# And the hardware itself: the RTL under Verilator, for the smallest configuration.
# %%
rtl = convolved.session("sim", "nano")
assert np.array_equal(rtl(image), edges)
rtl

# %% [markdown]
# What the accelerator cannot do is said with the line, the reason and a way out.
# %%
try:
    tosaic.trace(lambda x: x if x.max() > 9 else -x, x="int8[4]")
except tosaic.TraceError as error:
    print(error)
