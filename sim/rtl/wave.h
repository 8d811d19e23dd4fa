// Waveforms of the Verilated accelerator: every signal of it, and beside them, in the scope `network`, what the program
// does by name: layers, instructions and states of the units, and the events that the machine counts.
//
// The names come from the program that is run, at run time: no simulator is built again for them. In FST they are
// enumerations. VCD has none: there they are strings, written into the file by `VcdFile`.

#pragma once

#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#else
#include "verilated_vcd_c.h"
#endif

#include <memory>
#include <string>
#include <vector>

constexpr unsigned UNITS = 4;
constexpr unsigned PROBE_WORDS = 6;  // Of a core: events, the place of each unit's instruction, a layer (hw/probe.py).
constexpr unsigned MARK_BIT = 31;    // Of the first word: the layer ends.
constexpr unsigned INSTRUCTION_BYTES = 16;
constexpr unsigned CYCLE_TICKS = 10;  // Units of time of a clock cycle in the file.
enum Kind { LAYER, INSTRUCTION, STATE, KINDS };
constexpr unsigned NAMED = KINDS * UNITS + 1;  // Of a core: those of each unit, and the layer that ended last.
constexpr const char* KIND_NAMES[KINDS] = {"layer", "instruction", "state"};

// The layer and the opcode of an instruction, by their numbers among the names.
struct Place {
    uint16_t layer, opcode;
};

// What the program does in a cycle, by name.
class Network {
  public:
    std::vector<std::string> names[KINDS];  // The first of each is that of nothing.
    std::vector<std::string> events;        // By their bits in the probe's first word; the bit behind them: it counts.
    std::vector<std::string> units;
    std::vector<std::pair<uint32_t, uint16_t>> states[UNITS];  // The first mask that meets the events tells the state.
    std::vector<std::vector<Place>> programs;                  // Of each core, by instruction.

    std::vector<uint16_t> named;    // Of each core: the numbers of each unit's layer, instruction and state; see NAMED.
    std::vector<uint8_t> happened;  // Of each core: the events.
    uint16_t only = 0;              // The number of the layer that is asked for; 0: all of them.
    bool wanted = false;            // A unit works on it.

    void begin() {
        named.assign(NAMED * programs.size(), 0);
        happened.assign(events.size() * programs.size(), 0);
    }

    bool counts(const uint32_t* probe) const { return probe[0] >> events.size() & 1; }

    // Takes in what the probe shows; whether a name is another one now. A unit without work keeps the layer of its last.
    bool look(const uint32_t* probe) {
        bool changed = false;
        wanted = !only;
        uint16_t* name = named.data();
        uint8_t* event = happened.data();
        for (const std::vector<Place>& program : programs) {
            const uint32_t now = counts(probe) ? probe[0] : 0;
            for (size_t bit = 0; bit < events.size(); ++bit) *event++ = now >> bit & 1;
            for (unsigned unit = 0; unit < UNITS; ++unit) {
                const uint16_t state = state_of(unit, now);
                const size_t at = probe[1 + unit] / INSTRUCTION_BYTES;
                const bool works = state && at < program.size();
                const Place place = works ? program[at] : Place{name[LAYER], 0};
                wanted |= works && place.layer == only;
                for (const uint16_t value : {place.layer, place.opcode, state}) {
                    changed |= *name != value;
                    *name++ = value;
                }
            }
            if (probe[0] >> MARK_BIT & 1) {
                changed = true;
                *name = uint16_t(probe[1 + UNITS] + 1);
            }
            ++name;
            probe += PROBE_WORDS;
        }
        return changed;
    }

    std::string scope(size_t core) const {
        return programs.size() == 1 ? "network" : "network_core" + std::to_string(core);
    }

    // Of a number below NAMED.
    std::string signal(size_t index) const {
        return index / KINDS < UNITS ? units[index / KINDS] + "_" + KIND_NAMES[index % KINDS] : "ended_layer";
    }

    static Kind kind(size_t index) { return Kind(index % NAMED % KINDS); }

  private:
    uint16_t state_of(unsigned unit, uint32_t now) const {
        for (const auto& [mask, number] : states[unit])
            if (now & mask) return number;
        return 0;
    }
};

#if VM_TRACE_FST
using TraceFile = VerilatedFst;
#else
using TraceFile = VerilatedVcd;

// A VCD file whose header declares strings besides.
class VcdFile : public VerilatedVcdFile {
  public:
    explicit VcdFile(const Network& network) : network_(network) {}

    ssize_t write(const char* bytes, ssize_t count) override {
        if (!in_header_) return VerilatedVcdFile::write(bytes, count);
        header_.append(bytes, count);
        const size_t end = header_.find("$enddefinitions");
        if (end == std::string::npos) return count;
        in_header_ = false;
        header_.insert(end, declarations());
        write_whole(header_);
        header_.clear();
        write_whole(values());
        return count;
    }

    // The names as they are now, behind what is in the file.
    void write_names() { write_whole(values()); }

  private:
    static std::string code(size_t index) { return "name" + std::to_string(index); }

    std::string declarations() const {
        std::string text;
        size_t index = 0;
        for (size_t core = 0; core < network_.programs.size(); ++core) {
            text += "$scope module " + network_.scope(core) + " $end\n";
            for (size_t i = 0; i < NAMED; ++i)
                text += "$var string 1 " + code(index++) + " " + network_.signal(i) + " $end\n";
            text += "$upscope $end\n";
        }
        return text;
    }

    std::string values() const {
        std::string text;
        for (size_t index = 0; index < network_.named.size(); ++index)
            text += "s" + network_.names[Network::kind(index)][network_.named[index]] + " " + code(index) + "\n";
        return text;
    }

