// External memory behind the accelerator's AXI4 manager port, one call of step() per clock cycle.
//
// The rules of its timing, which the figures of cycles refer to:
// - Reads and writes are independent; bursts of one direction are served in the order of their addresses.
// - Read: the first beat is offered `latency` cycles after the cycle that took the address, later beats at one per
//   cycle at most. Write: the response is offered `latency` cycles after the cycle that took the last beat.
// - Each direction has a bucket that gains `bandwidth` thousandths of a byte per cycle and holds 2 beats; a beat takes its
//   BUS_BYTES out of it. A bandwidth of half the bus gives a beat every second cycle.
// - With `stall_percent`, ready is taken away and valid held back in random cycles.
// - With `interleave`, the beats of bursts with different IDs come in a random order, as AXI4 allows, and so do the
//   answers of writes.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>

#ifndef BUS_BYTES
#error "BUS_BYTES must be the width of the bus in bytes"
#endif
#ifndef CORES
#define CORES 1  // That share the bus.
#endif
#ifndef AXI_CACHE
#define AXI_CACHE 0  // AxCACHE and AxPROT of every burst; without them the port has neither.
#define AXI_PROT 0
#else
#define AXI_ATTRIBUTES
#endif

constexpr uint64_t NO_ADDRESS = ~uint64_t{0};
constexpr uint32_t BEAT = 1000 * BUS_BYTES;  // Thousandths of a byte, as bandwidth.py has them.
constexpr unsigned READS_UNDER_WAY = 32 * CORES;   // Bursts that the memory takes.
constexpr unsigned WRITES_UNDER_WAY = 64 * CORES;  // More than the machine may have.

enum Response : uint8_t { OKAY = 0, SLVERR = 2, DECERR = 3 };

// First violation of the AXI4 protocol, or 0.
enum Violation : int32_t {
    NONE = 0,
    CROSSES_4K = 1,
    NOT_INCR = 2,
    NOT_FULL_WIDTH = 3,
    WLAST_MISPLACED = 4,
    ADDRESS_CHANGED = 5,
    DATA_CHANGED = 6,
    WRONG_ATTRIBUTES = 7,
};

struct Beat {
    uint8_t bytes[BUS_BYTES];
};

struct Timing {
    uint32_t latency = 50;
    uint32_t bandwidth = BEAT;
    uint32_t stall_percent = 0;
    uint64_t seed = 1;
    bool interleave = false;
};

struct Window {
    uint8_t* bytes = nullptr;
    uint64_t size = 0;
    uint64_t base = 0;
    uint64_t read_error_at = NO_ADDRESS;   // Beats with this bus address are answered with SLVERR.
    uint64_t write_error_at = NO_ADDRESS;

    // Bytes of the beat at `address` that are inside; the last beat of a window may be short.
    unsigned bytes_at(uint64_t address) const {
        if (address - base >= size) return 0;  // The window may end at 2**64.
        const uint64_t left = size - (address - base);
        return left < BUS_BYTES ? unsigned(left) : BUS_BYTES;
    }
};

struct Random {
    uint64_t state = 1;
    bool percent(uint32_t chance) {
        if (!chance) return false;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state >> 11) % 100 < chance;
    }
};

struct Burst {
    uint64_t address = 0;
    uint32_t beats = 0;
    uint64_t ready_at = 0;
    uint8_t id = 0;
};

// The address channel of either direction, as driven by the accelerator.
struct Address {
    bool valid;
    uint64_t address;
    uint32_t beats;
    uint8_t size, burst, id;
    uint8_t cache = 0, prot = 0;

    bool operator==(const Address& o) const {
        return address == o.address && beats == o.beats && size == o.size && burst == o.burst && id == o.id &&
               cache == o.cache && prot == o.prot;
    }
};

inline Violation check(const Address& a) {
    const uint64_t first = a.address / BUS_BYTES * BUS_BYTES;
    if (a.burst != 1) return NOT_INCR;
    if ((1u << a.size) != BUS_BYTES) return NOT_FULL_WIDTH;
    if (first / 4096 != (first + a.beats * BUS_BYTES - 1) / 4096) return CROSSES_4K;
    if (a.cache != AXI_CACHE || a.prot != AXI_PROT) return WRONG_ATTRIBUTES;
    return NONE;
}

// Remembers what was offered and not taken: it must not change.
struct StabilityCheck {
    bool pending = false;
    Address last{};

    Violation step(const Address& a, bool ready) {
        const bool changed = pending && !(a.valid && a == last);
        pending = a.valid && !ready;
        last = a;
        return changed ? ADDRESS_CHANGED : NONE;
    }
};

struct Bucket {
    uint32_t credit = 0;
    void fill(uint32_t bandwidth) {
        credit += bandwidth;
        if (credit > 2 * BEAT) credit = 2 * BEAT;
    }
    bool has_beat() const { return credit >= BEAT; }
    void take() { credit -= BEAT; }
};

// The oldest one, or the oldest one of another ID.
template <typename Waiting>
size_t any_id(const std::deque<Waiting>& waiting, Random& random) {
    size_t other = 0;
    while (other < waiting.size() && waiting[other].id == waiting.front().id) ++other;
    return other < waiting.size() && random.percent(50) ? other : 0;
}

