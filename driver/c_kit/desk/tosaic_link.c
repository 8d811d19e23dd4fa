/* Links by their address; tosaic_link.h says what each function does. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tosaic_link_kinds.h"

#define NAME_BYTES 256

int tosaic_link_fail(struct tosaic_link *link, const char *format, ...)
{
    va_list arguments;

    if (link->problem[0] != '\0')
        return -1;
    va_start(arguments, format);
    vsnprintf(link->problem, sizeof link->problem, format, arguments);
    va_end(arguments);
    return -1;
}

static int is_lost(void *context)
{
    return ((struct tosaic_link *)context)->problem[0] != '\0';
}

void tosaic_put32(uint8_t *to, uint32_t value)
{
    int index;

    for (index = 0; index < 4; index++)
        to[index] = (uint8_t)(value >> 8 * index);
}

uint32_t tosaic_get32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

int tosaic_link_connect(struct tosaic_link *link, const char *host, const char *port, int type)
{
    struct addrinfo hints, *found = NULL, *each;
    int file = -1, wrong;

    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = type;
    wrong = getaddrinfo(host, port, &hints, &found);
    if (wrong != 0)
        return tosaic_link_fail(link, "%s:%s: %s", host, port, gai_strerror(wrong));
    for (each = found; each != NULL; each = each->ai_next) {
        file = socket(each->ai_family, each->ai_socktype, each->ai_protocol);
        if (file < 0)
            continue;
        if (connect(file, each->ai_addr, each->ai_addrlen) == 0)
            break;
        wrong = errno;
        close(file);
        file = -1;
    }
    freeaddrinfo(found);
    if (file < 0)
        return tosaic_link_fail(link, "%s:%s: nobody answers: %s", host, port, strerror(wrong));
    return file;
}

/* Copies the `count` characters from `from`; -1 where they do not fit. */
static int copied(char *to, const char *from, size_t count)
{
    if (count >= NAME_BYTES)
        return -1;
    memcpy(to, from, count);
    to[count] = '\0';
    return 0;
}

/* HOST, [HOST], and :PORT behind it. */
static int split(const char *from, size_t count, char *host, char *port)
{
    const char *end = from + count, *last, *colon;

    if (count > 0 && from[0] == '[') {
        last = memchr(from, ']', count);
        if (last == NULL || copied(host, from + 1, (size_t)(last - from - 1)) != 0)
            return -1;
        colon = last + 1 < end && last[1] == ':' ? last + 1 : NULL;
    } else {
        colon = memchr(from, ':', count);
        if (copied(host, from, (size_t)((colon == NULL ? end : colon) - from)) != 0)
            return -1;
    }
    if (colon == NULL)
        strcpy(port, TOSAIC_DEFAULT_PORT);
    else if (copied(port, colon + 1, (size_t)(end - colon - 1)) != 0)
        return -1;
    return host[0] == '\0' || port[0] == '\0' ? -1 : 0;
}

int tosaic_link_open(struct tosaic_link *link, const char *address)
{
    static const char OPTION[] = "token_file=";
    char host[NAME_BYTES], port[NAME_BYTES];
    const char *rest = strstr(address, "://"), *query;
    size_t scheme;

    memset(link, 0, sizeof *link);
    link->port.context = link;
    link->port.lost = is_lost;
    if (rest == NULL)
        return tosaic_link_fail(link, "%s: no address: give tcp://HOST:PORT, udp://HOST or sim://CONFIG", address);
    scheme = (size_t)(rest - address);
    rest += 3;
    query = strchr(rest, '?');
    if (scheme == 3 && strncmp(address, "sim", 3) == 0 && query == NULL)
        return tosaic_simulator_open(link, rest);
    if (scheme == 4 && strncmp(address, "tcps", 4) == 0)
        return tosaic_link_fail(link, "%s: there is no TLS here: use tcp:// through a tunnel of ssh", address);
    if (split(rest, query == NULL ? strlen(rest) : (size_t)(query - rest), host, port) != 0)
        return tosaic_link_fail(link, "%s: this is no HOST or HOST:PORT", address);
    if (scheme == 3 && strncmp(address, "udp", 3) == 0 && query == NULL)
        return tosaic_udp_open(link, host, port);
    if (scheme == 3 && strncmp(address, "tcp", 3) == 0) {
        if (query == NULL)
            return tosaic_tcp_open(link, host, port, NULL);
        if (strncmp(query + 1, OPTION, sizeof OPTION - 1) == 0)
            return tosaic_tcp_open(link, host, port, query + sizeof OPTION);
    }
    return tosaic_link_fail(link,
        "%s: no address: give tcp://HOST:PORT, perhaps with ?token_file=FILE, udp://HOST or sim://CONFIG", address);
}

void tosaic_link_close(struct tosaic_link *link)
{
    if (link->end != NULL)
        link->end(link);
    link->end = NULL;
    tosaic_link_fail(link, "the link is closed");
}
