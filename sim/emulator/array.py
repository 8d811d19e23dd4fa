"""ARRAY: convolution and matrix products (ARRAY_GO), tap-stationary depthwise (ARRAY_DEPTHWISE_GO)."""

import numpy as np

from tosaic.hw.isa import Error, Instruction, Opcode

from .faults import Fault
from .hazards import AM, WM
from .state import State

BLOCK_ELEMENTS = 1 << 21
"""Input operands gathered at once: bounds the memory a large GO needs."""

_SETUP = {
    Opcode.ARRAY_INPUT: "input",
    Opcode.ARRAY_WINDOW: "window",
    Opcode.ARRAY_KERNEL: "kernel",
    Opcode.ARRAY_DEPTHWISE: "depthwise",
}


class Array:
    """Configuration, accumulators and execution of the array."""

    def __init__(self, state: State):
        self._state = state
        self._setup: dict[str, Instruction] = {}
        self._accumulators: np.ndarray | None = None
        """int32 [rows, W] that the last ARRAY_GO left; None: there was none."""
        self._partial_sums = np.zeros((state.config.partial_sums, state.config.columns), np.int32)
        """What depthwise GOs hand on."""

    def configure(self, instruction: Instruction) -> None:
        """Take the configuration that the following GOs use."""
        self._setup[_SETUP[instruction.opcode]] = instruction

    def go(self, go: Instruction) -> None:
        """Execute ARRAY_GO."""
        kernel = self._get("kernel")
        rows, columns = self._state.config.rows, self._state.config.columns
        self._check_go(go, kernel)
        if self._accumulators is None:
            self._accumulators = np.zeros((rows, columns), np.int32)
        ky, run, chunk = (
            axis.ravel()
            for axis in np.meshgrid(
                np.arange(kernel.ky_count),
                np.arange(kernel.run_count),
                np.arange(kernel.chunks),
                indexing="ij",
            )
        )
        step_rows = ky * kernel.ky_step
        step_bytes = run * kernel.run_step + chunk * columns
        step_addresses = ky * kernel.ky_step_bytes + step_bytes
        depth = len(ky) * columns
        if go.streamed:
            self._take_streamed(go, depth * (1 + go.more_blocks))
        weights = self._weights(go.weights, depth, bool(go.streamed))
        if go.more_blocks:
            operands = self._gather(np.arange(go.pixels), step_rows, step_bytes, step_addresses)
            operands = operands.reshape(go.pixels, depth)
            for number in range(1 + go.more_blocks):
                words = self._weights(go.weights + number * depth, depth, bool(go.streamed))
                sums = (operands @ words).astype(np.int64).astype(np.int32)
                self._send(sums)
            self._accumulators[: len(sums)] = sums
            return
        block = max(BLOCK_ELEMENTS // depth // rows, 1) * rows
        for first in range(0, go.pixels, block):
            pixels = np.arange(first, min(first + block, go.pixels))
            operands = self._gather(pixels, step_rows, step_bytes, step_addresses)
            # Products are below 2**18, so that float64 sums of any depth that fits the memories are exact.
            sums = (operands.reshape(len(pixels), depth) @ weights).astype(np.int64).astype(np.int32)
            if go.accumulate:
                sums += self._accumulators[: len(sums)]
            if go.drain:
                self._send(sums)
            tail = sums[(len(sums) - 1) // rows * rows :]
            self._accumulators[: len(tail)] = tail

    def _check_go(self, go: Instruction, kernel: Instruction) -> None:
        """Fault ILLEGAL where the hardware finds ARRAY_GO, or what is set up for it, wrong."""
        rows = self._state.config.rows
        self._check_operands()
        if not go.pixels or not kernel.ky_count or not kernel.run_count or not kernel.chunks:
            raise Fault(Error.ILLEGAL, "pixels, ky_count, run_count and chunks must be at least 1")
        if go.pixels > rows and (go.accumulate or not go.drain):
            raise Fault(
                Error.ILLEGAL,
                f"{go.pixels} pixels are more than one tile of {rows}, which needs drain without accumulate",
            )
        if go.more_blocks and (go.pixels > rows or go.accumulate or not go.drain):
            raise Fault(
                Error.ILLEGAL, "several blocks need one tile of pixels, with drain and without accumulate"
            )
        if go.accumulate and self._accumulators is None:
            raise Fault(Error.ILLEGAL, "no ARRAY_GO came before it whose sums it could go on from")

    def depthwise_go(self, go: Instruction) -> None:
        """Execute ARRAY_DEPTHWISE_GO."""
        depthwise = self._get("depthwise")
        config = self._state.config
        self._check_operands()
        if not depthwise.line or not depthwise.x_stride or not depthwise.y_stride:
            raise Fault(Error.ILLEGAL, "line, x_stride and y_stride must be at least 1")
        if not 2 <= depthwise.delay <= config.line_pixels:
            raise Fault(Error.ILLEGAL, f"delay {depthwise.delay} must be in 2..{config.line_pixels}")
        if not go.group_rows or not go.advances:
            raise Fault(Error.ILLEGAL, "group_rows and advances must be at least 1")
        if (go.accumulate or not go.drain) and not config.partial_sums:
            raise Fault(Error.ILLEGAL, f"{config.name!r} has no partial sums to accumulate or to keep")
        if depthwise.paired:
            self._check_pairs(depthwise, go)
        # Step 1 is the pair's second row.
        second = np.arange(1 + depthwise.paired)
        pitch = self._get("window").y_step_bytes >> 1
        streams = self._gather(np.arange(go.advances), second, 0 * second, pitch * second)
        # Word k read from the weight memory ends in row rows-1-k.
        taps = self._weights(go.weights, config.rows)[::-1]
        y = depthwise.line * depthwise.y_stride * np.arange(depthwise.out_height)
        x = depthwise.x_stride * np.arange(depthwise.out_width)
        positions = (depthwise.skip + config.rows - 1 + y[:, None] + x).ravel()
        positions = positions[positions < go.advances]
        sums = np.zeros((len(positions), config.columns))
        for row, tap in enumerate(taps):
            if not tap.any():
                continue
            group = min(row // go.group_rows, config.line_groups - 1)
            stream, delay = streams[:, 0, :], group * depthwise.delay
            if depthwise.paired:
                stream = streams[:, group % 2, :]
                delay = (group + 1) // 2 * depthwise.delay - group % 2 * go.group_rows
            source = positions - delay - (config.rows - 1 - row)
            inside = source >= 0
            if inside.all():
                sums += stream[source] * tap
            else:
                sums[inside] += stream[source[inside]] * tap
        result = sums.astype(np.int64).astype(np.int32)
        places = np.arange(len(result)) % max(1, config.partial_sums)
        if go.accumulate:
            result += self._partial_sums[places]
        if go.drain:
            self._send(result)
        else:
            self._partial_sums[places] = result

    def _check_operands(self) -> None:
        """The image has pixels, and operands minus their zero points fit the multipliers' 9 bits."""
        source, window = self._get("input"), self._get("window")
        if not window.width:
            raise Fault(Error.ILLEGAL, "ARRAY_WINDOW.width must be at least 1")
        low, high = (0, 255) if source.unsigned_input else (-128, 128)
        if not low <= source.input_zp <= high:
            raise Fault(
                Error.ILLEGAL, f"input_zp {source.input_zp} must be in {low}..{high} for operands of 9 bits"
            )
        if not -128 <= source.weight_zp <= 128:
            raise Fault(
                Error.ILLEGAL, f"weight_zp {source.weight_zp} must be in -128..128 for operands of 9 bits"
            )

    def _check_pairs(self, depthwise: Instruction, go: Instruction) -> None:
        """The two words of a pair are read together: aligned, one an even and one an odd word of the memory."""
        source, window, word_bytes = self._get("input"), self._get("window"), self._state.config.word_bytes
        aligned = source.address % word_bytes == 0 and window.x_step % word_bytes == 0
        if not aligned or window.y_step_bytes % (4 * word_bytes) != 2 * word_bytes:
            raise Fault(
                Error.ILLEGAL, "paired rows need aligned pixels and an odd number of words from row to row"
            )
        if depthwise.delay < go.group_rows + 2:
            raise Fault(
                Error.ILLEGAL, f"delay {depthwise.delay} of paired rows must be at least group_rows + 2"
            )

    def _send(self, vectors: np.ndarray) -> None:
        self._state.accumulator_queue.push(vectors)
        if self._state.hazards:
            self._state.hazards.sent(len(vectors))

    def _get(self, name: str) -> Instruction:
        try:
            return self._setup[name]
        except KeyError:
            raise Fault(Error.ILLEGAL, f"no ARRAY_{name.upper()} came before it") from None

    def _take_streamed(self, go: Instruction, count: int) -> None:
        """The words of a streamed GO, each when it is read first, are those of the streamed loads, in their order."""
        there, words = self._state.streamed_words, self._state.config.wm_words
        if len(there) < count:
            raise Fault(
                None,
                f"reads {count} streamed words of weights; earlier loads bring {len(there)}: deadlock in program order",
            )
        for number in range(count):
            word = there.popleft()
            if word != (go.weights + number) % words:
                raise Fault(
                    None,
                    f"reads word {(go.weights + number) % words} of the weight memory, when the next streamed one is "
                    f"{word}: nothing orders the two",
                )

    def _weights(self, word: int, count: int, streamed: bool = False) -> np.ndarray:
        """float64 [count, W]: weights minus their zero point."""
        if self._state.hazards:
            columns = self._state.config.columns
            places = word * columns + np.arange(count * columns)
            self._state.hazards.read(WM, places, ordered=streamed)
        words = self._state.wm[(word + np.arange(count)) % self._state.config.wm_words]
        return words.astype(np.float64) - self._get("input").weight_zp

    def _gather(
        self, pixels: np.ndarray, step_rows: np.ndarray, step_bytes: np.ndarray, step_addresses: np.ndarray
    ) -> np.ndarray:
        """float64 [pixels, steps, W]: the input operands of every step, masked and minus their zero point."""
        source, window = self._get("input"), self._get("window")
        columns = self._state.config.columns
        py, px = np.divmod(pixels, window.width)
        address = source.address + py * window.y_step_bytes + px * window.x_step
        addresses = address[:, None] + step_addresses
        data = self._state.am.read_words(addresses)
        operands = (data if source.unsigned_input else data.view(np.int8)).astype(np.float64)
        if source.input_zp:
            operands -= source.input_zp
        iy = (window.y_start + py * window.y_step)[:, None] + step_rows
        xb = (window.x_start + px * window.x_step)[:, None] + step_bytes
        row_inside = (iy >= 0) & (iy < source.height)
        partial = ~(row_inside & (xb >= 0) & (xb + columns <= source.row_bytes))
        byte = xb[partial][:, None] + np.arange(columns)
        inside = row_inside[partial][:, None] & (byte >= 0) & (byte < source.row_bytes)
        operands[partial] *= inside
        if self._state.hazards:
            lanes = np.arange(columns)
            whole = np.unique(addresses[~partial])[:, None] + lanes
            parts = addresses[partial][:, None] + lanes
            self._state.hazards.read(AM, np.unique(np.concatenate([whole.ravel(), parts[inside]])))
        return operands
