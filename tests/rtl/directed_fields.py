"""Programs with the values of fields that random ones and directed_programs.py do not use, each legal one once."""

from collections.abc import Iterator

from directed_programs import OUTPUT_AT, OUTPUT_BYTES, directed_programs, go, program, stream

from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, STORE_STREAM, Condition, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

WEIGHT_BYTES = 1 << 12
SET_UP = (Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_KERNEL)
MANY = 17


def emit_fields(assembler: Assembler, fields: dict[str, int], *opcodes: Opcode) -> None:
    """Each of the instructions, with those of the fields that it has."""
    for opcode in opcodes:
        own = {field.name for field in FIELDS[opcode]}
        assembler.emit(opcode, **{name: value for name, value in fields.items() if name in own})


def load_weights(assembler: Assembler, semaphore: int) -> None:
    assembler.emit(Opcode.LOAD_GO, space=Space.WM, row_bytes=WEIGHT_BYTES, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, semaphore)


def take(assembler: Assembler, vectors: int, address: int) -> int:
    """VECTOR stores the array's vectors as int32; returns the address behind them."""
    size = 4 * assembler.config.columns
    stream(assembler, STORE_STREAM, address, [(vectors, size)], element=Element.INT32)
    assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY, to_memory=1)
    go(assembler, vectors, 1)
    return address + vectors * size


def array_fields(config: Config) -> Stimulus:
    """ARRAY_GOs of a small image, each with a value of its own in one field or two."""
    columns = config.columns
    row = 8 * columns
    usual = {"address": 2048, "row_bytes": row, "height": 4, "x_step": columns, "width": 2, "y_step": 1}
    usual |= {"y_step_bytes": row, "ky_count": 1, "run_count": 1, "chunks": 1, "weights": 1}
    usual |= {"pixels": 4, "drain": 1}
    cases = [
        *({"address": 1}, {"address": 5}, {"input_zp": 1}, {"weight_zp": 1}),
        *({"x_start": 1}, {"x_start": MANY}, {"x_start": 4 * columns, "x_step": -columns}),
        *({"y_start": 2}, {"y_start": MANY}, {"y_step_bytes": -row}, {"y_step_bytes": 1}),
        *({"ky_count": MANY}, {"ky_count": 2, "ky_step": 1, "ky_step_bytes": -row}),
        *({"run_count": MANY}, {"run_count": 2, "run_step": 5}, {"more_blocks": MANY, "pixels": 1}),
        *({"ky_count": 2, "ky_step": MANY}, {"more_blocks": 1, "pixels": 1}),
        *({"input_zp": 5}, {"ky_count": 2, "ky_step_bytes": 7}, {"chunks": MANY, "pixels": 1}),
    ]

    def emit(assembler: Assembler) -> None:
        load_weights(assembler, 1)
        address = OUTPUT_AT
        for case in cases:
            fields = usual | case
            emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
            address = take(assembler, fields["pixels"] * (1 + case.get("more_blocks", 0)), address)

    return program(config, emit, stored=2)


def streamed_sums(config: Config) -> Stimulus:
    """Sums over several ARRAY_GOs, all of whose weights come while the array waits for them."""
    columns = config.columns

    def emit(assembler: Assembler) -> None:
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 3)
        fields = {"address": 2048, "row_bytes": 8 * columns, "height": 4, "x_step": columns, "width": 8}
        fields |= {"ky_count": 1, "run_count": 1, "chunks": 2}
        emit_fields(assembler, fields, *SET_UP)
        depth = fields["chunks"] * columns
        for part in range(3):
            long = {"memory_address": 5, "local_address": 2 * OUTPUT_AT, "row_bytes": 2000, "rows": 1}
            assembler.emit(Opcode.LOAD_GO, **long)
            assembler.emit(
                Opcode.LOAD_GO,
                memory_address=columns * part,
                local_address=part * depth * columns,
                space=Space.WM,
                row_bytes=depth * columns,
                rows=1,
                streamed=1,
            )
            flags = {"accumulate": int(part > 0), "drain": int(part == 2), "streamed": 1}
            assembler.emit(Opcode.ARRAY_GO, weights=part * depth, pixels=2, **flags)
        take(assembler, 2, OUTPUT_AT)

    return program(config, emit)


