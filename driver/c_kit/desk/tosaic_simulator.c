/* The accelerator's RTL in this process: a library that `tosaic c-kit --simulator CONFIG` puts beside this one. */
#define _GNU_SOURCE

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tosaic_link_kinds.h"

#define MEMORY_BASE 0x10000000u
#define MEMORY_BYTES (16u << 20)
#define WAIT_CYCLES 50000u
#define PROTOCOL 2
#define PATH_BYTES 1024

/* What sim/rtl/harness.cpp exports. */
struct simulator {
    void *library, *machine;
    void (*destroy)(void *machine);
    int64_t (*control_read)(void *machine, uint32_t offset);
    int64_t (*control_write)(void *machine, uint32_t offset, uint32_t value);
    int32_t (*run)(void *machine, uint64_t cycles);
    uint8_t *memory;
};

static uint32_t read_register(void *context, uint32_t offset)
{
    struct tosaic_link *link = context;
    const struct simulator *simulator = link->inside;
    int64_t value = simulator->control_read(simulator->machine, offset);

    if (value < 0)
        tosaic_link_fail(link, "register 0x%03lx does not answer", (unsigned long)offset);
    return value < 0 ? 0 : (uint32_t)value;
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    struct tosaic_link *link = context;
    const struct simulator *simulator = link->inside;

    if (simulator->control_write(simulator->machine, offset, value) < 0)
        tosaic_link_fail(link, "register 0x%03lx takes no value", (unsigned long)offset);
}

static int is_inside(struct tosaic_link *link, uint32_t address, uint32_t bytes)
{
    if (address <= MEMORY_BYTES && bytes <= MEMORY_BYTES - address)
        return 1;
    tosaic_link_fail(link, "%lu bytes at 0x%lx lie outside the memory", (unsigned long)bytes, (unsigned long)address);
    return 0;
}

static void read_memory(void *context, uint32_t address, void *to, uint32_t bytes)
{
    struct tosaic_link *link = context;
    const struct simulator *simulator = link->inside;

    if (is_inside(link, address, bytes))
        memcpy(to, simulator->memory + address, bytes);
    else
        memset(to, 0, bytes);
}

static void write_memory(void *context, uint32_t address, const void *from, uint32_t bytes)
{
    struct tosaic_link *link = context;
    const struct simulator *simulator = link->inside;

    if (!is_inside(link, address, bytes))
        return;
    if (from == NULL)
        memset(simulator->memory + address, 0, bytes);
    else
        memcpy(simulator->memory + address, from, bytes);
}

/* Simulated time goes by here, until the interrupt. */
static int wait_for_it(void *context)
{
    struct tosaic_link *link = context;
    const struct simulator *simulator = link->inside;

    if (simulator->run(simulator->machine, WAIT_CYCLES) == PROTOCOL)
        return tosaic_link_fail(link, "the RTL breaks a rule of AXI4");
    return 0;
}

static void end(struct tosaic_link *link)
{
    struct simulator *simulator = link->inside;

    if (simulator->machine != NULL)
        simulator->destroy(simulator->machine);
    if (simulator->library != NULL)
        dlclose(simulator->library);
    free(simulator->memory);
    free(simulator);
    link->inside = NULL;
}

/* A function of the library, where `to` points. */
static int found(struct tosaic_link *link, const char *name, void *to)
{
    const struct simulator *simulator = link->inside;
    void *function = dlsym(simulator->library, name);

    if (function == NULL)
        return tosaic_link_fail(link, "the simulator has no function %s: install the kit again", name);
    memcpy(to, &function, sizeof function);
    return 0;
}

/* An address in this library. */
static const char ANCHOR = 0;

/* The library at a path, or by its configuration beside this one, or where the loader looks. */
static void *opened(const char *configuration)
{
    char name[PATH_BYTES / 2], path[PATH_BYTES];
    void *library = NULL;
    Dl_info about;
    char *end_of;

    if (strchr(configuration, '/') != NULL)
        return dlopen(configuration, RTLD_NOW | RTLD_LOCAL);
    if (strlen(configuration) >= sizeof name / 2)
        return NULL;
    sprintf(name, "libtosaic_sim_%s.so", configuration);
    for (end_of = name; *end_of != '\0'; end_of++)
        if (!isalnum((unsigned char)*end_of) && *end_of != '.')
            *end_of = '_';
    if (dladdr(&ANCHOR, &about) != 0 && about.dli_fname != NULL) {
        const char *slash = strrchr(about.dli_fname, '/');
        if (slash != NULL && (size_t)(slash - about.dli_fname) + sizeof name + 1 < sizeof path) {
            sprintf(path, "%.*s/%s", (int)(slash - about.dli_fname), about.dli_fname, name);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    }
    return library != NULL ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

int tosaic_simulator_open(struct tosaic_link *link, const char *configuration)
{
    struct simulator *simulator = calloc(1, sizeof *simulator);
    void *(*create)(uint32_t seed) = NULL;
    void (*set_memory)(void *machine, uint8_t *bytes, uint64_t size, uint64_t base) = NULL;

    if (simulator == NULL || (simulator->memory = calloc(1, MEMORY_BYTES)) == NULL) {
        free(simulator);
        return tosaic_link_fail(link, "there is no memory for a simulator");
    }
    link->inside = simulator;
    link->end = end;
    link->port.memory_base = MEMORY_BASE;
    link->port.memory_bytes = MEMORY_BYTES;
    link->port.read_register = read_register;
    link->port.write_register = write_register;
    link->port.read_memory = read_memory;
    link->port.write_memory = write_memory;
    link->port.wait = wait_for_it;
    simulator->library = opened(configuration);
    if (simulator->library == NULL)
        tosaic_link_fail(link, "there is no simulator of %s here: tosaic c-kit -o KIT --simulator %s", configuration,
            configuration);
    else if (found(link, "tosaic_create", &create) == 0 && found(link, "tosaic_set_memory", &set_memory) == 0
        && found(link, "tosaic_destroy", &simulator->destroy) == 0
        && found(link, "tosaic_control_read", &simulator->control_read) == 0
        && found(link, "tosaic_control_write", &simulator->control_write) == 0
        && found(link, "tosaic_run", &simulator->run) == 0) {
        simulator->machine = create(0);
        set_memory(simulator->machine, simulator->memory, MEMORY_BYTES, MEMORY_BASE);
        return 0;
    }
    end(link);
    link->end = NULL;
    return -1;
}
