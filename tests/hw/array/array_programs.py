"""Random array programs: every form the compiler uses and legal ones it does not."""

import random

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode, make

TINY = Config("tiny", rows=3, columns=4, am_bytes=4096, am_banks=2, wm_bytes=4096, line_pixels=16)
SQUARE = Config(
    "square", rows=4, columns=4, am_bytes=4096, am_banks=2, wm_bytes=4096, line_pixels=24, partial_sums=8
)
SINGLE = Config("single", rows=1, columns=4, am_bytes=4096, am_banks=2, wm_bytes=4096, line_pixels=4)
SHALLOW = Config(
    "shallow",
    rows=8,
    columns=8,
    am_bytes=4096,
    am_banks=2,
    wm_bytes=4096,
    line_pixels=32,
    line_groups=2,
    partial_sums=64,
)


def memories(config: Config, dice: random.Random) -> tuple[bytes, bytes]:
    return dice.randbytes(config.am_bytes), dice.randbytes(config.wm_bytes)


def image(dice: random.Random, **values: int) -> Instruction:
    if dice.random() < 0.3:
        zero_points = {"unsigned_input": 1, "input_zp": dice.choice([0, 0, 128, 255])}
    else:
        zero_points = {"unsigned_input": 0, "input_zp": dice.choice([0, -128, 127, dice.randint(-128, 127)])}
    weight_zp = dice.choice([0, 0, dice.randint(-128, 127)])
    return make(Opcode.ARRAY_INPUT, **values, **zero_points, weight_zp=weight_zp)


