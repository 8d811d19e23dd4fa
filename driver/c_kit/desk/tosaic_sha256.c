/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for the proof that a client knows a board server's token. */
#include <string.h>

#include "tosaic_link_kinds.h"

#define BLOCK_BYTES 64

struct sha256 {
    uint32_t state[8];
    uint8_t block[BLOCK_BYTES];
    uint64_t bytes;
};

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t value, int count)
{
    return value >> count | value << (32 - count);
}

static void absorb(struct sha256 *hash)
{
    uint32_t words[64], v[8], first, second;
    int index;

    for (index = 0; index < 16; index++) {
        const uint8_t *from = hash->block + 4 * index;
        words[index] = (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
    }
    for (; index < 64; index++) {
        uint32_t near = words[index - 2], far = words[index - 15];
        words[index] = (rotated(near, 17) ^ rotated(near, 19) ^ near >> 10) + words[index - 7]
            + (rotated(far, 7) ^ rotated(far, 18) ^ far >> 3) + words[index - 16];
    }
    memcpy(v, hash->state, sizeof v);
    for (index = 0; index < 64; index++) {
        first = v[7] + (rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6]))
            + ROUND[index] + words[index];
        second = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22))
            + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += first;
        v[0] = first + second;
    }
    for (index = 0; index < 8; index++)
        hash->state[index] += v[index];
}

static void begin(struct sha256 *hash)
{
    static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
        0x1f83d9ab, 0x5be0cd19};

    memcpy(hash->state, START, sizeof START);
    hash->bytes = 0;
}

static void add(struct sha256 *hash, const uint8_t *data, size_t bytes)
{
    for (; bytes > 0; bytes--) {
        hash->block[hash->bytes++ % BLOCK_BYTES] = *data++;
        if (hash->bytes % BLOCK_BYTES == 0)
            absorb(hash);
    }
}

static void end(struct sha256 *hash, uint8_t digest[32])
{
    static const uint8_t ONE = 0x80, ZERO = 0;
    uint64_t bits = 8 * hash->bytes;
    uint8_t length[8];
    int index;

    add(hash, &ONE, 1);
    while (hash->bytes % BLOCK_BYTES != BLOCK_BYTES - sizeof length)
        add(hash, &ZERO, 1);
    for (index = 0; index < 8; index++)
        length[index] = (uint8_t)(bits >> (56 - 8 * index));
    add(hash, length, sizeof length);
    for (index = 0; index < 32; index++)
        digest[index] = (uint8_t)(hash->state[index / 4] >> (24 - 8 * (index % 4)));
}

void tosaic_hmac_sha256(
    const uint8_t *key, size_t key_bytes, const uint8_t *message, size_t message_bytes, uint8_t digest[32])
{
    uint8_t inner[BLOCK_BYTES] = {0}, outer[BLOCK_BYTES];
    struct sha256 hash;
    int index;

    begin(&hash);
    if (key_bytes > BLOCK_BYTES) {
        add(&hash, key, key_bytes);
        end(&hash, inner);
    } else {
        memcpy(inner, key, key_bytes);
    }
    for (index = 0; index < BLOCK_BYTES; index++) {
        outer[index] = inner[index] ^ 0x5c;
        inner[index] ^= 0x36;
    }
    begin(&hash);
    add(&hash, inner, sizeof inner);
    add(&hash, message, message_bytes);
    end(&hash, digest);
    begin(&hash);
    add(&hash, outer, sizeof outer);
    add(&hash, digest, 32);
    end(&hash, digest);
}
