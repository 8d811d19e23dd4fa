// The PHY beside a virtual board, MII or RGMII: frames of a cable at the pins, in its own clock. What is on the cable are
// all bytes from the preamble to the check sequence.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#ifdef RGMII
constexpr unsigned PHY_HALF_NS = 4;
#else
constexpr unsigned PHY_HALF_NS = 20;
#endif

class Phy {
  public:
    using Frame = std::vector<uint8_t>;
    static constexpr unsigned GAP_BYTES = 12;

    std::deque<Frame> to_board, to_host;

    void reset() {
        to_board.clear();
        to_host.clear();
        sent_.clear();
        place_ = gap_ = 0;
    }

    bool quiet() const { return to_board.empty() && sent_.empty(); }

    // An edge of the clock has passed; `Top` is Verilator's model. MII has a nibble per cycle, which both sides give and
    // take at the falling edge, RGMII one per edge.
    template <class Top> void edge(Top& top) {
#ifdef RGMII
        take(top.phy_tx_valid, top.phy_tx_data);
        give(top);
#else
        if (top.phy_clock) return;
        take(top.phy_tx_valid, top.phy_tx_data);
        give(top);
#endif
    }

  private:
    void take(bool valid, unsigned nibble) {
        if (valid) {
            if (half_) sent_.back() |= nibble << 4;
            else sent_.push_back(nibble);
            half_ = !half_;
        } else if (!sent_.empty()) {
            to_host.push_back(sent_);
            sent_.clear();
            half_ = false;
        }
    }

    template <class Top> void give(Top& top) {
#ifdef RGMII
        // The low half of a byte goes with the rising edge, which comes next.
        if (!place_ && top.phy_clock) return;
#endif
        top.phy_rx_valid = 0;
        top.phy_rx_data = 0;
        if (gap_) {
            --gap_;
        } else if (!to_board.empty()) {
            const Frame& frame = to_board.front();
            top.phy_rx_valid = 1;
            top.phy_rx_data = frame[place_ / 2] >> 4 * (place_ % 2) & 15;
            if (++place_ == 2 * frame.size()) {
                to_board.pop_front();
                place_ = 0;
                gap_ = 2 * GAP_BYTES;
            }
        }
    }

    Frame sent_;
    bool half_ = false;
    size_t place_ = 0;
    unsigned gap_ = 0;
};
