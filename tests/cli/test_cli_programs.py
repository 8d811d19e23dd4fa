"""Compiled programs: compile and run; damaged files and those of other machines."""

import dataclasses
import json
import zlib

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.explain import explain
from tosaic.compiler.ir import read_tosa
from tosaic.compiler.program import MAGIC, Program
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import ISA_HASH, Condition, Op, Opcode, Source, encode, make
from tosaic.sim.assembler import Assembler

ON = ("--on", "emulator")


@pytest.fixture
def program(tosaic, here):
    """The bytes of tiny.tsc, compiled for small."""
    assert tosaic("compile", "tiny.tosa", "-o", "tiny.tsc", "--config", "small").code == 0
    return (here / "tiny.tsc").read_bytes()


def with_header(program, change):
    """The program file with another header and a right CRC."""
    start = len(MAGIC) + 4
    length = int.from_bytes(program[len(MAGIC) : start], "little")
    text = json.dumps(change(json.loads(program[start : start + length]))).encode()
    body = MAGIC + len(text).to_bytes(4, "little") + text + program[start + length : -4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def test_compile_then_run(tosaic, here):
    compiled = tosaic("compile", "tiny.tosa", "-o", "tiny.tsc", "--config", "small")
    assert (compiled.code, compiled.err) == (0, "")
    assert compiled.out.startswith("tiny.tsc: 3 layers, 6,400 MACs, ")
    assert compiled.out.splitlines()[-2].endswith(" bytes of external memory, for small")
    direct = tosaic("run", "tiny.tosa", "-i", "x.npy", "-o", "a", "--config", "small", *ON)
    stored = tosaic("run", "tiny.tsc", "-i", "x.npy", "-o", "b", *ON)
    assert (direct.code, stored.code) == (0, 0)
    assert direct.told == stored.told
    assert (here / "a" / "scores.npy").read_bytes() == (here / "b" / "scores.npy").read_bytes()
    assert tosaic("run", "tiny.tsc", "-i", "x.npy", "--config", "small", *ON).told == direct.told


def test_compile_explains(tosaic, here):
    shown = tosaic("compile", "tiny.tosa", "--explain", "--config", "small")
    assert (shown.code, shown.err) == (0, "")
    lines = explain(read_tosa(here / "tiny.tosa"), get_config("small"))
    assert shown.out == "".join(f"{line}\n" for line in lines)
    both = tosaic("compile", "tiny.tosa", "--explain", "-o", "tiny.tsc", "--config", "small")
    assert both.out.startswith(shown.out + "tiny.tsc: 3 layers, 6,400 MACs, ")
    assert (here / "tiny.tsc").is_file()


def test_compile_for_a_memory(tosaic, here):
    """The options are taken, and the program runs on any memory."""
    line = ("compile", "tiny.tosa", "--config", "small", "--memory-bandwidth", "2", "--memory-latency", "100")
    compiled = tosaic(*line, "-o", "tiny.tsc", "--explain")
    assert (compiled.code, compiled.err) == (0, "")
    predicted = next(text for text in compiled.out.splitlines() if text.startswith("predicted: "))
    default = tosaic("compile", "tiny.tosa", "--config", "small", "--explain")
    assert predicted not in default.out
    assert tosaic("run", "tiny.tsc", "-i", "x.npy", *ON).code == 0
    refused = tosaic("compile", "tiny.tosa", "-o", "tiny.tsc", "--memory-bandwidth", "0")
    assert refused.code == 2


def test_compile_wants_a_file_or_an_explanation(tosaic):
    assert tosaic("compile", "tiny.tosa").code == 2
    assert tosaic("compile", "tiny.tosa", "--explain", "-O2").code == 2


def test_verify(tosaic, program):
    outcome = tosaic("verify", "tiny.tsc")
    assert outcome.code == 0
    assert outcome.out.startswith("tiny.tsc: ")
    assert outcome.out.endswith(" instructions in 1 pieces between branches: nothing is wrong\n")
    assert tosaic("verify", "tiny.tosa", "--set", "rows=8").code == 0


def test_verify_names_the_instruction_at_fault(refused, here):
    program = compile_graph(read_tosa(here / "tiny.tosa"), get_config("nano"))
    image = bytearray(program.image)
    last = program.program_address + program.program_bytes - 16
    image[last : last + 16] = encode(make(Opcode.LOAD_SIGNAL, semaphore=0, count=1))
    dataclasses.replace(program, image=bytes(image)).save("endless.tsc")
    assert refused("verify", "endless.tsc").startswith(
        f"endless.tsc: PROGRAM_END at program counter {program.program_bytes}"
    )


def save_program(name, *commands):
    """A program of (opcode, fields) for nano, behind 1024 zeros that it may load."""
    assembler = Assembler(CONFIGS["nano"])
    for opcode, fields in commands:
        assembler.emit(opcode, **fields)
    image = np.zeros(2048, np.uint8)
    size = assembler.place(image, 1024)
    Program(CONFIGS["nano"], image.tobytes(), 1024, size, 4096, [], [], []).save(name)


def store_at(address):
    return Opcode.STORE_GO, {"memory_address": address, "row_bytes": 4, "rows": 1}


COUNTS_UP = [
    (Opcode.LOAD_GO, {"row_bytes": 1024, "rows": 1}),
    (Opcode.LOAD_SIGNAL, {"count": 1}),
    (Opcode.VECTOR_WAIT, {"count": 1}),
    (
        Opcode.VECTOR_UOP,
        {"op": Op.ADD, "a_source": Source.LOAD, "b_source": Source.IMMEDIATE, "to_memory": 1},
    ),
    (Opcode.VECTOR_BOUNDS, {"immediate": 1}),
    (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 1, "tail_lanes": 1}),
]


