"""Where the machine would stop, wait forever or misbehave, the emulator says where and why."""

import numpy as np
import pytest

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import ISA_HASH, OFFSETS_MAX, STORE_STREAM, Condition, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator

CONFIG = CONFIGS["small"]
PROGRAM_ADDRESS = 4096
GO = {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 8, "tail_lanes": 8}


def run(*instructions, config=CONFIG, config_hash=None, isa_hash=ISA_HASH):
    assembler = Assembler(config)
    assembler.instructions.clear()
    config_hash = config.hash if config_hash is None else config_hash
    assembler.emit(Opcode.BEGIN, isa_hash=isa_hash, config_hash=config_hash)
    for opcode, fields in instructions:
        assembler.emit(opcode, **fields)
    memory = np.zeros(8192, np.uint8)
    size = assembler.place(memory, PROGRAM_ADDRESS)
    return Emulator(config).run(memory, PROGRAM_ADDRESS, size)


def message(*instructions, **machine):
    with pytest.raises(DeviceError) as caught:
        run(*instructions, **machine)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_an_empty_program_runs():
    assert run().cycles > 0


def test_wrong_isa_hash():
    text = message(isa_hash=ISA_HASH ^ 1)
    assert text.startswith("ISA_MISMATCH at program counter 0 (BEGIN isa_hash=")


def test_wrong_config_hash():
    assert message(config_hash=5).startswith("CONFIG_MISMATCH at program counter 0 (BEGIN ")


def test_wrong_check_byte():
    memory = np.zeros(8192, np.uint8)
    size = Assembler(CONFIG).place(memory, 0)
    memory[16 + 5] ^= 1
    with pytest.raises(DeviceError, match=r"^ILLEGAL at program counter 16: check byte is wrong in 02"):
        Emulator(CONFIG).run(memory, 0, size)


def test_missing_end():
    memory = np.zeros(8192, np.uint8)
    size = Assembler(CONFIG).place(memory, 0)
    with pytest.raises(DeviceError, match="^PROGRAM_END at program counter 16: 16 bytes of program"):
        Emulator(CONFIG).run(memory, 0, size - 16)


def test_program_outside_memory():
    with pytest.raises(DeviceError, match=r"^MEMORY_RANGE: the program's bytes 8000\.\.8499 leave "):
        Emulator(CONFIG).run(np.zeros(8192, np.uint8), 8000, 500)


@pytest.mark.parametrize("place", [1, 2, 4, 8, 16, 4080])
def test_program_at_an_odd_place(place):
    """A program begins at a multiple of 32 bytes, as in the hardware."""
    memory = np.zeros(8192, np.uint8)
    with pytest.raises(
        DeviceError,
        match=rf"^MEMORY_RANGE: the program's place, byte {place}, is not a multiple of 32$",
    ) as caught:
        Emulator(CONFIG).run(memory, place, Assembler(CONFIG).place(memory, place))
    assert (caught.value.fault.unit, caught.value.fault.program_counter) == ("SEQUENCER", 0)


def test_read_only_memory():
    memory = np.zeros(8192, np.uint8)
    memory.flags.writeable = False
    with pytest.raises(DeviceError, match="must be a writable one-dimensional uint8 array"):
        Emulator(CONFIG).run(memory, 0, 16)


@pytest.mark.parametrize("opcode", [Opcode.LOAD_GO, Opcode.STORE_GO])
def test_transfer_that_leaves_memory(opcode):
    text = message((opcode, {"memory_address": 8190, "row_bytes": 3, "rows": 1}))
    assert text.startswith(f"MEMORY_RANGE at program counter 16 ({opcode.name} memory_address=8190 ")
    assert text.endswith("bytes 8190..8192 leave the 8192 bytes of external memory")


def test_transfer_whose_last_row_leaves_memory():
    pitch = (Opcode.LOAD_PITCH, {"memory_pitch": 4096, "local_pitch": 8})
    assert run(pitch, (Opcode.LOAD_GO, {"row_bytes": 4096, "rows": 2})).dram_read_bytes >= 8192
    assert "MEMORY_RANGE" in message(pitch, (Opcode.LOAD_GO, {"row_bytes": 4097, "rows": 2}))


