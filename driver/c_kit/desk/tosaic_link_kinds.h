/* What the kinds of links share; not for users. */
#ifndef TOSAIC_LINK_KINDS_H
#define TOSAIC_LINK_KINDS_H

#include <stddef.h>

#include "tosaic_link.h"

#define TOSAIC_DEFAULT_PORT "7626"

/* Each opens a link whose problem is "", and fills port, inside and end; -1 with the problem where it cannot. */
int tosaic_tcp_open(struct tosaic_link *link, const char *host, const char *port, const char *token_file);
int tosaic_udp_open(struct tosaic_link *link, const char *host, const char *port);
int tosaic_simulator_open(struct tosaic_link *link, const char *configuration);

/* Notes what failed, unless something did before. -1. */
int tosaic_link_fail(struct tosaic_link *link, const char *format, ...);

/* Connects a socket of `type` (SOCK_STREAM, SOCK_DGRAM); -1 with the problem. */
int tosaic_link_connect(struct tosaic_link *link, const char *host, const char *port, int type);

void tosaic_put32(uint8_t *to, uint32_t value);
uint32_t tosaic_get32(const uint8_t *from);

/* HMAC-SHA256 of a message under a key. */
void tosaic_hmac_sha256(
    const uint8_t *key, size_t key_bytes, const uint8_t *message, size_t message_bytes, uint8_t digest[32]);

#endif
