"""Runs commands on the vector unit's RTL in Amaranth's simulator, with a model of the memory and random stalls."""

import dataclasses
import random

from kept_simulator import kept_simulator

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, encode
from tosaic.hw.vector import VectorUnit


@dataclasses.dataclass
class Run:
    """What happened: `events` are ("wait" | "signal", semaphore, count), ("mark", layer), ("test", value) and
    ("error", code), with the cycle of each in `event_cycles`; `issues`, `taken`: cycles in which a slot was issued and
    a command taken."""

    cycles: int
    events: list
    event_cycles: list
    issues: list
    taken: list
    stalls_array: int
    last_write: int | None = None


def run_unit(
    config: Config,
    commands: list[Instruction],
    memory: bytearray,
    array: list[list[int]] = (),
    *,
    seed: int | None = None,
    after_error: int = 0,
    limit: int = 20000,
) -> Run:
    """Executes `commands` on `memory` until the unit is idle, or `after_error` cycles after an error; with a `seed`,
    accumulators, commands and tokens come with random delays."""
    (unit, _, simulator), dice = kept_simulator(VectorUnit, config), random.Random(seed)
    run = Run(0, [], [], [], [], 0)
    words = [int.from_bytes(encode(command), "little") for command in commands]
    vectors = [sum((v & 0xFFFFFFFF) << (32 * i) for i, v in enumerate(vector)) for vector in array]

    def lucky(odds: float) -> int:
        return int(seed is None or dice.random() < odds)

    async def bench(ctx):
        pending, sent, taken, failed, after_error_left = [None, None], 0, 0, False, after_error
        commands_valid = array_valid = payload = 0
        gaps = dice.choice([0.3, 0.7, 1.0])
        read, written = 0, (0, 0, 0)  # as prepared
        ctx.set(unit.read.grant, 1)
        ctx.set(unit.write.grant, 1)
        while run.cycles < limit:
            array_valid = taken < len(vectors) and (array_valid or lucky(gaps))
            ctx.set(unit.commands.valid, commands_valid)
            ctx.set(unit.commands.payload, payload)
            ctx.set(unit.accumulators.valid, array_valid)
            ctx.set(unit.accumulators.payload.as_value(), vectors[taken] if array_valid else 0)
            ctx.set(unit.tokens.ok, lucky(0.5))
            address = pending.pop(0)
            data = dice.getrandbits(8 * config.columns) if address is None else address
            ctx.set(unit.read.data, data)

            happened = []
            if ctx.get(unit.read.request):
                raw = bytes(memory[(read + i) % config.am_bytes] for i in range(config.columns))
                pending.append(int.from_bytes(raw, "little"))
            else:
                pending.append(None)
            if ctx.get(unit.write.request):
                run.last_write = run.cycles
                start, mask, data = written
                for i in range(config.columns):
                    if mask >> i & 1:
                        memory[(start + i) % config.am_bytes] = data >> (8 * i) & 255
            if ctx.get(unit.read.prepare):
                read = ctx.get(unit.read.address)
            if ctx.get(unit.write.prepare):
                written = tuple(ctx.get(s) for s in (unit.write.address, unit.write.mask, unit.write.data))
            takes = ctx.get(unit.commands.ready) and commands_valid
            if takes:
                sent += 1
                run.taken.append(run.cycles)
            moves = takes or not commands_valid
            if moves:
                commands_valid = int(sent < len(words) and lucky(0.9))
                payload = words[sent] if commands_valid else dice.getrandbits(128)
            ctx.set(unit.lookahead.moves, moves)
            ctx.set(unit.lookahead.following, payload if moves else dice.getrandbits(128))
            if ctx.get(unit.accumulators.ready) and array_valid:
                taken, array_valid = taken + 1, 0
            if ctx.get(unit.active):
                run.issues.append(run.cycles)
            run.stalls_array += ctx.get(unit.stall_array)
            if ctx.get(unit.tokens.wait) and ctx.get(unit.tokens.ok):
                happened.append(("wait", ctx.get(unit.tokens.semaphore), ctx.get(unit.tokens.count)))
            if ctx.get(unit.tokens.signal):
                happened.append(
                    ("signal", ctx.get(unit.tokens.signal_semaphore), ctx.get(unit.tokens.signal_count))
                )
            if ctx.get(unit.tested):
                happened.append(("test", ctx.get(unit.test_value)))
            if ctx.get(unit.mark):
                happened.append(("mark", ctx.get(unit.mark_layer)))
            if ctx.get(unit.status.error):
                happened.append(("error", ctx.get(unit.status.code)))
            run.events += happened
            run.event_cycles += [run.cycles] * len(happened)
            idle = sent == len(words) and not ctx.get(unit.status.busy)
            await ctx.tick()
            run.cycles += 1
            failed = failed or bool(happened and happened[-1][0] == "error")
            if failed:
                after_error_left -= 1
            if idle or (failed and after_error_left < 0):
                return
        raise AssertionError(f"the unit is still busy after {limit} cycles")

    simulator.run(bench)
    return run
