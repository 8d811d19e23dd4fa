"""ARRAY: convolution and matrix products (ARRAY_GO), tap-stationary depthwise (ARRAY_DEPTHWISE_GO)."""

import dataclasses
from typing import Any

import numpy as np

from tosaic.errors import UnsupportedError
from tosaic.hw.isa import Error, Instruction, Opcode

from .faults import Fault
from .hazards import AM, WM
from .state import CoreState, KnownLanes

BLOCK_ELEMENTS = 1 << 19
"""Input operands gathered at once: bounds the memory a large GO needs, and keeps most of it in the cache."""
MOST_WORDS = 1 << 22
"""Words of weights that an output needs, all of which are in the computer's memory at once."""
DEPTHWISE_ELEMENTS = 1 << 16
"""The same of a depthwise GO, for the samples of a batch that are computed together."""

SUMS, PARTIAL, _EARLIER = "sums", "partial sums", "partial sums of earlier GOs"
"""What a GO may go on from."""

_SETUP = {
    Opcode.ARRAY_INPUT: "input",
    Opcode.ARRAY_WINDOW: "window",
    Opcode.ARRAY_KERNEL: "kernel",
    Opcode.ARRAY_DEPTHWISE: "depthwise",
}


@dataclasses.dataclass(frozen=True)
class _ReadLoops:
    """The words that are read for each pixel: nested loops, the innermost last."""

    counts: tuple[int, ...]
    strides: tuple[int, ...]
    """Bytes of the activation memory from one turn of each loop to the next."""
    rows: np.ndarray
    """Rows of the image from the pixel's first row to each step's."""
    row_bytes: np.ndarray
    """Bytes of the row from the pixel's first byte to each step's."""

    row_ends: tuple[int, int]
    """The least and the largest of `rows`."""
    byte_ends: tuple[int, int]
    """The same of `row_bytes`."""

    @classmethod
    def of(
        cls, counts: tuple[int, ...], strides: tuple[int, ...], rows: np.ndarray, row_bytes: np.ndarray
    ) -> "_ReadLoops":
        ends = [(int(each.min(initial=0)), int(each.max(initial=0))) for each in (rows, row_bytes)]
        return cls(counts, strides, rows, row_bytes, *ends)

    @property
    def addresses(self) -> np.ndarray:
        """Returns, for every step, its distance in the activation memory from the pixel's first byte."""
        turns = np.indices(self.counts).reshape(len(self.counts), -1)
        return np.array(self.strides, np.int64) @ turns


