"""Machine words of RV32I: as many instructions as the tests' programs need."""


def r_type(opcode: int, funct3: int, funct7: int, rd: int, rs1: int, rs2: int) -> int:
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def i_type(opcode: int, funct3: int, rd: int, rs1: int, value: int) -> int:
    return (value & 0xFFF) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def lui(rd: int, value: int) -> int:
    return value & 0xFFFFF000 | rd << 7 | 0x37


def addi(rd: int, rs1: int, value: int) -> int:
    return i_type(0x13, 0, rd, rs1, value)


def andi(rd: int, rs1: int, value: int) -> int:
    return i_type(0x13, 7, rd, rs1, value)


def load(rd: int, rs1: int, offset: int, funct3: int = 2) -> int:
    """lb, lh, lw, lbu, lhu by funct3 0, 1, 2, 4, 5."""
    return i_type(0x03, funct3, rd, rs1, offset)


def store(rs2: int, rs1: int, offset: int, funct3: int = 2) -> int:
    """sb, sh, sw by funct3 0, 1, 2."""
    offset &= 0xFFF
    return offset >> 5 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (offset & 31) << 7 | 0x23


def branch(funct3: int, rs1: int, rs2: int, offset: int) -> int:
    """beq, bne, blt, bge by funct3 0, 1, 4, 5; `offset` in bytes from this word."""
    bits = offset & 0x1FFF
    high = (bits >> 12 & 1) << 6 | bits >> 5 & 63
    low = bits & 0x1E | bits >> 11 & 1
    return high << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | low << 7 | 0x63


def jalr(rd: int, rs1: int, offset: int) -> int:
    return i_type(0x67, 0, rd, rs1, offset)


def constant(rd: int, value: int) -> list[int]:
    """Any 32 bits."""
    return [lui(rd, value + 0x800), addi(rd, rd, (value & 0xFFF ^ 0x800) - 0x800)]


def machine_code(words: list[int]) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in words)
