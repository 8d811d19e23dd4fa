/* From the reset to main, and from the interrupt to its handler: VexRiscv as LiteX configures it. */
#include <stdint.h>

#include "board.h"

__asm__(
    ".section .text.start,\"ax\"\n"
    ".globl _start\n"
    "_start:\n"
    "    j begin\n"
    /* The interrupt's entry: what a function may change is kept. */
    ".balign 4\n"
    "entry:\n"
    "    addi sp, sp, -64\n"
    "    sw ra, 0(sp)\n    sw t0, 4(sp)\n    sw t1, 8(sp)\n    sw t2, 12(sp)\n"
    "    sw a0, 16(sp)\n    sw a1, 20(sp)\n    sw a2, 24(sp)\n    sw a3, 28(sp)\n"
    "    sw a4, 32(sp)\n    sw a5, 36(sp)\n    sw a6, 40(sp)\n    sw a7, 44(sp)\n"
    "    sw t3, 48(sp)\n    sw t4, 52(sp)\n    sw t5, 56(sp)\n    sw t6, 60(sp)\n"
    "    call interrupted\n"
    "    lw ra, 0(sp)\n    lw t0, 4(sp)\n    lw t1, 8(sp)\n    lw t2, 12(sp)\n"
    "    lw a0, 16(sp)\n    lw a1, 20(sp)\n    lw a2, 24(sp)\n    lw a3, 28(sp)\n"
    "    lw a4, 32(sp)\n    lw a5, 36(sp)\n    lw a6, 40(sp)\n    lw a7, 44(sp)\n"
    "    lw t3, 48(sp)\n    lw t4, 52(sp)\n    lw t5, 56(sp)\n    lw t6, 60(sp)\n"
    "    addi sp, sp, 64\n"
    "    mret\n"
    "begin:\n"
    "    la sp, stack_top\n"
    "    la a0, entry\n"
    "    csrw mtvec, a0\n"
    "    call prepare\n"
    "    call main\n"
    "stop:\n"
    "    j stop\n"
    ".text\n");

extern uint32_t data_start[], data_end[], data_image[], bss_start[], bss_end[];

/* Variables as C wants them; nothing here may use one. */
void prepare(void)
{
    const uint32_t *from = data_image;
    uint32_t *to;

    sdram_hold();
    for (to = data_start; to < data_end; to++)
        *to = *from++;
    for (to = bss_start; to < bss_end; to++)
        *to = 0;
}

void interrupted(void)
{
    uint32_t pending;

    /* VexRiscv's own registers of LiteX's interrupt lines: pending ones, and which of them interrupt. */
    __asm__ volatile("csrr %0, 0xFC0" : "=r"(pending));
    if (pending & 1u << NPU_INTERRUPT)
        npu_interrupt();
}

void enable_npu_interrupt(void)
{
    /* The line is a level: it falls when the machine's register IRQ is cleared. */
    CSR(CSR_NPU_EV_ENABLE_ADDR) = 1;
    __asm__ volatile("csrw 0xBC0, %0" ::"r"(1u << NPU_INTERRUPT));
    __asm__ volatile("csrs mie, %0" ::"r"(1u << 11));
    interrupts_on();
}
