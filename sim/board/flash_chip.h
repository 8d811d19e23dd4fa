// The SPI flash beside a virtual board: mode 0, READ (0x03) with 24 bits of address, and release from power-down (0xAB),
// before which it hears nothing else.

#pragma once

#include <cstdint>
#include <vector>

class FlashChip {
  public:
    std::vector<uint8_t> content;
    uint64_t reads = 0;

    // What is behind the content is erased.
    uint8_t at(uint32_t address) const { return address < content.size() ? content[address] : 0xFF; }

    // The pins have these levels now; the chip's data pin.
    bool pins(bool cs_n, bool clk, bool copi) {
        if (cs_n) {
            if (bits_ == 8 && (shift_ & 0xFF) == 0xAB) awake_ = true;
            bits_ = shift_ = 0;
        } else if (clk && !clk_) {
            if (bits_ < 32) shift_ = shift_ << 1 | copi;
            if (++bits_ == 32 && awake_ && shift_ >> 24 == 0x03) ++reads;
        } else if (!clk && clk_ && bits_ >= 32 && awake_ && shift_ >> 24 == 0x03) {
            const uint32_t place = bits_ - 32;
            data_ = at(((shift_ & 0xFFFFFF) + place / 8) & 0xFFFFFF) >> (7 - place % 8) & 1;
        }
        clk_ = clk;
        return data_;
    }

  private:
    uint32_t shift_ = 0;
    uint64_t bits_ = 0;
    bool clk_ = false, data_ = true, awake_ = false;
};
