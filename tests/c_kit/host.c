/* A C program that drives the machine by the C kit, as a shared library: its port is functions of the test's. PROGRAMS are
 * the programs it can load. */
#include <stddef.h>

#include "tosaic.h"
#include "models.h"

static const struct tosaic_program *const programs[] = {PROGRAMS};

struct host {
    struct tosaic device;
    struct tosaic_port port;
};

static struct host host;

void host_port(uint64_t base, uint32_t bytes, uint32_t (*read_register)(void *, uint32_t),
    void (*write_register)(void *, uint32_t, uint32_t), void (*read_memory)(void *, uint32_t, void *, uint32_t),
    void (*write_memory)(void *, uint32_t, const void *, uint32_t), int (*wait)(void *))
{
    host.port.context = &host;
    host.port.memory_base = base;
    host.port.memory_bytes = bytes;
    host.port.read_register = read_register;
    host.port.write_register = write_register;
    host.port.read_memory = read_memory;
    host.port.write_memory = write_memory;
    host.port.wait = wait;
}

int host_open(void) { return tosaic_open(&host.device, &host.port); }
int host_load(int program) { return tosaic_load(&host.device, programs[program]); }
int host_run(uint64_t max_cycles) { return tosaic_run(&host.device, max_cycles); }
int host_start(void) { return tosaic_start(&host.device); }
int host_poll(uint64_t max_cycles) { return tosaic_poll(&host.device, max_cycles); }
void host_acknowledge(void) { tosaic_acknowledge(&host.device); }
int host_reset(void) { return tosaic_reset(&host.device); }
int host_reset_states(void) { return tosaic_reset_states(&host.device); }
uint64_t host_cycles(void) { return tosaic_cycles(&host.device); }
uint32_t host_counter(uint32_t offset) { return tosaic_counter(&host.device, offset); }
uint32_t host_mark_count(void) { return tosaic_mark_count(&host.device); }
void host_mark(uint32_t index, uint32_t *layer, uint32_t *cycle) { tosaic_mark(&host.device, index, layer, cycle); }

int host_write(int program, int input, const void *data)
{
    return tosaic_write(&host.device, &programs[program]->inputs[input], data);
}

int host_read(int program, int output, void *data)
{
    return tosaic_read(&host.device, &programs[program]->outputs[output], data);
}

int host_read_state(int program, int state, void *data)
{
    return tosaic_read(&host.device, &programs[program]->states[state].tensor, data);
}

const struct tosaic_fault *host_fault(void) { return &host.device.fault; }
