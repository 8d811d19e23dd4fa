/* A machine on the bus of a Linux computer, from user space: UIO for registers, u-dma-buf for data (docs/driver.md). */
#ifndef TOSAIC_UIO_H
#define TOSAIC_UIO_H

#include "tosaic_mapped.h"

struct tosaic_uio {
    struct tosaic_mapped mapped;
    struct tosaic_port port;
    uint32_t wait_milliseconds; /* for the interrupt, until STATUS is looked at anyway */
    int registers;              /* files */
    int memory;
};

/* Maps `device` ("/dev/uio0") and `buffer` ("/dev/udmabuf0"), whose bus address is in `class_folder`
 * ("/sys/class/u-dma-buf"). Returns NULL, or what could not be opened, with errno (EWOULDBLOCK: another
 * process has it); then nothing is left open. */
const char *tosaic_uio_open(
    struct tosaic_uio *uio, const char *device, const char *buffer, const char *class_folder);

void tosaic_uio_close(struct tosaic_uio *uio);

#endif
