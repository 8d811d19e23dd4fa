/* Checks the program's instructions and lets the units execute them, each unit its own in the program's order.
 *
 * An instruction is executed when its turn comes. Only where its unit cannot go on (a semaphore, the accumulators'
 * queue) the program is read further for the other units, and the unit catches up later: `behind`. */

static u32 is_legal(const u32 *i)
{
    u32 code = opcode(i), check = check_table[code];
    for (u32 k = 2; k < 16; k++)
        check = check_table[check ^ (i[k / 4] >> k % 4 * 8 & 0xFF)];
    if ((check ^ CHECK_XOR) != (i[0] >> 8 & 0xFF) || code >= sizeof opcode_bits || !opcode_bits[code])
        return 0;
    s32 bits = opcode_bits[code];
    for (u32 k = 0; k < 4; k++, bits -= 32)
        if (bits < 32 && (bits > 0 ? i[k] >> bits : i[k]))
            return 0;
    return 1;
}

/* The units by number. */
static u32 (*const unit_steps[])(const u32 *i, u32 pc) = {0, load_step, array_step, vector_step, store_step};

static u32 step(u32 unit)
{
    u32 at = sequencer.cursor[unit], pc = at * 16, result = DONE;
    const u32 *i = sequencer.program + at * 4;
    REGISTER(CSR_LOAD_PC - 4 + unit * 4) = pc;
    u16 *semaphore = &sequencer.semaphores[LOAD_WAIT_semaphore(i)];
    switch (opcode(i) & 15) {
    case LOAD_WAIT & 15:
        if (*semaphore < LOAD_WAIT_count(i))
            return BLOCKED;
        *semaphore -= LOAD_WAIT_count(i);
        break;
    case LOAD_SIGNAL & 15:
        *semaphore = (*semaphore + LOAD_SIGNAL_count(i)) & 0xFFF;
        break;
    default:
        result = unit_steps[unit](i, pc);
    }
    if (result == DONE) {
        do
            at++, i = sequencer.program + at * 4;
        while (at < sequencer.next && (i[0] >> 4 & 15) != unit);
        sequencer.cursor[unit] = at;
        if (at == sequencer.next)
            sequencer.behind &= ~(1 << unit);
    }
    return result;
}

/* Dispatches or executes the next instruction; 0: not before the units are through. */
static u32 dispatch(void)
{
    u32 at = sequencer.next, pc = at * 16;
    const u32 *i = sequencer.program + at * 4;
    if (at == sequencer.instructions)
        fail(ERROR_PROGRAM_END, UNIT_SEQUENCER, pc);
    if (!is_legal(i) || (!at && opcode(i) != BEGIN))
        fail(ERROR_ILLEGAL, UNIT_SEQUENCER, pc);
    u32 unit = opcode(i) >> 4, taken = 0;
    REGISTER(CSR_PC) = pc;
    switch (opcode(i)) {
    case BEGIN:
        if (BEGIN_isa_hash(i) != ISA_HASH)
            fail(ERROR_ISA_MISMATCH, UNIT_SEQUENCER, pc);
        if (BEGIN_config_hash(i) != CONFIG_HASH)
            fail(ERROR_CONFIG_MISMATCH, UNIT_SEQUENCER, pc);
        break;
    case NOP:
        break;
    case BRANCH:
        if (BRANCH_target(i) % 16 || BRANCH_target(i) / 16 >= sequencer.instructions)
            fail(ERROR_ILLEGAL, UNIT_SEQUENCER, pc);
        if (sequencer.behind || accumulators.waiting)
            return 0;
        u32 condition = BRANCH_condition(i);
        taken = condition == CONDITION_ALWAYS || (condition != CONDITION_NEVER &&
                                                  sequencer.flag == (condition == CONDITION_IF_SET));
        break;
    case END:
        if (sequencer.behind || accumulators.waiting)
            return 0;
        sequencer.running = 0;
        break;
    default:
        if (!(sequencer.behind >> unit & 1)) {
            sequencer.behind |= 1 << unit;
            sequencer.cursor[unit] = at;
        }
    }
    sequencer.next = taken ? BRANCH_target(i) / 16 : at + 1;
    return 1;
}

/* Ends a run in which nothing moves any more: to blame is the first unit that waits for a semaphore, else the first
 * that does not come to an end. */
static void stuck(void)
{
    u32 busy = sequencer.behind, waiting = 0, unit = UNIT_LOAD;
    for (u32 other = UNIT_LOAD; other <= UNIT_STORE; other++)
        if (busy >> other & 1 && !(sequencer.program[sequencer.cursor[other] * 4] & 15))
            waiting |= 1 << other;
    busy &= ~waiting;
    if (accumulators.waiting)
        busy |= 1 << UNIT_ARRAY;
    REGISTER(CSR_UNITS) = (busy | waiting << 8 | waiting << 16) >> 1;
    while (!((waiting ? waiting : busy) >> unit & 1))
        unit++;
    if (!REGISTER(CSR_WATCHDOG))
        hang();
    fail(ERROR_WATCHDOG, unit, REGISTER(CSR_LOAD_PC - 4 + unit * 4));
}

static void let_move(u32 busy)
{
    count_move();
    for (u32 unit = UNIT_LOAD; unit <= UNIT_STORE; unit++)
        if (sequencer.behind >> unit & 1 && unit != busy && step(unit))
            return;
    if (!dispatch())
        stuck();
}

/* The program that the registers describe, from BEGIN to END. */
static void run(void)
{
    u32 address = REGISTER(CSR_PROGRAM_ADDRESS), bytes = REGISTER(CSR_PROGRAM_BYTES), size = REGISTER(CSR_MEM_SIZE);
    REGISTER(CSR_MARK_COUNT) = REGISTER(CSR_UNITS) = 0;
    clear(&sequencer, sizeof sequencer);
    transfer.streamed_words = 0;
    transfer.pitch[0] = transfer.pitch[1] = no_instruction;
    array_reset();
    vector_reset();
    if (bytes > size || address > size - bytes || (REGISTER(CSR_MEM_BASE) + address) % 32)
        fail(ERROR_MEMORY_RANGE, UNIT_SEQUENCER, 0);
    sequencer.program = (const u32 *)external(address, bytes, ERROR_BUS_READ, UNIT_SEQUENCER, 0);
    sequencer.instructions = bytes / 16;
    for (sequencer.running = 1; sequencer.running;)
        let_move(UNIT_SEQUENCER);
}
