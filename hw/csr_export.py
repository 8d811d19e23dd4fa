"""The register map for other languages: JSON, a C header, CMSIS-SVD; all from `csr_map`."""

import enum
import html
import json

from . import csr_map
from .config import Config
from .isa import ISA_HASH, Error, Unit
from .nnr_streams import DecodeError


def _reset(register: csr_map.Register, config: Config) -> int | None:
    hashes = {"ISA_HASH": ISA_HASH, "CONFIG_HASH": config.hash}
    return hashes.get(register.name, register.reset)


def csr_json(config: Config) -> str:
    """Registers with offset, reset value (null: undefined), meaning and fields."""
    registers = [
        {
            "name": register.name,
            "offset": register.offset,
            "reset": _reset(register, config),
            "description": register.doc,
            "lock": register.lock,
            "fields": [
                {
                    "name": field.name,
                    "lsb": field.lsb,
                    "bits": field.bits,
                    "access": field.access.value,
                    "description": field.doc,
                }
                for field in register.fields
            ],
        }
        for register in csr_map.registers_of(config.cores, config.address_bits)
    ]
    page = {
        "name": "tosaic",
        "configuration": config.name,
        "version": csr_map.VERSION_VALUE,
        "window_bytes": csr_map.WINDOW_BYTES,
        "register_bits": 32,
        "registers": registers,
    }
    return json.dumps(page, indent=2) + "\n"


def _ignores(register: csr_map.Register) -> str:
    return f"; ignores writes while LOCK.{register.lock} is set" if register.lock else ""


def csr_c_header(config: Config) -> str:
    """Offsets, field masks and shifts, the values that identify this configuration, and the names of errors, units and
    counters, as C constants."""
    lines = [
        "/* Registers of the Tosaic accelerator: byte offsets in its 4 KiB window, 32 bits each. Generated. */",
        "#ifndef TOSAIC_REGISTERS_H",
        "#define TOSAIC_REGISTERS_H",
        "",
        f'#define TOSAIC_CONFIGURATION "{config.name}"',
        f"#define TOSAIC_ID_VALUE 0x{csr_map.ID_VALUE:08X}u",
        f"#define TOSAIC_VERSION_VALUE 0x{csr_map.VERSION_VALUE:08X}u",
        f"#define TOSAIC_ISA_HASH_VALUE 0x{ISA_HASH:08X}u",
        f"#define TOSAIC_CONFIG_HASH_VALUE 0x{config.hash:08X}u",
        f"#define TOSAIC_WORD_BYTES {config.word_bytes}u",
        f"#define TOSAIC_VERSION_PATCH_BITS {csr_map.VERSION_PATCH_BITS}",
        f"#define TOSAIC_WINDOW_ALIGNMENT {csr_map.WINDOW_ALIGNMENT}u",
        f"#define TOSAIC_WATCHDOG_RESET {csr_map.WATCHDOG_RESET_CYCLES}u",
        *_c_list("FAULT", "ERROR.code", _members(Error)),
        *_c_list("UNIT", "ERROR.unit", _members(Unit)),
        *_c_list("DECODE_FAULT", "DECODE_ERROR.code", _members(DecodeError)),
        *_c_list(
            "COUNTER",
            "event counters, by register offset",
            [(name, csr_map.REGISTER[name].offset) for name, _ in csr_map.COUNTERS],
        ),
    ]
    # The runtime in C asks STATUS whether MEM_BASE_HIGH is there, whatever the machine.
    for register in csr_map.registers_of(config.cores, csr_map.MOST_ADDRESS_BITS):
        lines += [
            "",
            f"/* {register.doc}{_ignores(register)} */",
            f"#define TOSAIC_{register.name} 0x{register.offset:03X}u",
        ]
        for field in register.fields:
            if field.name == "value":
                continue
            name = f"TOSAIC_{register.name}_{field.name.upper()}"
            lines.append(f"#define {name} 0x{field.mask:08X}u /* {field.doc} */")
            if field.bits > 1:
                lines.append(f"#define {name}_SHIFT {field.lsb}")
    return "\n".join([*lines, "", "#endif", ""])


def _members(kind: type[enum.IntEnum]) -> list[tuple[str, int]]:
    return [(member.name, int(member)) for member in kind]


def _c_list(name: str, what: str, values: list[tuple[str, int]]) -> list[str]:
    """A macro that hands each name and value to another one, X, which makes an enumeration or a table of them."""
    lines = [f"    X({member}, {value})" for member, value in values]
    return [
        "",
        f"/* {what} */",
        f"#define TOSAIC_EACH_{name}(X) \\",
        *(f"{each} \\" for each in lines[:-1]),
        lines[-1],
    ]


def csr_svd(config: Config) -> str:
    """A CMSIS-SVD device with one peripheral at address 0; set `baseAddress` to where the board has it."""
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<device schemaVersion="1.3" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance">',
        f"  <name>tosaic_{config.identifier}</name>",
        f"  <version>{csr_map.version_text()}</version>",
        f"  <description>Tosaic NPU, configuration {config.name}</description>",
        "  <addressUnitBits>8</addressUnitBits>",
        "  <width>32</width>",
        "  <size>32</size>",
        "  <peripherals>",
        "    <peripheral>",
        "      <name>TOSAIC</name>",
        "      <baseAddress>0x00000000</baseAddress>",
        "      <addressBlock>",
        f"        <offset>0</offset><size>0x{csr_map.WINDOW_BYTES:X}</size><usage>registers</usage>",
        "      </addressBlock>",
        "      <registers>",
    ]
    for register in csr_map.registers_of(config.cores, config.address_bits):
        reset = _reset(register, config)
        lines += [
            "        <register>",
            f"          <name>{register.name}</name>",
            f"          <description>{html.escape(register.doc, quote=False)}</description>",
            f"          <addressOffset>0x{register.offset:03X}</addressOffset>",
            f"          <resetValue>0x{reset or 0:08X}</resetValue>",
            f"          <resetMask>0x{0 if reset is None else 0xFFFFFFFF:08X}</resetMask>",
            "          <fields>",
        ]
        for field in register.fields:
            lines += [
                "            <field>",
                f"              <name>{field.name}</name>",
                f"              <description>{html.escape(field.doc, quote=False)}</description>",
                f"              <bitOffset>{field.lsb}</bitOffset><bitWidth>{field.bits}</bitWidth>",
                f"              {_svd_access(field.access)}",
                "            </field>",
            ]
        lines += ["          </fields>", "        </register>"]
    lines += ["      </registers>", "    </peripheral>", "  </peripherals>", "</device>", ""]
    return "\n".join(lines)


def _svd_access(access: csr_map.FieldAccess) -> str:
    allowed, modified = csr_map.BUS_ACCESS[access]
    changes = f"<modifiedWriteValues>{modified}</modifiedWriteValues>" if modified else ""
    return f"<access>{allowed}</access>{changes}"
