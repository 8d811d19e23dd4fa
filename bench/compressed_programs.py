"""What compressed weights save and cost: bytes stored, bytes fetched, cycles, for programs of whole networks.

    python bench/compressed_programs.py MODEL.tosa... [--config base] [--engines 1,4] [--on emulator]

Bytes are those of the packed weights as a program stores them: raw, by zlib (level 9, each tensor by itself, raw where
that is smaller), and as `--compress nnr` stores them. Inputs are random; every output is compared with that of the
program without compression.
"""

import argparse
import dataclasses
import pathlib
import zlib

import numpy as np

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, read_tosa
from tosaic.compiler.program import Program
from tosaic.driver.session import Session
from tosaic.hw.config import Config, get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.program import decode_program


def zlib_bytes(program: Program) -> int:
    """Bytes of the weights of a program without compression if zlib coded each tensor."""
    code = program.image[program.program_address :][: program.program_bytes]
    groups = {go.memory_address: go.row_bytes for go in decode_program(code) if _loads_weights(go)}
    packed = iter(sorted(groups.items()))
    total = 0
    for weights in program.weights:
        data = b""
        while len(data) < weights.bytes:
            address, size = next(packed)
            data += program.image[address : address + size]
        total += min(len(data), len(zlib.compress(data, 9)))
    return total


def _loads_weights(go: object) -> bool:
    return getattr(go, "opcode", None) == Opcode.LOAD_GO and getattr(go, "space", 0) == 1


def run(
    graph: Graph, config: Config, target: str, compress: str | None
) -> tuple[Session, dict[str, np.ndarray]]:
    """A session that ran once, and its outputs."""
    session = Session(graph, target, config, compress=compress)
    generator = np.random.default_rng(1)
    values = {
        argument.name: generator.integers(-128, 128, argument.shape).astype(argument.numpy)
        for argument in session.inputs
    }
    return session, session.run(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--config", default="base")
    parser.add_argument("--engines", default="1,4")
    parser.add_argument("--on", default="emulator", metavar="TARGET")
    args = parser.parse_args()
    columns = ("network", "engines", "raw", "zlib", "NNR", "tensors coded", "bytes fetched", "cycles")
    columns += ("decoding", "hidden")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for path in args.models:
        name = path.parent.name if path.stem.startswith("model") else path.stem
        graph = read_tosa(path)
        plain, wanted = run(graph, get_config(args.config), args.on, None)
        stats = plain.stats["weights"]
        packed = zlib_bytes(compile_graph(graph, get_config(args.config)))
        print(
            f"| {name} | | {stats['bytes']:,} | {packed:,} | | | {stats['load_bytes']:,} "
            f"| {plain.stats['cycles']:,} | | |",
            flush=True,
        )
        for engines in map(int, args.engines.split(",")):
            config = dataclasses.replace(get_config(args.config), cabac_engines=engines)
            session, outputs = run(graph, config, args.on, "nnr")
            for output, value in wanted.items():
                if not np.array_equal(outputs[output], value):
                    raise SystemExit(f"{path}: {output} differs from the program without compression")
            stats = session.stats["weights"]
            print(
                f"| | {engines} | | | {stats['stored_bytes']:,} | {stats['compressed_tensors']} of {stats['tensors']} "
                f"| {stats['load_bytes']:,} | {session.stats['cycles']:,} | {stats['decode_cycles']:,} "
                f"| {stats['hidden_decode_cycles']:,} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
