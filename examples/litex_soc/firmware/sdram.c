/* Starts the SDRAM as data sheets ask for: LiteDRAM's controller leaves that to software. */
#include "board.h"

#define BY_SOFTWARE 0x0E /* the clock enabled, commands from the registers */
#define BY_CONTROLLER 0x01
#define PRECHARGE 0x0B
#define LOAD_MODE 0x0F
#define REFRESH 0x0D
#define ALL_BANKS 0x400
#define CAS_LATENCY_2 0x20
#define REFRESHES 8

static void wait(uint32_t turns)
{
    /* A turn takes two cycles at least. */
    while (turns--)
        __asm__ volatile("nop");
}

static void command(uint32_t code, uint32_t address)
{
    CSR(CSR_SDRAM_DFII_PI0_ADDRESS_ADDR) = address;
    CSR(CSR_SDRAM_DFII_PI0_COMMAND_ADDR) = code;
    CSR(CSR_SDRAM_DFII_PI0_COMMAND_ISSUE_ADDR) = 1;
    wait(10);
}

void sdram_hold(void)
{
    CSR(CSR_SDRAM_DFII_CONTROL_ADDR) = BY_SOFTWARE;
}

void sdram_start(void)
{
    int count;

    CSR(CSR_SDRAM_DFII_PI0_BADDRESS_ADDR) = 0;
    wait(CONFIG_CLOCK_FREQUENCY / 5000); /* 200 us by the slowest chip's data sheet, in twice the cycles */
    command(PRECHARGE, ALL_BANKS);
    for (count = 0; count < REFRESHES; count++)
        command(REFRESH, 0);
    command(LOAD_MODE, CAS_LATENCY_2);
    CSR(CSR_SDRAM_DFII_CONTROL_ADDR) = BY_CONTROLLER;
}
