/* A board on Ethernet: a frame of the bridge's protocol in each datagram (hw/bridge/protocol.py, datagrams.py). */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tosaic_link_kinds.h"

enum operation { HELLO = 1, READ_REGISTERS, WRITE_REGISTERS, READ_MEMORY, WRITE_MEMORY };
enum status { OK, BAD_REQUEST, OUT_OF_SEQUENCE, REGISTER_ERROR, MEMORY_ERROR };

#define FLAG 0x7Eu
#define ESCAPE 0x7Du
#define ESCAPE_XOR 0x20u
#define HEADER_BYTES 8u
#define CRC_BYTES 4u
#define NUMBER_BYTES 4u
#define COUNT_BITS 20
#define SESSIONS (1u << 12)
#define COUNT_MAX ((1u << COUNT_BITS) - 100u)
#define DATA_BYTES_MAX 32768u
#define CONTENT_BYTES_MAX (HEADER_BYTES + DATA_BYTES_MAX + CRC_BYTES)
#define LATE_MAX 100
#define IDENTITY_BYTES 32u

static const int ANSWER_MILLISECONDS[] = {250, 500, 1000, 2000, 4000, 4000};
#define TRIES ((int)(sizeof ANSWER_MILLISECONDS / sizeof ANSWER_MILLISECONDS[0]))

struct board {
    int file, greeted;
    uint32_t session, sent, heard, data_bytes;
    uint8_t sequence, identity[IDENTITY_BYTES];
    uint8_t content[CONTENT_BYTES_MAX];
    uint8_t datagram[NUMBER_BYTES + 2 + 2 * CONTENT_BYTES_MAX];
};

