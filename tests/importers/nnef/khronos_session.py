"""Runs models in Khronos' own C++ interpreter: `python khronos_session.py FOLDER`.

Each sub-folder has graph.nnef and inputs.npz (input_0, input_1, ...); where the interpreter runs it, answers.npz is
written beside them. A process of its own: what the interpreter cannot do may end it.
"""

import pathlib
import sys
from typing import Any

import nnef
import numpy as np

# Compounds that the interpreter has no code for; their bodies are the text's.
LOWERED = (
    "separable_conv separable_deconv rms_pool local_response_normalization local_mean_normalization l1_normalization "
    "local_variance_normalization local_contrast_normalization l2_normalization batch_normalization moments prelu "
    "clamp logarithmic_quantize area_downsample nearest_downsample nearest_upsample mean_reduce add_n copy_n"
).split()


def answers(folder: pathlib.Path) -> list[np.ndarray]:
    """Outputs of a model, whole compounds first."""
    with np.load(folder / "inputs.npz") as stored:
        inputs = [stored[name] for name in stored.files]
    lowered: list[str]
    problem: Any = None
    for lowered in ([], LOWERED):
        try:
            return list(nnef.Session(str(folder), lowered=lowered)(*inputs))
        except Exception as error:
            problem = error
    raise problem


def main() -> None:
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        try:
            found = answers(folder)
        except Exception as error:
            print(f"{folder.name}: {error}")
            continue
        np.savez(folder / "answers.npz", **{f"output_{i}": value for i, value in enumerate(found)})


if __name__ == "__main__":
    main()
