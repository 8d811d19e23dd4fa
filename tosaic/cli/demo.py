"""`tosaic demo`: handwritten digits through the accelerator's RTL, compared with golden bit for bit."""

import importlib.resources
import pathlib
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from tosaic.cli import options
from tosaic.cli.afterwards import open_page, tell_next
from tosaic.cli.files import check_file, writing
from tosaic.cli.progress import progress_bar
from tosaic.driver.session import Session

if TYPE_CHECKING:
    from rich.console import Console

_SHADES = " .:-=+*#%@"


def demo(
    images: Annotated[int, typer.Option("--images", help="Number of test images.")] = 24,
    on: options.On = "sim",
    config: options.Config = "base",
    sizes: options.Set = None,
    report: Annotated[pathlib.Path, typer.Option("--report", metavar="FILE.html")] = pathlib.Path(
        "report.html"
    ),
    open_: options.Open = False,
    verbose: options.Verbose = False,
) -> None:
    """Run the trained digits network on real images through the Verilated RTL; print predictions and cycles."""
    if on == "golden":
        raise typer.BadParameter(
            "the demo measures cycles, which golden has not: use --on sim or --on emulator"
        )
    check_file(report)
    folder = importlib.resources.files("tosaic.examples") / "digits"
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    with importlib.resources.as_file(folder / "images.npz") as path:
        data = np.load(path)
        inputs, labels, pixels = data["inputs"], data["labels"], data["pixels"]
    if not 1 <= images <= len(inputs):
        raise typer.BadParameter(f"--images must be in 1..{len(inputs)}, not {images}")
    with importlib.resources.as_file(folder / "digits.tosa") as path, progress_bar("open digits") as progress:
        session = Session(path, on, options.sized(config, sizes), progress=progress)
        results = []
        for index in range(images):
            progress(f"image {index + 1} on {on}", index, images)
            feed = {session.inputs[0].name: inputs[index].reshape(session.inputs[0].shape)}
            outputs = session.run(feed, check=True)
            logits = outputs[session.outputs[0].name].reshape(-1)
            results.append((int(labels[index]), int(logits.argmax()), session.stats))
    _show(console, pixels[:4], results[:4])
    table = Table("image", "label", "prediction", "cycles", "golden", box=None)
    for index, (label, prediction, stats) in enumerate(results):
        mark = "" if label == prediction else "  <- wrong"
        table.add_row(str(index), str(label), f"{prediction}{mark}", f"{stats['cycles']:,}", "equal")
    console.print(table)
    right = sum(label == prediction for label, prediction, _ in results)
    stats = results[-1][2]
    console.print(f"accuracy {right}/{images} = {right / images:.1%} on the held-out images shown")
    console.print(
        f"{stats['cycles']:,} cycles per image on {session.config.name} ({on}), {stats['macs']:,} MACs, utilization "
        f"{stats['mac_utilization']:.1%}, {stats['dram_read_bytes']:,} bytes read; memory "
        f"{stats['memory_bandwidth']} B/cycle, latency {stats['memory_latency']} cycles"
    )
    console.print(f"bit-exact: all {images} outputs equal the golden model")
    from tosaic.driver.report import write_report

    with writing(report):
        write_report(report, "digits", session)
    console.print(f"report: {report}")
    open_page(report, open_)
    tell_next("check", "YOUR_MODEL.onnx")


def _show(console: "Console", pixels: np.ndarray, results: list[tuple[int, int, dict]]) -> None:
    """A few images side by side, as characters."""
    rows = pixels.reshape(len(pixels), 8, 8)
    for y in range(8):
        console.print(
            "   ".join("".join(_SHADES[min(int(v) * 10 // 17, 9)] * 2 for v in image[y]) for image in rows)
        )
    console.print("   ".join(f"{f'label {label}: {prediction}':16}" for label, prediction, _ in results))