    void write_whole(const std::string& text) {
        size_t written = 0;
        while (written < text.size()) {
            const ssize_t count = VerilatedVcdFile::write(text.data() + written, text.size() - written);
            if (count <= 0) return;
            written += count;
        }
    }

    const Network& network_;
    std::string header_;
    bool in_header_ = true;
};
#endif

// Writes the cycles from `first` to before `end` of the first run, of these those of the wanted layer; cycle 0 is the
// first that the machine counts.
class Wave {
  public:
    Network network;
    uint64_t first = 0, end = UINT64_MAX;
    std::string path;  // Empty: nothing is written.
    bool failed = false;

    template <class Model>
    void rising_edge(Model& model) {
        if (path.empty() || ended_) return;
        const uint32_t* probe = model.probe.data();
        if (started_) {
            ++cycle_;
        } else if (!network.counts(probe)) {
            return;
        }
        started_ = true;
        if (cycle_ < first) return;
        if (cycle_ >= end) return close();
        changed_ |= network.look(probe);
        shown_ = network.wanted;
        if (!shown_ || (!file_ && !open(model))) return;
        file_->dump(cycle_ * CYCLE_TICKS);
#if !VM_TRACE_FST
        if (changed_) {
            file_->flush();
            vcd_->write_names();
        }
#endif
        changed_ = false;
    }

    void falling_edge() {
        if (file_ && shown_) file_->dump(cycle_ * CYCLE_TICKS + CYCLE_TICKS / 2);
    }

    void close() {
        ended_ = true;
        if (file_) file_->close();
        file_.reset();
    }

  private:
    template <class Model>
    bool open(Model& model) {
#if VM_TRACE_FST
        file_.reset(new VerilatedFstC);
#else
        vcd_.reset(new VcdFile(network));
        file_.reset(new VerilatedVcdC(vcd_.get()));
#endif
        file_->set_time_unit("1ns");
        file_->set_time_resolution("1ns");
        model.trace(file_.get(), 99);
        TraceFile* const trace = file_->spTrace();
        trace->addInitCb(&declare, this, "", false, network.happened.size() + network.named.size());
        trace->addFullCb(&full, 0, this);
        trace->addChgCb(&change, 0, this);
        file_->open(path.c_str());
        if (file_->isOpen()) return true;
        failed = true;
        close();
        return false;
    }

    static void declare(void* self, TraceFile* trace, uint32_t code) {
        Wave& wave = *static_cast<Wave*>(self);
        const Network& network = wave.network;
        wave.code_ = code;
#if VM_TRACE_FST
        constexpr int FIRST_TYPE = 9001;  // Behind those of the model.
        for (unsigned kind = 0; kind < KINDS; ++kind) {
            std::vector<const char*> texts, values;
            std::vector<std::string> bits(network.names[kind].size());
            for (size_t i = 0; i < bits.size(); ++i) {
                for (int bit = 15; bit >= 0; --bit) bits[i] += char('0' + (i >> bit & 1));
                texts.push_back(network.names[kind][i].c_str());
                values.push_back(bits[i].c_str());
            }
            trace->declDTypeEnum(FIRST_TYPE + kind, KIND_NAMES[kind], bits.size(), 16, texts.data(), values.data());
        }
#endif
        for (size_t core = 0; core < network.programs.size(); ++core) {
            VL_TRACE_PUSH_PREFIX(trace, network.scope(core).c_str(), VerilatedTracePrefixType::SCOPE_MODULE, 0, 0);
#if VM_TRACE_FST
            for (size_t i = 0; i < NAMED; ++i)
                VL_TRACE_DECL_BUS(trace, code++, 0, network.signal(i).c_str(), FIRST_TYPE + Network::kind(i),
                                  VerilatedTraceSigDirection::NONE, VerilatedTraceSigKind::VAR,
                                  VerilatedTraceSigType::LOGIC, 15, 0);
#endif
            for (const std::string& event : network.events)
                VL_TRACE_DECL_BIT(trace, code++, 0, event.c_str(), -1, VerilatedTraceSigDirection::NONE,
                                  VerilatedTraceSigKind::VAR, VerilatedTraceSigType::LOGIC);
            VL_TRACE_POP_PREFIX(trace);
        }
    }

    // In the order of `declare`: `named` and `bit` are told the number of a signal and its value.
    template <class Buffer, class Named, class Bit>
    void each(Buffer* buffer, Named told_name, Bit told_event) {
        uint32_t code = code_;
        for (size_t core = 0; core < network.programs.size(); ++core) {
#if VM_TRACE_FST
            for (size_t i = 0; i < NAMED; ++i)
                told_name(buffer->oldp(code++), network.named[core * NAMED + i]);
#endif
            for (size_t i = 0; i < network.events.size(); ++i)
                told_event(buffer->oldp(code++), network.happened[core * network.events.size() + i]);
        }
    }

    static void full(void* self, TraceFile::Buffer* buffer) {
        static_cast<Wave*>(self)->each(
            buffer, [&](uint32_t* old, uint16_t value) { buffer->fullSData(old, value, 16); },
            [&](uint32_t* old, uint8_t value) { buffer->fullBit(old, value); });
    }

    static void change(void* self, TraceFile::Buffer* buffer) {
        static_cast<Wave*>(self)->each(
            buffer, [&](uint32_t* old, uint16_t value) { buffer->chgSData(old, value, 16); },
            [&](uint32_t* old, uint8_t value) { buffer->chgBit(old, value); });
    }

#if VM_TRACE_FST
    std::unique_ptr<VerilatedFstC> file_;
#else
    std::unique_ptr<VcdFile> vcd_;
    std::unique_ptr<VerilatedVcdC> file_;
#endif
    uint64_t cycle_ = 0;
    uint32_t code_ = 0;
    bool started_ = false, ended_ = false, changed_ = false, shown_ = false;
};
