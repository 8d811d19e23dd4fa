// Drives a Verilated board: clock, reset button, the two pins of its UART, its SDRAM, its PHY and its flash. Loaded with ctypes;
// see simulator.py.

#include "Vboard.h"
#include "flash_chip.h"
#include "phy.h"
#include "sdram_chip.h"
#include "verilated.h"

#include <cstring>
#include <deque>
#include <memory>

constexpr unsigned RESET_CYCLES = 4;
constexpr unsigned CLOCK_HALF_NS = 10;  // Of the board; it matters beside a PHY's only.
constexpr unsigned QUIET_BITS = 24;  // More than a byte's pause between two bytes of an answer.

class Board {
  public:
    uint64_t cycle = 0;

    std::unique_ptr<SdramChip> chip;
    Phy phy;
    FlashChip flash;

    Board(uint32_t bit_cycles, const ChipSetting* setting)
        : chip(setting ? new SdramChip(*setting) : nullptr), bit_cycles_(bit_cycles), context_(new VerilatedContext),
          top_(new Vboard(context_.get(), "")) {
        top_->uart_rx = 1;
        reset();
    }
    ~Board() { top_->final(); }

    // The reset button. Bytes on their way to the board are lost.
    void reset() {
        waiting_.clear();
        send_left_ = receive_left_ = 0;
        phy.reset();
        top_->rst = 1;
        for (unsigned i = 0; i < RESET_CYCLES; ++i) edge();
        top_->rst = 0;
        edge();
        quiet_ = 0;
    }

    void send(const uint8_t* bytes, uint64_t count) { waiting_.insert(waiting_.end(), bytes, bytes + count); }

    // At most `max_cycles`; ends early when everything was sent, something was received, and the line is quiet, or when a
    // frame has come from the PHY.
    uint64_t run(uint64_t max_cycles, uint8_t* received, uint64_t room) {
        uint64_t count = 0;
        for (uint64_t i = 0; i < max_cycles && count < room; ++i) {
            drive();
            edge();
            ++cycle;
            if (listen()) received[count++] = receive_byte_;
            if (!phy.to_host.empty()) break;
            if (count && waiting_.empty() && !send_left_ && quiet_ > QUIET_BITS * bit_cycles_) break;
        }
        return count;
    }

    uint32_t leds() const { return top_->leds; }

  private:
    void edge() {
        clock(0);
        clock(1);
#ifdef FLASH
        top_->flash_cipo = flash.pins(top_->flash_cs_n, top_->flash_clk, top_->flash_copi);
#endif
#ifdef SDRAM
        // The chip's clock comes later than the board's by a part of a cycle.
        chip->edge({bool(top_->cke), bool(top_->cs_n), bool(top_->ras_n), bool(top_->cas_n), bool(top_->we_n), top_->ba,
                    top_->a, top_->dm, top_->dq});
        top_->chip_drives = chip->drives();
        top_->chip_dq = chip->data();
#endif
    }

    // Half a cycle of the board, with the edges of the PHY's clock that come in it. No two edges come at once.
    void clock(bool level) {
        now_ += CLOCK_HALF_NS;
#if defined(MII) || defined(RGMII)
        for (; phy_edge_ < now_; phy_edge_ += PHY_HALF_NS) {
            top_->phy_clock = !top_->phy_clock;
            top_->eval();
            phy.edge(*top_);
        }
#endif
        top_->clk = level;
        top_->eval();
    }

    // The host's transmitter: start bit, 8 bits, stop bit.
    void drive() {
        if (send_left_ && --send_timer_) return;
        if (send_left_) --send_left_;
        if (!send_left_) {
            if (waiting_.empty()) {
                top_->uart_rx = 1;
                return;
            }
            send_bits_ = 0x200u | unsigned(waiting_.front()) << 1;
            waiting_.pop_front();
            send_left_ = 10;
        }
        top_->uart_rx = send_bits_ & 1;
        send_bits_ >>= 1;
        send_timer_ = bit_cycles_;
    }

    // The host's receiver: samples in the middle of each bit. True when a byte with its stop bit is there.
    bool listen() {
        const bool level = top_->uart_tx;
        ++quiet_;
        if (!receive_left_) {
            if (!level) {
                receive_left_ = 10;
                receive_timer_ = bit_cycles_ / 2 + 1;
            }
            if (!level) quiet_ = 0;
            if (level || --receive_timer_) return false;
        } else if (--receive_timer_) {
            return false;
        }
        quiet_ = 0;
        receive_bits_ = receive_bits_ >> 1 | unsigned(level) << 9;
        receive_timer_ = bit_cycles_;
        if (--receive_left_) return false;
        receive_byte_ = receive_bits_ >> 1 & 0xFF;
        return level;
    }

    const uint32_t bit_cycles_;
    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vboard> top_;
    std::deque<uint8_t> waiting_;
    unsigned send_bits_ = 0, send_left_ = 0, send_timer_ = 0;
    unsigned receive_bits_ = 0, receive_left_ = 0, receive_timer_ = 0;
    uint64_t quiet_ = 0, now_ = 0, phy_edge_ = 1;
    uint8_t receive_byte_ = 0;
};

extern "C" {

// `setting`: of the SDRAM; null for a board without one.
Board* board_create(uint32_t bit_cycles, const ChipSetting* setting) { return new Board(bit_cycles, setting); }

void board_destroy(Board* b) { delete b; }

void board_reset(Board* b) { b->reset(); }

void board_send(Board* b, const uint8_t* bytes, uint64_t count) { b->send(bytes, count); }

uint64_t board_run(Board* b, uint64_t max_cycles, uint8_t* received, uint64_t room) {
    return b->run(max_cycles, received, room);
}

uint64_t board_cycle(Board* b) { return b->cycle; }

uint32_t board_leds(Board* b) { return b->leds(); }

// A frame on the cable to the board.
void board_frame(Board* b, const uint8_t* bytes, uint64_t count) { b->phy.to_board.emplace_back(bytes, bytes + count); }

// The next frame that came from the board, cut off after `room` bytes; how long it is, 0 for none.
uint64_t board_take_frame(Board* b, uint8_t* bytes, uint64_t room) {
    if (b->phy.to_host.empty()) return 0;
    const Phy::Frame frame = b->phy.to_host.front();
    b->phy.to_host.pop_front();
    std::memcpy(bytes, frame.data(), frame.size() < room ? frame.size() : room);
    return frame.size();
}

// What the flash holds from its first byte on; its boot begins at the next reset.
void board_flash(Board* b, const uint8_t* bytes, uint64_t count) { b->flash.content.assign(bytes, bytes + count); }

// The SDRAM: rules broken, the first of them, commands executed.
void board_chip(Board* b, Broken* broken, uint64_t* commands) {
    *broken = b->chip->broken;
    commands[0] = b->chip->reads;
    commands[1] = b->chip->writes;
    commands[2] = b->chip->activates;
    commands[3] = b->chip->refreshes;
}

// Bytes of the SDRAM behind the controller's back, as the host sees them.
void board_peek(Board* b, uint64_t address, uint8_t* bytes, uint64_t count) {
    std::memcpy(bytes, b->chip->bytes.data() + address, count);
}

void board_poke(Board* b, uint64_t address, const uint8_t* bytes, uint64_t count) {
    std::memcpy(b->chip->bytes.data() + address, bytes, count);
}
}
