"""Writes a PyTorch network as an int8 TFLite file; `bench/peers` runs it in the environment of the tools that do it.

    python convert.py FILE.py:NAME SAMPLES.npz OUT.tflite

NAME is a function without arguments that returns a module and the shapes of its inputs. SAMPLES.npz has an array for
each input, with the samples along its first axis.
"""

import pathlib
import sys

import numpy as np
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "topologies"))

from network_files import SAMPLES, network_of  # noqa: E402 (the path comes first)


def main() -> int:
    """Converts in floats, then quantizes weights and activations to int8 by the samples."""
    import litert_torch
    from ai_edge_quantizer import quantizer, recipe

    place, samples, result = sys.argv[1:]
    module, shapes = network_of(place)
    arrays = [np.split(each, SAMPLES) for each in np.load(samples).values()]
    assert [each[0].shape for each in arrays] == [tuple(shape) for shape in shapes]
    example = tuple(torch.from_numpy(each[0]) for each in arrays)
    floats = pathlib.Path(result).with_suffix(".float.tflite")
    litert_torch.convert(module, example).export(str(floats))
    quantized = quantizer.Quantizer(str(floats))
    quantized.load_quantization_recipe(recipe.static_wi8_ai8())
    fed = [
        {f"args_{number}": each[sample] for number, each in enumerate(arrays)} for sample in range(SAMPLES)
    ]
    found = quantized.quantize(quantized.calibrate({"serving_default": fed}))
    found.export_model(result, overwrite=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
