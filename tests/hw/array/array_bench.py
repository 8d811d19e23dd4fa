"""Runs commands on the RTL in Amaranth's simulator, with models of the memories and random stalls."""

import dataclasses
import random

from kept_simulator import kept_simulator

from tosaic.hw.array import ArrayUnit
from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, encode


@dataclasses.dataclass
class Run:
    """What happened; `_cycles` of each vector, command taken, active cycle. `signals`: (semaphore, count, AM
    reads, WM reads made until then)."""

    cycles: int = 0
    vectors: list = dataclasses.field(default_factory=list)
    vector_cycles: list = dataclasses.field(default_factory=list)
    taken_cycles: list = dataclasses.field(default_factory=list)
    active_cycles: list = dataclasses.field(default_factory=list)
    reads: list = dataclasses.field(default_factory=list)
    weight_reads: list = dataclasses.field(default_factory=list)
    part_reads: list = dataclasses.field(default_factory=list)
    signals: list = dataclasses.field(default_factory=list)
    waits: list = dataclasses.field(default_factory=list)
    errors: list = dataclasses.field(default_factory=list)
    stalls_am: int = 0
    stalls_vector: int = 0
    stalls_weights: int = 0


def run_unit(
    config: Config,
    commands: list[Instruction],
    am: bytes,
    wm: bytes,
    *,
    seed: int | None = None,
    before: tuple[list[Instruction], int] = ([], 0),
    streamed_words: int = 0,
    limit: int = 20000,
) -> Run:
    """Executes `commands` until the unit is idle or reports an error; with a `seed`, grants, commands, tokens
    and the taker of the vectors come with random delays. `before`: commands that run until a reset in the given
    cycle; the result tells what came after that. `streamed_words` words of weights are loaded meanwhile."""
    unit, reset, simulator = kept_simulator(ArrayUnit, config)
    dice, run = random.Random(seed), Run()
    words = [int.from_bytes(encode(command), "little") for command in commands]
    words_before = [int.from_bytes(encode(command), "little") for command in before[0]]
    width = config.columns

    def lucky(odds: float) -> int:
        return int(seed is None or dice.random() < odds)

    async def bench(ctx):
        ctx.set(unit.am.grant, 1)
        ctx.set(unit.tokens.ok, 1)
        for cycle in range(before[1]):
            ctx.set(unit.accumulators.ready, dice.random() < 0.5)
            ctx.set(unit.streamed_word, 1)
            ctx.set(unit.commands.valid, len(words_before) > 0)
            ctx.set(unit.commands.payload, words_before[0] if words_before else 0)
            ctx.set(reset, cycle == before[1] - 1)
            if words_before and ctx.get(unit.commands.ready):
                words_before.pop(0)
            await ctx.tick()
        ctx.set(reset, 0)
        am_data, second_data, wm_data = [None, None], [None, None], [None, None]
        parts = config.most_row_parts - 1
        part_data = [[None, None] for _ in range(parts)]
        sent, offered, words_left = 0, 0, streamed_words
        prepared = 0, 0, 0
        grants, takes, sends = (dice.choice([0.1, 0.5, 0.9, 1.0]) for _ in range(3))
        while run.cycles < limit:
            if sent == len(words) and not ctx.get(unit.status.busy):
                return
            offered = sent < len(words) and (offered or lucky(sends))
            ctx.set(unit.commands.valid, offered)
            ctx.set(unit.commands.payload, words[sent] if offered else dice.getrandbits(128))
            ctx.set(unit.accumulators.ready, lucky(takes))
            ctx.set(unit.am.grant, lucky(grants))
            ctx.set(unit.tokens.ok, lucky(0.5))
            word_comes = int(words_left > 0 and lucky(takes))
            words_left -= word_comes
            ctx.set(unit.streamed_word, word_comes)
            for port, data in (
                (unit.am.data, am_data),
                (unit.am.second_data, second_data),
                (unit.wm.data, wm_data),
            ):
                word = data.pop(0)
                ctx.set(port, dice.getrandbits(8 * width) if word is None else word)

            held = 0
            for number, data in enumerate(part_data):
                word = data.pop(0)
                held |= (dice.getrandbits(8 * width) if word is None else word) << 8 * width * number
                data.append(None)
            ctx.set(unit.wm.part_data, held)
            am_data.append(None)
            second_data.append(None)
            if ctx.get(unit.am.request) and ctx.get(unit.am.grant):
                start, paired, second = prepared
                run.reads.append(start % config.am_bytes)
                raw = bytes(am[(start + i) % config.am_bytes] for i in range(width))
                am_data[-1] = int.from_bytes(raw, "little")
                if paired:
                    raw = bytes(am[(second + i) % config.am_bytes] for i in range(width))
                    second_data[-1] = int.from_bytes(raw, "little")
            if ctx.get(unit.am.prepare):
                prepared = tuple(ctx.get(s) for s in (unit.am.address, unit.am.paired, unit.am.second))
            wm_data.append(None)
            if ctx.get(unit.wm.enable):
                word = ctx.get(unit.wm.address) % config.wm_words
                run.weight_reads.append(word)
                wm_data[-1] = int.from_bytes(wm[word * width :][:width], "little")
            enables, addresses = ctx.get(unit.wm.part_enable), ctx.get(unit.wm.part_address)
            read_together = [run.weight_reads[-1]] if wm_data[-1] is not None else []
            for number, data in enumerate(part_data):
                if enables >> number & 1:
                    bits = len(unit.wm.address)
                    word = (addresses >> bits * number) % (1 << bits) % config.wm_words
                    run.part_reads.append(word)
                    read_together.append(word)
                    data[-1] = int.from_bytes(wm[word * width :][:width], "little")
            banks = [
                word // max(1, config.divided_rows // config.most_row_parts) % config.most_row_parts
                for word in read_together
            ]
            assert len(set(banks)) == len(banks), "two words of a bank in a cycle"
            if ctx.get(unit.tokens.signal):
                signal = ctx.get(unit.tokens.signal_semaphore), ctx.get(unit.tokens.signal_count)
                run.signals.append((*signal, len(run.reads), len(run.weight_reads)))
            if ctx.get(unit.tokens.wait) and ctx.get(unit.tokens.ok):
                run.waits.append((ctx.get(unit.tokens.semaphore), ctx.get(unit.tokens.count)))
            if ctx.get(unit.commands.ready) and offered:
                sent, offered = sent + 1, 0
                run.taken_cycles.append(run.cycles)
            if ctx.get(unit.accumulators.valid) and ctx.get(unit.accumulators.ready):
                raw = ctx.get(unit.accumulators.payload.as_value())
                lanes = [raw >> (32 * c) & 0xFFFFFFFF for c in range(width)]
                run.vectors.append([lane - (lane >> 31 << 32) for lane in lanes])
                run.vector_cycles.append(run.cycles)
            if ctx.get(unit.active):
                run.active_cycles.append(run.cycles)
            run.stalls_am += ctx.get(unit.stall_am)
            run.stalls_vector += ctx.get(unit.stall_vector)
            run.stalls_weights += ctx.get(unit.stall_weights)
            if ctx.get(unit.status.error):
                run.errors.append(ctx.get(unit.status.code))
            await ctx.tick()
            run.cycles += 1
        raise AssertionError(f"the unit is still busy after {limit} cycles")

    simulator.run(bench)
    return run