@pytest.mark.parametrize("field", ["memory_address", "local_address", "row_bytes"])
def test_unaligned_weights(field):
    fields = {"space": 1, "row_bytes": 64, "rows": 1}
    text = message((Opcode.LOAD_GO, fields | {field: fields.get(field, 0) + 4}))
    assert text.startswith("ILLEGAL at program counter 16")
    assert f"{field} {fields.get(field, 0) + 4} must be a multiple of 8 for the weight memory" in text


def test_wait_that_nobody_satisfies():
    text = message(
        (Opcode.LOAD_SIGNAL, {"semaphore": 3, "count": 1}),
        (Opcode.ARRAY_WAIT, {"semaphore": 3, "count": 2}),
    )
    assert text.startswith("PROGRAM at program counter 32 (ARRAY_WAIT semaphore=3 count=2): semaphore 3 is 1")


def test_vectors_left_in_the_array():
    text = message(*array_go(3))
    assert text.startswith("PROGRAM at program counter 80 (END): 3 vectors of the array were never taken")


def test_vectors_missing_from_the_array():
    text = message(
        *array_go(3),
        (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.ARRAY}),
        (Opcode.VECTOR_GO, GO | {"vectors": 4}),
    )
    assert "takes 4 vectors out of the array, which has sent 3" in text


def test_units_that_wait_for_each_other_through_the_accumulators():
    # Works in program order; side by side the array fills the queue of vectors and never gets to SIGNAL.
    text = message(
        *array_go(1000),
        (Opcode.ARRAY_SIGNAL, {"semaphore": 0, "count": 1}),
        (Opcode.VECTOR_WAIT, {"semaphore": 0, "count": 1}),
        (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.ARRAY}),
        (Opcode.VECTOR_GO, GO | {"vectors": 1000, "slots": 8}),
    )
    assert text.startswith("WATCHDOG: the units wait for each other: ")
    assert "core" not in text
    assert "ARRAY at ARRAY_GO " in text
    assert "VECTOR at VECTOR_WAIT semaphore=0 count=1" in text


def array_go(pixels):
    return [
        (Opcode.ARRAY_INPUT, {"row_bytes": 8, "height": 1}),
        (Opcode.ARRAY_WINDOW, {"width": 1}),
        (Opcode.ARRAY_KERNEL, {"ky_count": 1, "run_count": 1, "chunks": 1}),
        (Opcode.ARRAY_GO, {"pixels": pixels, "drain": 1}),
    ]


@pytest.mark.parametrize("fields", [{"drain": 0}, {"drain": 1, "accumulate": 1}])
def test_several_tiles_without_drain_or_with_accumulate(fields):
    text = message(*array_go(1)[:3], (Opcode.ARRAY_GO, {"pixels": CONFIG.rows + 1} | fields))
    assert f"{CONFIG.rows + 1} pixels are more than one tile of 8" in text


@pytest.mark.parametrize("fields", [{"pixels": CONFIG.rows + 1}, {"accumulate": 1}, {"drain": 0}])
def test_several_blocks_of_more_than_a_tile_that_drains(fields):
    text = message(*array_go(1)[:3], (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1, "more_blocks": 1} | fields))
    assert "several blocks need one tile of pixels, with drain and without accumulate" in text


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"slots": 0}, "slots must be in 1..16"),
        ({"slots": 17}, "slots must be in 1..16"),
        ({"uops": 0}, "uops must be in 1..16"),
        ({"uops": 17}, "uops must be in 1..16"),
        ({"body_start": 1, "body_end": 0}, "body_start <= body_end <= uops must hold"),
        ({"body_end": 2}, "body_start <= body_end <= uops must hold"),
        ({"vectors": 0}, "vectors and repeats must be at least 1"),
        ({"repeats": 0}, "vectors and repeats must be at least 1"),
    ],
)
def test_vector_go_out_of_range(changes, rule):
    store = (Opcode.VECTOR_UOP, {"index": 0, "to_memory": 1})
    assert message(store, (Opcode.VECTOR_GO, GO | changes)).endswith(rule)