@pytest.mark.parametrize(
    ("byte", "told"),
    [
        (
            0,
            "Loops that end when data say so begin at program counter 96: a run on data that never do is ended by ",
        ),
        (1, ""),
    ],
)
def test_verify_tells_of_loops(tosaic, here, byte, told):
    test = (Opcode.VECTOR_TEST, {"address": byte})
    back = (Opcode.BRANCH, {"target": 96, "condition": Condition.IF_SET})
    save_program("loop.tsc", *COUNTS_UP, test, back)
    outcome = tosaic("verify", "loop.tsc")
    if told:
        lines = outcome.out.splitlines()
        assert (outcome.code, lines[0]) == (
            0,
            "loop.tsc: 13 instructions in 3 pieces between branches: nothing is wrong",
        )
        assert lines[1:] == [f"{told}--max-cycles"]
        return
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "tosaic: error: loop.tsc: PROGRAM at program counter 96: the loop that begins there has no exit: nothing in it "
        "changes byte 1 of the activation memory, which it tests\n"
    )


def test_verify_names_what_nobody_wrote(refused, here):
    save_program("reads.tsc", store_at(2000))
    assert refused("verify", "reads.tsc").endswith(
        "): reads byte 0 of the activation memory, which nothing has written: an earlier program left it"
    )
    save_program("itself.tsc", *COUNTS_UP[:2], (Opcode.STORE_WAIT, {"count": 1}), store_at(1024))
    assert refused("verify", "itself.tsc").endswith(
        "): bytes 1024..1027 reach the program in bytes 1024..1119, which may not change while it runs"
    )


def test_another_configuration(refused, program):
    assert refused("run", "tiny.tsc", "--random", "1", "--config", "nano", *ON) == (
        "the program was compiled for configuration small, not nano: compile the model for nano, "
        "or do not name a configuration"
    )


def test_what_a_program_cannot_do(refused, program):
    assert refused("run", "tiny.tsc", "--random", "1", "--check", *ON) == (
        "a compiled program cannot be checked, golden needs the graph: run the .tosa file instead"
    )
    assert refused("run", "tiny.tsc", "--random", "1", "--on", "golden") == (
        "a compiled program cannot run on golden, which needs the graph: give the .tosa file"
    )
    assert refused("compile", "tiny.tsc", "-o", "again.tsc") == (
        "tiny.tsc is a compiled program already: run it, or give the .tosa model"
    )
    assert refused("check", "tiny.tsc") == "tiny.tsc is a compiled program: everything in it runs"


def test_inputs_of_a_program_are_checked(refused, program):
    np.save("flat.npy", np.zeros(64, np.int8))
    assert refused("run", "tiny.tsc", "-i", "flat.npy", *ON) == (
        "input 'image' has shape [64], the model wants [1, 8, 8, 1]: prepare samples of this shape as for the training"
    )


