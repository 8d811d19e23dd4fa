/* LOAD and STORE: copies of rows between external memory and the on-chip memories. */

static struct {
    const u32 *pitch[2]; /* the last LOAD_PITCH and STORE_PITCH */
    u32 streamed_words;  /* that `streamed` loads wrote and no ARRAY_GO read */
} transfer;

/* A row of `bytes` bytes between external and on-chip memory, whose addresses wrap. */
static void copy_row(u8 *memory, u8 *on_chip, u32 mask, u32 local, u32 bytes, u32 to_memory)
{
    while (bytes) {
        u8 *inside = on_chip + (local & mask), *from = to_memory ? inside : memory, *to = to_memory ? memory : inside;
        u32 step = 1;
        if (bytes >= 4 && !(((uintptr_t)from | (uintptr_t)to) & 3)) {
            *(u32 *)to = *(const u32 *)from;
            step = 4;
        } else
            *to = *from;
        memory += step;
        local += step;
        bytes -= step;
    }
}

/* One GO; LOAD_GO and STORE_GO have the same fields in different places. */
static void copy_rows(u32 unit, u32 pc, u32 memory, u32 local, u32 row_bytes, u32 rows, u32 to_wm, u32 streamed)
{
    const u32 *pitch = transfer.pitch[unit == UNIT_STORE];
    u32 size = REGISTER(CSR_MEM_SIZE);
    if (!row_bytes || !rows || streamed > to_wm)
        fail(ERROR_ILLEGAL, unit, pc);
    for (; rows; rows--) {
        if (to_wm && ((REGISTER(CSR_MEM_BASE) + memory) | local | row_bytes) & (W - 1))
            fail(ERROR_ILLEGAL, unit, pc);
        if (row_bytes > size || memory > size - row_bytes)
            fail(ERROR_MEMORY_RANGE, unit, pc);
        u8 *row = external(memory, row_bytes, unit == UNIT_LOAD ? ERROR_BUS_READ : ERROR_BUS_WRITE, unit, pc);
        copy_row(row, to_wm ? (u8 *)WM : AM, to_wm ? WM_BYTES - 1 : AM_BYTES - 1, local, row_bytes, unit == UNIT_STORE);
        if (streamed)
            transfer.streamed_words += row_bytes / W;
        memory += LOAD_PITCH_memory_pitch(pitch);
        local += LOAD_PITCH_local_pitch(pitch);
    }
}

static u32 load_step(const u32 *i, u32 pc)
{
    switch (opcode(i)) {
    case LOAD_PITCH:
        transfer.pitch[0] = i;
        break;
    case LOAD_GO:
        if (LOAD_GO_packed(i)) /* there is no unpacker */
            fail(ERROR_ILLEGAL, UNIT_LOAD, pc);
        copy_rows(UNIT_LOAD, pc, LOAD_GO_memory_address(i), LOAD_GO_local_address(i), LOAD_GO_row_bytes(i),
                  LOAD_GO_rows(i), LOAD_GO_space(i), LOAD_GO_streamed(i));
        break;
    default: /* there is no decoder for compressed weights */
        fail(ERROR_ILLEGAL, UNIT_LOAD, pc);
    }
    return DONE;
}

static u32 store_step(const u32 *i, u32 pc)
{
    if (opcode(i) == STORE_PITCH)
        transfer.pitch[1] = i;
    else
        copy_rows(UNIT_STORE, pc, STORE_GO_memory_address(i), STORE_GO_local_address(i), STORE_GO_row_bytes(i),
                  STORE_GO_rows(i), 0, 0);
    return DONE;
}
