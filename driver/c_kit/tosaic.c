/* The runtime of the Tosaic accelerator; tosaic.h says what each function does. */
#include "tosaic.h"

#include <stddef.h>

/* A soft reset waits for 65,536 cycles of the bus at most, and each look takes a cycle or more. */
#define RESET_LOOKS_MAX 1000000u
/* Words of a tensor that are turned at a time, on the stack. */
#define TURN_WORDS 128u

static uint32_t read(const struct tosaic *device, uint32_t offset)
{
    return device->port->read_register(device->port->context, offset);
}

static void write(const struct tosaic *device, uint32_t offset, uint32_t value)
{
    device->port->write_register(device->port->context, offset, value);
}

static uint32_t field(uint32_t value, uint32_t mask, uint32_t shift)
{
    return (value & mask) >> shift;
}

static int is_lost(const struct tosaic *device)
{
    return device->port->lost != NULL && device->port->lost(device->port->context) != 0;
}

/* The result, unless the way to the machine was lost meanwhile. */
static enum tosaic_result told(struct tosaic *device, enum tosaic_result result)
{
    if (!is_lost(device))
        return result;
    device->program = NULL;
    return TOSAIC_RESULT_LINK_LOST;
}

static void forget_fault(struct tosaic_fault *fault)
{
    uint32_t unit;

    fault->code = TOSAIC_FAULT_NONE;
    fault->unit = TOSAIC_UNIT_SEQUENCER;
    fault->pc = 0;
    fault->units = 0;
    for (unit = 0; unit < TOSAIC_UNIT_COUNT; unit++)
        fault->unit_pc[unit] = 0;
    fault->decode_code = TOSAIC_DECODE_FAULT_NONE;
    fault->decode_stream = 0;
    fault->decode_tensor = 0;
    fault->decode_position = 0;
}

/* Before the reset, which clears what these registers tell. */
static void note_fault(struct tosaic *device)
{
    struct tosaic_fault *fault = &device->fault;
    uint32_t error = read(device, TOSAIC_ERROR);
    uint32_t decode = read(device, TOSAIC_DECODE_ERROR), unit;

    fault->code = field(error, TOSAIC_ERROR_CODE, TOSAIC_ERROR_CODE_SHIFT);
    fault->unit = field(error, TOSAIC_ERROR_UNIT, TOSAIC_ERROR_UNIT_SHIFT);
    fault->pc = read(device, TOSAIC_PC);
    fault->units = read(device, TOSAIC_UNITS);
    fault->unit_pc[TOSAIC_UNIT_SEQUENCER] = fault->pc;
    for (unit = TOSAIC_UNIT_LOAD; unit <= TOSAIC_UNIT_STORE; unit++)
        fault->unit_pc[unit] = read(device, TOSAIC_LOAD_PC + 4 * (unit - TOSAIC_UNIT_LOAD));
    fault->decode_code = field(decode, TOSAIC_DECODE_ERROR_CODE, TOSAIC_DECODE_ERROR_CODE_SHIFT);
    fault->decode_stream = field(decode, TOSAIC_DECODE_ERROR_STREAM, TOSAIC_DECODE_ERROR_STREAM_SHIFT);
    fault->decode_tensor = field(decode, TOSAIC_DECODE_ERROR_TENSOR, TOSAIC_DECODE_ERROR_TENSOR_SHIFT);
    fault->decode_position = read(device, TOSAIC_DECODE_POSITION);
}

/* Ends a failed run. The result is the failure's, unless the machine cannot be made ready again. */
static enum tosaic_result fail(struct tosaic *device, enum tosaic_result result)
{
    note_fault(device);
    return told(device, tosaic_reset(device) == TOSAIC_RESULT_OK ? result : TOSAIC_RESULT_RESET_TIMEOUT);
}

static enum tosaic_result check_window(struct tosaic *device, const struct tosaic_program *program)
{
    const struct tosaic_port *port = device->port;
    uint32_t low = (uint32_t)port->memory_base;

    device->high_base = read(device, TOSAIC_STATUS) & TOSAIC_STATUS_HIGH_BASE;
    if (low % TOSAIC_WINDOW_ALIGNMENT || (uint64_t)low + port->memory_bytes > (uint64_t)1 << 32 ||
        (port->memory_base >> 32 != 0 && !device->high_base))
        return TOSAIC_RESULT_BAD_WINDOW;
    return program->memory_bytes > port->memory_bytes ? TOSAIC_RESULT_MEMORY_TOO_SMALL : TOSAIC_RESULT_OK;
}

