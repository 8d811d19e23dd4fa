// The chip of virtual boards, command by command. Loaded with ctypes; see test_sdram_chip.py.

#include "sdram_chip.h"

extern "C" {

SdramChip* chip_create(const ChipSetting* setting) { return new SdramChip(*setting); }

void chip_destroy(SdramChip* chip) { delete chip; }

// One edge of its clock. `command`: RAS, CAS, WE, as levels of their pins; 7 is none.
void chip_edge(SdramChip* chip, uint32_t cke, uint32_t command, uint32_t bank, uint32_t address, uint32_t mask, uint32_t data) {
    chip->edge({bool(cke), false, bool(command & 4), bool(command & 2), bool(command & 1), bank, address, mask, data});
}

// What it drives, or 2**32.
uint64_t chip_data(const SdramChip* chip) { return chip->drives() ? chip->data() : uint64_t{1} << 32; }

void chip_broken(const SdramChip* chip, Broken* broken) { *broken = chip->broken; }
}