@pytest.mark.parametrize("data", [b"", b"TOSAIC", b"hello, this is no program"])
def test_wrong_magic(refused, here, data):
    (here / "bad.tsc").write_bytes(data)
    assert refused("run", "bad.tsc", *ON) == (
        "bad.tsc: not a Tosaic program file (its first bytes are wrong); compile the model again"
    )


def test_every_byte_is_under_the_crc(refused, here, program):
    message = "bad.tsc: the program file is damaged: its CRC-32 does not match; compile the model again"
    for position in [*range(len(MAGIC), len(program), 397), len(program) - 1]:
        broken = bytearray(program)
        broken[position] ^= 0x10
        (here / "bad.tsc").write_bytes(broken)
        assert refused("run", "bad.tsc", *ON) == message
    for length in (len(MAGIC), len(program) // 2, len(program) - 1):
        (here / "bad.tsc").write_bytes(program[:length])
        assert refused("run", "bad.tsc", *ON) == message


def test_another_instruction_set(refused, here, program):
    other = with_header(program, lambda header: header | {"isa_hash": ISA_HASH ^ 1})
    (here / "bad.tsc").write_bytes(other)
    assert refused("run", "bad.tsc", *ON) == (
        f"bad.tsc: the program file was compiled for another version of the instruction set (0x{ISA_HASH ^ 1:08x}, "
        f"this one is 0x{ISA_HASH:08x}); compile the model again"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"config_hash": CONFIGS["small"].hash ^ 1},
        {"config": {"name": "small"}},
        {"config": {"name": "small", "lasers": 5}},
    ],
    ids=["hash", "fields missing", "fields unknown"],
)
def test_another_version_of_the_configurations(refused, here, program, change):
    (here / "bad.tsc").write_bytes(with_header(program, lambda header: header | change))
    assert refused("run", "bad.tsc", *ON) == (
        "bad.tsc: the program file was compiled for another version of the configurations; compile the model again"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"memory_bytes": 4096}, "memory_bytes must hold the image of"),
        ({"program_bytes": 1 << 30}, "program_address and program_bytes reach beyond the image;"),
        ({"inputs": 5}, "inputs must be a list, not 5;"),
        ({"layers": [{}]}, "layers[0].name is missing;"),
        ({"labels": 7}, "labels must be an object, not 7;"),
        ({"labels": {"scores": ["a"]}}, "labels['scores'] must have 10 elements, not 1;"),
        ({"labels": {"scores": [None] * 10}}, "labels['scores'][0] must be an integer in "),
        ({"memory_bytes": 1 << 62}, f"memory_bytes must be an integer in 0..{1 << 32}, not {1 << 62};"),
        ({"outputs": [{}]}, "outputs[0].name is missing;"),
        ({"colour": 1}, "colour is no field of it;"),
    ],
)
def test_header_that_makes_no_sense(refused, here, program, change, reason):
    (here / "bad.tsc").write_bytes(with_header(program, lambda header: header | change))
    message = refused("run", "bad.tsc", *ON)
    assert message.startswith(f"bad.tsc: the program file's header is wrong: {reason}")
    assert message.endswith("; compile the model again")


def test_compile_writes_c(tosaic, refused, here):
    compiled = tosaic("compile", "tiny.tosa", "-o", "net.c", "--config", "small")
    assert (compiled.code, compiled.err) == (0, "")
    assert compiled.out.startswith("net.c: 3 layers, 6,400 MACs, ")
    assert "extern const struct tosaic_program net_program;" in (here / "net.h").read_text()
    assert '.configuration = "small",' in (here / "net.c").read_text()
    assert (here / "tosaic.c").is_file() and (here / "tosaic_registers.h").is_file()
    assert refused("compile", "tiny.tosa", "-o", "tosaic.c") == (
        "tosaic.c: the runtime has a file tosaic of its own: name the model's file otherwise"
    )
    assert refused("compile", "tiny.tosa", "-o", "none/net.c") == (
        "none/net.c: cannot be written: there is no directory none; make it first"
    )


def test_c_has_the_encodings_beside_the_model(tosaic, here):
    encodings = {"inputs": {"image": {"dtype": "int8", "scale": 0.0625, "zero_point": 3}}, "outputs": {}}
    (here / "tiny.quant.json").write_text(json.dumps(encodings))
    assert tosaic("compile", "tiny.tosa", "-o", "net.h", "--config", "nano").code == 0
    assert "64u, 0.0625, 3, NULL, NULL, 0.0, 0.0}," in (here / "net.h").read_text()
