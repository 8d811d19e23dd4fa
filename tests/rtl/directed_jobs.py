"""Single jobs of the array that one bit makes legal, illegal or very long, and jobs that are not set up."""

from collections.abc import Iterator

from directed_array import Fields, fits
from directed_fields import SET_UP, emit_fields
from one_machine import assembled

from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

USUAL = {"row_bytes": 64, "height": 4, "width": 4, "x_step": 4, "ky_count": 1, "run_count": 1, "chunks": 1}
USUAL |= {"pixels": 1, "drain": 1, "delay": 2, "line": 4, "out_width": 1, "out_height": 1, "x_stride": 1}
USUAL |= {"y_stride": 1, "advances": 4, "group_rows": 1}
CONFIGURATION = (*SET_UP, Opcode.ARRAY_DEPTHWISE)
SHORT = 6
"""Counts of fewer bits come to an end in a test."""


def placed(assembler: Assembler) -> Stimulus:
    """The program, in a small memory."""
    return assembled(assembler.config, *((each.opcode, each.fields) for each in assembler.instructions))


def emit_job(assembler: Assembler, opcode: Opcode, changed: Fields) -> None:
    """A job, and a row that STORE stores if the array says that it has come to an end; nobody takes a vector."""
    kind = Opcode.ARRAY_KERNEL if opcode is Opcode.ARRAY_GO else Opcode.ARRAY_DEPTHWISE
    emit_fields(assembler, USUAL | changed, *SET_UP[:2], kind, opcode)
    assembler.pass_token(Opcode.ARRAY_SIGNAL, Opcode.STORE_WAIT, 2)
    assembler.emit(Opcode.STORE_GO, memory_address=1, local_address=7, row_bytes=9, rows=1)


def one_job(config: Config, opcode: Opcode, changed: Fields) -> Stimulus:
    """Nothing ends what takes long but the watchdog."""
    assembler = Assembler(config)
    emit_job(assembler, opcode, changed)
    return placed(assembler)


def bits_of(opcode: Opcode, name: str) -> int:
    return next(field.bits for field in FIELDS[opcode] if field.name == name)


