"""VECTOR: micro-programs over batches of vectors, executed for many batches at once."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.hw.constants import BIAS_BYTES, MULTIPLIER_BYTES, NARROW_BIAS_BYTES, SCALE_BYTES
from tosaic.hw.isa import OFFSETS_MAX, STORE_STREAM, Element, Error, Instruction, Opcode, Source

from .alu import Value, VectorParameters
from .domain import micro_op
from .faults import Fault
from .hazards import AM, WM
from .known import unknown
from .micro_ops import (
    BIAS,
    BIG_TABLE,
    SCALE,
    TABLE,
    beats_of,
    check_index,
    check_uop,
    lanes_of,
    needs_bounds,
    uses,
)
from .state import CoreState, agreed
from .stored_lanes import LaneStores, carried_registers
from .streams import Accesses, Stream

GROUP_LANES = 1 << 15
"""Lanes computed at once: intermediate results then stay in the processor's cache."""
FEW_STRETCHES = 4
"""Stores of alternating widths are written width by width, where they do not overlap."""
ARRAY = "array"
"""The stream of vectors out of the array, beside the memory streams 0..3."""


class Vector:
    """Configuration, registers and execution of the vector unit."""

    def __init__(self, state: CoreState):
        config = state.config
        self._state, self._domain = state, state.domain
        self._uops: dict[int, Instruction] = {}
        self._bounds: dict[int, Instruction] = {}
        self._used: set[str] = set()
        """What a micro-op that was written uses: see `uses`. It must be `_loaded` before the next GO."""
        self._loaded: set[str] = set()
        self._streams = [Stream() for _ in range(STORE_STREAM + 1)]
        self._offsets = np.zeros((1, 0), np.int64)
        self._late: np.ndarray | None = None
        """Cells [samples, n, 4] of offsets that are no constants, and 0 in `_offsets`."""
        self._parameters = VectorParameters.empty(config.columns)
        self.defined_lanes: dict[int, int] = {}
        """Number of defined lanes of the registers that earlier GOs left: up to the last lane that they stored.
        Filled only where hazards are looked for; registers whose lanes are all defined are left out."""
        self.defined_slots: dict[int, int] = {}
        """Number of defined slots of the same registers, from slot 0 on; a register that is left out has all."""
        self._params: Instruction | None = None
        """The last VECTOR_PARAM; `_params_end` is the address behind the parameters loaded last."""
        self._params_end = 0
        self.flag = False
        """What the last VECTOR_TEST found."""
        self._registers = self._domain.registers(
            (config.vector_registers, state.samples, config.vector_slots, config.columns)
        )

    def configure(self, instruction: Instruction) -> None:
        """Take the configuration that the following GOs use."""
        match instruction.opcode:
            case Opcode.VECTOR_UOP:
                check_uop(instruction, self._state.config)
                self._uops[instruction.index] = instruction
                self._used |= uses(instruction)
            case Opcode.VECTOR_BOUNDS:
                check_index(instruction, self._state.config)
                self._bounds[instruction.index] = instruction
            case Opcode.VECTOR_STREAM:
                if instruction.element not in list(Element):
                    raise Fault(Error.ILLEGAL, f"no element type {instruction.element}")
                if Element(instruction.element).bytes > self._state.config.columns:
                    raise Fault(
                        Error.ILLEGAL, f"an element of type {instruction.element} is wider than a word"
                    )
                self._streams[instruction.stream].configure(instruction)
            case Opcode.VECTOR_DIMS:
                if instruction.pair > 2:
                    raise Fault(Error.ILLEGAL, f"a stream has dimension pairs 0..2, not {instruction.pair}")
                if not instruction.count_low or not instruction.count_high:
                    raise Fault(Error.ILLEGAL, "a dimension has at least 1 turn")
                self._streams[instruction.stream].configure(instruction)
            case Opcode.VECTOR_PARAM:
                self._load_parameters(instruction)
            case Opcode.VECTOR_TEST:
                self.flag = bool(agreed(self._domain.known(self._read(instruction.address, 1)) != 0)[0])
            case Opcode.VECTOR_TABLE:
                if instruction.entries not in (256, 512):
                    raise Fault(Error.ILLEGAL, f"a table has 256 or 512 entries, not {instruction.entries}")
                raw = self._common(instruction.address, 4 * instruction.entries)
                self._loaded |= {BIG_TABLE, TABLE} if instruction.entries == 512 else {TABLE}
                self._parameters.table[: instruction.entries] = raw.view("<i4")
            case Opcode.VECTOR_OFFSETS:
                if not 1 <= instruction.count <= OFFSETS_MAX:
                    raise Fault(Error.ILLEGAL, f"there are 1..{OFFSETS_MAX} offsets, not {instruction.count}")
                raw = self._read(instruction.address, 4 * instruction.count)
                self._offsets, self._late = self._domain.offsets(raw)

    def setup(self) -> tuple[Any, ...]:
        """All that the following GOs depend on but registers, to be compared; biases that are no constants differ from
        all others."""
        loaded, late = self._parameters, self._late
        arrays = [loaded.bias, loaded.multiplier, loaded.shift, loaded.table, self._offsets]
        return (
            (dict(self._uops), dict(self._bounds), copy.deepcopy(self._streams)),
            (frozenset(self._used), frozenset(self._loaded), self._params, self._params_end),
            [each.tobytes() if isinstance(each, np.ndarray) else object() for each in arrays],
            None if late is None else late.tobytes(),
        )

    def forget_registers(self) -> None:
        """What registers hold may be anything."""
        self._registers = self._domain.registers(self._registers.shape)

    def _load_parameters(self, instruction: Instruction) -> None:
        self._params_end, self._params = instruction.address, instruction
        self._loaded |= {name for name in (BIAS, SCALE) if instruction.fields[name]}
        self._load_next_parameters()

    def _load_next_parameters(self) -> None:
        """Does what the last VECTOR_PARAM did, with the parameters that follow those loaded last."""
        instruction = self._params
        if instruction is None:
            return
        columns, address = self._state.config.columns, self._params_end
        each = NARROW_BIAS_BYTES if instruction.narrow else BIAS_BYTES
        bias_bytes, scale_bytes = columns * each * instruction.bias, columns * SCALE_BYTES
        self._params_end += bias_bytes + scale_bytes * instruction.scale
        if instruction.bias:
            raw = self._read(address, bias_bytes)
            element = Element.INT16 if instruction.narrow else Element.INT32
            self._parameters.bias = agreed(self._domain.parameters(raw, element))
            address += bias_bytes
        if instruction.scale:
            raw = self._common(address, scale_bytes)
            multipliers = MULTIPLIER_BYTES * columns
            self._parameters.multiplier = raw[:multipliers].view("<i4").astype(np.int64)
            self._parameters.shift = (raw[multipliers:] & 63).astype(np.int64)

    def _common(self, address: int, size: int) -> np.ndarray:
        """uint8 [size] of the activation memory, which must be the same for all samples."""
        return agreed(self._domain.known(self._read(address, size))).copy()

    def _read(self, address: int, size: int) -> np.ndarray:
        """uint8 [samples, size]."""
        if self._state.hazards:
            self._state.hazards.read(AM, address + np.arange(size))
        return self._state.am.read(address, size)

    def go(self, go: Instruction) -> None:
        """Execute VECTOR_GO."""
        self._check_fields(go)
        self._check_set_up(go)
        _Run(self, go).execute(self._load_next_parameters)

    def _check_fields(self, go: Instruction) -> None:
        """Fault ILLEGAL where the GO's fields, or the streams, are wrong."""
        config = self._state.config
        indexed = [stream for stream in self._streams if stream.indexed]
        rules = {
            f"slots must be in 1..{config.vector_slots}": 1 <= go.slots <= config.vector_slots,
            f"uops must be in 1..{config.vector_uops}": 1 <= go.uops <= config.vector_uops,
            "body_start <= body_end <= uops must hold": go.body_start <= go.body_end <= go.uops,
            "vectors and repeats must be at least 1": go.vectors and go.repeats,
        }
        if indexed:
            there = self._offsets.shape[1]
            rules["only one stream may be indexed"] = len(indexed) == 1
            rules[
                f"dimension 1 of the indexed stream must have at most as many turns as there are offsets, {there}"
            ] = all(stream.counts[1] <= there for stream in indexed)
        for rule, holds in rules.items():
            if not holds:
                raise Fault(Error.ILLEGAL, rule)

    def _check_set_up(self, go: Instruction) -> None:
        """Fault ILLEGAL where the GO would execute what this program has not set up."""
        for index in range(go.uops):
            uop = self._uops.get(index)
            if uop is None:
                raise Fault(Error.ILLEGAL, f"micro-op {index} was never written")
            if index not in self._bounds and needs_bounds(uop):
                raise Fault(Error.ILLEGAL, f"micro-op {index} needs a VECTOR_BOUNDS, which was never written")
        if missing := self._used - self._loaded:
            raise Fault(Error.ILLEGAL, f"a micro-op uses {min(missing)}, which was never loaded")


