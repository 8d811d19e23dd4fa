"""docs/registers.md from the register map."""

from . import csr_map

_REGISTERS = csr_map.registers_of(1, csr_map.MOST_ADDRESS_BITS)
_ACCESS = {
    csr_map.FieldAccess.RO: "read",
    csr_map.FieldAccess.RW: "read, write",
    csr_map.FieldAccess.PULSE: "write 1 to act",
    csr_map.FieldAccess.W1C: "read, write 1 to clear",
    csr_map.FieldAccess.SET: "read, write 1 to set",
}


def _reset(register: csr_map.Register) -> str:
    if register.reset is None:
        return ""
    return str(register.reset) if register.reset < 10 else f"0x{register.reset:X}"


def _locked(field: str) -> str:
    """The registers that a field of LOCK keeps."""
    *others, last = (register.name for register in _REGISTERS if register.lock == field)
    return f"{', '.join(others)} and {last}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def csr_markdown() -> str:
    """The registers as a Markdown page: an overview table, then the fields of those with several."""
    lines = [
        "# Registers",
        "",
        "Generated from `hw/csr_map.py`; do not edit.",
        "",
        "AXI4-Lite, 32 bits, byte offsets in a window of 4 KiB. Write strobes are respected. An offset",
        "without a register, and a write to a register that can only be read, answer SLVERR; every access",
        "is answered. Unnamed bits read as zero.",
        "",
        "A run: check ID, ISA_HASH and CONFIG_HASH; write MEM_BASE, MEM_SIZE, PROGRAM_ADDRESS and",
        "PROGRAM_BYTES; write CONTROL.start; wait for STATUS.done or STATUS.error (or the interrupt).",
        "After an error read ERROR, PC, UNITS and the units' PCs, then write CONTROL.soft_reset and wait",
        "until STATUS.resetting is 0.",
        "",
        "In a machine of several cores, each core has some registers of its own:",
        f"{', '.join(csr_map.OF_EACH_CORE[:10])}",
        f"and the event counters. Those of core i are at the offsets below plus 0x{csr_map.CORE_BYTES:X} * i. All",
        "other registers belong to the machine. A start starts core 0, and each other core whose PROGRAM_BYTES",
        "is not 0; STATUS.done says that all have reached their end. The first fault of a core ends the run:",
        "ERROR.core is its number, and its own registers say the rest. The watchdog fires when no core moves.",
        "",
        "In a machine with `event_counters` 0 the event counters read as zero; CYCLES and layer marks work.",
        "",
        "A host that hands the machine to others writes MEM_BASE and MEM_SIZE, then LOCK. From then on",
        f"{_locked('memory')} ignore writes (they answer OKAY), and no program reaches memory outside the",
        "window, until the machine's reset input `rst`: a soft reset keeps the lock.",
        "",
        "Addresses of more than 32 bits (`address_bits`): STATUS has `high_base`, and MEM_BASE_HIGH is there.",
        "The window does not cross a multiple of 4 GiB.",
        "",
        "| offset | register | access | reset | |",
        "|---|---|---|---|---|",
    ]
    for register in _REGISTERS:
        accesses = dict.fromkeys(_ACCESS[field.access] for field in register.fields)
        cells = (
            f"0x{register.offset:03X}",
            register.name,
            "; ".join(accesses),
            _reset(register),
            _cell(register.doc),
        )
        lines.append(f"| {' | '.join(cells)} |")
    for register in _REGISTERS:
        if [field.name for field in register.fields] == ["value"]:
            continue
        lines += [
            "",
            f"## {register.name} (0x{register.offset:03X})",
            "",
            "| bits | field | access | |",
            "|---|---|---|---|",
        ]
        for field in register.fields:
            high = field.lsb + field.bits - 1
            bits = str(high) if field.bits == 1 else f"{high}:{field.lsb}"
            lines.append(f"| {bits} | `{field.name}` | {_ACCESS[field.access]} | {_cell(field.doc)} |")
    return "\n".join(lines) + "\n"
