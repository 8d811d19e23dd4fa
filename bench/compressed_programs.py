"""What compressed weights save and cost: bytes stored, bytes fetched, cycles, for programs of whole networks.

    python bench/compressed_programs.py MODEL.tosa... [--config base] [--engines 1,4] [--on emulator] [--check]

Prints the table of docs/records/compressed_weights.md.
Bytes are those of the packed weights as a program stores them: raw, by zlib (level
9, each tensor by itself, raw where that is smaller), and as
`--compress nnr-stream` stores them. Tensors coded and bytes
fetched are those with the first number of engines. Inputs are random; every output is compared with that of the program
without compression, and with --check that one with golden's.
"""

import argparse
import dataclasses
import pathlib
import zlib

import numpy as np
from checked_run import random_inputs

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, read_tosa
from tosaic.compiler.program import Program
from tosaic.driver.session import Session
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
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
    return session, session.run(random_inputs(session))


def row(graph: Graph, name: str, config: Config, engines: list[int], target: str, check: bool) -> str:
    """One network's line of the table."""
    plain, wanted = run(graph, config, target, None)
    if check:
        compare(name, run(graph, config, "golden", None)[1], wanted)
    stats, cycles = plain.stats["weights"], plain.stats["cycles"]
    stored, coded, fetched, decoding = [], "", "", []
    for count in engines:
        session, found = run(graph, dataclasses.replace(config, cabac_engines=count), target, "nnr-stream")
        compare(name, wanted, found)
        coding = session.stats["weights"]
        stored.append(f"{coding['stored_bytes']:,}")
        coded = coded or f"{coding['compressed_tensors']} of {coding['tensors']}"
        fetched = fetched or f"{stats['load_bytes']:,} → {coding['load_bytes']:,}"
        hidden = f"{coding['decode_cycles']:,}, {coding['hidden_decode_cycles']:,}"
        decoding.append(f"{session.stats['cycles']:,} ({hidden})")
    packed = zlib_bytes(compile_graph(graph, config))
    fields = (name, f"{stats['bytes']:,}", f"{packed:,}", *stored, coded, fetched, f"{cycles:,}", *decoding)
    return f"| {' | '.join(fields)} |"


def compare(name: str, wanted: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> None:
    """Ends the program where an output is another."""
    for output, value in wanted.items():
        if not np.array_equal(found[output], value):
            raise SystemExit(f"{name}: {output} is not what it should be")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--config", default="base")
    parser.add_argument("--engines", default="1,4")
    parser.add_argument("--on", default="emulator", metavar="TARGET")
    parser.add_argument("--check", action="store_true", help="compare with golden, too")
    args = parser.parse_args()
    engines = [int(count) for count in args.engines.split(",")]
    counted = [f"{count} engine{'s' * (count > 1)}" for count in engines]
    columns = ["network", "bytes raw", "zlib", *(f"NNR, {each}" for each in counted), "tensors coded"]
    columns += ["bytes fetched", "cycles uncompressed", *(f"{each} (decoding, hidden)" for each in counted)]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for path in args.models:
        name = path.parent.name if path.stem.startswith("model") else path.stem
        config = get_config(args.config)
        print(row(read_tosa(path), name, config, engines, args.on, args.check), flush=True)


if __name__ == "__main__":
    main()
