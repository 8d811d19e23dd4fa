// The coprocessor's instructions (instructions.py), and the same in C where there is none.
//
// The products of the M extension are there, too, by C's own `*`; there is no division.
#ifndef TOSAIC_COPROCESSOR_H
#define TOSAIC_COPROCESSOR_H

#include <stdint.h>

#ifdef __riscv

// What follows is subtracted from every input byte and every weight; the four sums become 0.
static inline void sums_setup(int32_t input_zp, uint32_t unsigned_input, int32_t weight_zp) {
    const uint32_t input = ((uint32_t)input_zp & 511) | unsigned_input << 9;
    __asm__ volatile(".insn r 0x0b, 0, 0, x0, %0, %1" : : "r"(input), "r"(weight_zp));
}

// Four products: byte `n` of `inputs`, with each of the four bytes of `weights`. `n` is a constant.
#define sums_add(weights, inputs, n) \
    __asm__ volatile(".insn r 0x0b, 1, %2, x0, %0, %1" : : "r"((uint32_t)(weights)), "r"((uint32_t)(inputs)), "i"(n))

// Sum `n`, which becomes 0. `n` is a constant.
#define sums_take(n)                                                                  \
    ({                                                                                \
        int32_t sums_taken;                                                           \
        __asm__ volatile(".insn r 0x0b, 2, %1, %0, x0, x0" : "=r"(sums_taken) : "i"(n)); \
        sums_taken;                                                                   \
    })

#else

static struct {
    int32_t input_zp, weight_zp;
    uint32_t unsigned_input;
    uint32_t sum[4];
} sums_state;

static inline void sums_setup(int32_t input_zp, uint32_t unsigned_input, int32_t weight_zp) {
    sums_state.input_zp = input_zp;
    sums_state.unsigned_input = unsigned_input;
    sums_state.weight_zp = weight_zp;
    for (int column = 0; column < 4; ++column) sums_state.sum[column] = 0;
}

static inline void sums_add(uint32_t weights, uint32_t inputs, int n) {
    const uint8_t byte = (uint8_t)(inputs >> 8 * n);
    const int32_t input = (sums_state.unsigned_input ? (int32_t)byte : (int8_t)byte) - sums_state.input_zp;
    for (int column = 0; column < 4; ++column) {
        const int32_t weight = (int8_t)(weights >> 8 * column) - sums_state.weight_zp;
        sums_state.sum[column] += (uint32_t)(input * weight);
    }
}

static inline int32_t sums_take(int n) {
    const int32_t taken = (int32_t)sums_state.sum[n];
    sums_state.sum[n] = 0;
    return taken;
}

#endif
#endif
