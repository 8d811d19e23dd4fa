/* The firmware as a shared library: tests compare it with the emulator. */

/* Runs a program on cleared memories; 1: it came to END, 0: to an error (ERROR, PC) or to the end of its `moves`. */
int firmware_run(u8 *memory, u32 memory_bytes, u32 address, u32 bytes, u32 moves)
{
    clear(am_memory, sizeof am_memory);
    clear(wm_memory, sizeof wm_memory);
    clear(registers, sizeof registers);
    external_memory = memory;
    external_bytes = memory_bytes;
    moves_left = moves;
    REGISTER(CSR_MEM_SIZE) = memory_bytes;
    REGISTER(CSR_PROGRAM_ADDRESS) = address;
    REGISTER(CSR_PROGRAM_BYTES) = bytes;
    REGISTER(CSR_WATCHDOG) = 1;
    if (setjmp(end_of_run))
        return 0;
    run();
    return 1;
}

/* A register's value, by its offset. */
u32 firmware_register(u32 offset)
{
    return REGISTER(offset);
}

/* Chooses a mark, as the host does by MARK_INDEX. */
void firmware_mark(u32 index)
{
    REGISTER(CSR_MARK_INDEX) = index;
    show_mark();
}