/* The program reaches its own window and nothing else; a locked window has to be this one. */
static enum tosaic_result set_window(const struct tosaic *device, const struct tosaic_program *program)
{
    uint32_t low = (uint32_t)device->port->memory_base, high = (uint32_t)(device->port->memory_base >> 32);

    write(device, TOSAIC_MEM_BASE, low);
    write(device, TOSAIC_MEM_SIZE, program->memory_bytes);
    if (device->high_base)
        write(device, TOSAIC_MEM_BASE_HIGH, high);
    if (read(device, TOSAIC_MEM_BASE) != low || (device->high_base && read(device, TOSAIC_MEM_BASE_HIGH) != high))
        return TOSAIC_RESULT_WINDOW_LOCKED;
    return read(device, TOSAIC_MEM_SIZE) < program->memory_bytes ? TOSAIC_RESULT_WINDOW_LOCKED : TOSAIC_RESULT_OK;
}

static void send_states(const struct tosaic_port *port, const struct tosaic_program *program)
{
    uint32_t index;

    for (index = 0; index < program->state_count; index++) {
        const struct tosaic_state *state = &program->states[index];
        port->write_memory(port->context, state->tensor.address, state->initial, state->tensor.bytes);
    }
}

/* Starts the program at a byte offset of the window. */
static enum tosaic_result start(struct tosaic *device, uint32_t address, uint32_t bytes)
{
    enum tosaic_result result;

    forget_fault(&device->fault);
    result = set_window(device, device->program);
    if (result != TOSAIC_RESULT_OK)
        return result;
    write(device, TOSAIC_PROGRAM_ADDRESS, address);
    write(device, TOSAIC_PROGRAM_BYTES, bytes);
    write(device, TOSAIC_WATCHDOG, TOSAIC_WATCHDOG_RESET);
    write(device, TOSAIC_CONTROL, TOSAIC_CONTROL_IRQ_ENABLE | TOSAIC_CONTROL_START);
    return TOSAIC_RESULT_OK;
}

static enum tosaic_result to_its_end(struct tosaic *device, uint64_t max_cycles)
{
    const struct tosaic_port *port = device->port;

    for (;;) {
        enum tosaic_result result = tosaic_poll(device, max_cycles);
        if (result != TOSAIC_RESULT_BUSY)
            return result;
        if (port->wait != NULL && port->wait(port->context) != 0)
            return fail(device, TOSAIC_RESULT_TIMEOUT);
    }
}

/* CRC-32 as in zlib and IEEE 802.3, bit by bit: it runs once. */
static uint32_t crc32_of(const struct tosaic_port *port, uint32_t address, uint32_t bytes)
{
    uint32_t crc = 0xFFFFFFFFu, word[16], done, index, bit;

    for (done = 0; done < bytes; done += index) {
        const uint8_t *part = (const uint8_t *)word;
        uint32_t size = bytes - done < sizeof word ? bytes - done : (uint32_t)sizeof word;

        port->read_memory(port->context, address + done, word, size);
        for (index = 0; index < size; index++) {
            crc ^= part[index];
            for (bit = 0; bit < 8; bit++)
                crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
    }
    return ~crc;
}

/* Runs the boot part and checks what it decoded. */
static enum tosaic_result boot(struct tosaic *device)
{
    const struct tosaic_program *program = device->program;
    enum tosaic_result result;
    uint32_t index;

    if (program->boot_bytes == 0)
        return TOSAIC_RESULT_OK;
    result = start(device, program->boot_address, program->boot_bytes);
    if (result == TOSAIC_RESULT_OK)
        result = to_its_end(device, 0);
    for (index = 0; result == TOSAIC_RESULT_OK && index < program->block_count; index++) {
        const struct tosaic_block *block = &program->blocks[index];
        if (crc32_of(device->port, block->address, block->bytes) != block->crc32)
            result = TOSAIC_RESULT_WRONG_WEIGHTS;
    }
    return result;
}

static enum tosaic_result identify(const struct tosaic *device)
{
    uint32_t version;

    if (read(device, TOSAIC_ID) != TOSAIC_ID_VALUE)
        return TOSAIC_RESULT_NO_MACHINE;
    version = read(device, TOSAIC_VERSION);
    if (version >> TOSAIC_VERSION_PATCH_BITS != TOSAIC_VERSION_VALUE >> TOSAIC_VERSION_PATCH_BITS)
        return TOSAIC_RESULT_WRONG_VERSION;
    return TOSAIC_RESULT_OK;
}

enum tosaic_result tosaic_open(struct tosaic *device, const struct tosaic_port *port)
{
    device->port = port;
    device->program = NULL;
    forget_fault(&device->fault);
    return told(device, identify(device));
}

static enum tosaic_result load(struct tosaic *device, const struct tosaic_program *program)
{
    const struct tosaic_port *port = device->port;
    enum tosaic_result result;

    device->program = NULL;
    if (read(device, TOSAIC_ISA_HASH) != program->isa_hash)
        return TOSAIC_RESULT_WRONG_INSTRUCTION_SET;
    if (read(device, TOSAIC_CONFIG_HASH) != program->config_hash)
        return TOSAIC_RESULT_WRONG_CONFIGURATION;
    result = check_window(device, program);
    if (result != TOSAIC_RESULT_OK)
        return result;
    result = tosaic_reset(device);
    if (result != TOSAIC_RESULT_OK)
        return result;
    result = set_window(device, program);
    if (result != TOSAIC_RESULT_OK)
        return result;
    port->write_memory(port->context, 0, program->image, program->image_bytes);
    device->program = program;
    result = boot(device);
    if (result != TOSAIC_RESULT_OK) {
        device->program = NULL;
        return result;
    }
    send_states(port, program);
    return TOSAIC_RESULT_OK;
}

enum tosaic_result tosaic_load(struct tosaic *device, const struct tosaic_program *program)
{
    return told(device, load(device, program));
}

/* a * b, for processors that neither multiply nor have a library that does. */
static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;

    for (; b != 0; b >>= 1, a <<= 1)
        if ((b & 1u) != 0)
            sum += a;
    return sum;
}

