"""The vector unit as docs/timing.md and isa.py put it: one slot after the other, one lane after the other."""

import itertools

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, STREAM_DIMS, Element, Instruction, Op, Opcode, Source


def wrap(value: int, bits: int) -> int:
    """Two's complement of `bits` bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def operation(op: Op, x: int, b: int, uop: Instruction, multiplier: int, shift: int, table: list[int]) -> int:
    """op(x, B) before out_zp; `multiplier` and `shift` are those of RESCALE."""
    count = b & 63
    match op:
        case Op.MOV:
            return x
        case Op.ADD:
            return x + b
        case Op.SUB:
            return x - b
        case Op.MUL:
            product = wrap(x * wrap(b, 32), 64)
            return (product + (1 << (uop.shift - 1))) >> uop.shift if uop.shift else product
        case Op.RESCALE:
            product = wrap(x * multiplier, 64)
            if uop.round and shift > 31:
                product = wrap(product + ((1 << 30) if x >= 0 else -(1 << 30)), 64)
            if shift:
                product = (product + (1 << (shift - 1))) >> shift
            return product + b
        case Op.MAX:
            return max(x, b)
        case Op.MIN:
            return min(x, b)
        case Op.AND:
            return x & b
        case Op.OR:
            return x | b
        case Op.XOR:
            return x ^ b
        case Op.ABS:
            return abs(x)
        case Op.CLZ:
            return 32 - (x & 0xFFFFFFFF).bit_length()
        case Op.LSL:
            return x << count if count < 32 else 0
        case Op.LSR:
            return (x & 0xFFFFFFFF) >> count if count < 32 else 0
        case Op.ASR:
            return (x >> count) + (x >> (count - 1) & 1 if uop.round and count else 0)
        case Op.EQ:
            return int(x == b)
        case Op.GT:
            return int(x > b)
        case Op.GE:
            return int(x >= b)
        case Op.TABLE8:
            return wrap(table[(x + 128) & 255], 16)
        case Op.TABLE16:
            entry = table[((x + 32768) >> 7) & 511]
            low, high = wrap(entry, 16), wrap(entry >> 16, 16)
            return (low << 7) + (high - low) * (x & 127)


class Stream:
    """A memory stream: configuration and the walk of one GO."""

    def __init__(self) -> None:
        self.address, self.element, self.splat, self.indexed = 0, Element.INT8, 0, 0
        self.counts, self.strides = [1] * STREAM_DIMS, [0] * STREAM_DIMS
        self.restart()

    def restart(self) -> None:
        turns = [range(count) for count in reversed(self.counts)]
        self._walk = itertools.cycle(list(itertools.product(*turns)))

    def step(self, offsets: list[int]) -> tuple[int, bool]:
        """(address, dimension 0 is at its last turn) of the next access."""
        indices = next(self._walk)[::-1]
        address = self.address + sum(i * stride for i, stride in zip(indices, self.strides, strict=True))
        if self.indexed:
            address += offsets[indices[1]]
        return address, indices[0] == self.counts[0] - 1


class Reference:
    """Executes commands on `memory` (am_bytes); `array` holds the accumulators to come."""

    def __init__(self, config: Config, memory: bytearray, array: list[list[int]]):
        self.config, self.memory, self.array = config, memory, list(array)
        self.streams = [Stream() for _ in range(STORE_STREAM + 1)]
        self.uops, self.bounds = {}, {}
        lanes = config.columns
        self.registers = [
            [[0] * lanes for _ in range(config.vector_slots)] for _ in range(config.vector_registers)
        ]
        self.bias, self.multiplier, self.shift = [0] * lanes, [0] * lanes, [0] * lanes
        self.params = (0, 0, 0)
        self.table, self.offsets = [0] * 512, []
        self.events = []

    def read(self, address: int, count: int, signed: bool) -> int:
        raw = bytes(self.memory[(address + i) % self.config.am_bytes] for i in range(count))
        return int.from_bytes(raw, "little", signed=signed)

    def execute(self, command: Instruction) -> None:
        match command.opcode:
            case Opcode.VECTOR_UOP:
                self.uops[command.index] = command
            case Opcode.VECTOR_BOUNDS:
                self.bounds[command.index] = command
            case Opcode.VECTOR_STREAM:
                stream = self.streams[command.stream]
                stream.address, stream.element = command.address, Element(command.element)
                stream.splat, stream.indexed = command.splat, command.indexed
            case Opcode.VECTOR_DIMS:
                stream, dim = self.streams[command.stream], 2 * command.pair
                stream.counts[dim : dim + 2] = [command.count_low, command.count_high]
                stream.strides[dim : dim + 2] = [command.stride_low, command.stride_high]
            case Opcode.VECTOR_PARAM:
                self.params = (command.address, command.bias and (2 if command.narrow else 4), command.scale)
                self.next_params()
            case Opcode.VECTOR_TABLE:
                for i in range(command.entries):
                    self.table[i] = self.read(command.address + 4 * i, 4, True)
            case Opcode.VECTOR_OFFSETS:
                self.offsets = [self.read(command.address + 4 * i, 4, True) for i in range(command.count)]
            case Opcode.VECTOR_GO:
                self.go(command)
            case Opcode.VECTOR_MARK:
                self.events.append(("mark", command.layer))
            case Opcode.VECTOR_SIGNAL:
                self.events.append(("signal", command.semaphore, command.count))
            case Opcode.VECTOR_WAIT:
                self.events.append(("wait", command.semaphore, command.count))

    def next_params(self) -> None:
        """Does what the last VECTOR_PARAM did, with the parameters after those read last."""
        address, bias_bytes, scale = self.params
        lanes = self.config.columns
        if bias_bytes:
            self.bias = [self.read(address + bias_bytes * i, bias_bytes, True) for i in range(lanes)]
            address += bias_bytes * lanes
        if scale:
            self.multiplier = [self.read(address + 4 * i, 4, True) for i in range(lanes)]
            self.shift = [self.read(address + 4 * lanes + i, 1, False) & 63 for i in range(lanes)]
            address += 5 * lanes
        self.params = (address, bias_bytes, scale)

    def go(self, go: Instruction) -> None:
        for stream in self.streams:
            stream.restart()
        order = [(uop, 0) for uop in range(go.body_start)]
        order += [(uop, turn) for turn in range(go.repeats) for uop in range(go.body_start, go.body_end)]
        order += [(uop, 0) for uop in range(go.body_end, go.uops)]
        left = go.vectors
        while left:
            if go.next_params and left != go.vectors:
                self.next_params()
            slots = min(go.slots, left)
            left -= slots
            for index, turn in order:
                for slot in range(slots):
                    self.run(self.uops[index], self.bounds[index], slot, turn, go)

    def operand(self, source: int, index: int, bounds: Instruction, slot: int, turn: int) -> list[int]:
        lanes = self.config.columns
        match Source(source):
            case Source.NONE:
                return [0] * lanes
            case Source.REGISTER:
                return self.registers[index][slot]
            case Source.ARRAY:
                return self.array.pop(0)
            case Source.IMMEDIATE:
                return [bounds.immediate] * lanes
            case Source.ITERATION:
                return [turn] * lanes
        stream = self.streams[index]
        address, _ = stream.step(self.offsets)
        size, signed = stream.element.bytes, stream.element not in (Element.UINT8, Element.UINT16)
        bits = self.config.vector_bits
        if stream.splat:
            return [wrap(self.read(address, size, signed), bits)] * lanes
        return [wrap(self.read(address + size * i, size, signed), bits) for i in range(lanes)]

    def lanes_in_beats(self, uop: Instruction, go: Instruction) -> int:
        """The lanes of the groups that have a beat."""
        sizes, columns = [self.config.lane_columns], self.config.columns
        for source, index in ((uop.a_source, uop.a_index), (uop.b_source, uop.b_index)):
            if source == Source.LOAD and not self.streams[index].splat:
                sizes.append(self.streams[index].element.bytes)
        if uop.to_memory:
            sizes.append(self.streams[STORE_STREAM].element.bytes)
        group, lanes = columns // max(sizes), 0
        while lanes < (go.lanes if 1 <= go.lanes <= columns else columns):
            lanes += group
        return lanes

    def run(self, uop: Instruction, bounds: Instruction, slot: int, turn: int, go: Instruction) -> None:
        a = self.operand(uop.a_source, uop.a_index, bounds, slot, turn)
        b = self.operand(uop.b_source, uop.b_index, bounds, slot, turn)
        bits, result = self.config.vector_bits, []
        for i in range(self.config.columns):
            x = wrap(a[i] - uop.a_zp + (self.bias[i] if uop.bias else 0), bits)
            multiplier = self.multiplier[i] if uop.per_channel else uop.multiplier
            shift = self.shift[i] if uop.per_channel else uop.shift
            y = operation(Op(uop.op), x, b[i], uop, multiplier, shift, self.table)
            y = wrap(y + uop.out_zp, bits)
            if uop.clamp:
                y = bounds.low if y < bounds.low else min(y, bounds.high)
            result.append(wrap(y, 32) if uop.wrap32 else y)
        if not uop.to_memory:
            done = self.lanes_in_beats(uop, go)
            before = self.registers[uop.destination][slot]
            self.registers[uop.destination][slot] = result[:done] + before[done:]
            return
        stream = self.streams[STORE_STREAM]
        address, last = stream.step(self.offsets)
        size = stream.element.bytes
        for i in range(min(go.tail_lanes if last else go.lanes, self.lanes_in_beats(uop, go))):
            for byte in range(size):
                place = (address + size * i + byte) % self.config.am_bytes
                self.memory[place] = result[i] >> (8 * byte) & 255
