"""What decoding weights once costs and saves: cycles of the boot part and of the runs after it, for whole networks.

    python bench/boot_programs.py MODEL.tosa... [--config base] [--bandwidth 16,8,4,1] [--on emulator]

Prints the table of docs/records/compressed_weights.md.
Every output is compared with golden's. Ends with exit code 1 where a run after boot
takes more than 1.01 times the cycles of the program without compression.
"""

import argparse
import pathlib

from checked_run import checked_run

from tosaic.compiler.ir import Graph, read_tosa

MOST = 1.01
"""Times the cycles of a program without compression that a run after boot may take."""


def row(graph: Graph, name: str, config: str, target: str, bandwidths: list[int]) -> tuple[str, float]:
    """A network's line of the table, and the worst of its runs after boot against those without compression."""
    worst, boots, runs = 0.0, [], []
    for bandwidth in bandwidths:
        plain = checked_run(graph, config, target, bandwidth, None)
        coded = checked_run(graph, config, target, bandwidth, "nnr")
        worst = max(worst, coded["cycles"] / plain["cycles"])
        runs.append(f"{plain['cycles']:,} → {coded['cycles']:,}")
        boots.append(coded["boot"])
    weights, boot = coded["weights"], boots[0]
    if boot is None:
        return f"| {name} | {weights['bytes']:,} | as they are |", worst
    fields = (
        name,
        f"{weights['bytes']:,} → {weights['stored_bytes']:,}",
        f"{boot['tensors']} of {weights['tensors']}",
        *(f"{each['cycles']:,}" for each in (boots[0], boots[-1])),
        f"{boot['break_even_bytes_per_cycle']:.3f}",
        str(boot["break_even_runs"]),
        *runs,
    )
    return f"| {' | '.join(fields)} |", worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--config", default="base")
    parser.add_argument("--bandwidth", default="16,8,4,1")
    parser.add_argument("--on", default="emulator", metavar="TARGET")
    args = parser.parse_args()
    bandwidths = [int(each) for each in args.bandwidth.split(",")]
    columns = ["network", "bytes of weights", "tensors", f"boot at {bandwidths[0]} B/cycle"]
    columns += [f"boot at {bandwidths[-1]}", "pays below, B/cycle", "and after runs"]
    columns += [f"run at {each}: plain → after boot" for each in bandwidths]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    worst = 0.0
    for path in args.models:
        name = path.parent.name if path.stem.startswith("model") else path.stem
        line, own = row(read_tosa(path), name, args.config, args.on, bandwidths)
        worst = max(worst, own)
        print(line, flush=True)
    print(f"\nthe worst run after boot takes {worst:.4f} times the cycles without compression")
    if worst > MOST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
