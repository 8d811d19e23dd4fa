/* On the core: registers after a reset, and one run after the other. */

/* The registers as they are after a reset; those that the host writes keep their value unless power came up. */
static void reset_registers(void)
{
    u32 is_cold = EVENTS & EVENT_COLD;
    for (u32 offset = 0; offset < REGISTERS_BYTES; offset += 4)
        if (is_cold || !(host_registers[offset / 128] >> (offset / 4 % 32) & 1))
            REGISTER(offset) = 0;
    if (is_cold)
        REGISTER(CSR_WATCHDOG) = CSR_WATCHDOG_RESET;
    REGISTER(CSR_ID) = CSR_ID_RESET;
    REGISTER(CSR_VERSION) = CSR_VERSION_RESET;
    REGISTER(CSR_ISA_HASH) = ISA_HASH;
    REGISTER(CSR_CONFIG_HASH) = CONFIG_HASH;
}

__attribute__((used, noreturn)) static void serve(void)
{
    reset_registers();
    EVENTS = SIGNAL_READY;
    for (;;) {
        while (!(EVENTS & EVENT_RUN))
            show_mark();
        run();
        EVENTS = SIGNAL_DONE;
    }
}

__attribute__((naked, used, section(".text.start"))) void _start(void)
{
    __asm__("la sp, stack_top\n\tj %0" : : "i"(serve));
}