class _Run:
    """One VECTOR_GO."""

    def __init__(self, vector: Vector, go: Instruction):
        self._state, self._domain, self._go = vector._state, vector._domain, go
        self._streams, self._offsets, self._late = vector._streams, vector._offsets, vector._late
        self._parameters, self._registers = vector._parameters, vector._registers
        self._program = [vector._uops[index] for index in range(go.uops)]
        self._bounds = vector._bounds
        config = self._state.config
        self._lanes = [beats_of(uop, go, self._streams, config).lanes for uop in self._program]
        """Lanes of each micro-op that write a register or memory."""
        body = range(go.body_start, go.body_end)
        self._sequence = [(index, 0) for index in range(go.body_start)]
        self._sequence += [(index, turn) for turn in range(go.repeats) for index in body]
        self._sequence += [(index, 0) for index in range(go.body_end, go.uops)]
        self._accesses: dict[int | str, int] = {}
        """Accesses of every stream per slot and batch."""
        for index, _ in self._sequence:
            for stream in _streams_used(self._program[index]):
                self._accesses[stream] = self._accesses.get(stream, 0) + 1
        vectors = self._accesses.get(ARRAY, 0) * go.vectors
        self._array = vector._state.accumulator_queue.pop(vectors)
        hazards = vector._state.hazards
        self._known_lanes = (
            vector._state.accumulator_queue.pop_lanes(vectors) if hazards and hazards.known else []
        )
        if vector._state.hazards:
            vector._state.hazards.taken(vectors)
        stores = self._accesses.get(STORE_STREAM, 0)
        self._stored = LaneStores(
            go, self._program, self._lanes, self._streams[STORE_STREAM], stores, config.columns
        )
        if vector._state.hazards:
            self._stored.follow(vector.defined_lanes, vector.defined_slots)
        self._stores: list[tuple[Accesses, np.ndarray, int]] = []
        """(accesses of n vectors, bytes [samples, n, those of W elements], lanes stored at the last turn of
        dimension 0) of stores; written at the end, no load of a GO may read them."""

    def execute(self, next_parameters: Callable[[], None]) -> None:
        """All batches; `next_parameters` before each but the first, if the GO says so."""
        go, columns = self._go, self._state.config.columns
        batches, tail = divmod(go.vectors, go.slots)
        group = (
            1
            if carried_registers(self._program)  # Then it depends on the batch before.
            else max(GROUP_LANES // (go.slots * columns * self._state.samples), 1)
        )
        if go.next_params:
            group = 1
        for first in range(0, batches, group):
            if go.next_params and first:
                next_parameters()
            self._run_batches(first, min(group, batches - first), go.slots)
        if tail:
            if go.next_params and batches:
                next_parameters()
            self._run_batches(batches, 1, tail)
        self._write_stores()

    def _run_batches(self, first: int, batches: int, slots: int) -> None:
        """Batches first..first+batches-1, of `slots` slots each, all micro-ops."""
        columns, bits = self._state.config.columns, self._state.config.vector_bits
        shape, limit = (self._state.samples, batches, slots, columns), 1 << (bits - 1)
        registers: dict[int, Value] = {}
        changed: set[int] = set()
        position = dict.fromkeys(self._accesses, 0)
        before = first * self._go.slots
        used = self._stored.of_slots(first, batches, slots) if self._state.hazards else None

        def accesses(stream: int | str) -> Accesses:
            """The next one of each slot to a stream."""
            per_slot, here = self._accesses[stream], position[stream]
            position[stream] = here + 1
            return Accesses(before * per_slot + here * slots, batches, slots, per_slot * slots)

        def register(index: int) -> Value:
            if index not in registers:
                registers[index] = Value(self._registers[index][:, None, :slots], limit)
            return registers[index]

        def operand(source: int, index: int, uop: Instruction, turn: int) -> Value:
            match source:
                case Source.NONE:
                    return self._domain.constant(0)
                case Source.REGISTER:
                    return register(index)
                case Source.LOAD:
                    return self._load(index, accesses(index), used)
                case Source.ARRAY:
                    return Value(self._from_array(accesses(ARRAY), used), 1 << 31)
                case Source.IMMEDIATE:
                    bounds = self._bounds.get(uop.index)
                    return self._domain.constant(bounds.immediate if bounds else 0)
                case Source.ITERATION:
                    return self._domain.constant(turn)
            raise AssertionError(f"unknown source {source}")

        for index, turn in self._sequence:
            uop = self._program[index]
            a = operand(uop.a_source, uop.a_index, uop, turn)
            b = operand(uop.b_source, uop.b_index, uop, turn)
            bounds = self._bounds.get(index)
            limits = (bounds.low, bounds.high) if bounds else (0, 0)
            y = micro_op(uop, limits, a, b, self._parameters, bits, self._domain)
            if uop.to_memory:
                lanes = y.lanes if y.lanes.shape == shape else np.broadcast_to(y.lanes, shape)
                self._store(accesses(STORE_STREAM), lanes, self._lanes[index])
            else:
                if self._lanes[index] < columns:
                    y = _first_lanes(y, self._lanes[index], register(uop.destination), shape)
                registers[uop.destination] = y
                changed.add(uop.destination)
        # What stays may be a view of what changes.
        last = {number: np.broadcast_to(registers[number].lanes, shape)[:, -1].copy() for number in changed}
        for number, lanes in last.items():
            self._registers[number, :, :slots] = lanes

    def _from_array(self, accesses: Accesses, used_lanes: np.ndarray | None) -> Any:
        """int64 [samples, batches, slots, W]; `used_lanes` as of `_load`."""
        if used_lanes is not None and self._known_lanes:
            for number, used in zip(accesses.numbers.ravel().tolist(), used_lanes.ravel(), strict=True):
                lane, byte = self._known_lanes[number]
                if used > lane:
                    raise unknown(WM, byte, f"uses lane {lane} of the array's vectors: for it the array ")
        first, batches, slots, _ = accesses
        if self._accesses[ARRAY] == 1:
            # They follow each other.
            taken = self._array[:, first : first + batches * slots].reshape(
                -1, batches, slots, self._array.shape[-1]
            )
        else:
            taken = self._array[:, accesses.numbers]
        return taken.astype(np.int64)

    def _load(self, index: int, accesses: Accesses, used_lanes: np.ndarray | None) -> Value:
        """`used_lanes` [batches, slots]: where hazards are looked for, the lanes that are stored."""
        stream = self._streams[index]
        columns = self._state.config.columns
        addresses = stream.addresses(accesses, self._offsets)
        if self._state.hazards and used_lanes is not None:
            size = stream.element.bytes
            used = np.ones_like(used_lanes) if stream.splat else used_lanes
            places = addresses[..., None] + np.arange(columns * size)
            self._state.hazards.read(AM, places[..., np.arange(columns * size) < size * used[..., None]])
        words = 1 if stream.splat else stream.element.bytes
        starts = addresses[..., None] if words == 1 else addresses[..., None] + columns * np.arange(words)
        if stream.indexed and self._late is not None:
            offsets = self._late[:, stream.turns(accesses)]
            used_bytes = min(lanes_of(self._go, columns) * stream.element.bytes, words * columns)
            data = self._domain.looked_up(offsets, functools.partial(self._words, starts), used_bytes)
        else:
            data = self._words(starts, 0)
        # A splat's one lane stands for all.
        value = self._domain.load(data[..., : stream.element.bytes] if stream.splat else data, stream.element)
        return self._domain.wrap(value, self._state.config.vector_bits)

    def _words(self, starts: np.ndarray, offset: int) -> np.ndarray:
        """Cells [samples, batches, slots, bytes] of words from addresses [1 or samples, batches, slots, words] on,
        moved by an offset."""
        data = self._state.am.read_words(starts + offset if offset else starts)
        return data.reshape(len(data), *starts.shape[1:3], -1)

    def _store(self, accesses: Accesses, lanes: Any, lanes_stored: int) -> None:
        stored = self._domain.store(lanes, self._streams[STORE_STREAM].element)
        stored = stored.reshape(self._state.samples, accesses.batches * accesses.slots, -1)
        self._stores.append((accesses, stored, min(self._go.tail_lanes, lanes_stored)))

    def _write_stores(self) -> None:
        if not self._stores:
            return
        stream = self._streams[STORE_STREAM]
        lanes = min(self._go.lanes, self._state.config.columns)
        late = stream.indexed and self._late is not None
        one_width = self._accesses[STORE_STREAM] == 1 and lanes == self._stores[0][2]
        if one_width and not self._state.hazards and not late:
            # One after the other, all as wide.
            width = lanes * stream.element.bytes
            for accesses, data, _ in self._stores:
                self._state.am.write(self._places(accesses), data[:, :, :width])
            return
        parts = tuple(zip(*self._stores, strict=True))
        numbers = np.concatenate([accesses.numbers.ravel() for accesses in parts[0]])
        starts = np.concatenate([self._places(accesses) for accesses in parts[0]], axis=1)
        tail_lanes = np.repeat(parts[2], [accesses.batches * accesses.slots for accesses in parts[0]])
        data = parts[1][0] if len(self._stores) == 1 else np.concatenate(parts[1], axis=1)
        if (np.diff(numbers) < 0).any():
            order = np.argsort(numbers)
            numbers, starts, data, tail_lanes = (
                numbers[order],
                starts[:, order],
                data[:, order],
                tail_lanes[order],
            )
        stored = np.where(stream.at_last_turn(numbers), tail_lanes, lanes) * stream.element.bytes
        if late:
            assert self._late is not None
            turns = numbers // stream.counts[0] % stream.counts[1]
            self._write_late(self._late[:, turns], starts[0], data, stored)
            return
        if self._state.hazards:
            places = starts[0, :, None] + np.arange(stored.max())
            self._state.hazards.write(AM, places[np.arange(stored.max()) < stored[:, None]])
        # Stretches of stores of one width: what overlaps must be written in its order.
        ends = [*(np.flatnonzero(np.diff(stored)) + 1), len(stored)]
        if len(ends) > FEW_STRETCHES and _apart(starts, int(stored.max()), self._state.am.size_bytes):
            for width in np.unique(stored):
                own = stored == width
                self._state.am.write(starts[:, own], data[:, own, :width])
            return
        first = 0
        for end in ends:
            width = stored[first]
            self._state.am.write(starts[:, first:end], data[:, first:end, :width])
            first = end

    def _write_late(
        self, offsets: np.ndarray, starts: np.ndarray, data: np.ndarray, stored: np.ndarray
    ) -> None:
        """Writes data [samples, n, bytes], of each the bytes `stored` [n], one after the other, to addresses [n] moved
        by offsets that are no constants, in cells [samples, n, 4]."""
        am = self._state.am
        for number, (start, width) in enumerate(zip(starts.tolist(), stored.tolist(), strict=True)):

            def read(offset: int, start: int = start, width: int = width) -> np.ndarray:
                return am.read(start + offset, width)

            places, cells = self._domain.placed(offsets[:, number], read, data[:, number, :width])
            am.write(start + places[None], cells)

    def _places(self, accesses: Accesses) -> np.ndarray:
        """Byte addresses [1 or samples, n] of stores."""
        stream = self._streams[STORE_STREAM]
        starts = stream.addresses(accesses, self._offsets)
        return starts.reshape(len(starts), -1)


def _apart(starts: np.ndarray, width: int, memory_bytes: int) -> bool:
    """Whether no two stores of up to `width` bytes from `starts` on [1 or samples, n] overlap in the memory, at whose
    end addresses wrap."""
    places = np.sort(starts % memory_bytes, axis=1)
    gaps = np.diff(places, axis=1, append=places[:, :1] + memory_bytes)
    return bool((gaps >= width).all())


def _first_lanes(value: Value, lanes: int, before: Value, shape: tuple[int, ...]) -> Value:
    """The first `lanes` lanes of a value, and the others of what was there before."""
    merged = np.broadcast_to(before.lanes, shape).copy()
    merged[..., :lanes] = np.broadcast_to(value.lanes, shape)[..., :lanes]
    return Value(merged, max(value.bound, before.bound))


def _streams_used(uop: Instruction) -> list[int | str]:
    """The streams a micro-op moves, once per access."""
    used: list[int | str] = []
    for source, index in ((uop.a_source, uop.a_index), (uop.b_source, uop.b_index)):
        if source == Source.LOAD:
            used.append(index)
        elif source == Source.ARRAY:
            used.append(ARRAY)
    if uop.to_memory:
        used.append(STORE_STREAM)
    return used
