/* The device of a board server (`tosaic serve`): what driver/transports/wire.py says, without TLS.
 *
 * The server starts programs itself, so registers that it would not let a client write are kept here until CONTROL is
 * written; the marks come with the answer to FINISH. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "tosaic_link_kinds.h"

enum request { HELLO = 16, ACQUIRE, RELEASE, READ_REGISTERS, READ_MEMORY, WRITE_MEMORY, RUN, WAIT, FINISH, STOP };

#define WIRE_VERSION 2u
#define GREETING "tosaic1 "
#define GREETING_BYTES 8u
#define NONCE_BYTES 16u
#define ADMITTED 1u
#define FULL 2u
#define DATA_BYTES_MAX (1u << 19)
#define MESSAGE_BYTES_MAX (1u << 20)
#define TOKEN_BYTES_MAX 256u
#define ANSWER_SECONDS 1300 /* a turn of ten minutes may come first, and memory that is erased */
#define TURN_SECONDS 600u
#define IDENTITY_BYTES 32u
#define LOOKS_MAX 100u

struct server {
    int file;
    uint32_t window, memory_bytes, program_address, program_bytes, watchdog, mark; /* registers as they were written */
    uint32_t looks;      /* at STATUS since the start */
    uint32_t mark_count;
    uint8_t *marks;      /* layer and cycle of each, four bytes each */
    uint8_t *answer;     /* MESSAGE_BYTES_MAX */
};