def convolution(dice: random.Random, config: Config, most_pixels: int) -> tuple[list[Instruction], dict]:
    """Configuration of a 2-D convolution with padding, and the fields of its GOs."""
    width, height, channels = dice.randint(1, 7), dice.randint(1, 5), dice.randint(1, 2 * config.columns + 1)
    kernel_width, kernel_height = dice.randint(1, 3), dice.randint(1, 3)
    pad_left, pad_top = dice.randint(0, 3), dice.randint(0, 3)
    x_stride, y_stride = dice.randint(1, 3), dice.randint(1, 3)
    x_dilation, y_dilation = dice.randint(1, 2), dice.randint(1, 2)
    row_bytes = width * channels
    chained = x_dilation == 1 and dice.random() < 0.5  # kx and channels as one run
    run_bytes = channels * (kernel_width if chained else 1)
    start_x, start_y = -pad_left * channels, -pad_top
    address = dice.choice([0, dice.randrange(config.am_bytes), config.am_bytes - 7])
    commands = [
        image(
            dice,
            address=address + start_y * row_bytes + start_x,
            row_bytes=dice.choice([row_bytes, row_bytes, max(row_bytes - 2, 1)]),
            height=height,
        ),
        make(
            Opcode.ARRAY_WINDOW,
            x_start=start_x,
            x_step=dice.choice([x_stride * channels] * 3 + [0, -channels]),
            y_start=start_y,
            y_step=y_stride,
            y_step_bytes=y_stride * row_bytes,
            width=dice.randint(1, 6),
        ),
        make(
            Opcode.ARRAY_KERNEL,
            ky_count=kernel_height,
            ky_step=y_dilation,
            ky_step_bytes=y_dilation * row_bytes,
            run_count=1 if chained else kernel_width,
            run_step=x_dilation * channels,
            chunks=-(-run_bytes // config.columns),
        ),
    ]
    dice.shuffle(commands)
    return commands, {"weights": dice.randrange(config.wm_words), "pixels": dice.randint(1, most_pixels)}


def convolution_goes(dice: random.Random, config: Config) -> list[Instruction]:
    """One GO, of several blocks perhaps, or one tile's GOs that add up."""
    if dice.random() < 0.3:
        blocks = {"more_blocks": dice.randint(0, 3), "streamed": dice.randint(0, 1)}
        commands, fields = convolution(dice, config, config.rows * (1 if blocks["more_blocks"] else 3))
        return [*commands, make(Opcode.ARRAY_GO, **fields, **blocks, accumulate=0, drain=1)]
    if dice.random() < 0.7:
        commands, fields = convolution(dice, config, 3 * config.rows)
        return [*commands, make(Opcode.ARRAY_GO, **fields, accumulate=0, drain=1)]
    goes = []
    pixels, parts = dice.randint(1, config.rows), dice.randint(2, 3)
    for part in range(parts):
        commands, fields = convolution(dice, config, 1)
        fields["pixels"] = pixels
        goes += commands if part == 0 or dice.random() < 0.5 else []
        drain = part == parts - 1 or dice.random() < 0.2
        goes.append(make(Opcode.ARRAY_GO, **fields, accumulate=int(part > 0), drain=int(drain)))
    return goes


def depthwise(
    dice: random.Random,
    config: Config,
    *,
    kernel: tuple[int, int],
    size: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    channels: int,
    block: int,
) -> list[Instruction]:
    """A depthwise convolution of one block of W channels, set up as docs/timing.md says. `kernel`,
    `size` and `strides` are (y, x); `pads` top, bottom, left, right."""
    (kernel_height, kernel_width), (height, width) = kernel, size
    top, bottom, left, right = pads
    line, lines = width + left + right, height + top + bottom
    out_height = (lines - kernel_height) // strides[0] + 1
    out_width = (line - kernel_width) // strides[1] + 1
    row_bytes, rows = width * channels, config.rows
    start = block * config.columns - left * channels
    skip = (kernel_height - 1) * line + (kernel_width - 1 if rows < kernel_width else 0)
    last = (out_height - 1) * strides[0] * line + (out_width - 1) * strides[1]
    commands = [
        image(
            dice,
            address=dice.randrange(config.am_bytes) - top * row_bytes + start,
            row_bytes=row_bytes,
            height=height,
        ),
        make(
            Opcode.ARRAY_WINDOW,
            x_start=start,
            x_step=channels,
            y_start=-top,
            y_step=1,
            y_step_bytes=row_bytes,
            width=line,
        ),
        make(
            Opcode.ARRAY_DEPTHWISE,
            delay=line + kernel_width,
            skip=skip,
            line=line,
            out_width=out_width,
            out_height=out_height,
            x_stride=strides[1],
            y_stride=strides[0],
            paired=0,
        ),
    ]
    dice.shuffle(commands)
    go = make(
        Opcode.ARRAY_DEPTHWISE_GO,
        weights=dice.randrange(config.wm_words),
        advances=skip + rows + last,
        group_rows=kernel_width,
        **handing_on(dice, config, kernel_height * kernel_width),
    )
    return [*commands, go]


def handing_on(dice: random.Random, config: Config, taps: int) -> dict[str, int]:
    """Whether a depthwise GO begins with partial sums, and whether it makes some; how many of its rows are idle, if it
    needs `taps` of them."""
    if not config.partial_sums or dice.random() < 0.6:
        return {"accumulate": 0, "drain": 1, "idle_rows": dice.choice([0, max(config.rows - taps, 0)])}
    return {"accumulate": dice.randint(0, 1), "drain": dice.randint(0, 1)}


def paired_depthwise(dice: random.Random, config: Config) -> list[Instruction]:
    """A depthwise GO that takes two image rows per advance: a kernel that fits, or any numbers that are legal."""
    width, columns = dice.randint(1, 6), config.columns
    kernel_width = dice.randint(1, max(1, min(config.rows // 3, (config.line_pixels - width) // 2)))
    channels = dice.randint(1, 2) * columns
    pitch = (width * channels // columns + 2) // 2 * 2 * columns + columns
    line = width + dice.randint(0, 2)
    top, left = dice.randint(0, 2), dice.randint(0, 1)
    kernel_height = dice.choice([1, 3, 5])
    skip = kernel_height // 2 * line
    strides = dice.randint(1, 2), dice.randint(1, 3)
    out_height, out_width = dice.randint(1, 3), (line - 1) // strides[1] + 1
    delay = max(line + 2 * kernel_width, kernel_width + 2)
    if dice.random() < 0.3:
        skip, delay = dice.randint(0, 3 * config.rows), dice.randint(kernel_width + 2, config.line_pixels)
    commands = [
        image(
            dice,
            address=dice.randrange(config.am_bytes // columns) * columns,
            row_bytes=width * channels,
            height=dice.randint(1, 7),
        ),
        make(
            Opcode.ARRAY_WINDOW,
            x_start=-left * channels,
            x_step=channels,
            y_start=-top,
            y_step=2,
            y_step_bytes=2 * pitch,
            width=line,
        ),
        make(
            Opcode.ARRAY_DEPTHWISE,
            delay=min(delay, config.line_pixels),
            skip=skip,
            line=line,
            out_width=out_width,
            out_height=out_height,
            x_stride=strides[1],
            y_stride=strides[0],
            paired=1,
        ),
    ]
    dice.shuffle(commands)
    advances = skip + config.rows + (out_height - 1) * strides[0] * line + (out_width - 1) * strides[1]
    go = make(
        Opcode.ARRAY_DEPTHWISE_GO,
        weights=dice.randrange(config.wm_words),
        advances=advances,
        group_rows=kernel_width,
        **handing_on(dice, config, dice.randint(1, config.rows)),
    )
    return [*commands, go]


def depthwise_go(dice: random.Random, config: Config) -> list[Instruction]:
    """A depthwise GO: a kernel that fits, or any numbers at all."""
    if config.line_pixels >= 8 and dice.random() < 0.4:
        return paired_depthwise(dice, config)
    if dice.random() < 0.6:
        kernel_width = dice.randint(1, min(config.rows, config.line_pixels // 2))
        kernel_height = dice.randint(1, min(config.rows // kernel_width, config.line_groups))
        most = config.line_pixels - kernel_width - 2
        width = dice.randint(1, max(min(most, 7), 1))
        pads = (
            dice.randint(0, 1),
            dice.randint(0, 1),
            *((1, 1) if kernel_width > 1 and most > 2 else (0, 0)),
        )
        size = max(dice.randint(1, 5), kernel_height), max(width, kernel_width)
        if size[1] + pads[2] + pads[3] + kernel_width <= config.line_pixels:
            return depthwise(
                dice,
                config,
                kernel=(kernel_height, kernel_width),
                size=size,
                strides=(dice.randint(1, 3), dice.randint(1, 3)),
                pads=pads,
                channels=dice.randint(1, 2 * config.columns),
                block=dice.randint(0, 1),
            )
    commands, _ = convolution(dice, config, 1)
    line, out_width, x_stride = dice.randint(1, 12), dice.randint(0, 4), dice.randint(1, 3)
    commands.append(
        make(
            Opcode.ARRAY_DEPTHWISE,
            delay=dice.randint(2, config.line_pixels),
            skip=dice.choice([0, dice.randint(0, 3 * config.rows)]),
            line=max(line, (out_width - 1) * x_stride + 1),
            out_width=out_width,
            out_height=dice.randint(0, 3),
            x_stride=x_stride,
            y_stride=dice.randint(1, 3),
            paired=0,
        )
    )
    fields = {"weights": dice.randrange(config.wm_words), "group_rows": dice.randint(1, config.rows)}
    fields |= handing_on(dice, config, dice.randint(1, config.rows))
    return [*commands, make(Opcode.ARRAY_DEPTHWISE_GO, **fields, advances=dice.randint(config.rows, 50))]


def program(dice: random.Random, config: Config, jobs: int, kinds: str = "both") -> list[Instruction]:
    """`jobs` random jobs with waits and signals between them."""
    commands = []
    for _ in range(jobs):
        is_depthwise = kinds == "depthwise" or (kinds == "both" and dice.random() < 0.5)
        goes = depthwise_go(dice, config) if is_depthwise else convolution_goes(dice, config)
        for command in goes:
            commands.append(command)
            while dice.random() < 0.15:
                opcode = dice.choice([Opcode.ARRAY_WAIT, Opcode.ARRAY_SIGNAL, Opcode.ARRAY_SIGNAL])
                commands.append(make(opcode, semaphore=dice.randrange(16), count=dice.randrange(256)))
    return commands
