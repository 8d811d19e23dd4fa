"""Twelve networks as .pte files of ExecuTorch, beside `tosaic.Session`: docs/records/pte_networks.md.

    python bench/pte_networks.py [NAME...] [--config base] [--folder build/pte] [--page docs/records/pte_networks.md]

Six are of the zoo (bench/zoo), as PyTorch modules with their weights; six are topologies of torchvision and timm with
random weights (pip install torchvision timm). Each is quantized, lowered by tosaic_executorch, saved, run by
ExecuTorch's runtime on samples that calibration did not see, and compared with a session on golden, bit for bit. Prints
where each node runs; exit 1 if outputs differ or a node runs on the host.
"""

import argparse
import contextlib
import dataclasses
import logging
import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [
    str(_ROOT / "bench"),
    str(_ROOT / "bench" / "zoo"),
    str(_ROOT / "integrations" / "executorch" / "src"),
]

import tosaic  # noqa: E402 (the path comes first)
from tosaic.compiler.importers.bindings import Bindings  # noqa: E402
from tosaic.compiler.importers.torch_models import tosa_backend  # noqa: E402
from tosaic.driver.models import open_with_encodings  # noqa: E402

Samples = list[tuple[torch.Tensor, ...]]
CALIBRATION, HELD_OUT = 3, 2
IMAGE = (3, 64, 64)
_KEPT: list[Any] = []


@dataclasses.dataclass(frozen=True)
class Row:
    """What came of a network."""

    name: str
    report: Any
    """tosaic_executorch.Report."""
    equal: bool
    """Whether the outputs of all held-out samples have the session's bits."""
    values: int
    """Different values in the outputs: a network that says the same always shows nothing."""
    cycles: int
    bytes: int
    """Of the .pte file."""


def converted(module: torch.nn.Module, samples: Samples, int16: bool = False) -> Any:
    """The module, quantized by ExecuTorch's TOSA quantizer."""
    from executorch.backends.arm.quantizer import (
        TOSAQuantizer,
        get_symmetric_a16w8_quantization_config,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = TOSAQuantizer(tosa_backend.compile_spec(int16))
    chosen = (
        get_symmetric_a16w8_quantization_config()
        if int16
        else get_symmetric_quantization_config(is_per_channel=True)
    )
    quantizer.set_global(chosen)
    exported = torch.export.export(module.eval(), samples[0]).module(check_guards=False)
    prepared = prepare_pt2e(exported, quantizer)
    for sample in samples:
        prepared(*sample)
    return convert_pt2e(prepared)


# --- the networks


def _zoo(name: str) -> tuple[torch.nn.Module, Samples]:
    """A network of the zoo with its weights, and what its users feed it with."""
    from catalogue import fetch, network
    from framework import framework
    from onnx_modules import OnnxModule
    from samples import Task, make
    from signals import Source

    chosen, folder = network(name), _ROOT / "build" / "zoo"
    (folder / "wheels").mkdir(parents=True, exist_ok=True)
    path = fetch(chosen, folder)
    graph, _ = open_with_encodings(path, Bindings(chosen.shapes, chosen.values))
    source = Source(0, np.random.default_rng(1))
    task = Task(graph, CALIBRATION + HELD_OUT, source, framework(path, chosen.values), folder)
    made = make(chosen.samples, task)
    module = OnnxModule(path, {each: graph.tensors[each].shape for each in graph.inputs})
    return module, [
        tuple(torch.from_numpy(np.ascontiguousarray(each[port])) for port in graph.inputs) for each in made
    ]


def _with_random_weights(make: Callable[[], torch.nn.Module]) -> tuple[torch.nn.Module, Samples]:
    """Of a topology; its normalizations have the statistics of a batch, so that no activation fades away."""
    torch.manual_seed(0)
    module = make()
    for each in module.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            each.momentum = None
    module.train()(torch.randn(8, *IMAGE))
    return module.eval(), [(torch.randn(1, *IMAGE),) for _ in range(CALIBRATION + HELD_OUT)]


def _torchvision(name: str, **options: Any) -> tuple[torch.nn.Module, Samples]:
    _declare_operators()
    import torchvision

    return _with_random_weights(lambda: torchvision.models.get_model(name, weights=None, **options))


def _timm(name: str, **options: Any) -> tuple[torch.nn.Module, Samples]:
    _declare_operators()
    import timm

    return _with_random_weights(lambda: timm.create_model(name, **options))


def _declare_operators() -> None:
    """PyPI's torchvision is built for CUDA; beside a CPU build of torch its import needs these operators' names."""
    with contextlib.suppress(RuntimeError):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)