static uint32_t crc32_of(const uint8_t *data, size_t bytes)
{
    uint32_t crc = 0xFFFFFFFFu;
    int bit;

    for (; bytes > 0; bytes--) {
        crc ^= *data++;
        for (bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* The datagram with the content, to which its CRC is appended; its bytes. */
static size_t framed(struct board *board, size_t bytes)
{
    uint8_t *to = board->datagram + NUMBER_BYTES;
    size_t index;

    tosaic_put32(board->content + bytes, crc32_of(board->content, bytes));
    *to++ = FLAG;
    for (index = 0; index < bytes + CRC_BYTES; index++) {
        uint8_t byte = board->content[index];
        if (byte == FLAG || byte == ESCAPE) {
            *to++ = ESCAPE;
            byte ^= ESCAPE_XOR;
        }
        *to++ = byte;
    }
    *to++ = FLAG;
    return (size_t)(to - board->datagram);
}

/* The content of the frame in a datagram, without its CRC, in `board->content`; its bytes, 0 for a damaged one. */
static size_t unframed(struct board *board, size_t bytes)
{
    size_t at, count = 0;
    int escaped = 0;

    for (at = NUMBER_BYTES; at < bytes && count < CONTENT_BYTES_MAX; at++) {
        uint8_t byte = board->datagram[at];
        if (byte == FLAG) {
            if (count > CRC_BYTES && !escaped
                && crc32_of(board->content, count - CRC_BYTES) == tosaic_get32(board->content + count - CRC_BYTES))
                return count - CRC_BYTES;
            count = 0;
            escaped = 0;
        } else if (byte == ESCAPE && !escaped) {
            escaped = 1;
        } else {
            board->content[count++] = escaped ? byte ^ ESCAPE_XOR : byte;
            escaped = 0;
        }
    }
    return 0;
}

/* The bytes of the answer's content with the current sequence number; 0 if none comes in time. */
static size_t heard(struct board *board, int milliseconds)
{
    int late;

    for (late = 0; late < LATE_MAX; late++) {
        struct pollfd ready = {board->file, POLLIN, 0};
        ssize_t bytes;
        uint32_t number;
        size_t count;

        if (poll(&ready, 1, milliseconds) <= 0)
            return 0;
        bytes = recv(board->file, board->datagram, sizeof board->datagram, 0);
        if (bytes < (ssize_t)NUMBER_BYTES)
            return 0; /* perhaps that nobody listens: the next try tells */
        number = tosaic_get32(board->datagram);
        if (number <= board->heard || number > board->sent)
            continue;
        board->heard = number;
        count = unframed(board, (size_t)bytes);
        if (count >= 2 && board->content[0] == board->sequence)
            return count;
    }
    return 0;
}

/* The bytes of the answer, status last, in `board->content`; 0 with the problem. */
static size_t exchange(struct tosaic_link *link, enum operation operation, uint32_t address, uint32_t count,
    const uint8_t *data, uint32_t bytes)
{
    struct board *board = link->inside;
    int attempt;

    for (attempt = 0; attempt < TRIES; attempt++) {
        size_t size, answer;
        board->content[0] = board->sequence;
        board->content[1] = (uint8_t)operation;
        board->content[2] = (uint8_t)count;
        board->content[3] = (uint8_t)(count >> 8);
        tosaic_put32(board->content + 4, address);
        if (bytes > 0)
            memcpy(board->content + HEADER_BYTES, data, bytes);
        size = framed(board, HEADER_BYTES + bytes);
        if (operation == HELLO) {
            /* 0 is what a board believes in that was just switched on. */
            board->session = board->session % (SESSIONS - 1) + 1;
            board->sent = board->session << COUNT_BITS;
            board->heard = board->sent - 1;
        } else {
            board->sent++;
        }
        tosaic_put32(board->datagram, board->sent);
        if (send(board->file, board->datagram, size, MSG_NOSIGNAL) < 0 && errno != ECONNREFUSED) {
            tosaic_link_fail(link, "there is no way to this host: %s", strerror(errno));
            return 0;
        }
        answer = heard(board, ANSWER_MILLISECONDS[attempt]);
        if (answer > 0)
            return answer;
    }
    tosaic_link_fail(link, "the board does not answer: is it on this network, with Ethernet, and at this address?");
    return 0;
}

static int greet(struct tosaic_link *link)
{
    struct board *board = link->inside;
    size_t bytes;

    board->sequence = (uint8_t)(board->sequence + 128);
    bytes = exchange(link, HELLO, 0, 0, NULL, 0);
    if (bytes == 0)
        return -1;
    if (board->content[bytes - 1] != OK || bytes != IDENTITY_BYTES + 2
        || memcmp(board->content + 1, "TOSB\1", 5) != 0)
        return tosaic_link_fail(link, "this is no Tosaic board, or one of another version");
    if (board->data_bytes != 0 && memcmp(board->identity, board->content + 1, IDENTITY_BYTES) != 0)
        return tosaic_link_fail(link, "another board answers: open it anew");
    memcpy(board->identity, board->content + 1, IDENTITY_BYTES);
    board->data_bytes = board->identity[6] | (uint32_t)board->identity[7] << 8;
    board->greeted = 1;
    return board->data_bytes >= 4 && board->data_bytes <= DATA_BYTES_MAX ? 0 : tosaic_link_fail(link, "no board");
}

/* The data of the answer, or NULL with the problem. */
static const uint8_t *request(struct tosaic_link *link, enum operation operation, uint32_t address, uint32_t count,
    const uint8_t *data, uint32_t bytes, uint32_t wanted)
{
    struct board *board = link->inside;
    size_t answer;
    int status;

    if (link->problem[0] != '\0')
        return NULL;
    if ((board->sent & ((1u << COUNT_BITS) - 1)) > COUNT_MAX)
        board->greeted = 0;
    if (!board->greeted && greet(link) != 0)
        return NULL;
    board->sequence++;
    answer = exchange(link, operation, address, count, data, bytes);
    if (answer == 0)
        return NULL;
    status = board->content[answer - 1];
    if (status == OUT_OF_SEQUENCE)
        tosaic_link_fail(link, "the board was reset, or another host used it: open it anew");
    else if (status != OK || answer - 2 != wanted)
        tosaic_link_fail(link, "the board answers status %d with %lu bytes to operation %d at 0x%lx", status,
            (unsigned long)(answer - 2), (int)operation, (unsigned long)address);
    return link->problem[0] == '\0' ? board->content + 1 : NULL;
}

static uint32_t read_register(void *context, uint32_t offset)
{
    const uint8_t *data = request(context, READ_REGISTERS, offset, 4, NULL, 0, 4);

    return data == NULL ? 0 : tosaic_get32(data);
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    uint8_t data[4];

    tosaic_put32(data, value);
    request(context, WRITE_REGISTERS, offset, 4, data, 4, 0);
}

static void read_memory(void *context, uint32_t address, void *to, uint32_t bytes)
{
    struct tosaic_link *link = context;
    struct board *board = link->inside;
    uint32_t done, part;

    for (done = 0; done < bytes; done += part) {
        const uint8_t *data;
        part = bytes - done < board->data_bytes ? bytes - done : board->data_bytes;
        data = request(link, READ_MEMORY, (uint32_t)link->port.memory_base + address + done, part, NULL, 0, part);
        if (data == NULL) {
            memset((uint8_t *)to + done, 0, bytes - done);
            return;
        }
        memcpy((uint8_t *)to + done, data, part);
    }
}

static void write_memory(void *context, uint32_t address, const void *from, uint32_t bytes)
{
    static const uint8_t ZEROS[DATA_BYTES_MAX];
    struct tosaic_link *link = context;
    struct board *board = link->inside;
    uint32_t done, part;

    for (done = 0; done < bytes; done += part) {
        part = bytes - done < board->data_bytes ? bytes - done : board->data_bytes;
        if (request(link, WRITE_MEMORY, (uint32_t)link->port.memory_base + address + done, part,
                from == NULL ? ZEROS : (const uint8_t *)from + done, part, 0) == NULL)
            return;
    }
}

static int wait_a_millisecond(void *context)
{
    const struct timespec pause = {0, 1000000};

    (void)context;
    nanosleep(&pause, NULL);
    return 0;
}

static void end(struct tosaic_link *link)
{
    struct board *board = link->inside;

    if (board->file >= 0)
        close(board->file);
    free(board);
    link->inside = NULL;
}

int tosaic_udp_open(struct tosaic_link *link, const char *host, const char *port)
{
    struct board *board = calloc(1, sizeof *board);
    struct timespec now;

    if (board == NULL)
        return tosaic_link_fail(link, "there is no memory for a link");
    link->inside = board;
    link->end = end;
    link->port.read_register = read_register;
    link->port.write_register = write_register;
    link->port.read_memory = read_memory;
    link->port.write_memory = write_memory;
    link->port.wait = wait_a_millisecond;
    /* Any session but the last host's. */
    clock_gettime(CLOCK_REALTIME, &now);
    board->session = ((uint32_t)now.tv_nsec / 1000 ^ (uint32_t)getpid()) % SESSIONS;
    board->sequence = (uint8_t)now.tv_sec;
    board->file = tosaic_link_connect(link, host, port, SOCK_DGRAM);
    if (board->file >= 0 && greet(link) == 0) {
        link->port.memory_base = tosaic_get32(board->identity + 8);
        link->port.memory_bytes = tosaic_get32(board->identity + 12);
        return 0;
    }
    end(link);
    link->end = NULL;
    return -1;
}