@pytest.mark.parametrize(
    ("uop", "rule"),
    [
        ({"b_source": Source.ARRAY}, "micro-op 0 takes B from the array, which only A can"),
        ({"a_source": Source.LOAD, "b_source": Source.LOAD}, "micro-op 0 loads both A and B"),
        ({"a_source": Source.LOAD, "a_index": 3}, "micro-op 0 loads from stream 3; there are 0..2"),
        ({"a_source": 7}, "micro-op 0 has the unknown source 7"),
        ({"op": len(Op)}, f"micro-op 0 has the unknown operation {len(Op)}"),
    ],
)
def test_micro_op_that_does_not_exist(uop, rule):
    text = message((Opcode.VECTOR_UOP, {"index": 0} | uop), (Opcode.VECTOR_GO, GO))
    assert text.startswith("ILLEGAL at program counter 16 (VECTOR_UOP ")
    assert text.endswith(rule)


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ([], "micro-op 0 was never written"),
        ([(Opcode.VECTOR_UOP, {"index": 1})], "micro-op 0 was never written"),
        ([(Opcode.VECTOR_UOP, {"clamp": 1})], "micro-op 0 needs a VECTOR_BOUNDS, which was never written"),
        (
            [(Opcode.VECTOR_UOP, {"b_source": Source.IMMEDIATE}), (Opcode.VECTOR_BOUNDS, {"index": 1})],
            "micro-op 0 needs a VECTOR_BOUNDS, which was never written",
        ),
        ([(Opcode.VECTOR_UOP, {"bias": 1})], "a micro-op uses bias, which was never loaded"),
        (
            [
                (Opcode.VECTOR_PARAM, {"bias": 1}),
                (Opcode.VECTOR_UOP, {"op": Op.RESCALE, "per_channel": 1}),
            ],
            "a micro-op uses scale, which was never loaded",
        ),
        (
            [(Opcode.VECTOR_UOP, {"op": Op.TABLE8})],
            "a micro-op uses table of 256 entries, which was never loaded",
        ),
        (
            [(Opcode.VECTOR_TABLE, {"entries": 256}), (Opcode.VECTOR_UOP, {"op": Op.TABLE16})],
            "a micro-op uses table of 512 entries, which was never loaded",
        ),
    ],
)
def test_what_a_program_has_not_set_up(commands, reason):
    text = message(*commands, (Opcode.VECTOR_GO, GO))
    assert text.startswith(f"ILLEGAL at program counter {16 + 16 * len(commands)} (VECTOR_GO ")
    assert text.endswith(reason)


def test_sums_that_no_go_left():
    text = message(*array_go(1)[:3], (Opcode.ARRAY_GO, {"pixels": 1, "accumulate": 1}))
    assert text.startswith("ILLEGAL at program counter 64 (ARRAY_GO ")
    assert text.endswith("no ARRAY_GO came before it whose sums it could go on from")


def test_lanes_beyond_a_word_do_not_exist():
    """A word's 8 bytes are stored, and no more lanes."""
    store = (Opcode.VECTOR_UOP, {"index": 0, "to_memory": 1})
    assert run(store, (Opcode.VECTOR_GO, GO | {"lanes": 9, "tail_lanes": 63})).cycles > 0


def test_a_row_before_the_one_that_is_wrong():
    """The pitch wraps: row 1 lies one byte before row 0."""
    back = (Opcode.LOAD_PITCH, {"memory_pitch": 0xFFFFFFFF, "local_pitch": 8})
    assert run(back, (Opcode.LOAD_GO, {"memory_address": 8, "row_bytes": 4, "rows": 2})).cycles > 0
    text = message(back, (Opcode.LOAD_GO, {"memory_address": 0, "row_bytes": 4, "rows": 2}))
    assert text.endswith("bytes 4294967295..4294967298 leave the 8192 bytes of external memory")
    # Row 1 is misaligned, row 2 outside: rows are looked at in their order.
    pitch = (Opcode.LOAD_PITCH, {"memory_pitch": 4092, "local_pitch": 8})
    text = message(pitch, (Opcode.LOAD_GO, {"space": 1, "row_bytes": 8, "rows": 4}))
    assert text.startswith("ILLEGAL at program counter 32 ")
    assert text.endswith("memory_address 4092 of row 1 must be a multiple of 8 for the weight memory")


@pytest.mark.parametrize("entries", [0, 255, 513])
def test_table_of_another_size(entries):
    text = message((Opcode.VECTOR_TABLE, {"entries": entries}))
    assert text.endswith(f"a table has 256 or 512 entries, not {entries}")


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"input_zp": -129}, "input_zp -129 must be in -128..128"),
        ({"input_zp": 129}, "input_zp 129 must be in -128..128"),
        ({"unsigned_input": 1, "input_zp": -1}, "input_zp -1 must be in 0..255"),
        ({"weight_zp": 129}, "weight_zp 129 must be in -128..128"),
    ],
)
def test_zero_points_that_overflow_the_operands(fields, rule):
    text = message((Opcode.ARRAY_INPUT, fields), *array_go(1)[1:])
    assert text.startswith("ILLEGAL at program counter 64 (ARRAY_GO ")
    assert text.endswith(f"{rule} for operands of 9 bits")


