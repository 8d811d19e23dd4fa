/* The runtime of the Tosaic accelerator: loads and runs the programs that `tosaic compile MODEL -o model.c` writes.
 *
 * C99 without a standard library: no malloc, no floating point, no file. Numbers in memory are little endian; a host of
 * the other order swaps the bytes of its own inputs and outputs. A device belongs to one thread at a time.
 */
#ifndef TOSAIC_H
#define TOSAIC_H

#include <stdint.h>

#include "tosaic_registers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a function comes to: 0 is success. The texts are those of tosaic_result_text. */
#define TOSAIC_EACH_RESULT(X) \
    X(OK, "success") \
    X(BUSY, "the program still runs") \
    X(NO_MACHINE, "no machine of Tosaic answers: register ID is wrong") \
    X(WRONG_VERSION, "its register map has another version: compile with the matching release") \
    X(WRONG_INSTRUCTION_SET, "it executes another instruction set: load this version's bitstream") \
    X(WRONG_CONFIGURATION, "the program was compiled for another configuration: compile for the machine's") \
    X(BAD_WINDOW, "the memory window is misaligned, crosses a multiple of 4 GiB, or lies above the machine's addresses") \
    X(WINDOW_LOCKED, "MEM_BASE and MEM_SIZE are locked to another window") \
    X(MEMORY_TOO_SMALL, "the program needs more memory than the window has") \
    X(NOT_LOADED, "no program is loaded: after a failure it is loaded again") \
    X(MACHINE_FAULT, "the machine stopped with an error: the fault tells which") \
    X(TIMEOUT, "the program did not end in time") \
    X(WAS_RESET, "the machine was reset while the program ran") \
    X(RESET_TIMEOUT, "the soft reset does not end: reset the machine by hardware") \
    X(WRONG_WEIGHTS, "the boot part decoded wrong weights: the image or the memory is damaged") \
    X(LINK_LOST, "the way to the machine is lost: the port tells why")

#define TOSAIC_MEMBER(name, text) TOSAIC_RESULT_##name,
enum tosaic_result { TOSAIC_EACH_RESULT(TOSAIC_MEMBER) TOSAIC_RESULTS };
#undef TOSAIC_MEMBER

/* Why the machine stopped, which unit found it, and what is wrong with a stream of compressed weights. */
#define TOSAIC_FAULT_MEMBER(name, value) TOSAIC_FAULT_##name = value,
#define TOSAIC_UNIT_MEMBER(name, value) TOSAIC_UNIT_##name = value,
#define TOSAIC_DECODE_MEMBER(name, value) TOSAIC_DECODE_FAULT_##name = value,
enum tosaic_fault_code { TOSAIC_EACH_FAULT(TOSAIC_FAULT_MEMBER) TOSAIC_FAULTS };
enum tosaic_unit { TOSAIC_EACH_UNIT(TOSAIC_UNIT_MEMBER) TOSAIC_UNIT_COUNT };
enum tosaic_decode_fault { TOSAIC_EACH_DECODE_FAULT(TOSAIC_DECODE_MEMBER) TOSAIC_DECODE_FAULTS };
#undef TOSAIC_FAULT_MEMBER
#undef TOSAIC_UNIT_MEMBER
#undef TOSAIC_DECODE_MEMBER

/* A tensor in the memory window, dense. Callers see it in row-major order; tosaic_write and tosaic_read turn what lies
 * in another one, such as an image of planes pixel by pixel. */
struct tosaic_tensor {
    const char *name;
    const char *type;       /* TOSA's: "int8_t", "bool_t", ... */
    const uint32_t *shape;  /* NULL if `rank` is 0 */
    uint32_t rank;
    uint32_t address;       /* byte offset in the window */
    uint32_t bytes;
    double scale;           /* real = scale * (integer - zero_point); 0: the integers stand for themselves, or `curve` */
    int32_t zero_point;
    const uint32_t *order;  /* the axes of `shape` as memory has them, the slowest first; NULL: row major */
    const char *curve;      /* NULL, or of an input whose v = step * (integer - zero_point) is sign(x) times "sqrt": */
    double step;            /* sqrt(|x|), or "log": log1p(|x| / unit), x being the real */
    double unit;
};

#define TOSAIC_RANK_MAX 6u

/* What a program remembers from run to run. */
struct tosaic_state {
    struct tosaic_tensor tensor;
    const uint8_t *initial; /* what it begins as; NULL: zeros */
};

/* Weights that the boot part decodes into memory, and what they must be. */
struct tosaic_block {
    uint32_t tensor;        /* the number that fault.decode_tensor has when its stream is damaged */
    uint32_t address;
    uint32_t bytes;
    uint32_t crc32;
};

/* A compiled model. */
struct tosaic_program {
    const char *name;
    const char *configuration;
    uint32_t isa_hash;
    uint32_t config_hash;
    const uint8_t *image;   /* the start of the window */
    uint32_t image_bytes;
    uint32_t memory_bytes;  /* of the whole window */
    uint32_t program_address;
    uint32_t program_bytes;
    uint32_t boot_address;  /* of the program that decodes the weights, once */
    uint32_t boot_bytes;    /* 0: there is none */
    const struct tosaic_block *blocks;
    uint32_t block_count;
    const struct tosaic_tensor *inputs;
    uint32_t input_count;
    const struct tosaic_tensor *outputs;
    uint32_t output_count;
    const struct tosaic_state *states;
    uint32_t state_count;
};

