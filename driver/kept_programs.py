"""Programs of large networks, kept in the cache by content, since compiling them takes seconds."""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import time
from typing import Any

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.compiler.ir.mapped_file import LARGE_BYTES, let_go
from tosaic.compiler.memory_history import MemoryBlock
from tosaic.compiler.program import Program
from tosaic.errors import Error, ModelError
from tosaic.hw.config import Config
from tosaic.hw.isa import ISA_HASH

LARGE_OPERATORS = 32
"""Smaller graphs are compiled in less time than it takes to look for them."""
LONG_SECONDS = 2.0
"""Processor seconds: what is compiled sooner is not kept, so an exploration does not fill the cache."""
_KIND = "programs"
_PROGRAM, _BLOCKS = ".tsc", ".blocks.json"


class KeptProgram:
    """The place in the cache of a graph's program for a configuration, with options (values of JSON) and this code.

    A cache that cannot be read or written only costs time.
    """

    def __init__(self, graph: Graph, config: Config, options: dict[str, Any]) -> None:
        self._name = config.identifier
        self._key = _key(graph, config, options)
        self._started = time.process_time()

    def read(self) -> Program | None:
        """The program, if it was kept."""
        if self._key is None:
            return None
        from tosaic.sim.cache import kept

        with contextlib.suppress(Error, OSError):
            return _read(*(kept(_KIND, self._name, self._key, suffix) for suffix in (_PROGRAM, _BLOCKS)))
        return None

    def keep(self, program: Program) -> None:
        """Keeps the program for the next time, if its compilation, which began when this object was made, took long."""
        if self._key is None or time.process_time() - self._started < LONG_SECONDS:
            return
        from tosaic.sim.cache import cached

        with contextlib.suppress(Error, OSError):
            cached(_KIND, self._name, self._key, _PROGRAM, program.save)
            cached(_KIND, self._name, self._key, _BLOCKS, lambda path: _write_blocks(program, path))


def _read(program: pathlib.Path | None, blocks: pathlib.Path | None) -> Program | None:
    """Reads a file; returns None where it is not there, or damaged: then both are deleted, so that others
    take their place.
    """
    if program is None or blocks is None:
        return None
    try:
        history = [MemoryBlock(**block) for block in json.loads(blocks.read_text())]
        return dataclasses.replace(Program.load(program), memory_blocks=history)
    except (ModelError, TypeError, ValueError):
        program.unlink(missing_ok=True)
        blocks.unlink(missing_ok=True)
        return None


def _write_blocks(program: Program, path: pathlib.Path) -> None:
    path.write_text(json.dumps([dataclasses.asdict(block) for block in program.memory_blocks]))


def _key(graph: Graph, config: Config, options: dict[str, Any]) -> str | None:
    """A hash of all that the program depends on; None for graphs that are not kept."""
    if len(graph.operators) < LARGE_OPERATORS:
        return None
    from tosaic.driver.digests import KEY_DIGITS, code_digest

    # What the operators and tensors do not say.
    beside = {
        "config": dataclasses.asdict(config),
        "options": options,
        "labels": graph.labels,
        "declared": {name: dataclasses.asdict(each) for name, each in graph.declared.items()},
        "states": [
            [name, state.output, hashlib.sha256(np.ascontiguousarray(state.initial).tobytes()).hexdigest()]
            for name, state in graph.states.items()
        ],
        "isa": ISA_HASH,
        "code": code_digest(),
        "numpy": np.__version__,
    }
    found = hashlib.sha256(json.dumps(beside, sort_keys=True).encode())
    for each in graph.walk():
        _add(found, each)
    return found.hexdigest()[:KEY_DIGITS]


def _add(found: "hashlib._Hash", graph: Graph) -> None:
    """Adds a graph's content to a hash. Large constants are looked at in place and let go of again."""
    operators = [
        (op.op, op.inputs, op.outputs, sorted(op.attributes.items()), op.name) for op in graph.operators
    ]
    found.update(repr((graph.name, graph.inputs, graph.outputs, operators)).encode())
    for name, tensor in graph.tensors.items():
        found.update(repr((name, tensor.shape, tensor.dtype.name, tensor.data is None)).encode())
        if tensor.data is not None:
            found.update(repr((tensor.data.dtype.str, tensor.data.shape)).encode())
            found.update(np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8).data)
            if tensor.data.nbytes >= LARGE_BYTES:
                let_go(tensor.data)