def depthwise_fields(config: Config) -> Stimulus:
    """Depthwise convolutions of two taps, each with values of its own; sums that go on in another one."""
    columns = config.columns
    cases: list[dict[str, int]] = [
        *({"delay": 20}, {"skip": 1}, {"skip": MANY}, {"line": 1, "out_width": 1}, {"group_rows": MANY}),
        {"line": 20, "out_width": MANY, "out_height": 2},
        {"height": 20, "out_height": MANY},
        {"line": 20, "height": 20, "out_width": 2, "out_height": 2, "x_stride": MANY, "y_stride": MANY},
        *({"idle_rows": config.rows - 2}, {"weights": 0}, {"weights": 1}),
    ]

    def emit(assembler: Assembler) -> None:
        load_weights(assembler, 3)
        address = OUTPUT_AT
        for case in cases:
            fields = {"line": 4, "height": 4, "out_width": 3, "out_height": 3, "x_stride": 1, "y_stride": 1}
            fields |= {"group_rows": 2, "weights": 9} | case
            line = fields["line"]
            fields = {"skip": 0, "delay": line + 2, "width": line, "row_bytes": line * columns} | fields
            fields |= {"address": 2048, "x_step": columns, "y_step": 1, "y_step_bytes": line * columns}
            last = (fields["out_height"] - 1) * fields["y_stride"] * line
            last += (fields["out_width"] - 1) * fields["x_stride"]
            fields["advances"] = fields["skip"] + config.rows + last
            emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE)
            if config.partial_sums and case == cases[-1]:
                # Their outputs are partial sums of the next one's. The first has no output yet.
                for flags in ({"advances": 1}, {}, {"accumulate": 1}, {"accumulate": 1, "drain": 1}):
                    emit_fields(assembler, fields | flags, Opcode.ARRAY_DEPTHWISE_GO)
            else:
                # The first ends before an output is there.
                for advances in (1, fields["advances"]):
                    more = {"drain": 1, "advances": advances}
                    emit_fields(assembler, fields | more, Opcode.ARRAY_DEPTHWISE_GO)
            address = take(assembler, fields["out_width"] * fields["out_height"], address)

    return program(config, emit)


def vector_fields(config: Config) -> Stimulus:
    """VECTOR's instructions at the first bytes of the memory, and GOs with many repetitions, lanes and the like."""
    columns = config.columns

    def emit(assembler: Assembler) -> None:
        operands = {"a_source": Source.LOAD, "b_source": Source.IMMEDIATE}
        address = OUTPUT_AT
        assembler.emit(Opcode.VECTOR_BOUNDS, index=0, low=-1000, high=1000, immediate=3)

        def run(op: Op, vectors: int, uop: dict[str, int], **fields: int) -> None:
            nonlocal address
            stream(assembler, 0, 64, [(vectors, 4 * columns)], element=Element.INT32)
            dims = [(vectors, 4 * columns)]
            stream(assembler, STORE_STREAM, address, dims, element=Element.INT32)
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=op, to_memory=1, **operands | uop)
            go(assembler, vectors, 1, **fields)
            address += vectors * 4 * columns

        for multiplier in (1, 2, 15):
            run(Op.RESCALE, 4, {"multiplier": multiplier, "shift": 3})
        for place in (1, 2, 15):
            assembler.emit(Opcode.VECTOR_PARAM, address=place, bias=1)
            run(Op.ADD, 4, {"bias": 1})
        for place in (0, 4, 8):
            assembler.emit(Opcode.VECTOR_TABLE, address=place, entries=512)
            run(Op.TABLE16, 4, {})
        for op in Op:
            run(op, 2, {"shift": 2})
        run(Op.ADD, 4 * MANY, {}, slots=1, repeats=MANY, body_end=1)
        # The vectors of the first micro-operations only.
        for index in range(config.vector_uops):
            assembler.emit(Opcode.VECTOR_UOP, index=index, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
            assembler.emit(Opcode.VECTOR_BOUNDS, index=index, low=-index)
        vectors, uops = 2, config.vector_uops
        stream(assembler, 0, 64, [(vectors * uops, 4 * columns)], element=Element.INT32)
        dims = [(vectors * uops, 4 * columns)]
        stream(assembler, STORE_STREAM, address, dims, element=Element.INT32)
        go(assembler, vectors, uops, body_start=uops, body_end=uops)
        address += vectors * uops * 4 * columns
        for lanes in (0, 20):
            run(Op.ADD, 3, {}, lanes=lanes)
        assembler.emit(Opcode.VECTOR_MARK, layer=MANY)
        assembler.emit(Opcode.VECTOR_BOUNDS, index=0, low=1, high=99)
        run(Op.ADD, 3, {"clamp": 1})
        stream(assembler, 0, 64, [(4, 1)])
        stream(assembler, STORE_STREAM, address, [(4, columns)])
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        go(assembler, 4, 1)

    return program(config, emit)


def tails(config: Config, lanes: int) -> Stimulus:
    """The last vector of each turn has no lane, or more than there are."""

    def emit(assembler: Assembler) -> None:
        row = 4 * config.columns
        stream(assembler, 0, 64, [(12, row)], element=Element.INT32)
        stream(assembler, STORE_STREAM, OUTPUT_AT, [(3, row), (4, 3 * row)], element=Element.INT32)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        fields = {"vectors": 12, "slots": 4, "uops": 1, "repeats": 1}
        assembler.emit(Opcode.VECTOR_GO, **fields, lanes=config.columns, tail_lanes=lanes)

    return program(config, emit)


def offsets_at(config: Config, address: int) -> Stimulus:
    """One offset, at the first bytes of the memory: small ones are written there before."""

    def emit(assembler: Assembler) -> None:
        row = 4 * config.columns
        assembler.emit(
            Opcode.VECTOR_UOP,
            index=0,
            op=Op.ASR,
            a_source=Source.LOAD,
            b_source=Source.IMMEDIATE,
            to_memory=1,
        )
        assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=21)
        stream(assembler, 0, 64, [(1, row)], element=Element.INT32)
        stream(assembler, STORE_STREAM, address, [(1, row)], element=Element.INT32)
        go(assembler, 1, 1)
        assembler.emit(Opcode.VECTOR_OFFSETS, address=address, count=1)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        stream(assembler, 0, 2048, [(5, row)], element=Element.INT32, indexed=1)
        stream(assembler, STORE_STREAM, OUTPUT_AT, [(5, row)], element=Element.INT32)
        go(assembler, 5, 1)

    return program(config, emit)


