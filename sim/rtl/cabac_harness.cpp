// Runs one tensor through the Verilated CABAC decoder. `stall` of 256 is the probability, per cycle and channel, that a
// neighbour is not ready.
#include <cstdint>
#include <cstring>
#include <vector>

#include "Vcabac.h"
#include "verilated.h"

namespace {

enum Fault : int64_t { STUCK = -1, WORD_COUNT = -2, UNSTABLE = -3, TOOK_TOO_MUCH = -4 };

template <typename Port>
void put(Port& port, const uint8_t* bytes, size_t count) {
    memcpy(&port, bytes, count < sizeof(port) ? count : sizeof(port));
}

struct Stalls {
    uint32_t probability;
    uint32_t state;
    bool go() {
        if (!probability) return true;
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return (state >> 8 & 255) >= probability;
    }
};

}  // namespace

// Returns the cycles from the job's to the result's handshake, or a Fault. `words` are the block and may be followed by
// others, which must not be taken. `result` gets the packed result; without an error all `weight_words` must come,
// with one `*written_words` at most that.
extern "C" int64_t cabac_run(const uint8_t* job, int64_t job_bytes, const uint8_t* words, int64_t word_count,
                             int64_t word_bytes, uint8_t* weights, int64_t weight_words, int64_t* written_words,
                             uint8_t* result, int64_t result_bytes, int64_t stall, int64_t seed, int64_t limit) {
    VerilatedContext context;
    Vcabac top{&context};
    Stalls stalls{static_cast<uint32_t>(stall), static_cast<uint32_t>(seed) * 2654435761u | 1};
    auto edge = [&](int level) {
        top.clk = level;
        top.eval();
    };
    top.rst = 1;
    edge(0);
    edge(1);
    top.rst = 0;
    put(top.jobs___05Fpayload, job, job_bytes);
    top.jobs___05Fvalid = 1;
    std::vector<uint8_t> held(word_bytes);
    bool offers = false, holds = false;
    int64_t in = 0, out = 0, started = -1;
    for (int64_t cycle = 0; cycle < limit; cycle++) {
        offers = offers || stalls.go();
        top.words___05Fvalid = offers;
        if (in < word_count) put(top.words___05Fpayload, words + in * word_bytes, word_bytes);
        top.weights___05Fready = stalls.go();
        top.results___05Fready = stalls.go();
        edge(0);
        bool starts = top.jobs___05Fvalid && top.jobs___05Fready;
        bool takes = offers && top.words___05Fready;
        if (starts) started = cycle;
        if (holds && (!top.weights___05Fvalid || memcmp(held.data(), &top.weights___05Fpayload, word_bytes)))
            return UNSTABLE;
        holds = top.weights___05Fvalid && !top.weights___05Fready;
        if (holds) memcpy(held.data(), &top.weights___05Fpayload, word_bytes);
        if (top.weights___05Fvalid && top.weights___05Fready) {
            if (out == weight_words) return WORD_COUNT;
            memcpy(weights + out++ * word_bytes, &top.weights___05Fpayload, word_bytes);
        }
        if (top.results___05Fvalid && top.results___05Fready) {
            memcpy(result, &top.results___05Fpayload, result_bytes);
            *written_words = out;
            return in == word_count ? cycle - started : TOOK_TOO_MUCH;
        }
        edge(1);
        if (starts) top.jobs___05Fvalid = 0;
        if (takes) {
            if (in++ == word_count) return TOOK_TOO_MUCH;
            offers = false;
        }
    }
    return STUCK;
}
