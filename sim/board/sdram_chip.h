// An SDR SDRAM of 16 or 32 bits at its pins, which checks that a controller keeps its rules: one call of edge() per edge of its
// clock. Single accesses only (burst length 1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

// Which rule was broken. Names for people are in chip.py, in this order.
enum Rule : uint32_t {
    RCD = 0,          // ACTIVE to READ or WRITE
    RP,               // PRECHARGE to ACTIVE, REFRESH or LOAD MODE REGISTER
    RAS,              // ACTIVE to PRECHARGE
    RC,               // ACTIVE to ACTIVE of a bank
    RRD,              // ACTIVE to ACTIVE of another bank
    RFC,              // REFRESH to ACTIVE, REFRESH or LOAD MODE REGISTER
    MRD,              // LOAD MODE REGISTER to the next command
    WR,               // WRITE to PRECHARGE
    POWER_UP,         // a command before the clock was stable long enough
    NOT_STARTED,      // ACTIVE before PRECHARGE of all banks, the refreshes and LOAD MODE REGISTER
    BANK_OPEN,        // ACTIVE of an open bank; REFRESH or LOAD MODE REGISTER with one
    BANK_CLOSED,      // READ or WRITE of a closed bank
    REFRESH_LATE,     // a row was not refreshed in time
    CONTENTION,       // WRITE while the chip drives the data
    MODE,             // a mode that is not single accesses, of the latency that the controller was made for
    RULES
};

// All but the sizes in cycles of the chip's clock. The fields are those of chip.py, in this order.
struct ChipSetting {
    uint32_t row_bits, bank_bits, column_bits, data_bits;
    uint32_t cas_latency;
    uint32_t rcd, rp, ras, rc, rrd, rfc, wr, mode;
    uint32_t power_up, refreshes;
    uint64_t refresh;  // cycles in which every row must be refreshed once
};

struct ChipPins {
    bool cke, cs_n, ras_n, cas_n, we_n;
    uint32_t ba, a, dm;
    uint32_t dq;  // what the controller drives
};

struct Broken {
    uint32_t count = 0, rule = 0, bank = 0;  // of the first one
    uint64_t cycle = 0;
};

class SdramChip {
  public:
    std::vector<uint8_t> bytes;
    Broken broken;
    uint64_t reads = 0, writes = 0, activates = 0, refreshes = 0;

    explicit SdramChip(const ChipSetting& setting)
        : bytes(size_t{setting.data_bits / 8} << (setting.row_bits + setting.bank_bits + setting.column_bits)), setting_(setting),
          banks_(size_t{1} << setting.bank_bits) {}

    // What the chip drives from now to the next edge.
    bool drives() const { return answers_[0].valid; }
    uint32_t data() const { return answers_[0].data; }

    void edge(const ChipPins& pins) {
        ++now_;
        const bool was_driving = drives();
        std::move(answers_ + 1, answers_ + LATENCIES, answers_);
        answers_[LATENCIES - 1] = {};
        for (Bank& bank : banks_) finish_precharge(bank);
        if (!pins.cke) {
            begin();
            return;
        }
        if (started_ && now_ - refreshed_.front() > setting_.refresh) {
            break_rule(REFRESH_LATE, 0);
            refreshed_.front() = now_;
        }
        if (pins.cs_n) return;
        const unsigned command = pins.ras_n << 2 | pins.cas_n << 1 | unsigned(pins.we_n);
        if (command == NOP) return;
        if (now_ - stable_since_ < setting_.power_up && !started_) break_rule(POWER_UP, 0);
        if (mode_at_ && now_ - mode_at_ < setting_.mode) break_rule(MRD, 0);
        execute(command, pins, was_driving);
    }

  private:
    enum Command : unsigned { LOAD_MODE = 0, REFRESH = 1, PRECHARGE = 2, ACTIVE = 3, WRITE = 4, READ = 5, NOP = 7 };
    static constexpr unsigned LATENCIES = 3;
    static constexpr uint32_t ALL_BANKS = 1 << 10;
    static constexpr uint64_t LONG_AGO = uint64_t{1} << 40;  // Times begin there, so that 0 is none.

    struct Bank {
        bool open = false, closing = false;
        uint32_t row = 0;
        uint64_t active_at = 0, precharge_at = 0, write_at = 0, closing_at = 0;
    };
    struct Answer {
        bool valid;
        uint32_t data;
    };

    // A controller takes the clock away only when it is reset: it must start the chip anew.
    void begin() {
        stable_since_ = now_;
        started_ = precharged_ = mode_is_right_ = false;
        mode_at_ = 0;
        refreshed_.clear();
    }

    void execute(unsigned command, const ChipPins& pins, bool was_driving) {
        switch (command) {
            case LOAD_MODE: load_mode(pins); break;
            case REFRESH: refresh(); break;
            case PRECHARGE: precharge(pins); break;
            case ACTIVE: activate(pins); break;
            case WRITE: write(pins, was_driving); break;
            case READ: read(pins); break;
        }
    }

