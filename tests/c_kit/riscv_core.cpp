// A PicoRV32 with memory, as a shared library: what it accesses outside the memory goes to functions of the test's.
#include <cstdint>
#include <cstring>

#include "Vcore.h"

extern "C" {

typedef uint32_t (*ReadWord)(uint32_t address);
typedef void (*WriteBytes)(uint32_t address, uint32_t word, uint32_t strobes);

// Runs from address 0 until the core traps (ebreak); 0 when it has not after `max_cycles`.
int core_run(uint8_t *memory, uint32_t memory_bytes, ReadWord read, WriteBytes write, uint64_t max_cycles)
{
    Vcore core;
    core.resetn = 0;
    core.mem_ready = 0;
    core.irq = 0;
    core.pcpi_wr = core.pcpi_wait = core.pcpi_ready = 0;
    for (uint64_t cycle = 0; cycle < max_cycles; cycle++) {
        core.clk = 0;
        core.eval();
        core.clk = 1;
        core.eval();
        core.resetn = cycle >= 4;
        bool asked = core.resetn && core.mem_valid && !core.mem_ready;
        core.mem_ready = asked;
        if (core.resetn && core.trap)
            return 1;
        if (!asked)
            continue;
        uint32_t address = core.mem_addr, strobes = core.mem_wstrb;
        bool inside = address + 4 <= memory_bytes;
        if (strobes == 0) {
            uint32_t word;
            if (inside)
                std::memcpy(&word, memory + address, 4);
            else
                word = read(address);
            core.mem_rdata = word;
        } else if (inside) {
            for (int byte = 0; byte < 4; byte++)
                if (strobes >> byte & 1)
                    memory[address + byte] = core.mem_wdata >> 8 * byte;
        } else {
            write(address, core.mem_wdata, strobes);
        }
    }
    return 0;
}

}
