// A board's memory with its SDRAM, cycle by cycle. Loaded with ctypes; see sdram_bench.py.

#include "Vmemory.h"
#include "sdram_chip.h"
#include "verilated.h"

#include <memory>

// What the bench drives and sees. The fields are those of sdram_bench.py, in this order.
struct Inputs {
    uint32_t rst;
    uint32_t arvalid, araddr, arlen, arid, rready;
    uint32_t awvalid, awaddr, awlen, awid, wvalid, wlast, wstrb, bready;
    uint32_t host_request, host_write, host_address, host_write_data;
    uint64_t wdata;
};
struct Outputs {
    uint32_t arready, rvalid, rlast, rid, rresp;
    uint32_t awready, wready, bvalid, bid, bresp;
    uint32_t host_done, host_error, host_read_data;
    uint32_t broken;
    uint64_t rdata;
};

struct Bench {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Vmemory> top{new Vmemory(context.get(), "")};
    SdramChip chip;
    explicit Bench(const ChipSetting& setting) : chip(setting) {}
};

static void sample(const Vmemory& t, Outputs* out) {
    out->arready = t.read_arready, out->rvalid = t.read_rvalid, out->rlast = t.read_rlast, out->rid = t.read_rid;
    out->rresp = t.read_rresp, out->rdata = t.read_rdata;
    out->awready = t.write_awready, out->wready = t.write_wready, out->bvalid = t.write_bvalid;
    out->bid = t.write_bid, out->bresp = t.write_bresp;
    out->host_done = t.host_done, out->host_error = t.host_error, out->host_read_data = t.host_read_data;
}

extern "C" {

Bench* bench_create(const ChipSetting* setting) { return new Bench(*setting); }

void bench_destroy(Bench* b) {
    b->top->final();
    delete b;
}

// `cycles` with the same inputs; the outputs are those of the last of them, before its edge.
void bench_step(Bench* b, const Inputs* in, Outputs* out, uint64_t cycles) {
    Vmemory& t = *b->top;
    t.rst = in->rst;
    t.read_arvalid = in->arvalid, t.read_araddr = in->araddr, t.read_arlen = in->arlen, t.read_arid = in->arid;
    t.read_arsize = 3, t.read_arburst = 1, t.read_rready = in->rready;
    t.write_awvalid = in->awvalid, t.write_awaddr = in->awaddr, t.write_awlen = in->awlen, t.write_awid = in->awid;
    t.write_awsize = 3, t.write_awburst = 1, t.write_wvalid = in->wvalid, t.write_wlast = in->wlast;
    t.write_wstrb = in->wstrb, t.write_wdata = in->wdata, t.write_bready = in->bready;
    t.host_request = in->host_request, t.host_write = in->host_write;
    t.host_address = in->host_address, t.host_write_data = in->host_write_data;
    for (uint64_t i = 0; i < cycles; ++i) {
        t.clk = 0;
        t.eval();
        if (i == cycles - 1) sample(t, out);
        t.clk = 1;
        t.eval();
        b->chip.edge({bool(t.pins_cke), bool(t.pins_cs_n), bool(t.pins_ras_n), bool(t.pins_cas_n), bool(t.pins_we_n),
                      t.pins_ba, t.pins_a, t.pins_dm, uint16_t(t.sdram_dq__out)});
        t.sdram_dq = b->chip.drives() ? b->chip.data() : 0;
    }
    out->broken = b->chip.broken.count;
}

void bench_broken(Bench* b, Broken* broken) { *broken = b->chip.broken; }

uint64_t bench_writes(Bench* b) { return b->chip.writes; }
}