/* Writes or reads a tensor whose axes have another order in memory: `from` or `to` is row major, the other one NULL. */
static void turn(const struct tosaic *device, const struct tosaic_tensor *tensor, const uint8_t *from, uint8_t *to)
{
    const struct tosaic_port *port = device->port;
    uint32_t stride[TOSAIC_RANK_MAX], span[TOSAIC_RANK_MAX], left[TOSAIC_RANK_MAX], part[TURN_WORDS];
    uint8_t *bytes = (uint8_t *)part;
    uint32_t element = 1, count = 1, offset = 0, place, done, size, at, byte;

    for (place = 0; place < tensor->rank; place++) {
        count = times(count, tensor->shape[place]);
        left[place] = tensor->shape[tensor->order[place]];
    }
    while (times(count, element) < tensor->bytes)
        element++;
    size = element;
    for (place = tensor->rank; place-- > 0;) {
        stride[place] = size;
        size = times(size, tensor->shape[place]);
        span[place] = size;
    }
    for (done = 0; done < tensor->bytes; done += size) {
        size = tensor->bytes - done < sizeof part ? tensor->bytes - done : (uint32_t)sizeof part;
        if (to != NULL)
            port->read_memory(port->context, tensor->address + done, part, size);
        for (at = 0; at < size; at += element) {
            for (byte = 0; byte < element; byte++)
                if (to != NULL)
                    to[offset + byte] = bytes[at + byte];
                else
                    bytes[at + byte] = from[offset + byte];
            for (place = tensor->rank; place-- > 0;) {
                const uint32_t axis = tensor->order[place];
                offset += stride[axis];
                if (--left[place] != 0)
                    break;
                left[place] = tensor->shape[axis];
                offset -= span[axis];
            }
        }
        if (from != NULL)
            port->write_memory(port->context, tensor->address + done, part, size);
    }
}

enum tosaic_result tosaic_write(struct tosaic *device, const struct tosaic_tensor *tensor, const void *data)
{
    if (device->program == NULL)
        return TOSAIC_RESULT_NOT_LOADED;
    if (tensor->order != NULL)
        turn(device, tensor, data, NULL);
    else
        device->port->write_memory(device->port->context, tensor->address, data, tensor->bytes);
    return told(device, TOSAIC_RESULT_OK);
}

enum tosaic_result tosaic_read(struct tosaic *device, const struct tosaic_tensor *tensor, void *data)
{
    if (device->program == NULL)
        return TOSAIC_RESULT_NOT_LOADED;
    if (tensor->order != NULL)
        turn(device, tensor, NULL, data);
    else
        device->port->read_memory(device->port->context, tensor->address, data, tensor->bytes);
    return told(device, TOSAIC_RESULT_OK);
}

enum tosaic_result tosaic_reset_states(struct tosaic *device)
{
    if (device->program == NULL)
        return TOSAIC_RESULT_NOT_LOADED;
    send_states(device->port, device->program);
    return told(device, TOSAIC_RESULT_OK);
}