struct ReadSide {
    // Driven to the accelerator.
    bool arready = false, rvalid = false, rlast = false;
    uint8_t rid = 0, rresp = 0;
    Beat rdata{};

    uint64_t beats_read = 0;
    std::deque<Burst> bursts;
    Bucket bucket;
    StabilityCheck stability;

    // One cycle with what the accelerator drives; leaves what it sees in the next cycle.
    Violation step(uint64_t cycle, const Address& ar, bool rready, Window& window, const Timing& timing, Random& random) {
        Violation violation = stability.step(ar, arready);
        if (ar.valid && arready) {
            if (violation == NONE) violation = check(ar);
            const uint64_t latency = timing.latency ? timing.latency : 1;
            bursts.push_back({ar.address / BUS_BYTES * BUS_BYTES, ar.beats, cycle + latency, ar.id});
        }
        bucket.fill(timing.bandwidth);
        if (rvalid && rready) {
            rvalid = false;
            ++beats_read;
        }
        if (!rvalid && !bursts.empty() && bucket.has_beat() && !random.percent(timing.stall_percent)) {
            const size_t next = timing.interleave ? any_id(bursts, random) : 0;
            if (bursts[next].ready_at <= cycle + 1) {
                bucket.take();
                offer(window, next);
            }
        }
        arready = bursts.size() < READS_UNDER_WAY && !random.percent(timing.stall_percent);
        return violation;
    }

    void offer(Window& window, size_t place) {
        Burst& burst = bursts[place];
        rvalid = true;
        rid = burst.id;
        rlast = burst.beats == 1;
        const unsigned inside = window.bytes_at(burst.address);
        rresp = !inside ? DECERR : window.read_error_at == burst.address ? SLVERR : OKAY;
        std::memset(rdata.bytes, 0xEE, BUS_BYTES);
        if (inside) std::memcpy(rdata.bytes, window.bytes + (burst.address - window.base), inside);
        burst.address += BUS_BYTES;
        if (--burst.beats == 0) bursts.erase(bursts.begin() + place);
    }
};

struct WriteData {
    bool valid, last;
    uint64_t strobe;
    Beat data;
};

struct WriteSide {
    // Driven to the accelerator.
    bool awready = false, wready = false, bvalid = false;
    uint8_t bid = 0, bresp = 0;

    uint64_t beats_written = 0;
    std::deque<Burst> bursts;     // Addresses taken, whose data is still to come.
    std::deque<WriteData> early;  // Data taken before its address.
    struct Answer {
        uint64_t ready_at;
        uint8_t id, response;
    };
    std::deque<Answer> answers;
    uint8_t response = OKAY;
    Bucket bucket;
    StabilityCheck stability;
    bool data_pending = false;
    WriteData last_data{};

    Violation step(uint64_t cycle, const Address& aw, const WriteData& w, bool bready, Window& window,
                   const Timing& timing, Random& random) {
        Violation violation = stability.step(aw, awready);
        if (aw.valid && awready) {
            if (violation == NONE) violation = check(aw);
            bursts.push_back({aw.address / BUS_BYTES * BUS_BYTES, aw.beats, 0, aw.id});
        }
        if (data_pending && !(w.valid && same(w, last_data))) violation = DATA_CHANGED;
        data_pending = w.valid && !wready;
        last_data = w;
        bucket.fill(timing.bandwidth);
        if (w.valid && wready) {
            ++beats_written;
            bucket.take();
            early.push_back(w);
        }
        while (!early.empty() && !bursts.empty()) {
            if (!write(early.front(), cycle, window, timing) && violation == NONE) violation = WLAST_MISPLACED;
            early.pop_front();
        }
        if (bvalid && bready) bvalid = false;
        const size_t next = timing.interleave && !answers.empty() ? any_id(answers, random) : 0;
        if (!bvalid && !answers.empty() && answers[next].ready_at <= cycle + 1 && !random.percent(timing.stall_percent)) {
            bvalid = true;
            bid = answers[next].id;
            bresp = answers[next].response;
            answers.erase(answers.begin() + next);
        }
        awready = bursts.size() + answers.size() < WRITES_UNDER_WAY && !random.percent(timing.stall_percent);
        wready = bucket.has_beat() && early.size() < 2 && !random.percent(timing.stall_percent);
        return violation;
    }

    static bool same(const WriteData& a, const WriteData& b) {
        return a.last == b.last && a.strobe == b.strobe && !std::memcmp(a.data.bytes, b.data.bytes, BUS_BYTES);
    }

    // Applies one beat to the oldest burst; false when WLAST is not where its length says.
    bool write(const WriteData& w, uint64_t cycle, Window& window, const Timing& timing) {
        Burst& burst = bursts.front();
        const unsigned inside = window.bytes_at(burst.address);
        if (!inside) {
            response = DECERR;
        } else if (window.write_error_at == burst.address) {
            response = SLVERR;
        } else {
            uint8_t* target = window.bytes + (burst.address - window.base);
            for (unsigned i = 0; i < inside; ++i)
                if (w.strobe >> i & 1) target[i] = w.data.bytes[i];
        }
        burst.address += BUS_BYTES;
        const bool last = --burst.beats == 0;
        if (last) {
            const uint64_t latency = timing.latency ? timing.latency : 1;
            answers.push_back({cycle + latency, burst.id, response});
            response = OKAY;
            bursts.pop_front();
        }
        return last == w.last;
    }
};