    void break_rule(Rule rule, uint32_t bank) {
        if (!broken.count++) {
            broken.rule = rule;
            broken.bank = bank;
            broken.cycle = now_ - LONG_AGO;
        }
    }

    // A precharge that READ or WRITE asked for happens as soon as it may.
    void finish_precharge(Bank& bank) {
        if (bank.closing && now_ >= bank.closing_at && now_ - bank.active_at >= setting_.ras) {
            bank.closing = bank.open = false;
            bank.precharge_at = now_;
        }
    }

    uint32_t lanes() const { return setting_.data_bits / 8; }

    bool any_open() const {
        return std::any_of(banks_.begin(), banks_.end(), [](const Bank& bank) { return bank.open; });
    }

    void all_must_rest() {
        if (any_open()) break_rule(BANK_OPEN, 0);
        for (uint32_t i = 0; i < banks_.size(); ++i)
            if (now_ - banks_[i].precharge_at < setting_.rp) break_rule(RP, i);
        if (now_ - refresh_at_ < setting_.rfc) break_rule(RFC, 0);
    }

    void load_mode(const ChipPins& pins) {
        all_must_rest();
        mode_is_right_ = pins.a == setting_.cas_latency << 4;  // The rest 0: bursts of one.
        mode_at_ = now_;
    }

    void refresh() {
        all_must_rest();
        refresh_at_ = now_;
        ++refreshes;
        // The chip counts the rows itself: as many refreshes as there are rows are one of each.
        refreshed_.push_back(now_);
        if (refreshed_.size() > size_t{1} << setting_.row_bits) refreshed_.pop_front();
    }

    void precharge(const ChipPins& pins) {
        for (uint32_t i = 0; i < banks_.size(); ++i) {
            if (!(pins.a & ALL_BANKS) && i != pins.ba) continue;
            Bank& bank = banks_[i];
            if (bank.open) {
                if (now_ - bank.active_at < setting_.ras) break_rule(RAS, i);
                if (now_ - bank.write_at < setting_.wr) break_rule(WR, i);
                bank.precharge_at = now_;
            }
            bank.open = bank.closing = false;
        }
        if (pins.a & ALL_BANKS) precharged_ = true;
    }

    void activate(const ChipPins& pins) {
        if (!started_) {
            if (!precharged_ || refreshed_.size() < setting_.refreshes || !mode_at_) break_rule(NOT_STARTED, pins.ba);
            else if (!mode_is_right_) break_rule(MODE, pins.ba);
            started_ = true;
            // No row is older than the start.
            refreshed_.assign(size_t{1} << setting_.row_bits, now_);
        }
        Bank& bank = banks_[pins.ba];
        if (bank.open) break_rule(BANK_OPEN, pins.ba);
        if (now_ - bank.precharge_at < setting_.rp) break_rule(RP, pins.ba);
        if (now_ - bank.active_at < setting_.rc) break_rule(RC, pins.ba);
        if (now_ - last_active_at_ < setting_.rrd) break_rule(RRD, pins.ba);
        if (now_ - refresh_at_ < setting_.rfc) break_rule(RFC, pins.ba);
        bank.open = true;
        bank.row = pins.a;
        bank.active_at = last_active_at_ = now_;
        ++activates;
    }

    // The bytes of READ or WRITE.
    uint8_t* access(const ChipPins& pins, uint64_t busy_cycles) {
        Bank& bank = banks_[pins.ba];
        if (!bank.open || bank.closing) break_rule(BANK_CLOSED, pins.ba);
        if (now_ - bank.active_at < setting_.rcd) break_rule(RCD, pins.ba);
        if (pins.a & ALL_BANKS) {
            bank.closing = true;
            bank.closing_at = now_ + busy_cycles;
        }
        const size_t column = pins.a & ((1u << setting_.column_bits) - 1);
        return &bytes[(((size_t{bank.row} << setting_.bank_bits | pins.ba) << setting_.column_bits) | column) * lanes()];
    }

    void write(const ChipPins& pins, bool was_driving) {
        uint8_t* word = access(pins, setting_.wr);
        if (was_driving) break_rule(CONTENTION, pins.ba);
        for (uint32_t lane = 0; lane < lanes(); ++lane)
            if (!(pins.dm >> lane & 1)) word[lane] = pins.dq >> 8 * lane & 0xFF;
        banks_[pins.ba].write_at = now_;
        ++writes;
    }

    void read(const ChipPins& pins) {
        const uint8_t* word = access(pins, 1);
        uint32_t data = 0;
        for (uint32_t lane = 0; lane < lanes(); ++lane) data |= uint32_t{word[lane]} << 8 * lane;
        answers_[setting_.cas_latency - 1] = {true, data};
        ++reads;
    }

    const ChipSetting setting_;
    std::vector<Bank> banks_;
    Answer answers_[LATENCIES] = {};
    std::deque<uint64_t> refreshed_;
    bool precharged_ = false, mode_is_right_ = false, started_ = false;
    uint64_t now_ = LONG_AGO, stable_since_ = LONG_AGO, mode_at_ = 0;
    uint64_t refresh_at_ = 0, last_active_at_ = 0;
};