/* How a machine is reached. tosaic_mapped.h has one for machines whose registers and memory are mapped. */
struct tosaic_port {
    void *context;          /* handed to each function */
    uint64_t memory_base;   /* the window's first bus address, as the machine sees it */
    uint32_t memory_bytes;  /* of the window, at most */
    uint32_t (*read_register)(void *context, uint32_t offset);
    /* What was written to memory before must be visible to the machine when the write arrives. */
    void (*write_register)(void *context, uint32_t offset, uint32_t value);
    /* Addresses are byte offsets in the window. */
    void (*read_memory)(void *context, uint32_t address, void *to, uint32_t bytes);
    /* `from` NULL: zeros. */
    void (*write_memory)(void *context, uint32_t address, const void *from, uint32_t bytes);
    /* Lets time go by until the next look at STATUS: sleeps for a while, or until the interrupt, whose handler calls
     * tosaic_acknowledge. Not 0: give up, the run ends in TIMEOUT. NULL: look again at once. */
    int (*wait)(void *context);
    /* Not 0 once the way to the machine is lost: what the port reads then means nothing. NULL: it cannot be lost. */
    int (*lost)(void *context);
};

/* Where the machine stood when a run failed. */
struct tosaic_fault {
    uint32_t code;          /* enum tosaic_fault_code; NONE when the run failed for another reason */
    uint32_t unit;          /* enum tosaic_unit */
    uint32_t pc;            /* byte offset in the program */
    uint32_t units;         /* register UNITS */
    uint32_t unit_pc[TOSAIC_UNIT_COUNT];
    uint32_t decode_code;   /* enum tosaic_decode_fault, of a fault DECODE */
    uint32_t decode_stream;
    uint32_t decode_tensor;
    uint32_t decode_position;
};

/* One machine. Its fields are the runtime's; `fault` may be read after a failure. */
struct tosaic {
    const struct tosaic_port *port;
    const struct tosaic_program *program; /* the loaded one, or NULL */
    struct tosaic_fault fault;
    uint32_t high_base;     /* not 0: MEM_BASE_HIGH is there, its addresses have more than 32 bits */
};

/* Begins: is it a machine whose registers this runtime knows? `port` must outlive the device. */
enum tosaic_result tosaic_open(struct tosaic *device, const struct tosaic_port *port);

/* Checks instruction set, configuration and window, ends whatever runs, and sends the image and the initial states.
 * Runs the boot part, if there is one, to its end, and checks the weights that it decodes. After a failure of the boot
 * part `fault` tells where it stood. Inputs and outputs stay where they are in memory. */
enum tosaic_result tosaic_load(struct tosaic *device, const struct tosaic_program *program);

/* Sets an input or a state; reads an output or a state. `data` has `tensor->bytes` bytes. Not while a program runs. */
enum tosaic_result tosaic_write(struct tosaic *device, const struct tosaic_tensor *tensor, const void *data);
enum tosaic_result tosaic_read(struct tosaic *device, const struct tosaic_tensor *tensor, void *data);

/* Sets every state to what it begins as. */
enum tosaic_result tosaic_reset_states(struct tosaic *device);

/* Runs the loaded program to its end. `max_cycles` 0: no limit but the machine's watchdog, which ends a hang. After a
 * failure the machine is reset, `fault` tells where it stood, and the program must be loaded again. */
enum tosaic_result tosaic_run(struct tosaic *device, uint64_t max_cycles);

/* The same in two steps: start, then poll until the result is not BUSY. */
enum tosaic_result tosaic_start(struct tosaic *device);
enum tosaic_result tosaic_poll(struct tosaic *device, uint64_t max_cycles);

/* For the handler of the machine's interrupt: lowers the interrupt line. The run's end stays to be seen. */
void tosaic_acknowledge(const struct tosaic *device);

/* Ends whatever runs. The program must be loaded again. */
enum tosaic_result tosaic_reset(struct tosaic *device);

/* Clock cycles of the run. */
uint64_t tosaic_cycles(const struct tosaic *device);

/* An event counter of the run, by its register's offset: tosaic_counter(device, TOSAIC_LOAD_BEATS). */
uint32_t tosaic_counter(const struct tosaic *device, uint32_t offset);

/* How many layer marks the run left; which layer a mark is of, and the low half of the cycle at which it was complete. */
uint32_t tosaic_mark_count(const struct tosaic *device);
void tosaic_mark(const struct tosaic *device, uint32_t index, uint32_t *layer, uint32_t *cycle);

/* Names, "unknown" for numbers that have none. */
const char *tosaic_result_name(enum tosaic_result result);
const char *tosaic_result_text(enum tosaic_result result);
const char *tosaic_fault_name(uint32_t code);
const char *tosaic_unit_name(uint32_t unit);
const char *tosaic_decode_fault_name(uint32_t code);

#ifdef __cplusplus
}
#endif

#endif
