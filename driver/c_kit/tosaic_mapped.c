/* Registers and memory that are mapped: tosaic_mapped.h. */
#include "tosaic_mapped.h"

#include <stddef.h>

/* Orders accesses to memory with those to registers. Define it for a compiler or a bus that needs another way. */
#ifndef TOSAIC_BARRIER
#if defined(__riscv)
#define TOSAIC_BARRIER() __asm__ volatile("fence iorw, iorw" ::: "memory")
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
#define TOSAIC_BARRIER() __asm__ volatile("dsb sy" ::: "memory")
#else
#define TOSAIC_BARRIER() __sync_synchronize()
#endif
#endif

union word {
    uint32_t value;
    uint8_t bytes[4];
};

static uint32_t read_register(void *context, uint32_t offset)
{
    const struct tosaic_mapped *mapped = context;
    uint32_t value = mapped->registers[offset / 4];

    /* What the register tells of the memory holds for the reads behind it. */
    TOSAIC_BARRIER();
    return value;
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    const struct tosaic_mapped *mapped = context;

    TOSAIC_BARRIER();
    mapped->registers[offset / 4] = value;
}

/* Words where both sides are at one: a byte at a time costs a transaction each on an uncached bus. */
static int in_words(const volatile uint8_t *memory, const uint8_t *data)
{
    return ((uintptr_t)memory | (uintptr_t)data) % sizeof(uint32_t) == 0;
}

static void read_memory(void *context, uint32_t address, void *to, uint32_t bytes)
{
    const struct tosaic_mapped *mapped = context;
    volatile uint8_t *memory = mapped->memory + address;
    uint8_t *data = to;
    uint32_t at = 0, byte;

    if (mapped->forget_cache != NULL)
        mapped->forget_cache(memory, bytes);
    if (in_words(memory, data))
        for (; at + sizeof(uint32_t) <= bytes; at += sizeof(uint32_t)) {
            union word word;
            word.value = *(volatile uint32_t *)(memory + at);
            for (byte = 0; byte < sizeof word; byte++)
                data[at + byte] = word.bytes[byte];
        }
    for (; at < bytes; at++)
        data[at] = memory[at];
}

static void write_memory(void *context, uint32_t address, const void *from, uint32_t bytes)
{
    const struct tosaic_mapped *mapped = context;
    volatile uint8_t *memory = mapped->memory + address;
    const uint8_t *data = from;
    uint32_t at = 0, byte;

    /* Zeros for NULL, which is aligned. */
    if (in_words(memory, data))
        for (; at + sizeof(uint32_t) <= bytes; at += sizeof(uint32_t)) {
            union word word = {0};
            for (byte = 0; data != NULL && byte < sizeof word; byte++)
                word.bytes[byte] = data[at + byte];
            *(volatile uint32_t *)(memory + at) = word.value;
        }
    for (; at < bytes; at++)
        memory[at] = data != NULL ? data[at] : 0;
    if (mapped->clean_cache != NULL)
        mapped->clean_cache(memory, bytes);
}

static int wait(void *context)
{
    const struct tosaic_mapped *mapped = context;

    return mapped->wait != NULL ? mapped->wait(mapped->wait_context) : 0;
}

void tosaic_mapped_port(
    struct tosaic_port *port, struct tosaic_mapped *mapped, uint64_t memory_base, uint32_t memory_bytes)
{
    port->context = mapped;
    port->memory_base = memory_base;
    port->memory_bytes = memory_bytes;
    port->read_register = read_register;
    port->write_register = write_register;
    port->read_memory = read_memory;
    port->write_memory = write_memory;
    port->wait = wait;
    port->lost = NULL;
}
