// Drives the Verilated accelerator: clock, control port, external memory. Loaded with ctypes; see library.py.

#include "Vtosaic.h"
#include "axi_memory.h"
#include "control_host.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif
#ifdef PROBE
#include "record.h"
#endif
#if VM_TRACE
#include "wave.h"
#endif
#if VM_TRACE_SAIF
#include "verilated_saif_c.h"
#endif

#include <algorithm>
#include <memory>

// Results of functions that wait.
enum Outcome : int32_t { INTERRUPT = 0, TIMEOUT = 1, PROTOCOL = 2 };

constexpr unsigned RESET_CYCLES = 4;
constexpr unsigned CONTROL_PORT_CYCLES = 1000;  // An access takes a few; more means that it hangs.

class Simulator {
  public:
    Window window;
    Timing timing;
    uint64_t cycle = 0;
    Violation violation = NONE;
    ReadSide reads;
    WriteSide writes;
#ifdef PROBE
    Record record;
#endif
#if VM_TRACE
    Wave wave;
#endif

    // With a seed, what has no initial value gets a random one: where Verilator's --x-initial is unique.
    explicit Simulator(uint32_t seed) : context_(new VerilatedContext) {
#if VM_TRACE || VM_TRACE_SAIF
        context_->traceEverOn(true);
#endif
        if (seed) {
            context_->randReset(2);
            context_->randSeed(int(seed));
        }
        top_.reset(new Vtosaic(context_.get(), ""));
        reset();
    }
    ~Simulator() {
#if VM_TRACE
        wave.close();
#endif
        top_->final();
    }

    // Reset machine and bus, whatever they are at. External memory stays as it is.
    void reset() {
        reads = ReadSide();
        writes = WriteSide();
        host_ = ControlHost();
        // A bus offers nothing during a reset.
        top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_arvalid = 0;
        top_->m_axi_rvalid = top_->m_axi_bvalid = 0;
        top_->rst = 1;
        for (unsigned i = 0; i < RESET_CYCLES; ++i) edge();
        top_->rst = 0;
        edge();
    }

    void set_timing(const Timing& value) {
        timing = value;
        random_.state = value.seed * 0x9E3779B97F4A7C15ull | 1;
    }

    // One clock cycle: both sides look at each other, then the edge, which also makes the new inputs visible.
    void step() {
        sample();
        Vtosaic& t = *top_;
        t.m_axi_arready = reads.arready;
        t.m_axi_rvalid = reads.rvalid;
        if (reads.rvalid) {
            t.m_axi_rid = reads.rid;
            t.m_axi_rlast = reads.rlast;
            t.m_axi_rresp = reads.rresp;
            std::memcpy(&t.m_axi_rdata, reads.rdata.bytes, BUS_BYTES);
        }
        t.m_axi_awready = writes.awready;
        t.m_axi_wready = writes.wready;
        t.m_axi_bvalid = writes.bvalid;
        t.m_axi_bid = writes.bid;
        t.m_axi_bresp = writes.bresp;
        edge();
        ++cycle;
    }

    int32_t run(uint64_t max_cycles) {
        for (uint64_t i = 0; i < max_cycles; ++i) {
            step();
            if (violation != NONE) return PROTOCOL;
            if (top_->irq) return INTERRUPT;
        }
        return TIMEOUT;
    }

    // The value, or -1 when the port does not answer, or -2 - RRESP when it answers with an error.
    int64_t control_read(uint32_t address) {
        if (!access({Access{address}}, {}, 0, 0)) return -1;
        const Access& read = host_.reads[0];
        return read.response ? -2 - int64_t{read.response} : int64_t{read.data};
    }

    // 0, -1 when the port does not answer, -2 - BRESP when it answers with an error.
    int64_t control_write(uint32_t address, uint32_t data) {
        if (!access({}, {Access{address, data}}, 0, 0)) return -1;
        const uint8_t response = host_.writes[0].response;
        return response ? -2 - int64_t{response} : 0;
    }