def lone_bits(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """One field of one bit, which makes the job legal or illegal; and the first GO of all that goes on from sums, which
    are not there."""
    of = {
        Opcode.ARRAY_GO: ("width", "input_zp", "weight_zp", "ky_count", "run_count", "chunks"),
        Opcode.ARRAY_DEPTHWISE_GO: ("delay", "line", "x_stride", "y_stride", "group_rows", "idle_rows"),
    }
    places = {field.name: each for each in (*CONFIGURATION, *of) for field in FIELDS[each]}
    for opcode, names in of.items():
        for name in names:
            counts = name in ("ky_count", "run_count", "chunks")
            for bit in range(SHORT if counts else bits_of(places[name], name)):
                for value in (1 << bit, -1 << bit):
                    if fits(places[name], {name: value}):
                        yield f"{opcode.name}, {name} alone {value}", one_job(config, opcode, {name: value})
    for bit in range(bits_of(Opcode.ARRAY_GO, "more_blocks")):
        many = {"more_blocks": 1 << bit, "pixels": config.rows + 1}
        yield f"2^{bit} more blocks of many", one_job(config, Opcode.ARRAY_GO, many)
    yield "sums of nothing", one_job(config, Opcode.ARRAY_GO, {"accumulate": 1})
    yield "blocks that are not drained", one_job(config, Opcode.ARRAY_GO, {"more_blocks": 1, "drain": 0})
    for bit in range(bits_of(Opcode.ARRAY_INPUT, "input_zp")):
        below = {"unsigned_input": 1, "input_zp": -1 << bit}
        yield f"a zero point of {-1 << bit} of bytes without a sign", one_job(config, Opcode.ARRAY_GO, below)


def pairs_alone(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Pairs of image rows of which one bit of a field makes the job legal or illegal; and groups of all sizes, for
    which the delay line has just room, or not quite."""
    word = config.word_bytes
    usual = {"paired": 1, "address": 6 * word, "x_step": word, "y_step_bytes": 6 * word}
    usual |= {"delay": 4, "out_width": 0}

    def job(changed: Fields) -> Stimulus:
        return one_job(config, Opcode.ARRAY_DEPTHWISE_GO, usual | changed)

    for name in ("address", "x_step", "y_step_bytes"):
        for bit in range((8 * word).bit_length()):
            yield f"pairs, {name} with 2^{bit} changed", job({name: usual[name] ^ 1 << bit})
    for bit in range(bits_of(Opcode.ARRAY_DEPTHWISE_GO, "group_rows")):
        for room in range(-1, 4):
            delay = (1 << bit) + room
            yield f"pairs, 2^{bit} rows, {delay} vectors", job({"group_rows": 1 << bit, "delay": delay})
    for bit in range(1, bits_of(Opcode.ARRAY_DEPTHWISE, "delay")):
        yield f"pairs, 2^{bit} vectors of room", job({"delay": (1 << bit) + 1})


def blocks_on_sums(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Blocks that would go on from sums, which are there."""
    assembler = Assembler(config)
    emit_fields(assembler, USUAL | {"drain": 0}, *SET_UP, Opcode.ARRAY_GO)
    emit_job(assembler, Opcode.ARRAY_GO, {"more_blocks": 1, "accumulate": 1})
    yield "blocks on sums", placed(assembler)


def sums_behind(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Sums to go on from where only a depthwise job was, which leaves none."""
    assembler = Assembler(config)
    emit_fields(assembler, USUAL, *CONFIGURATION, Opcode.ARRAY_DEPTHWISE_GO)
    emit_job(assembler, Opcode.ARRAY_GO, {"accumulate": 1})
    yield "sums behind a depthwise job", placed(assembler)


def endless_jobs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """More vectors than there is room for: the array waits until the watchdog ends it."""
    for name in ("more_blocks", "pixels"):
        for bit in range(bits_of(Opcode.ARRAY_GO, name)):
            yield f"2^{bit} {name}", one_job(config, Opcode.ARRAY_GO, {name: 1 << bit})


def cut_jobs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Jobs with a power of two of something, or one more. What takes too long is cut off by LOAD's error; a job that
    ends before, or sooner than it should, lets STORE store."""
    for name in ("ky_count", "run_count", "chunks", "advances", "more_blocks"):
        opcode = Opcode.ARRAY_DEPTHWISE_GO if name == "advances" else Opcode.ARRAY_GO
        place = opcode if name in ("advances", "more_blocks") else Opcode.ARRAY_KERNEL
        for bit in range(1, bits_of(place, name)):
            for more, text in ((1, " + 1"), (0, "")):
                assembler = Assembler(config)
                silent = {"out_width": 0} if name == "advances" else {}
                emit_job(assembler, opcode, {name: (1 << bit) + more} | silent)
                assembler.emit(Opcode.LOAD_GO, row_bytes=600, rows=1)
                assembler.emit(Opcode.LOAD_GO, memory_address=1 << 13, row_bytes=1, rows=1)
                yield f"cut off: 2^{bit}{text} {name}", placed(assembler)


def set_up_array(config: Config) -> Stimulus:
    """Everything is set up, a job runs, and a row of LOAD ends in an error."""
    assembler = Assembler(config)
    emit_fields(assembler, USUAL, *CONFIGURATION, Opcode.ARRAY_GO)
    assembler.emit(Opcode.LOAD_GO, row_bytes=60, rows=1)
    assembler.emit(Opcode.LOAD_GO, memory_address=1 << 13, row_bytes=1, rows=1)
    return placed(assembler)


def jobs_without(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Jobs that lack one instruction of their configuration, or all."""
    for opcode in (Opcode.ARRAY_GO, Opcode.ARRAY_DEPTHWISE_GO):
        for missing in ((), *((each,) for each in CONFIGURATION), CONFIGURATION):
            assembler = Assembler(config)
            emit_fields(assembler, USUAL, *(each for each in CONFIGURATION if each not in missing), opcode)
            names = ", ".join(each.name for each in missing) or "nothing"
            yield f"{opcode.name} without {names}", placed(assembler)
