"""The check byte of an instruction: a CRC of its other bytes."""

CHECK_POLYNOMIAL = 0x07
"""x^8 + x^2 + x + 1 = (x + 1) times a primitive polynomial of degree 7, so that up to three wrong bits among 127 are
found. The 128th is bit 7 of the opcode, which no opcode has."""
CHECK_XOR = 0x55
"""Added to the check byte: 16 bytes of zeros are no instruction. With it the CRC is the catalogue's CRC-8/I-432-1."""


def crc_table(polynomial: int) -> bytes:
    """Returns for each byte what a CRC of 8 bits with it is, the most significant bit first."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte << 1 & 0xFF ^ (polynomial if byte >> 7 else 0)
        table.append(byte)
    return bytes(table)


_TABLE = crc_table(CHECK_POLYNOMIAL)


def check_byte(raw: bytes) -> int:
    """Returns byte 1 of an instruction: the CRC of byte 0 and of the bytes from 2 on, whatever byte 1 is."""
    check, table = raw[0], _TABLE
    for byte in raw[2:]:
        check = table[check] ^ byte
    return table[check] ^ CHECK_XOR


__all__ = ["CHECK_POLYNOMIAL", "CHECK_XOR", "check_byte", "crc_table"]