class Array:
    """Configuration, accumulators and execution of the array."""

    def __init__(self, state: CoreState):
        self._state, self._domain = state, state.domain
        self._setup: dict[str, Instruction] = {}
        self._steps: _ReadLoops | None = None
        """The steps of the last ARRAY_KERNEL, once a GO has needed them."""
        self._accumulators: Any = None
        """int32 [samples, rows, W] that the last GO left; None: there was none, or it left none."""
        self._partial_sums = self._domain.accumulators(
            (state.samples, state.config.partial_sums, state.config.columns)
        )
        """What depthwise GOs hand on."""
        self.left: dict[str, int] = {}
        """Number of sums that a GO may continue, by their kind."""
        self.lanes_left: dict[str, KnownLanes] = {}
        """The known lanes of the sums in `left`, where weights must be known."""

    def configure(self, instruction: Instruction) -> None:
        """Take the configuration that the following GOs use."""
        self._setup[_SETUP[instruction.opcode]] = instruction
        if instruction.opcode == Opcode.ARRAY_KERNEL:
            self._steps = None

    def setup(self) -> tuple[Any, ...]:
        """All that the following GOs depend on but sums, to be compared."""
        return dict(self._setup), dict(self.left), self._accumulators is None

    def forget_sums(self) -> None:
        """The sums that GOs have left may be anything."""
        if self._accumulators is not None:
            self._accumulators = self._domain.accumulators(self._accumulators.shape)
        self._partial_sums = self._domain.accumulators(self._partial_sums.shape)

    def go(self, go: Instruction) -> None:
        """Execute ARRAY_GO."""
        kernel = self._get("kernel")
        rows, columns = self._state.config.rows, self._state.config.columns
        self._check_go(go, kernel)
        if self._accumulators is None:
            self._accumulators = self._domain.accumulators((self._state.samples, rows, columns))
        depth = kernel.ky_count * kernel.run_count * kernel.chunks * columns
        if depth > MOST_WORDS:
            raise UnsupportedError(
                f"an ARRAY_GO of {depth:,} words of weights for an output: the emulator runs up to "
                f"{MOST_WORDS:,}; no compiled program has as many"
            )
        steps = self._kernel_steps()
        if go.streamed:
            self._take_streamed(go, depth * (1 + go.more_blocks))
        weights = self._weights(go.weights, depth, streamed=bool(go.streamed), used=False)
        dtype = self._exact_type(weights)
        lanes = [self._known_lanes(go, steps, number) for number in range(1 + go.more_blocks)]
        pixels = max(BLOCK_ELEMENTS // (depth * self._state.samples) // rows, 1) * rows
        for first in range(0, go.pixels, pixels):
            operands = self._gather(first, min(pixels, go.pixels - first), steps, dtype)
            operands = operands.reshape(*operands.shape[:2], depth)
            for number in range(1 + go.more_blocks):
                if number:
                    # The pixels are one tile: each block is read once, and only one is in memory at a time.
                    weights = self._weights(
                        go.weights + number * depth, depth, streamed=bool(go.streamed), used=False
                    )
                    dtype = self._exact_type(weights)
                sums = self._domain.products(operands, weights, dtype)
                if go.accumulate:
                    sums = self._domain.accumulate(sums, self._accumulators[:, : sums.shape[1]])
                if go.drain:
                    self._send(sums, lanes[number])
            tail = sums[:, (sums.shape[1] - 1) // rows * rows :]
            self._accumulators[:, : tail.shape[1]] = tail
        self._leave(SUMS, tail.shape[1], lanes[-1])
        if go.drain and self._state.config.most_row_parts > 1:
            # The rows may have been divided.
            self._accumulators = None

    def _kernel_steps(self) -> _ReadLoops:
        """Returns the steps of the kernel that is set up."""
        if self._steps is None:
            self._steps = _convolution_steps(self._get("kernel"), self._state.config.columns)
        return self._steps

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

    def _leave(self, what: str, count: int, lanes: KnownLanes | None) -> None:
        """A GO leaves sums. Partial ones behind them stay as they were."""
        before = [name for name in (what, _EARLIER) if what == PARTIAL and self.left.get(name, 0) > count]
        if before:
            self.left[_EARLIER] = max(self.left[name] for name in before)
        if before and lanes is not None:
            self.lanes_left[_EARLIER] = min(self.lanes_left[name] for name in before)
        self.left[what] = count
        if lanes is not None:
            self.lanes_left[what] = lanes

    def _require(self, what: str, count: int) -> KnownLanes | None:
        """Returns the known lanes of the sums that a GO continues, where weights must be known; Fault unless the GOs
        before left as many sums."""
        hazards = self._state.hazards
        if not hazards or not hazards.known:
            return None
        names = [what] if count <= self.left.get(what, 0) else [what, _EARLIER]
        there = max(self.left.get(name, 0) for name in names)
        if count > there:
            raise Fault(None, f"goes on from {count} {what}, of which the GOs before it have made {there}")
        return min((self.lanes_left[name] for name in names if name in self.lanes_left), default=None)

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
        if go.accumulate or not go.drain:
            if not config.partial_sums:
                raise Fault(Error.ILLEGAL, f"{config.name!r} has no partial sums to accumulate or to keep")
            if go.idle_rows:
                raise Fault(Error.ILLEGAL, "idle_rows must be 0 with partial sums to accumulate or to keep")
        if go.idle_rows >= config.rows:
            raise Fault(Error.ILLEGAL, f"idle_rows {go.idle_rows} must be less than {config.rows}")
        if depthwise.paired:
            self._check_pairs(depthwise, go)
        self._accumulators = None
        # Step 1 is the pair's second row.
        pitch, second = self._get("window").y_step_bytes >> 1, np.arange(1 + depthwise.paired)
        steps = _ReadLoops.of((len(second),), (pitch,), second, 0 * second)
        rows = config.rows - go.idle_rows
        # Word k read from the weight memory ends in row rows-1-k.
        taps = self._weights(go.weights, rows, used=False)[:, ::-1]
        dtype = self._exact_type(taps)
        y = depthwise.line * depthwise.y_stride * np.arange(depthwise.out_height)
        x = depthwise.x_stride * np.arange(depthwise.out_width)
        # The next line's outputs take the place of those at and behind the line's end.
        x = x[x < depthwise.line]
        # [lines of outputs, outputs of a line], or a list where the last ones are not reached.
        positions = depthwise.skip + rows - 1 + y[:, None] + x
        if positions.size and positions.max() >= go.advances:
            positions = positions[positions < go.advances][None]
        taps = self._domain.taps(taps, dtype)
        used = []
        """(tap's row, stream, by how many pixels it lies behind), but of taps that are zero."""
        for row in np.flatnonzero(self._domain.used_taps(taps)).tolist():
            group = min(row // go.group_rows, config.line_groups - 1)
            stream, delay = 0, group * depthwise.delay
            if depthwise.paired:
                stream, delay = group % 2, (group + 1) // 2 * depthwise.delay - group % 2 * go.group_rows
            used.append((row, stream, delay + rows - 1 - row))
        streams = self._gather(0, go.advances, steps, dtype)
        sums = self._depthwise_sums if isinstance(taps, np.ndarray) else self._late_depthwise_sums
        result = sums(streams, positions, taps, used)
        places = np.arange(positions.size) % max(1, config.partial_sums)
        count = min(positions.size, config.partial_sums)
        before = self._require(PARTIAL, count) if go.accumulate else None
        if go.accumulate:
            result = self._domain.accumulate(result, self._partial_sums[:, places])
        known = self._known_words(go.weights, rows)
        lanes = None if known is None else self._lanes_of(known, go.weights, before)
        if go.drain:
            self._send(result, lanes)
        else:
            self._partial_sums[:, places] = result
            self._leave(PARTIAL, count, lanes)

    def _depthwise_sums(
        self, streams: np.ndarray, positions: np.ndarray, taps: np.ndarray, used: list[tuple[int, int, int]]
    ) -> Any:
        """int32 [samples, positions, W]: the sums of taps with those of `streams` [samples, pixels, rows, W] that lie
        `behind` each position [n, m]; along both axes positions are equally far apart, unless there is one row of
        them."""
        advances, rows, columns = streams.shape[1:]
        # Nothing comes before the first pixel.
        front = max((behind for _, _, behind in used), default=0)
        result = np.zeros((len(streams), *positions.shape, columns), self._domain.sum)
        group = max(DEPTHWISE_ELEMENTS // (advances * columns), 1)
        for first in range(0, len(streams), group):
            own = streams[first : first + group]
            padded = np.zeros((rows, len(own), front + advances, columns), taps.dtype)
            padded[:, :, front:] = np.moveaxis(own, 2, 0)
            sums = np.zeros((len(own), *positions.shape, columns), taps.dtype)
            product = np.empty_like(sums)
            for row, stream, behind in used:
                factors = (taps if len(taps) == 1 else taps[first : first + group])[:, row, None, None]
                np.multiply(_picked(padded[stream], positions, front - behind), factors, out=product)
                sums += product
            result[first : first + group] = self._domain.integers(sums)
        return self._domain.total(result.reshape(len(streams), -1, columns))

    def _late_depthwise_sums(
        self, streams: np.ndarray, positions: np.ndarray, taps: Any, used: list[tuple[int, int, int]]
    ) -> Any:
        """Works like `_depthwise_sums`, with taps [1, rows, W] that the domain multiplies."""
        front = max((behind for _, _, behind in used), default=0)
        padded = np.pad(np.moveaxis(streams, 2, 0), [(0, 0), (0, 0), (front, 0), (0, 0)])
        pixels = [_picked(padded[stream], positions, front - behind) for _, stream, behind in used]
        return self._domain.weighted(pixels, taps[:, [row for row, _, _ in used]])

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

    def _send(self, vectors: np.ndarray, lanes: KnownLanes | None) -> None:
        self._state.accumulator_queue.push(vectors, lanes)
        if self._state.hazards:
            self._state.hazards.sent(vectors.shape[1])

    def _get(self, name: str) -> Instruction:
        try:
            return self._setup[name]
        except KeyError:
            raise Fault(Error.ILLEGAL, f"no ARRAY_{name.upper()} came before it") from None

    def _take_streamed(self, go: Instruction, count: int) -> None:
        """The words of a streamed GO, each when it is read first, are those of the streamed loads, in their order."""
        there, words = self._state.streamed_words, self._state.config.wm_words
        brought = np.concatenate([*there, np.zeros(0, np.int64)]) if len(there) != 1 else there[0]
        if len(brought) < count:
            raise Fault(
                None,
                f"reads {count} streamed words of weights; earlier loads bring {len(brought)}: "
                "deadlock in program order",
            )
        there.clear()
        there.append(brought[count:])
        taken = brought[:count]
        wanted = (go.weights + np.arange(count)) % words
        if (taken != wanted).any():
            first = np.flatnonzero(taken != wanted)[0]
            raise Fault(
                None,
                f"reads word {wanted[first]} of the weight memory, when the next streamed one is "
                f"{taken[first]}: nothing orders the two",
            )

    def _known_lanes(self, go: Instruction, steps: _ReadLoops, number: int) -> KnownLanes | None:
        """Returns the known lanes of the sums of block `number`; None where weights need not be known. Weights that
        meet only padding do not count."""
        depth = len(steps.rows) * self._state.config.columns
        word = go.weights + number * depth
        known = self._known_words(word, depth)
        before = self._require(SUMS, go.pixels) if go.accumulate else None
        if known is None:
            return None
        if not known.all():
            known = known | ~self._used_words(go, steps)[:, None]
        return self._lanes_of(known, word, before)

    def _lanes_of(self, known: np.ndarray, word: int, before: KnownLanes | None) -> KnownLanes:
        """Returns the known lanes of sums with the weights from `word` on, of which bool [count, W] are known;
        `before` are those of the sums that they continue."""
        config = self._state.config
        lane = min([config.columns, *np.flatnonzero(~known.all(axis=0)).tolist()])
        if lane < config.columns:
            byte = (word + int(np.flatnonzero(~known[:, lane])[0])) * config.columns + lane
            found = KnownLanes(lane, byte % config.wm_bytes)
        else:
            found = KnownLanes(lane)
        return found if before is None else min(found, before)

    def _known_words(self, word: int, count: int) -> np.ndarray | None:
        """bool [count, W] of weights; None where not all that is read must be known."""
        config, hazards = self._state.config, self._state.hazards
        if not hazards or not hazards.known:
            return None
        words = (word + np.arange(count)) % config.wm_words
        return hazards.known.of(WM).reshape(-1, config.columns)[words]

    def _used_words(self, go: Instruction, steps: _ReadLoops) -> np.ndarray:
        """bool [words of weights]: which of them meet a byte inside of the image."""
        source, window, columns = self._get("input"), self._get("window"), self._state.config.columns
        used = np.zeros((len(steps.rows), columns), bool)
        for first in range(0, go.pixels, pixels := max(BLOCK_ELEMENTS // used.size, 1)):
            py, px = np.divmod(np.arange(first, min(first + pixels, go.pixels)), window.width)
            iy = (window.y_start + py * window.y_step)[:, None] + steps.rows
            xb = (window.x_start + px * window.x_step)[:, None] + steps.row_bytes
            byte = xb[..., None] + np.arange(columns)
            inside = (byte >= 0) & (byte < source.row_bytes) & ((iy >= 0) & (iy < source.height))[..., None]
            used |= inside.any(axis=0)
        return used.ravel()

    def _weights(self, word: int, count: int, *, streamed: bool = False, used: bool = True) -> Any:
        """int16 [1 or samples, count, W]: weights minus their zero point. `used`: as of Hazards.read."""
        if self._state.hazards:
            columns = self._state.config.columns
            places = word * columns + np.arange(count * columns)
            self._state.hazards.read(WM, places, ordered=streamed, used=used)
        words = self._state.wm.read(self._state.wm.places(word, count))
        return self._domain.weights(words, int(self._get("input").weight_zp))

    def _exact_type(self, weights: Any) -> np.dtype:
        """The float type in which sums of operands times [1 or samples, count, W] weights are exact, in any order."""
        source = self._get("input")
        low, high = (0, 255) if source.unsigned_input else (-128, 127)
        largest = max(abs(low - source.input_zp), abs(high - source.input_zp))
        return self._domain.exact_type(weights, int(largest))

    def _gather(self, first: int, count: int, steps: _ReadLoops, dtype: np.dtype) -> np.ndarray:
        """[samples or more, count, steps, W]: the input operands of every step of pixels from `first` on, masked and
        minus their zero point."""
        source, window = self._get("input"), self._get("window")
        columns = self._state.config.columns
        data = self._nested(first, count, steps)
        if data is None or self._state.hazards:
            py, px = np.divmod(np.arange(first, first + count), window.width)
            address = source.address + py * window.y_step_bytes + px * window.x_step
            addresses = address[:, None] + steps.addresses
            data = self._state.am.read_words(addresses[None])
        unsigned, zero_point = bool(source.unsigned_input), int(source.input_zp)
        operands = self._domain.operands(data, unsigned, zero_point, dtype)
        operands = operands.reshape(len(operands), -1, len(steps.rows), columns)
        if operands.shape[1] > count:
            operands = operands[:, first % window.width :][:, :count]
        if self._all_inside(first, count, steps):
            if self._state.hazards:
                self._state.hazards.read(AM, np.unique(addresses)[:, None] + np.arange(columns))
            return operands
        py, px = np.divmod(np.arange(first, first + count), window.width)
        y, x = window.y_start + py * window.y_step, window.x_start + px * window.x_step
        iy, xb = y[:, None] + steps.rows, x[:, None] + steps.row_bytes
        row_inside = (iy >= 0) & (iy < source.height)
        partial = ~(row_inside & (xb >= 0) & (xb + columns <= source.row_bytes))
        byte = xb[partial][:, None] + np.arange(columns)
        inside = row_inside[partial][:, None] & (byte >= 0) & (byte < source.row_bytes)
        if len(inside):
            operands = operands if operands.flags.writeable else operands.copy()
            for own in operands:
                own[partial] *= inside
        if self._state.hazards:
            lanes = np.arange(columns)
            whole = np.unique(addresses[~partial])[:, None] + lanes
            parts = addresses[partial][:, None] + lanes
            self._state.hazards.read(AM, np.unique(np.concatenate([whole.ravel(), parts[inside]])))
        return operands

    def _all_inside(self, first: int, count: int, steps: _ReadLoops) -> bool:
        """Whether no step of `count` pixels from `first` on reads padding. No corner of what is read is outside."""
        source, window = self._get("input"), self._get("window")
        (top, left), (bottom, right) = divmod(first, window.width), divmod(first + count - 1, window.width)
        if bottom > top:
            left, right = 0, window.width - 1
        rows = sorted(window.y_start + y * window.y_step for y in (top, bottom))
        starts = sorted(window.x_start + x * window.x_step for x in (left, right))
        in_rows = rows[0] + steps.row_ends[0] >= 0 and rows[1] + steps.row_ends[1] < source.height
        end = starts[1] + steps.byte_ends[1] + self._state.config.columns
        return in_rows and starts[0] + steps.byte_ends[0] >= 0 and end <= source.row_bytes

    def _nested(self, first: int, count: int, steps: _ReadLoops) -> np.ndarray | None:
        """uint8 [samples, image rows, pixels of a row, *step counts, W]: the words of all steps of pixels from `first`
        on, whole rows of them where there are several, as a view. None where that would be far too much."""
        source, window, am = self._get("input"), self._get("window"), self._state.am
        row, last_row = first // window.width, (first + count - 1) // window.width
        start, pixels = (0, window.width) if last_row > row else (first % window.width, count)
        rows = last_row - row + 1
        if rows * pixels > 2 * count:
            return None
        address = source.address + row * window.y_step_bytes + start * window.x_step
        counts = (rows, pixels, *steps.counts, am.word_bytes)
        return am.nested(address, counts, (window.y_step_bytes, window.x_step, *steps.strides, 1))


def _convolution_steps(kernel: Instruction, columns: int) -> _ReadLoops:
    """Kernel rows, runs of each and chunks of W channels of each."""
    counts = kernel.ky_count, kernel.run_count, kernel.chunks
    ky, run, chunk = np.indices(counts).reshape(3, -1)
    return _ReadLoops.of(
        counts,
        (kernel.ky_step_bytes, kernel.run_step, columns),
        ky * kernel.ky_step,
        run * kernel.run_step + chunk * columns,
    )


def _picked(pixels: np.ndarray, positions: np.ndarray, offset: int) -> np.ndarray:
    """[samples, n, m, W] of [samples, pixels, W] at `positions` [n, m] + `offset`; a view where there are several rows,
    since one step then leads from each of them to the next, and one from column to column."""
    if len(positions) == 1 or not positions.size:
        return pixels[:, positions + offset]
    samples, _, columns = pixels.shape
    pitch, step, width = pixels.strides
    first, below = int(positions[0, 0]), int(positions[1, 0])
    across = int(positions[0, 1]) - first if positions.shape[1] > 1 else 0
    shape, strides = (
        (samples, *positions.shape, columns),
        (pitch, (below - first) * step, across * step, width),
    )
    return np.ndarray(shape, pixels.dtype, pixels, (first + offset) * step, strides)