static int send_all(struct tosaic_link *link, const void *data, size_t bytes)
{
    const struct server *server = link->inside;
    const uint8_t *from = data;

    while (bytes > 0) {
        ssize_t sent = send(server->file, from, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return tosaic_link_fail(link, "the connection to the board server is lost: %s", strerror(errno));
        from += sent;
        bytes -= (size_t)sent;
    }
    return 0;
}

static int receive_all(struct tosaic_link *link, void *data, size_t bytes)
{
    const struct server *server = link->inside;
    uint8_t *to = data;

    while (bytes > 0) {
        ssize_t received = recv(server->file, to, bytes, 0);
        if (received < 0 && errno == EINTR)
            continue;
        if (received <= 0)
            return tosaic_link_fail(link, "the connection to the board server is lost: %s",
                received == 0 ? "the other end closed it" : strerror(errno));
        to += received;
        bytes -= (size_t)received;
    }
    return 0;
}

/* Asks; the bytes of the answer, which is in `server->answer`, or -1. */
static long ask(struct tosaic_link *link, enum request request, const uint32_t *fields, uint32_t count,
    const void *data, uint32_t bytes)
{
    struct server *server = link->inside;
    uint8_t head[4 + 1 + 4 * 4];
    uint32_t index, length;

    if (link->problem[0] != '\0')
        return -1;
    tosaic_put32(head, 1 + 4 * count + bytes);
    head[4] = (uint8_t)request;
    for (index = 0; index < count; index++)
        tosaic_put32(head + 5 + 4 * index, fields[index]);
    if (send_all(link, head, 5 + 4 * (size_t)count) != 0 || (bytes > 0 && send_all(link, data, bytes) != 0))
        return -1;
    if (receive_all(link, head, 4) != 0)
        return -1;
    length = tosaic_get32(head);
    if (length < 1 || length > MESSAGE_BYTES_MAX)
        return tosaic_link_fail(link, "the board server sends a message of %lu bytes", (unsigned long)length);
    if (receive_all(link, server->answer, length) != 0)
        return -1;
    if (server->answer[0] != 0)
        return tosaic_link_fail(link, "%.*s", (int)(length - 1), (const char *)server->answer + 1);
    memmove(server->answer, server->answer + 1, length - 1);
    return (long)length - 1;
}

/* As `ask`, for an answer of `wanted` bytes. */
static int ask_for(struct tosaic_link *link, enum request request, const uint32_t *fields, uint32_t count, long wanted)
{
    long bytes = ask(link, request, fields, count, NULL, 0);

    if (bytes >= 0 && bytes != wanted)
        return tosaic_link_fail(link, "the board server answers %ld bytes instead of %ld", bytes, wanted);
    return bytes < 0 ? -1 : 0;
}

/* Where a register is kept that the server lets nobody write; NULL for others. */
static uint32_t *kept(struct server *server, uint32_t offset)
{
    switch (offset) {
    case TOSAIC_MEM_BASE: return &server->window;
    case TOSAIC_MEM_SIZE: return &server->memory_bytes;
    case TOSAIC_PROGRAM_ADDRESS: return &server->program_address;
    case TOSAIC_PROGRAM_BYTES: return &server->program_bytes;
    case TOSAIC_WATCHDOG: return &server->watchdog;
    case TOSAIC_MARK_INDEX: return &server->mark;
    default: return NULL;
    }
}

static uint32_t read_register(void *context, uint32_t offset)
{
    struct tosaic_link *link = context;
    struct server *server = link->inside;
    const uint32_t *own = kept(server, offset), fields[2] = {offset, 1};

    if (own != NULL)
        return *own;
    if (offset == TOSAIC_MARK_LAYER || offset == TOSAIC_MARK_CYCLE) {
        if (server->mark >= server->mark_count)
            return 0;
        return tosaic_get32(server->marks + 8 * server->mark + (offset == TOSAIC_MARK_CYCLE ? 4 : 0));
    }
    return ask_for(link, READ_REGISTERS, fields, 2, 4) == 0 ? tosaic_get32(server->answer) : 0;
}

static void take_marks(struct tosaic_link *link)
{
    struct server *server = link->inside;
    long bytes = ask(link, FINISH, NULL, 0, NULL, 0);

    server->mark_count = 0;
    if (bytes <= 0)
        return;
    free(server->marks);
    server->marks = malloc((size_t)bytes);
    if (server->marks == NULL)
        return;
    memcpy(server->marks, server->answer, (size_t)bytes);
    server->mark_count = (uint32_t)bytes / 8;
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    struct tosaic_link *link = context;
    struct server *server = link->inside;
    uint32_t *own = kept(server, offset);
    uint32_t fields[4];

    if (own != NULL) {
        *own = value;
    } else if (offset == TOSAIC_CONTROL && (value & TOSAIC_CONTROL_START)) {
        fields[0] = server->memory_bytes;
        fields[1] = server->program_address;
        fields[2] = server->program_bytes;
        fields[3] = server->watchdog;
        server->looks = 0;
        ask_for(link, RUN, fields, 4, 0);
    } else if (offset == TOSAIC_CONTROL && (value & TOSAIC_CONTROL_SOFT_RESET)) {
        ask_for(link, STOP, NULL, 0, 0);
    } else if (offset == TOSAIC_IRQ) {
        take_marks(link);
    } else {
        tosaic_link_fail(link, "a board server lets nobody write register 0x%03lx", (unsigned long)offset);
    }
}

static void read_memory(void *context, uint32_t address, void *to, uint32_t bytes)
{
    struct tosaic_link *link = context;
    struct server *server = link->inside;
    uint32_t done, part;

    for (done = 0; done < bytes; done += part) {
        uint32_t fields[2];
        part = bytes - done < DATA_BYTES_MAX ? bytes - done : DATA_BYTES_MAX;
        fields[0] = address + done;
        fields[1] = part;
        if (ask_for(link, READ_MEMORY, fields, 2, (long)part) != 0) {
            memset((uint8_t *)to + done, 0, bytes - done);
            return;
        }
        memcpy((uint8_t *)to + done, server->answer, part);
    }
}

static void write_memory(void *context, uint32_t address, const void *from, uint32_t bytes)
{
    struct tosaic_link *link = context;
    uint8_t *zeros = from == NULL && bytes > 0 ? calloc(1, bytes < DATA_BYTES_MAX ? bytes : DATA_BYTES_MAX) : NULL;
    uint32_t done, part;

    if (from == NULL && zeros == NULL && bytes > 0) {
        tosaic_link_fail(link, "there is no memory for %lu zeros", (unsigned long)bytes);
        return;
    }
    for (done = 0; done < bytes; done += part) {
        uint32_t field = address + done;
        part = bytes - done < DATA_BYTES_MAX ? bytes - done : DATA_BYTES_MAX;
        if (ask(link, WRITE_MEMORY, &field, 1, from == NULL ? zeros : (const uint8_t *)from + done, part) < 0)
            break;
    }
    free(zeros);
}

static int wait_for_it(void *context)
{
    struct tosaic_link *link = context;
    struct server *server = link->inside;
    uint32_t look = server->looks < LOOKS_MAX ? server->looks++ : LOOKS_MAX;

    return ask_for(link, WAIT, &look, 1, 0);
}

static void end(struct tosaic_link *link)
{
    struct server *server = link->inside;

    if (link->problem[0] == '\0')
        ask_for(link, RELEASE, NULL, 0, 0);
    if (server->file >= 0)
        close(server->file);
    free(server->marks);
    free(server->answer);
    free(server);
    link->inside = NULL;
}

/* The bytes of the token, from the file or from TOSAIC_TOKEN; -1 with the problem. */
static long read_token(struct tosaic_link *link, const char *path, char *token)
{
    const char *told = getenv("TOSAIC_TOKEN");
    struct stat about;
    size_t bytes = 0;
    FILE *file;

    if (path == NULL) {
        if (told == NULL || told[0] == '\0' || strlen(told) > TOKEN_BYTES_MAX)
            return tosaic_link_fail(
                link, "the board server wants its token: set TOSAIC_TOKEN, or name a file with ?token_file=FILE");
        bytes = strlen(told);
        memcpy(token, told, bytes);
        return (long)bytes;
    }
    file = fopen(path, "r");
    if (file == NULL || fstat(fileno(file), &about) != 0)
        return tosaic_link_fail(link, "%s: the token cannot be read: %s", path, strerror(errno));
    bytes = fread(token, 1, TOKEN_BYTES_MAX, file);
    fclose(file);
    if (about.st_mode & (S_IRWXG | S_IRWXO))
        return tosaic_link_fail(link, "%s: others can read this token: chmod 600 %s", path, path);
    while (bytes > 0 && strchr(" \t\r\n", token[bytes - 1]) != NULL)
        bytes--;
    return bytes > 0 ? (long)bytes : tosaic_link_fail(link, "%s: there is no token in this file", path);
}

static int admitted(struct tosaic_link *link, const char *token, size_t token_bytes)
{
    uint8_t greeting[GREETING_BYTES + NONCE_BYTES], proof[32], answer;

    if (receive_all(link, greeting, sizeof greeting) != 0)
        return -1;
    if (memcmp(greeting, GREETING, GREETING_BYTES) != 0)
        return tosaic_link_fail(link, "this is no Tosaic board server");
    tosaic_hmac_sha256((const uint8_t *)token, token_bytes, greeting + GREETING_BYTES, NONCE_BYTES, proof);
    if (send_all(link, proof, sizeof proof) != 0 || receive_all(link, &answer, 1) != 0)
        return -1;
    if (answer == FULL)
        return tosaic_link_fail(link, "the board server has all the clients it takes: try again later");
    if (answer != ADMITTED)
        return tosaic_link_fail(link, "the board server refuses the token; `tosaic serve` shows the right one");
    return 0;
}

static int greeted(struct tosaic_link *link)
{
    const uint32_t version = WIRE_VERSION, seconds = TURN_SECONDS;
    struct server *server = link->inside;
    long bytes = ask(link, HELLO, &version, 1, NULL, 0);

    if (bytes < 0)
        return -1;
    if (bytes < (long)IDENTITY_BYTES || memcmp(server->answer, "TOSB", 4) != 0)
        return tosaic_link_fail(link, "the board server does not tell its device");
    link->port.memory_base = server->window = tosaic_get32(server->answer + 8);
    link->port.memory_bytes = tosaic_get32(server->answer + 12);
    return ask_for(link, ACQUIRE, &seconds, 1, 1);
}

int tosaic_tcp_open(struct tosaic_link *link, const char *host, const char *port, const char *token_file)
{
    char token[TOKEN_BYTES_MAX];
    struct timeval longest = {ANSWER_SECONDS, 0};
    struct server *server;
    long token_bytes = read_token(link, token_file, token);

    if (token_bytes < 0)
        return -1;
    server = calloc(1, sizeof *server);
    if (server == NULL || (server->answer = malloc(MESSAGE_BYTES_MAX)) == NULL) {
        free(server);
        return tosaic_link_fail(link, "there is no memory for a link");
    }
    link->inside = server;
    link->end = end;
    link->port.read_register = read_register;
    link->port.write_register = write_register;
    link->port.read_memory = read_memory;
    link->port.write_memory = write_memory;
    link->port.wait = wait_for_it;
    server->file = tosaic_link_connect(link, host, port, SOCK_STREAM);
    if (server->file >= 0) {
        setsockopt(server->file, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
        setsockopt(server->file, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
        if (admitted(link, token, (size_t)token_bytes) == 0 && greeted(link) == 0)
            return 0;
    }
    end(link);
    link->end = NULL;
    return -1;
}
