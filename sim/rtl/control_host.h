// A host at the control port, whose channels go on their own: reads and writes may overlap, the data of a write may come
// before its address, and the host may hesitate. One call of step() per clock cycle.
//
// AXI4-Lite leaves all of this to the host; what is offered stays until it is taken.
#pragma once

#include "axi_memory.h"

#include <vector>

struct Access {
    uint32_t address = 0, data = 0;
    uint8_t strobe = 0xF;
    uint8_t response = OKAY;
};

// A channel that does its part of each access, in their order.
struct Channel {
    size_t done = 0;
    bool active = false;  // Valid, or ready, is high.

    // `other`: what the machine's side of the handshake was, in the cycle before.
    bool step(bool other) {
        if (!(active && other)) return false;
        active = false;
        ++done;
        return true;
    }
    void begin(size_t count, bool hesitates) { active |= done < count && !hesitates; }
};

// Outputs of the machine, in the present cycle.
struct ControlOutputs {
    bool awready, wready, bvalid, arready, rvalid;
    uint8_t bresp, rresp;
    uint32_t rdata;
};

class ControlHost {
  public:
    Channel read_address, read_data, write_address, write_data, write_answer;
    std::vector<Access> reads, writes;

    // What is under way is forgotten.
    void begin(std::vector<Access> new_reads, std::vector<Access> new_writes, uint32_t stall_percent, uint64_t seed) {
        *this = ControlHost();
        reads = std::move(new_reads);
        writes = std::move(new_writes);
        stall_percent_ = stall_percent;
        random_.state = seed * 0x9E3779B97F4A7C15ull | 1;
    }

    bool busy() const { return reading() || writing(); }
    bool reading() const { return read_data.done < reads.size(); }
    bool writing() const { return write_answer.done < writes.size(); }

    void step(const ControlOutputs& now) {
        read_address.step(now.arready);
        if (read_data.step(now.rvalid)) {
            reads[read_data.done - 1].data = now.rdata;
            reads[read_data.done - 1].response = now.rresp;
        }
        write_address.step(now.awready);
        write_data.step(now.wready);
        if (write_answer.step(now.bvalid)) writes[write_answer.done - 1].response = now.bresp;
        for (Channel* each : {&read_address, &read_data}) each->begin(reads.size(), random_.percent(stall_percent_));
        for (Channel* each : {&write_address, &write_data, &write_answer})
            each->begin(writes.size(), random_.percent(stall_percent_));
    }

  private:
    uint32_t stall_percent_ = 0;
    Random random_;
};
