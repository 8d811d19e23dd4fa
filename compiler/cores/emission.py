"""Instructions of a plan for several cores: each core's shares one after the other, with tokens between the cores.

The core that makes a range of external memory signals the LOAD of every core that reads it, when its STOREs of the
segment are complete. A core takes a token of another one before its first LOAD of what that one has made; tokens of
one core come in the order of its segments, so that one stands for all before it."""

import collections
import dataclasses

from tosaic.compiler.cores.cores_plan import CoresPlan
from tosaic.compiler.cores.early_constants import early_constants
from tosaic.compiler.emit.commands import Block, Work, command
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.graph_emission import emit_graph
from tosaic.compiler.place.address import Span
from tosaic.compiler.schedule.items import SEMAPHORE
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, Unit

FIRST_SEMAPHORE = len(SEMAPHORE)
"""That of tokens from core 0; those of the other cores follow."""


@dataclasses.dataclass(frozen=True)
class _Made:
    """What a core has made in a segment."""

    span: Span
    core: int
    segment: int


class CoresEmission:
    """The work of all cores."""

    def __init__(self, plan: CoresPlan, config: Config):
        self.plan, self.config = plan, config
        self._emitters = [Emitter(config, plan.external) for _ in range(plan.cores)]
        self._made: list[_Made] = []
        self._taken: dict[tuple[int, int], int] = {}
        """(reader, maker) -> the last segment of which the reader has taken a token."""
        self._readers: dict[tuple[int, int], set[int]] = collections.defaultdict(set)
        """(segment, maker) -> cores that take a token."""
        self._parts: list[dict[int, list[Work]]] = []

    def blocks(self) -> list[list[Block]]:
        """The blocks of each core."""
        layers = 0
        for number, planned in enumerate(self.plan.segments):
            self._parts.append({})
            for core, share in planned.shares.items():
                emitter = self._emitters[core]
                emitter.first_layer = None if core else layers
                same = 0 in planned.shares and len(planned.shares[0].plan.layers) == len(share.plan.layers)
                emitter.layers_before = layers if same else None
                start = len(emitter.blocks.current.work)
                emit_graph(emitter, share.plan.main)
                work = emitter.blocks.current.work[start:]
                self._parts[-1][core] = self._with_waits(core, work, planned.ahead_bytes.get(core, 0))
            if 0 in planned.shares:
                layers += len(planned.shares[0].plan.layers)
            self._made += [
                _Made(span, core, number) for core, spans in planned.written.items() for span in spans
            ]
        return [[Block(work=self._work(core))] for core in range(self.plan.cores)]

    def _work(self, core: int) -> list[Work]:
        work: list[Work] = []
        for number, parts in enumerate(self._parts):
            work += parts.get(core, [])
            readers = self._readers.get((number, core))
            if readers:
                work.append(_signal(core, readers))
        return work

    def _with_waits(self, core: int, work: list[Work], ahead_bytes: int) -> list[Work]:
        """The work of a share, with waits for tokens before the loads that need them."""
        found: list[Work] = []
        for item in work:
            if item.unit is Unit.LOAD:
                found += self._waits(core, item)
            found.append(item)
        return early_constants(found, ahead_bytes, self.config)

    def _waits(self, core: int, load: Work) -> list[Work]:
        needed: dict[int, int] = {}
        for span in load.reads:
            for made in self._made:
                if made.core != core and _meet(made.span, span):
                    needed[made.core] = max(made.segment, needed.get(made.core, -1))
        waits = []
        for maker, segment in sorted(needed.items()):
            if segment > self._taken.get((core, maker), -1):
                self._taken[core, maker] = segment
                self._readers[segment, maker].add(core)
                waits.append(_wait(maker))
        return waits


def _meet(span: Span, other: Span) -> bool:
    return span.region is other.region and max(span.start, other.start) < min(span.end, other.end)


def _wait(maker: int) -> Work:
    wait = command(Opcode.LOAD_WAIT, semaphore=FIRST_SEMAPHORE + maker, count=1)
    return Work(Unit.LOAD, [wait], waits_for_core=True)


def _signal(maker: int, readers: set[int]) -> Work:
    cores = sum(1 << reader for reader in readers)
    signal = command(Opcode.STORE_SIGNAL, semaphore=FIRST_SEMAPHORE + maker, count=1, cores=cores)
    return Work(Unit.STORE, [signal])
