"""The array's two modes as docs/timing.md states them, one scalar at a time."""

import itertools

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode


def wrap32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class Reference:
    """Executes ARRAY instructions one after the other.

    `vectors`: what goes to the vector unit. `reads`: AM addresses of the words read, in order (words outside
    the image are not read). `weight_reads`: words of WM read, in order. `signals`: (semaphore, count, reads
    and weight_reads made before it). `streamed_words`: how many of the weights read wait for their load.
    """

    def __init__(self, config: Config, am: bytes, wm: bytes):
        self.config, self.am, self.wm = config, am, wm
        self.vectors: list[list[int]] = []
        self.reads: list[int] = []
        self.weight_reads: list[int] = []
        self.streamed_words = 0
        self.signals: list[tuple[int, int, int, int]] = []
        self.configuration: dict[Opcode, Instruction] = {}
        self.accumulators = [[0] * config.columns for _ in range(config.rows)]
        self.partial_sums: dict[int, list[int]] = {}

    def execute(self, instruction: Instruction) -> None:
        match instruction.opcode:
            case Opcode.ARRAY_GO:
                self._convolution(instruction)
            case Opcode.ARRAY_DEPTHWISE_GO:
                self._depthwise(instruction)
            case Opcode.ARRAY_SIGNAL:
                reads = len(self.reads), len(self.weight_reads)
                self.signals.append((instruction.semaphore, instruction.count, *reads))
            case Opcode.ARRAY_WAIT:
                pass
            case opcode:
                self.configuration[opcode] = instruction

    def _word(self, address: int, iy: int, xb: int) -> list[int]:
        """W operands of image row `iy` from byte `xb` on."""
        image = self.configuration[Opcode.ARRAY_INPUT]
        if not 0 <= iy < image.height or not -self.config.columns < xb < image.row_bytes:
            return [0] * self.config.columns
        address %= self.config.am_bytes
        self.reads.append(address)
        operands = []
        for j in range(self.config.columns):
            byte = self.am[(address + j) % self.config.am_bytes]
            if not image.unsigned_input and byte > 127:
                byte -= 256
            operands.append(byte - image.input_zp if 0 <= xb + j < image.row_bytes else 0)
        return operands

    def _weights(self, word: int) -> list[int]:
        word %= self.config.wm_words
        self.weight_reads.append(word)
        raw = self.wm[word * self.config.columns :][: self.config.columns]
        zp = self.configuration[Opcode.ARRAY_INPUT].weight_zp
        return [(byte - 256 if byte > 127 else byte) - zp for byte in raw]

    def _pixel(self, p: int) -> tuple[int, int, int]:
        """address, iy and xb of pixel p's window."""
        image, window = self.configuration[Opcode.ARRAY_INPUT], self.configuration[Opcode.ARRAY_WINDOW]
        py, px = divmod(p, window.width)
        return (
            image.address + py * window.y_step_bytes + px * window.x_step,
            window.y_start + py * window.y_step,
            window.x_start + px * window.x_step,
        )

    def _convolution(self, go: Instruction) -> None:
        rows, columns = self.config.rows, self.config.columns
        kernel = self.configuration[Opcode.ARRAY_KERNEL]
        depth = kernel.ky_count * kernel.run_count * kernel.chunks * columns
        for block, first in itertools.product(range(1 + go.more_blocks), range(0, go.pixels, rows)):
            self.streamed_words += depth if go.streamed and first == 0 else 0
            tile = range(first, min(first + rows, go.pixels))
            if not go.accumulate:
                self.accumulators = [[0] * columns for _ in range(rows)]
            step = 0
            for ky in range(kernel.ky_count):
                for run in range(kernel.run_count):
                    for chunk in range(kernel.chunks):
                        first_word = go.weights + block * depth + step * columns
                        weights = [self._weights(first_word + j) for j in range(columns)]
                        for row, p in enumerate(tile):
                            address, iy, xb = self._pixel(p)
                            offset = run * kernel.run_step + chunk * columns
                            operands = self._word(
                                address + ky * kernel.ky_step_bytes + offset,
                                iy + ky * kernel.ky_step,
                                xb + offset,
                            )
                            for j, operand in enumerate(operands):
                                for c in range(columns):
                                    self.accumulators[row][c] += operand * weights[j][c]
                        step += 1
            self.accumulators = [[wrap32(sum_) for sum_ in row] for row in self.accumulators]
            if go.drain:
                self.vectors += [list(self.accumulators[row]) for row in range(len(tile))]

    def _depthwise(self, go: Instruction) -> None:
        rows, columns = self.config.rows - go.idle_rows, self.config.columns
        shape = self.configuration[Opcode.ARRAY_DEPTHWISE]
        taps = [self._weights(go.weights + word) for word in range(rows)][::-1]
        streams: list[list[list[int]]] = [[], []]
        pitch = self.configuration[Opcode.ARRAY_WINDOW].y_step_bytes // 2
        for t in range(go.advances):
            address, iy, xb = self._pixel(t)
            if not shape.paired:
                streams[0].append(self._word(address, iy, xb))
                continue
            before = len(self.reads)
            for row, stream in enumerate(streams):
                stream.append(self._word(address + row * pitch, iy + row, xb))
            # Both words are one read, at the first one's address, when either is inside.
            if len(self.reads) > before:
                self.reads[before:] = [address % self.config.am_bytes]
        positions = [
            shape.skip + rows - 1 + shape.y_stride * oy * shape.line + shape.x_stride * ox
            for oy in range(shape.out_height)
            for ox in range(shape.out_width)
        ]
        for place, t in enumerate(t for t in positions if t < go.advances):
            place %= max(1, self.config.partial_sums)
            sums = list(self.partial_sums.get(place, [0] * columns)) if go.accumulate else [0] * columns
            for row in range(rows):
                group = min(row // go.group_rows, self.config.line_groups - 1)
                source, stream = t - (rows - 1 - row) - group * shape.delay, streams[0]
                if shape.paired:
                    # Groups 1, 3: the pair's second row, group_rows less late.
                    stream = streams[group % 2]
                    turns = (group + 1) // 2
                    source = t - (rows - 1 - row) - turns * shape.delay + group % 2 * go.group_rows
                if source >= 0:
                    for c in range(columns):
                        sums[c] += taps[row][c] * stream[source][c]
            sums = [wrap32(value) for value in sums]
            if go.drain:
                self.vectors.append(sums)
            else:
                self.partial_sums[place] = sums