    // Reads and writes that overlap, changed in place; false when the port does not answer all of them.
    bool control_accesses(Access* reads, size_t read_count, Access* writes, size_t write_count, uint32_t stall_percent,
                          uint64_t seed) {
        const bool answered =
            access({reads, reads + read_count}, {writes, writes + write_count}, stall_percent, seed);
        std::copy(host_.reads.begin(), host_.reads.end(), reads);
        std::copy(host_.writes.begin(), host_.writes.end(), writes);
        return answered;
    }

#if VM_COVERAGE
    void write_coverage(const char* path) { context_->coveragep()->write(path); }
#endif
#if VM_TRACE_SAIF
    // Counts from now on how often each bit changes, seen once in each cycle, behind its rising edge.
    void open_toggles(const char* path) {
        toggles_.reset(new VerilatedSaifC);
        top_->trace(toggles_.get(), 99);
        toggles_->open(path);
        counted_ = 0;
    }
    // Writes what has been counted; the number of cycles, 0 where the file could not be written.
    uint64_t close_toggles() {
        const bool open = toggles_ && toggles_->isOpen();
        toggles_.reset();
        return open ? counted_ : 0;
    }
#endif
#ifdef MUTANTS
    void watch_mutants() { top_->watch_mutants = 0xFFFF; }
    void choose_mutants(const uint32_t* words) {
        std::memcpy(&top_->chosen_mutants, words, sizeof top_->chosen_mutants);
    }
    void active_mutants(uint32_t* words) { std::memcpy(words, &top_->active_mutants, sizeof top_->active_mutants); }
#endif

  private:
    bool access(std::vector<Access> reads, std::vector<Access> writes, uint32_t stall_percent, uint64_t seed) {
        host_.begin(std::move(reads), std::move(writes), stall_percent, seed);
        const size_t cycles = CONTROL_PORT_CYCLES * (host_.reads.size() + host_.writes.size());
        for (size_t i = 0; i < cycles && host_.busy(); ++i) step();
        return !host_.busy();
    }

    void edge() {
        top_->clk = 0;
        top_->eval();
#if VM_TRACE
        wave.falling_edge();
#endif
        top_->clk = 1;
        top_->eval();
#ifdef PROBE
        if (record.on) record.take(&top_->probe[0], EVENTS);
#endif
#if VM_TRACE
        wave.rising_edge(*top_);
#endif
#if VM_TRACE_SAIF
        if (toggles_) toggles_->dump(counted_++);
#endif
    }

    // Outputs are those of the present cycle; the inputs of the top module are those of the next one, the host's and
    // the memory's are those of the present one.
    void sample() {
        Vtosaic& t = *top_;
        sample_control();
        Address ar{bool(t.m_axi_arvalid), t.m_axi_araddr, t.m_axi_arlen + 1u,
                         t.m_axi_arsize,        t.m_axi_arburst, t.m_axi_arid};
#ifdef AXI_ATTRIBUTES
        ar.cache = t.m_axi_arcache;
        ar.prot = t.m_axi_arprot;
#endif
        const Violation read = reads.step(cycle, ar, t.m_axi_rready, window, timing, random_);
        Address aw{bool(t.m_axi_awvalid), t.m_axi_awaddr, t.m_axi_awlen + 1u,
                         t.m_axi_awsize,        t.m_axi_awburst, t.m_axi_awid};
#ifdef AXI_ATTRIBUTES
        aw.cache = t.m_axi_awcache;
        aw.prot = t.m_axi_awprot;
#endif
        WriteData w{bool(t.m_axi_wvalid), bool(t.m_axi_wlast), t.m_axi_wstrb, {}};
        if (w.valid) std::memcpy(w.data.bytes, &t.m_axi_wdata, BUS_BYTES);
        const Violation write = writes.step(cycle, aw, w, t.m_axi_bready, window, timing, random_);
        if (violation == NONE) violation = read != NONE ? read : write;
    }