enum tosaic_result tosaic_start(struct tosaic *device)
{
    const struct tosaic_program *program = device->program;

    if (program == NULL)
        return TOSAIC_RESULT_NOT_LOADED;
    return told(device, start(device, program->program_address, program->program_bytes));
}

enum tosaic_result tosaic_poll(struct tosaic *device, uint64_t max_cycles)
{
    uint32_t status;

    if (device->program == NULL)
        return TOSAIC_RESULT_NOT_LOADED;
    status = read(device, TOSAIC_STATUS);
    if (is_lost(device))
        return told(device, TOSAIC_RESULT_LINK_LOST);
    if (status & TOSAIC_STATUS_ERROR)
        return fail(device, TOSAIC_RESULT_MACHINE_FAULT);
    if (status & TOSAIC_STATUS_DONE) {
        tosaic_acknowledge(device);
        return told(device, TOSAIC_RESULT_OK);
    }
    if (!(status & TOSAIC_STATUS_RUNNING))
        return fail(device, TOSAIC_RESULT_WAS_RESET);
    if (max_cycles != 0 && tosaic_cycles(device) > max_cycles)
        return fail(device, TOSAIC_RESULT_TIMEOUT);
    return TOSAIC_RESULT_BUSY;
}

enum tosaic_result tosaic_run(struct tosaic *device, uint64_t max_cycles)
{
    enum tosaic_result result = tosaic_start(device);

    return result == TOSAIC_RESULT_OK ? to_its_end(device, max_cycles) : result;
}

void tosaic_acknowledge(const struct tosaic *device)
{
    write(device, TOSAIC_IRQ, TOSAIC_IRQ_DONE | TOSAIC_IRQ_ERROR);
}

enum tosaic_result tosaic_reset(struct tosaic *device)
{
    uint32_t looks;

    device->program = NULL;
    if (!(read(device, TOSAIC_STATUS) & TOSAIC_STATUS_IDLE))
        write(device, TOSAIC_CONTROL, TOSAIC_CONTROL_SOFT_RESET);
    for (looks = 0; looks < RESET_LOOKS_MAX && !is_lost(device); looks++)
        if (read(device, TOSAIC_STATUS) & TOSAIC_STATUS_IDLE) {
            tosaic_acknowledge(device);
            return told(device, TOSAIC_RESULT_OK);
        }
    return told(device, TOSAIC_RESULT_RESET_TIMEOUT);
}

uint64_t tosaic_cycles(const struct tosaic *device)
{
    uint32_t high, low;

    /* The low half may wrap between two reads. */
    do {
        high = read(device, TOSAIC_CYCLES_HIGH);
        low = read(device, TOSAIC_CYCLES);
    } while (read(device, TOSAIC_CYCLES_HIGH) != high);
    return (uint64_t)high << 32 | low;
}

uint32_t tosaic_counter(const struct tosaic *device, uint32_t offset)
{
    return read(device, offset);
}

uint32_t tosaic_mark_count(const struct tosaic *device)
{
    return read(device, TOSAIC_MARK_COUNT);
}

void tosaic_mark(const struct tosaic *device, uint32_t index, uint32_t *layer, uint32_t *cycle)
{
    write(device, TOSAIC_MARK_INDEX, index);
    *layer = read(device, TOSAIC_MARK_LAYER);
    *cycle = read(device, TOSAIC_MARK_CYCLE);
}

#define NAMED(name, value) case value: return #name;

const char *tosaic_fault_name(uint32_t code)
{
    switch (code) { TOSAIC_EACH_FAULT(NAMED) default: return "unknown"; }
}

const char *tosaic_unit_name(uint32_t unit)
{
    switch (unit) { TOSAIC_EACH_UNIT(NAMED) default: return "unknown"; }
}

const char *tosaic_decode_fault_name(uint32_t code)
{
    switch (code) { TOSAIC_EACH_DECODE_FAULT(NAMED) default: return "unknown"; }
}

#define RESULT_NAMED(name, text) case TOSAIC_RESULT_##name: return #name;
#define RESULT_TOLD(name, text) case TOSAIC_RESULT_##name: return text;

const char *tosaic_result_name(enum tosaic_result result)
{
    switch ((int)result) { TOSAIC_EACH_RESULT(RESULT_NAMED) default: return "unknown"; }
}

const char *tosaic_result_text(enum tosaic_result result)
{
    switch ((int)result) { TOSAIC_EACH_RESULT(RESULT_TOLD) default: return "unknown"; }
}
