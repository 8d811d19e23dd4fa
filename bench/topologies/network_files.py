"""Networks of Python files, as PyTorch modules and as ONNX files with samples beside them."""

import importlib.util
import pathlib
import sys
from collections.abc import Sequence

import numpy as np
import torch

SAMPLES, SEED = 3, 3


def network_of(place: str) -> tuple[torch.nn.Module, list[tuple[int, ...]]]:
    """The module as it infers, with the same random weights in every call, and the shapes of its inputs; `place` is
    FILE.py:NAME, a function that returns them."""
    path, _, name = place.rpartition(":")
    sys.path.append(str(pathlib.Path(path).parent))
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    networks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(networks)
    torch.manual_seed(SEED)
    module, *shapes = getattr(networks, name)()
    return module.eval(), shapes


def write_network(module: torch.nn.Module, shapes: Sequence[tuple[int, ...]], path: pathlib.Path) -> None:
    """Writes an ONNX file, and random samples as PATH.npz, which follow each other along the first axis."""
    arrays = [torch.randn(SAMPLES * shape[0], *shape[1:]) for shape in shapes]
    names = [f"input_{number}" for number in range(len(shapes))]
    example = tuple(each[: shape[0]] for each, shape in zip(arrays, shapes, strict=True))
    torch.onnx.export(module, example, str(path), input_names=names, opset_version=17, dynamo=False)
    named = {name: each.numpy() for name, each in zip(names, arrays, strict=True)}
    np.savez(path.with_suffix(".npz"), **named)