    void sample_control() {
        Vtosaic& t = *top_;
        host_.step({bool(t.s_axil_awready), bool(t.s_axil_wready), bool(t.s_axil_bvalid), bool(t.s_axil_arready),
                    bool(t.s_axil_rvalid), t.s_axil_bresp, t.s_axil_rresp, t.s_axil_rdata});
        t.s_axil_arvalid = host_.read_address.active;
        if (host_.read_address.active) t.s_axil_araddr = host_.reads[host_.read_address.done].address;
        t.s_axil_rready = host_.read_data.active;
        t.s_axil_awvalid = host_.write_address.active;
        if (host_.write_address.active) t.s_axil_awaddr = host_.writes[host_.write_address.done].address;
        t.s_axil_wvalid = host_.write_data.active;
        if (host_.write_data.active) {
            t.s_axil_wdata = host_.writes[host_.write_data.done].data;
            t.s_axil_wstrb = host_.writes[host_.write_data.done].strobe;
        }
        t.s_axil_bready = host_.write_answer.active;
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vtosaic> top_;
#if VM_TRACE_SAIF
    std::unique_ptr<VerilatedSaifC> toggles_;
    uint64_t counted_ = 0;
#endif
    Random random_;
    ControlHost host_;
};

extern "C" {

Simulator* tosaic_create(uint32_t seed) { return new Simulator(seed); }

void tosaic_reset(Simulator* s) { s->reset(); }

void tosaic_destroy(Simulator* s) { delete s; }

// `bytes` stays the caller's and must live as long as the simulator uses it.
void tosaic_set_memory(Simulator* s, uint8_t* bytes, uint64_t size, uint64_t base) {
    s->window.bytes = bytes;
    s->window.size = size;
    s->window.base = base;
}

void tosaic_set_timing(Simulator* s, uint32_t latency, uint32_t bandwidth, uint32_t stall_percent, uint64_t seed) {
    Timing timing;
    timing.latency = latency;
    timing.bandwidth = bandwidth;
    timing.stall_percent = stall_percent;
    timing.seed = seed;
    s->set_timing(timing);
}

void tosaic_set_interleaving(Simulator* s, bool interleave) { s->timing.interleave = interleave; }

void tosaic_set_errors(Simulator* s, uint64_t read_error_at, uint64_t write_error_at) {
    s->window.read_error_at = read_error_at;
    s->window.write_error_at = write_error_at;
}

int64_t tosaic_control_read(Simulator* s, uint32_t address) { return s->control_read(address); }

int64_t tosaic_control_write(Simulator* s, uint32_t address, uint32_t data) { return s->control_write(address, data); }

bool tosaic_control_accesses(Simulator* s, Access* reads, uint64_t read_count, Access* writes, uint64_t write_count,
                             uint32_t stall_percent, uint64_t seed) {
    return s->control_accesses(reads, read_count, writes, write_count, stall_percent, seed);
}

int32_t tosaic_run(Simulator* s, uint64_t max_cycles) { return s->run(max_cycles); }

uint64_t tosaic_cycle(Simulator* s) { return s->cycle; }

uint64_t tosaic_beats_read(Simulator* s) { return s->reads.beats_read; }

uint64_t tosaic_beats_written(Simulator* s) { return s->writes.beats_written; }

int32_t tosaic_violation(Simulator* s) { return s->violation; }

// Of the builds with the probe. A record begins anew; its arrays stay where they are until the machine is clocked again.
#ifdef PROBE
void tosaic_record(Simulator* s) { s->record.begin(CORES); }

uint64_t tosaic_recorded_cycles(Simulator* s, uint32_t core) { return s->record.cores[core].events.size(); }

const uint32_t* tosaic_recorded_events(Simulator* s, uint32_t core) { return s->record.cores[core].events.data(); }

uint64_t tosaic_recorded_steps(Simulator* s, uint32_t core) { return s->record.cores[core].steps.size(); }

const Step* tosaic_recorded_places(Simulator* s, uint32_t core) { return s->record.cores[core].steps.data(); }
#endif

// Of the builds for measurements (build.py's `Variant`).
#if VM_COVERAGE
void tosaic_write_coverage(Simulator* s, const char* path) { s->write_coverage(path); }
#endif
#if VM_TRACE_SAIF
void tosaic_open_toggles(Simulator* s, const char* path) { s->open_toggles(path); }

uint64_t tosaic_close_toggles(Simulator* s) { return s->close_toggles(); }
#endif
#ifdef MUTANTS
void tosaic_watch_mutants(Simulator* s) { s->watch_mutants(); }

void tosaic_choose_mutants(Simulator* s, const uint32_t* words) { s->choose_mutants(words); }

void tosaic_active_mutants(Simulator* s, uint32_t* words) { s->active_mutants(words); }
#endif

// Of the builds that write waveforms. Names are told first, then the program of each core, then the file.
#if VM_TRACE
void tosaic_wave_name(Simulator* s, uint32_t kind, const char* name) { s->wave.network.names[kind].push_back(name); }

void tosaic_wave_event(Simulator* s, const char* name) { s->wave.network.events.push_back(name); }

void tosaic_wave_unit(Simulator* s, const char* name) { s->wave.network.units.push_back(name); }

void tosaic_wave_state(Simulator* s, uint32_t unit, uint32_t events, uint32_t name) {
    s->wave.network.states[unit].emplace_back(events, name);
}

// Two numbers of names for each instruction: its layer's and its opcode's.
void tosaic_wave_program(Simulator* s, const uint16_t* places, uint64_t count) {
    std::vector<Place> program(count);
    for (size_t i = 0; i < count; ++i) program[i] = {places[2 * i], places[2 * i + 1]};
    s->wave.network.programs.push_back(std::move(program));
}

void tosaic_wave_open(Simulator* s, const char* path, uint64_t first, uint64_t end, uint32_t only_layer) {
    s->wave.network.begin();
    s->wave.network.only = only_layer;
    s->wave.first = first;
    s->wave.end = end;
    s->wave.path = path;
}

// Whether all was written that there was to write.
bool tosaic_wave_close(Simulator* s) {
    s->wave.close();
    return !s->wave.failed;
}
#endif
}
