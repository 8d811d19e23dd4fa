/* Linux UIO: tosaic_uio.h. */
#define _POSIX_C_SOURCE 200809L

#include "tosaic_uio.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGISTER_BYTES 4096
#define PATH_BYTES 256

/* The interrupt, or time to look at STATUS anyway. */
static int wait_for_interrupt(void *context)
{
    const struct tosaic_uio *uio = context;
    struct pollfd ready;
    uint32_t number = 1;
    ssize_t moved;

    /* uio_pdrv_genirq masks the interrupt when it fires; a 1 lets it through again. */
    moved = write(uio->registers, &number, sizeof number);
    ready.fd = uio->registers;
    ready.events = POLLIN;
    if (poll(&ready, 1, (int)uio->wait_milliseconds) == 1)
        moved = read(uio->registers, &number, sizeof number);
    (void)moved; /* What the interrupt did not tell, STATUS does. */
    return 0;
}

/* A number in a file of the buffer's folder; 0 if there is none. */
static uint64_t number_in(const char *class_folder, const char *buffer, const char *file)
{
    const char *slash = strrchr(buffer, '/');
    const char *name = slash != NULL ? slash + 1 : buffer;
    char path[PATH_BYTES];
    uint64_t number = 0;
    FILE *opened;

    if ((size_t)snprintf(path, sizeof path, "%s/%s/%s", class_folder, name, file) >= sizeof path) {
        errno = ENAMETOOLONG;
        return 0;
    }
    opened = fopen(path, "r");
    if (opened == NULL)
        return 0;
    if (fscanf(opened, "%" SCNi64, (int64_t *)&number) != 1) {
        errno = EINVAL;
        number = 0;
    }
    fclose(opened);
    return number;
}

static void *map(const char *path, int flags, size_t bytes, int *file)
{
    void *mapped;

    *file = open(path, O_RDWR | flags);
    /* One process at a time has the machine: EWOULDBLOCK for the second. */
    if (*file < 0 || flock(*file, LOCK_EX | LOCK_NB) != 0)
        return NULL;
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

const char *tosaic_uio_open(
    struct tosaic_uio *uio, const char *device, const char *buffer, const char *class_folder)
{
    uint64_t base = number_in(class_folder, buffer, "phys_addr");
    uint64_t size = base != 0 ? number_in(class_folder, buffer, "size") : 0;
    const char *wrong = NULL;
    int why, flags;

    memset(uio, 0, sizeof *uio);
    uio->registers = uio->memory = -1;
    if (size == 0)
        return class_folder;
    if (base >> 32 != (base + size - 1) >> 32) {
        errno = ERANGE;
        return buffer;
    }
    uio->mapped.registers = map(device, 0, REGISTER_BYTES, &uio->registers);
    if (uio->mapped.registers == NULL)
        wrong = device;
    /* O_SYNC: u-dma-buf maps it uncached, so that no cache has to be cleaned; but a coherent port's data are in them. */
    flags = number_in(class_folder, buffer, "dma_coherent") == 1 ? 0 : O_SYNC;
    uio->port.memory_bytes = (uint32_t)size;
    if (wrong == NULL && (uio->mapped.memory = map(buffer, flags, (size_t)size, &uio->memory)) == NULL)
        wrong = buffer;
    if (wrong != NULL) {
        why = errno;
        tosaic_uio_close(uio);
        errno = why;
        return wrong;
    }
    uio->mapped.wait = wait_for_interrupt;
    uio->mapped.wait_context = uio;
    uio->wait_milliseconds = 50;
    tosaic_mapped_port(&uio->port, &uio->mapped, base, (uint32_t)size);
    return NULL;
}

void tosaic_uio_close(struct tosaic_uio *uio)
{
    if (uio->mapped.registers != NULL)
        munmap((void *)uio->mapped.registers, REGISTER_BYTES);
    if (uio->mapped.memory != NULL)
        munmap((void *)uio->mapped.memory, uio->port.memory_bytes);
    if (uio->registers >= 0)
        close(uio->registers);
    if (uio->memory >= 0)
        close(uio->memory);
    memset(uio, 0, sizeof *uio);
    uio->registers = uio->memory = -1;
}
