/* A port to a machine whose registers and memory are mapped into the host's addresses: bare metal, or Linux UIO. */
#ifndef TOSAIC_MAPPED_H
#define TOSAIC_MAPPED_H

#include "tosaic.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tosaic_mapped {
    volatile uint32_t *registers; /* the first of the control port's 4 KiB */
    volatile uint8_t *memory;     /* the window, as the host sees it */
    /* Of hosts whose cache the machine does not see, or NULL: write lines back before the machine reads them, and forget
     * lines before the host reads what the machine wrote. A window starts and ends at a line of the cache. */
    void (*clean_cache)(volatile uint8_t *start, uint32_t bytes);
    void (*forget_cache)(volatile uint8_t *start, uint32_t bytes);
    int (*wait)(void *context);   /* as in struct tosaic_port, or NULL */
    void *wait_context;
};

/* Makes the port to `mapped`, which must outlive it. The machine sees the window at `memory_base`. */
void tosaic_mapped_port(
    struct tosaic_port *port, struct tosaic_mapped *mapped, uint64_t memory_base, uint32_t memory_bytes);

#ifdef __cplusplus
}
#endif

#endif
