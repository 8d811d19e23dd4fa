/* A machine from a desk, by its address: a board server, a board on Ethernet, or the simulator in this process. POSIX. */
#ifndef TOSAIC_LINK_H
#define TOSAIC_LINK_H

#include "tosaic.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TOSAIC_LINK_TEXT_BYTES 256

struct tosaic_link {
    struct tosaic_port port;
    char problem[TOSAIC_LINK_TEXT_BYTES]; /* what failed, in words; "" while nothing did */
    void *inside;
    void (*end)(struct tosaic_link *link);
};

/* Opens "tcp://HOST[:PORT][?token_file=FILE]" (what `tosaic serve` prints; without a file the token is TOSAIC_TOKEN),
 * "udp://HOST[:PORT]" (a board on Ethernet) or "sim://CONFIG" (the RTL, which `tosaic c-kit --simulator CONFIG` built; or
 * the path of such a library). Returns 0, or -1 with `problem`. An open link must stay where it is; `&link.port` is for tosaic_open, and a result
 * LINK_LOST has its reason in `problem`. */
int tosaic_link_open(struct tosaic_link *link, const char *address);

void tosaic_link_close(struct tosaic_link *link);

#ifdef __cplusplus
}
#endif

#endif
