/* What the firmware's files share: registers of the SoC, and who calls whom. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

#include "csr.h"
#include "mem.h"
#include "soc.h"

#define CSR(address) (*(volatile uint32_t *)(address))

/* At once after the reset: the controller would send a refresh to a chip that has not been started. */
void sdram_hold(void);
void sdram_start(void);
void print(const char *text);
void print_number(uint32_t number);

/* Called by the interrupt's entry. */
void npu_interrupt(void);
void enable_npu_interrupt(void);

static inline void interrupts_on(void) { __asm__ volatile("csrs mstatus, %0" ::"r"(8) : "memory"); }

#endif