def test_go_without_configuration():
    assert message((Opcode.ARRAY_GO, {"pixels": 1})).endswith("no ARRAY_KERNEL came before it")


def test_a_branch_with_vectors_left_in_the_array():
    never = (Opcode.BRANCH, {"target": 0, "condition": Condition.NEVER})
    text = message(*array_go(3), never)
    assert text.startswith("PROGRAM at program counter 80 (BRANCH ")
    assert "3 vectors of the array were never taken" in text


def test_accumulators_of_a_whole_tile():
    rows = CONFIG.rows

    def program(pixels):
        *setup, _ = array_go(pixels)
        first, then = ({"pixels": pixels, **how} for how in ({"drain": 0}, {"drain": 1, "accumulate": 1}))
        take = (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.ARRAY})
        vectors = (Opcode.VECTOR_GO, GO | {"vectors": pixels, "slots": min(pixels, 8)})
        return [*setup, (Opcode.ARRAY_GO, first), (Opcode.ARRAY_GO, then), take, vectors]

    assert run(*program(rows)).cycles > 0
    text = message(*program(rows + 1))
    assert f"{rows + 1} pixels are more than one tile of {rows}" in text


def test_an_indexed_stream_without_offsets():
    text = message(
        (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.LOAD, "to_memory": 1}),
        (Opcode.VECTOR_STREAM, {"stream": 0, "indexed": 1}),
        (Opcode.VECTOR_DIMS, {"stream": 0, "count_low": 1, "count_high": 1}),
        (Opcode.VECTOR_STREAM, {"stream": STORE_STREAM}),
        (Opcode.VECTOR_DIMS, {"stream": STORE_STREAM, "count_low": 1, "count_high": 1}),
        (Opcode.VECTOR_GO, GO),
    )
    assert text.endswith("have at most as many turns as there are offsets, 0")


DIMS = {"count_low": 1, "count_high": 1}
FEW = get_config("small,vector_uops=8,vector_registers=4")
LAST_UOP, LAST_REGISTER = 7, 3


