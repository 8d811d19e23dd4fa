"""docs/timing.md in scalar loops over Python integers: slow and independent of the emulator."""

from tosaic.hw.config import Config
from tosaic.hw.isa import Element, Instruction, Op, Opcode, Source, decode


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class ScalarMachine:
    def __init__(self, config: Config, memory: bytearray):
        self.config, self.memory = config, memory
        self.am, self.wm = bytearray(config.am_bytes), bytearray(config.wm_bytes)
        self.setup: dict[Opcode, Instruction] = {}
        self.accumulators = [[0] * config.columns for _ in range(config.rows)]
        self.partial_sums = [[0] * config.columns for _ in range(config.partial_sums)]
        self.queue: list[list[int]] = []
        self.uops: dict[int, Instruction] = {}
        self.bounds: dict[int, Instruction] = {}
        self.streams = [{"address": 0, "element": Element.INT8, "splat": 0} for _ in range(4)]
        self.dims = [[(1, 0)] * 6 for _ in range(4)]
        lanes = range(config.columns)
        self.bias, self.multiplier, self.shift = ([0 for _ in lanes] for _ in range(3))
        self.table = [0] * 512
        self.flag = False
        slots = range(config.vector_slots)
        self.registers = [[[0 for _ in lanes] for _ in slots] for _ in range(config.vector_registers)]

    def run(self, address):
        start = address
        while True:
            instruction = decode(bytes(self.memory[address : address + 16]))
            address += 16
            if instruction.opcode == Opcode.BRANCH:
                if (True, not self.flag, self.flag, False)[instruction.condition]:
                    address = start + instruction.target
                continue
            if instruction.opcode == Opcode.END:
                return
            getattr(self, instruction.opcode.name.lower(), self.other)(instruction)

    def other(self, instruction):
        self.setup[instruction.opcode] = instruction

    # Transfers

    def copy_rows(self, go, pitch):
        for row in range(go.rows):
            outside = go.memory_address + row * (pitch.memory_pitch if pitch else 0)
            inside = go.local_address + row * (pitch.local_pitch if pitch else 0)
            for byte in range(go.row_bytes):
                yield outside + byte, inside + byte

    def load_go(self, go):
        target = self.wm if go.space else self.am
        for outside, inside in self.copy_rows(go, self.setup.get(Opcode.LOAD_PITCH)):
            target[inside % len(target)] = self.memory[outside]

    def store_go(self, go):
        for outside, inside in self.copy_rows(go, self.setup.get(Opcode.STORE_PITCH)):
            self.memory[outside] = self.am[inside % len(self.am)]

    # Array

    def operand(self, pixel, ky, run, chunk, lane, second=0):
        source, window = self.setup[Opcode.ARRAY_INPUT], self.setup[Opcode.ARRAY_WINDOW]
        kernel = self.setup.get(Opcode.ARRAY_KERNEL)
        names = ("ky_step", "ky_step_bytes", "run_step")
        ky_step, ky_bytes, run_step = (getattr(kernel, name) if kernel else 0 for name in names)
        py, px = pixel // window.width, pixel % window.width
        step = run * run_step + chunk * self.config.columns
        iy = window.y_start + py * window.y_step + ky * ky_step
        xb = window.x_start + px * window.x_step + step
        address = source.address + py * window.y_step_bytes + px * window.x_step + ky * ky_bytes + step
        if second:
            iy, address = iy + 1, address + window.y_step_bytes // 2
        if not (0 <= iy < source.height and 0 <= xb + lane < source.row_bytes):
            return 0
        byte = self.am[(address + lane) % len(self.am)]
        return (byte if source.unsigned_input else signed(byte, 8)) - source.input_zp

    def weight(self, word, lane):
        byte = self.wm[(word * self.config.columns + lane) % len(self.wm)]
        return signed(byte, 8) - self.setup[Opcode.ARRAY_INPUT].weight_zp

    def array_go(self, go):
        kernel, columns = self.setup[Opcode.ARRAY_KERNEL], self.config.columns
        depth = kernel.ky_count * kernel.run_count * kernel.chunks * columns
        for block in range(1 + go.more_blocks):
            self.array_block(go, go.weights + block * depth)

    def array_block(self, go, weights):
        kernel, columns = self.setup[Opcode.ARRAY_KERNEL], self.config.columns
        for pixel in range(go.pixels):
            row = pixel % self.config.rows
            sums = list(self.accumulators[row]) if go.accumulate else [0] * columns
            step = 0
            for ky in range(kernel.ky_count):
                for run in range(kernel.run_count):
                    for chunk in range(kernel.chunks):
                        for j in range(columns):
                            a = self.operand(pixel, ky, run, chunk, j)
                            for c in range(columns if a else 0):
                                sums[c] += a * self.weight(weights + step * columns + j, c)
                        step += 1
            self.accumulators[row] = [signed(s, 32) for s in sums]
            if go.drain:
                self.queue.append(self.accumulators[row])

    def array_depthwise_go(self, go):
        config, depthwise = self.config, self.setup[Opcode.ARRAY_DEPTHWISE]
        rows = config.rows - go.idle_rows
        saved = self.setup.pop(Opcode.ARRAY_KERNEL, None)
        streams = [
            [[self.operand(t, 0, 0, 0, c, second) for c in range(config.columns)] for t in range(go.advances)]
            for second in range(1 + depthwise.paired)
        ]
        if saved:
            self.setup[Opcode.ARRAY_KERNEL] = saved
        place = -1
        for oy in range(depthwise.out_height):
            for ox in range(depthwise.out_width):
                t = oy * depthwise.y_stride * depthwise.line + ox * depthwise.x_stride
                t += depthwise.skip + rows - 1
                # The next line's outputs take the place of those behind a line's end; others come too late.
                if ox * depthwise.x_stride >= depthwise.line or t >= go.advances:
                    continue
                place = (place + 1) % max(1, config.partial_sums)
                sums = [*self.partial_sums[place]] if go.accumulate else [0] * config.columns
                for r in range(rows):
                    group = min(r // go.group_rows, config.line_groups - 1)
                    source, stream = t - (rows - 1 - r) - group * depthwise.delay, streams[0]
                    if depthwise.paired:
                        stream, late = streams[group % 2], group % 2
                        source = t - (rows - 1 - r) - (group + late) // 2 * depthwise.delay
                        source += late * go.group_rows
                    for c in range(config.columns if source >= 0 else 0):
                        sums[c] += self.weight(go.weights + rows - 1 - r, c) * stream[source][c]
                sums = [signed(s, 32) for s in sums]
                if go.drain:
                    self.queue.append(sums)
                else:
                    self.partial_sums[place] = sums

    # Vector unit

    def vector_uop(self, instruction):
        self.uops[instruction.index] = instruction

    def vector_bounds(self, instruction):
        self.bounds[instruction.index] = instruction

    def vector_stream(self, instruction):
        self.streams[instruction.stream] = dict(instruction.fields)

    def vector_dims(self, i):
        dims = self.dims[i.stream]
        dims[2 * i.pair], dims[2 * i.pair + 1] = (i.count_low, i.stride_low), (i.count_high, i.stride_high)

    def word(self, address, size, is_signed=True):
        value = sum(self.am[(address + k) % len(self.am)] << (8 * k) for k in range(size))
        return signed(value, 8 * size) if is_signed else value

    def vector_param(self, instruction):
        self.params, self.params_address = instruction, instruction.address
        self.next_params()

    def next_params(self):
        instruction, columns = self.params, self.config.columns
        address = self.params_address
        size = 2 if instruction.narrow else 4
        self.params_address += columns * (size * instruction.bias + 5 * instruction.scale)
        if instruction.bias:
            self.bias = [self.word(address + size * c, size) for c in range(columns)]
            address += size * columns
        if instruction.scale:
            self.multiplier = [self.word(address + 4 * c, 4) for c in range(columns)]
            self.shift = [self.word(address + 4 * columns + c, 1, False) for c in range(columns)]

    def vector_test(self, instruction):
        self.flag = self.am[instruction.address] != 0

    def vector_table(self, instruction):
        for entry in range(instruction.entries):
            self.table[entry] = self.word(instruction.address + 4 * entry, 4)

    def vector_offsets(self, instruction):
        self.offsets = [self.word(instruction.address + 4 * i, 4) for i in range(instruction.count)]

    def next_address(self, stream):
        """Address of the stream's next access, and whether dim 0 is at its last turn."""
        number, address = self.position[stream], self.streams[stream]["address"]
        self.position[stream] += 1
        last = number % self.dims[stream][0][0] == self.dims[stream][0][0] - 1
        for dim, (count, stride) in enumerate(self.dims[stream]):
            address += number % count * stride
            if dim == 1 and self.streams[stream].get("indexed"):
                address += self.offsets[number % count]
            number //= count
        return address, last

    def source(self, kind, index, uop, slot, turn):
        columns = self.config.columns
        match kind:
            case Source.REGISTER:
                return list(self.registers[index][slot])
            case Source.ARRAY:
                return self.queue.pop(0)
            case Source.IMMEDIATE:
                return [self.bounds[uop.index].immediate] * columns
            case Source.ITERATION:
                return [turn] * columns
            case Source.LOAD:
                element = Element(self.streams[index]["element"])
                address, _ = self.next_address(index)
                is_signed = element not in (Element.UINT8, Element.UINT16)
                size = element.bytes
                lanes = [self.word(address + size * i, size, is_signed) for i in range(columns)]
                lanes = [signed(lane, self.config.vector_bits) for lane in lanes]
                return lanes[:1] * columns if self.streams[index]["splat"] else lanes
        return [0] * columns

    def vector_go(self, go):
        self.position = [0] * 4
        body = range(go.body_start, go.body_end)
        sequence = [(k, 0) for k in range(go.body_start)]
        sequence += [(k, turn) for turn in range(go.repeats) for k in body]
        sequence += [(k, 0) for k in range(go.body_end, go.uops)]
        left = go.vectors
        while left:
            if go.next_params and left != go.vectors:
                self.next_params()
            slots = min(go.slots, left)
            left -= slots
            for index, turn in sequence:
                for slot in range(slots):
                    self.micro_op(go, self.uops[index], slot, turn)

    def micro_op(self, go, uop, slot, turn):
        a = self.source(uop.a_source, uop.a_index, uop, slot, turn)
        b = self.source(uop.b_source, uop.b_index, uop, slot, turn)
        y = [self.lane(uop, lane, a[lane], b[lane]) for lane in range(self.config.columns)]
        # The results beyond the GO's lanes are not defined: these programs do not store them.
        if not uop.to_memory:
            self.registers[uop.destination][slot] = y
            return
        address, last = self.next_address(3)
        size = Element(self.streams[3]["element"]).bytes
        for lane in range(go.tail_lanes if last else go.lanes):
            for byte in range(size):
                self.am[(address + lane * size + byte) % len(self.am)] = y[lane] >> (8 * byte) & 255

    def lane(self, uop, lane, a, b):
        bits = self.config.vector_bits
        x = signed(a - uop.a_zp + (self.bias[lane] if uop.bias else 0), bits)
        y = signed(self.operate(uop, lane, x, b) + uop.out_zp, bits)
        if uop.clamp:
            bounds = self.bounds[uop.index]
            y = min(max(y, bounds.low), bounds.high)
        return signed(y, 32) if uop.wrap32 else y

    def operate(self, uop, lane, x, b):
        count, low = b & 63, x & 0xFFFFFFFF
        match uop.op:
            case Op.MOV:
                return x
            case Op.ADD:
                return x + b
            case Op.SUB:
                return x - b
            case Op.MUL:
                product = signed(x * signed(b, 32), 64)
                return (product + (1 << (uop.shift - 1))) >> uop.shift if uop.shift else product
            case Op.RESCALE:
                multiplier = self.multiplier[lane] if uop.per_channel else uop.multiplier
                shift = self.shift[lane] if uop.per_channel else uop.shift
                product = signed(x * multiplier, 64)
                if uop.round and shift > 31:
                    product = signed(product + (1 << 30 if x >= 0 else -(1 << 30)), 64)
                # As of MUL: this sum does not wrap.
                return ((product + (1 << (shift - 1))) >> shift) + b
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
                return 32 - low.bit_length()
            case Op.LSL:
                return x << count if count < 32 else 0
            case Op.LSR:
                return low >> count if count < 32 else 0
            case Op.ASR:
                return (x >> count) + (x >> (count - 1) & 1 if uop.round and count else 0)
            case Op.EQ:
                return int(x == b)
            case Op.GT:
                return int(x > b)
            case Op.GE:
                return int(x >= b)
            case Op.TABLE8:
                return signed(self.table[(x + 128) & 255], 16)
            case Op.TABLE16:
                entry = self.table[(x + 32768) >> 7 & 511]
                value, following = signed(entry, 16), entry >> 16
                return (value << 7) + (following - value) * (x & 127)
        raise AssertionError(uop.op)