def contention(config: Config) -> Stimulus:
    """The array, VECTOR and LOAD use the activation memory in every cycle; then the array waits for VECTOR, which has
    much to do with each vector."""
    vectors = 300

    def emit(assembler: Assembler) -> None:
        columns = config.columns
        load_weights(assembler, 3)
        fields = {"address": 2048, "row_bytes": 8 * columns, "height": 4, "x_step": columns, "width": 8}
        fields |= {"ky_count": 4, "run_count": 8, "chunks": 1, "pixels": config.rows, "drain": 1}
        emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
        there = 2 * OUTPUT_AT
        load = {"local_address": there, "memory_address": 3, "row_bytes": 3000, "rows": 1}
        assembler.emit(Opcode.LOAD_GO, space=Space.AM, **load)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        stream(assembler, 0, 1, [(vectors, columns)])
        stream(assembler, STORE_STREAM, OUTPUT_AT + 1, [(vectors, columns)])
        go(assembler, vectors, 1)
        behind = take(assembler, config.rows, OUTPUT_AT + OUTPUT_BYTES // 2)
        fields |= {"ky_count": 1, "run_count": 1, "pixels": 8 * config.rows}
        emit_fields(assembler, fields, Opcode.ARRAY_KERNEL, Opcode.ARRAY_GO)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY)
        for index in range(1, 9):
            last = {"to_memory": int(index == 8)}
            operands = {"a_source": Source.REGISTER, "b_source": Source.REGISTER}
            assembler.emit(Opcode.VECTOR_UOP, index=index, op=Op.ADD, **operands, **last)
        dims = [(8 * config.rows, 4 * columns)]
        stream(assembler, STORE_STREAM, behind, dims, element=Element.INT32)
        go(assembler, 8 * config.rows, 9, slots=1)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 2)
        store = {"memory_address": 2 * OUTPUT_AT, "local_address": there, "row_bytes": 3000, "rows": 1}
        assembler.emit(Opcode.STORE_GO, **store)

    return program(config, emit)


def branch(config: Config) -> Stimulus:
    """The flag is made of the memory's first bytes; branches are taken and not."""

    def emit(assembler: Assembler) -> None:
        for address in (1, 2, 9):
            assembler.emit(Opcode.VECTOR_TEST, address=address)
            assembler.emit(Opcode.BRANCH, target=16, condition=Condition.NEVER)
        assembler.emit(Opcode.STORE_GO, memory_address=1, local_address=7, row_bytes=1, rows=1)

    return program(config, emit)


def all_directed(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Yields the programs of this file and of directed_programs.py, by name."""
    yield from directed_programs(config)
    yield from field_programs(config)


def field_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Yields the programs of this file, by name."""
    yield "fields of ARRAY", array_fields(config)
    yield "sums with streamed weights", streamed_sums(config)
    yield "fields of depthwise", depthwise_fields(config)
    yield "fields of VECTOR", vector_fields(config)
    for lanes in (0, 20):
        yield f"{lanes} lanes at the tail", tails(config, lanes)
    for address in (0, 1, 5):
        yield f"offset at {address}", offsets_at(config, address)
    yield "contention", contention(config)
    yield "tests and branches", branch(config)