@pytest.mark.parametrize(
    ("opcode", "fields", "rule"),
    [
        (Opcode.VECTOR_DIMS, DIMS | {"pair": 2}, None),
        (Opcode.VECTOR_DIMS, DIMS | {"pair": 3}, "a stream has dimension pairs 0..2, not 3"),
        (Opcode.VECTOR_DIMS, {"count_low": 1, "count_high": 0}, "a dimension has at least 1 turn"),
        (Opcode.VECTOR_DIMS, {"count_low": 0, "count_high": 1}, "a dimension has at least 1 turn"),
        (Opcode.VECTOR_STREAM, {"element": max(Element)}, None),
        (Opcode.VECTOR_STREAM, {"element": max(Element) + 1}, f"no element type {max(Element) + 1}"),
        (Opcode.VECTOR_OFFSETS, {"count": 1}, None),
        (Opcode.VECTOR_OFFSETS, {"count": OFFSETS_MAX}, None),
        (Opcode.VECTOR_OFFSETS, {"count": 0}, f"there are 1..{OFFSETS_MAX} offsets, not 0"),
        (
            Opcode.VECTOR_OFFSETS,
            {"count": OFFSETS_MAX + 1},
            f"there are 1..{OFFSETS_MAX} offsets, not {OFFSETS_MAX + 1}",
        ),
        (Opcode.VECTOR_BOUNDS, {"index": LAST_UOP}, None),
        (
            Opcode.VECTOR_BOUNDS,
            {"index": LAST_UOP + 1},
            f"there are micro-ops 0..{LAST_UOP}, not {LAST_UOP + 1}",
        ),
        (Opcode.VECTOR_UOP, {"index": LAST_UOP, "destination": LAST_REGISTER}, None),
        (
            Opcode.VECTOR_UOP,
            {"index": LAST_UOP + 1},
            f"there are micro-ops 0..{LAST_UOP}, not {LAST_UOP + 1}",
        ),
        (
            Opcode.VECTOR_UOP,
            {"destination": LAST_REGISTER + 1},
            f"micro-op 0 writes register {LAST_REGISTER + 1}",
        ),
        (Opcode.VECTOR_UOP, {"destination": LAST_REGISTER + 1, "to_memory": 1}, None),
        *(
            entry
            for side in "ab"
            for entry in (
                (
                    Opcode.VECTOR_UOP,
                    {f"{side}_source": Source.REGISTER, f"{side}_index": LAST_REGISTER},
                    None,
                ),
                (
                    Opcode.VECTOR_UOP,
                    {f"{side}_source": Source.REGISTER, f"{side}_index": LAST_REGISTER + 1},
                    f"micro-op 0 reads register {LAST_REGISTER + 1}",
                ),
                (
                    Opcode.VECTOR_UOP,
                    {f"{side}_source": Source.LOAD, f"{side}_index": STORE_STREAM - 1},
                    None,
                ),
                (
                    Opcode.VECTOR_UOP,
                    {f"{side}_source": Source.LOAD, f"{side}_index": STORE_STREAM},
                    "micro-op 0 loads from stream 3; there are 0..2",
                ),
            )
        ),
        (Opcode.LOAD_GO, {"row_bytes": 8, "rows": 1, "space": Space.WM, "streamed": 0}, None),
        (
            Opcode.LOAD_GO,
            {"row_bytes": 8, "rows": 1, "streamed": 1},
            "only loads to the weight memory are streamed",
        ),
        (
            Opcode.LOAD_GO,
            {"row_bytes": 8, "rows": 1, "packed": 1},
            "only loads to the weight memory are packed",
        ),
        *(
            (
                opcode,
                {"row_bytes": 8, "rows": 1} | {name: 0},
                f"rows ({int(name != 'rows')}) and row_bytes ({8 * (name != 'row_bytes')}) must be at least 1",
            )
            for opcode in (Opcode.LOAD_GO, Opcode.STORE_GO)
            for name in ("rows", "row_bytes")
        ),
        *(
            (opcode, {"memory_address": 8192 - 8, "row_bytes": 8, "rows": 1}, None)
            for opcode in (Opcode.LOAD_GO, Opcode.STORE_GO)
        ),
    ],
)
def test_fields_at_their_ends(opcode, fields, rule):
    """The last value that is taken, and the first one that is not."""
    command = (opcode, fields)
    if rule is None:
        assert run(command, config=FEW).cycles > 0
    else:
        text = message(command, config=FEW)
        assert text.startswith(f"ILLEGAL at program counter 16 ({opcode.name}")
        assert text.endswith(f": {rule}")


DECODE = {"row_bytes": 8, "weights": 8, "space": Space.AM}


@pytest.mark.parametrize(
    ("setup", "fields", "rule"),
    [
        ((), {}, "there was no LOAD_TENSOR and LOAD_STREAMS before it"),
        ((Opcode.LOAD_TENSOR,), {}, "there was no LOAD_TENSOR and LOAD_STREAMS before it"),
        ((Opcode.LOAD_STREAMS,), {}, "there was no LOAD_TENSOR and LOAD_STREAMS before it"),
        (None, {"weights": 0}, "weights and row_bytes must be at least 1"),
        (None, {"row_bytes": 0}, "weights and row_bytes must be at least 1"),
        (None, {"memory_address": 4}, "memory_address 4 must be a multiple of 8"),
        (None, {"local_address": 4}, "local_address 4 must be a multiple of 8"),
        (None, {"row_bytes": 12}, "row_bytes 12 must be a multiple of 8"),
        (None, {"row_bytes": 16}, "row_bytes is 16, but streams of [8] bytes take 8"),
        (None, {"memory_address": 8192}, "bytes 8192..8199 leave the 8192 bytes of external memory"),
    ],
)
def test_fields_of_a_block_of_coded_weights(setup, fields, rule):
    given = {Opcode.LOAD_TENSOR: {}, Opcode.LOAD_STREAMS: {"length_0": 8}}
    commands = [(opcode, given[opcode]) for opcode in (given if setup is None else setup)]
    assert message(*commands, (Opcode.LOAD_DECODE, DECODE | fields)).endswith(rule)


def test_more_streams_of_coded_weights_than_engines():
    text = message(
        (Opcode.LOAD_TENSOR, {"log2_streams": 2}), (Opcode.LOAD_STREAMS, {}), (Opcode.LOAD_DECODE, DECODE)
    )
    assert text.endswith(f"4 streams need as many cabac_engines, not {CONFIG.cabac_engines}")
