// Random cycles of a Dsp48Element against what a ProcessingElement's sum is. Argument: cycles. Prints how many differ.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "Velement.h"

int main(int, char** arguments) {
    Velement element;
    std::mt19937 dice(1);
    int32_t product = 0;
    uint32_t sum = 0;
    long wrong = 0, cycles = std::atol(arguments[1]);
    auto factor = [&] {
        static const int extremes[] = {-256, 255, 0, -1, 1};
        return dice() % 4 ? int(dice() % 512) - 256 : extremes[dice() % 5];
    };
    for (long cycle = -10; cycle < cycles; cycle++) {
        bool start = cycle < 0;
        int operand = factor(), weight = factor();
        uint32_t above = dice() % 8 ? dice() : 0x7FFFFFFF;
        // The first cycles give every register a value.
        bool multiply = start || dice() % 4, add = start || dice() % 4, keep = !start && dice() % 2;
        bool chain = !keep && dice() % 2;
        element.multiply = multiply;
        element.operand = operand & 511;
        element.weight = weight & 511;
        element.add = add;
        element.keep = keep;
        element.chain = chain;
        element.above = above;
        element.clk = 0;
        element.eval();
        element.clk = 1;
        element.eval();
        if (add) sum = (keep ? sum : chain ? above : 0) + uint32_t(product);
        if (multiply) product = operand * weight;
        wrong += cycle >= 0 && element.sum != sum;
    }
    std::printf("%ld\n", wrong);
    return 0;
}
