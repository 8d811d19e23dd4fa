// What each core did in each cycle that its counters count: the events, and the place in the program of each unit.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

constexpr unsigned RECORDED_UNITS = 4;
constexpr unsigned RECORDED_WORDS = 6;  // Of a core: events, the place of each unit's instruction, a layer (hw/probe.py).

// From `cycle` on the instruction of `unit` is the one at byte `place` of the program.
struct Step {
    uint32_t cycle, unit, place;
};

class Record {
  public:
    struct Core {
        std::vector<uint32_t> events;  // A word of EVENTS bits for each cycle.
        std::vector<Step> steps;
        std::array<uint32_t, RECORDED_UNITS> places{};
    };
    bool on = false;
    std::vector<Core> cores;

    void begin(size_t count) {
        on = true;
        cores.assign(count, Core());
    }

    // `counts`: the bit behind those of the events, which is set in the cycles that count.
    void take(const uint32_t* probe, unsigned counts) {
        for (Core& core : cores) {
            if (probe[0] >> counts & 1) look(core, probe, (1u << counts) - 1);
            probe += RECORDED_WORDS;
        }
    }

  private:
    static void look(Core& core, const uint32_t* probe, uint32_t mask) {
        const uint32_t cycle = uint32_t(core.events.size());
        for (unsigned unit = 0; unit < RECORDED_UNITS; ++unit) {
            const uint32_t place = probe[1 + unit];
            if (cycle && core.places[unit] == place) continue;
            core.places[unit] = place;
            core.steps.push_back({cycle, unit, place});
        }
        core.events.push_back(probe[0] & mask);
    }
};