ZOO = (
    "openwakeword_alexa",
    "openwakeword_timer",
    "openwakeword_embedding",
    "dnsmos_model_v8",
    "ppocr_cls",
    "vietcombank_captcha",
)
NETWORKS: dict[str, Callable[[], tuple[torch.nn.Module, Samples]]] = {
    **{name: lambda name=name: _zoo(name) for name in ZOO},
    "mobilenet_v2": lambda: _torchvision("mobilenet_v2", width_mult=0.35),
    "resnet18": lambda: _torchvision("resnet18"),
    "squeezenet1_1": lambda: _torchvision("squeezenet1_1"),
    "mobilenetv3_small_050": lambda: _timm("mobilenetv3_small_050"),
    "convnext_atto": lambda: _timm("convnext_atto", depths=(1, 1, 2, 1)),
    "vit_tiny_patch16": lambda: _timm("vit_tiny_patch16_224", img_size=64, depth=2),
}


# --- a network


def measured(name: str, config: str, folder: pathlib.Path) -> Row:
    """Lowers and runs a network; the .pte file stays in the folder."""
    from executorch.runtime import Runtime
    from tosaic_executorch import lower, runtime

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.pte"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        module, samples = NETWORKS[name]()
        module = converted(module, samples[:CALIBRATION])
        lowered = lower(torch.export.export(module, samples[0]), config, on_host="allow")
        lowered.save(path)
        session = tosaic.from_torch(module, samples[0], road="executorch", target="golden")
    runtime.use("emulator")
    method = Runtime.get().load_program(path).load_method("forward")
    equal, seen = True, set()
    for sample in samples[CALIBRATION:]:
        given = [each.clone() for each in method.execute(sample)]
        wanted = session(*sample)
        wanted = list(wanted) if isinstance(wanted, tuple | list) else [wanted]
        equal &= all(torch.equal(*pair) for pair in zip(given, wanted, strict=True))
        seen |= {value for each in given for value in each.reshape(-1).tolist()}
    cycles = sum(each.stats["cycles"] for each in runtime.parts.sessions())
    return Row(name, lowered.report, equal, len(seen), cycles, path.stat().st_size)


HEAD = """# Twelve networks as .pte files

`python bench/pte_networks.py` (torch 2.13, ExecuTorch 1.5.1, torchvision 0.28, timm 1.0.31) wrote this page: outputs of
ExecuTorch's runtime against `Session` on golden, bit for bit, and how many nodes ran where (`base`, emulator).

| network | from | bits of `Session` | on the NPU | on the host | quantize, dequantize | cycles | .pte, kB |
|---|---|---|--:|--:|--:|--:|--:|
"""


def line(row: Row) -> str:
    """Its line of the page."""
    origin = "zoo" if row.name in ZOO else "random weights"
    nodes, border = row.report, sum(each.is_border for each in row.report.nodes)
    figures = (
        f"{len(nodes.on_npu)} | {len(nodes.on_host)} | {border} | {row.cycles:,} | {row.bytes // 1024:,}"
    )
    return f"| {row.name} | {origin} | {'equal' if row.equal else 'DIFFERENT'} | {figures} |\n"


def main() -> int:
    """Runs them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="all without")
    parser.add_argument("--config", default="base")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/pte"))
    parser.add_argument("--page", type=pathlib.Path, help="writes the table of all that ran so far")
    chosen = parser.parse_args()
    logging.disable()
    rows = []
    for name in chosen.names or NETWORKS:
        rows.append(measured(name, chosen.config, chosen.folder))
        (chosen.folder / f"{name}.md").write_text(line(rows[-1]))
        print(line(rows[-1]), end="", flush=True)
        print(f"{rows[-1].values} different outputs; {rows[-1].report}", flush=True)
    if chosen.page:
        kept = [chosen.folder / f"{name}.md" for name in NETWORKS]
        chosen.page.write_text(HEAD + "".join(each.read_text() for each in kept if each.exists()))
    return int(any(not row.equal or row.report.on_host for row in rows))


if __name__ == "__main__":
    sys.exit(main())
