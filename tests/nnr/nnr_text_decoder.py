"""Clause 11 of the NNR text spelled out bit by bit, as the errata read it: slow, and written apart from the codec."""

import numpy as np

from tosaic.hw.nnr_tables import RLPS, TRANSITION

STATE_TRANSITION = [[0, 2], [7, 5], [1, 3], [6, 4], [2, 0], [5, 7], [3, 1], [4, 6]]


class TextDecoder:
    """One payload. `read` counts bits; contexts are made when first used, with both states 0 (11.2.2.2)."""

    def __init__(self, payload: bytes) -> None:
        self.bits = "".join(f"{byte:08b}" for byte in payload)
        self.read = 0
        self.last_bit = 0
        self.contexts: dict[tuple[str, int], list[int]] = {}
        # 11.2.2.3
        self.range = 510
        self.offset = 0
        for _ in range(9):
            self._shift_in()
        assert self.offset < 510

    def _shift_in(self) -> None:
        # Beyond the end a decoder that looks ahead sees zeros; this one must not get there.
        self.last_bit = int(self.bits[self.read])
        self.read += 1
        self.offset = (self.offset << 1) | self.last_bit

    def decision(self, element: str, increment: int) -> int:
        """DecodeDecision (11.2.4.3.2)."""
        states = self.contexts.setdefault((element, increment), [0, 0])
        p = 16 * states[0] + states[1]
        value = int(p >= 0)
        lps = RLPS[abs(p >> 7) + (self.range & 0xE0)]
        self.range -= lps
        if self.offset >= self.range:
            value = 1 - value
            self.offset -= self.range
            self.range = lps
        sign = 2 * value - 1
        old = list(states)
        states[0] += sign * (TRANSITION[16 + (sign * old[0] >> 3)] >> 5)
        states[1] += sign * (TRANSITION[16 + (sign * old[1] >> 7)] >> 4)
        while self.range < 256:
            self.range <<= 1
            self._shift_in()
        assert self.offset < self.range
        return value

    def bypass(self) -> int:
        """DecodeBypass (11.2.4.3.4)."""
        self._shift_in()
        if self.offset >= self.range:
            self.offset -= self.range
            return 1
        return 0

    def uae(self, count: int) -> int:
        """uae(n): most significant bit first."""
        value = 0
        for _ in range(count):
            value = 2 * value + self.bypass()
        return value

    def iae(self, count: int) -> int:
        """iae(n): two's complement."""
        value = self.uae(count)
        return value - (1 << count) if value >= 1 << (count - 1) else value

    def terminate(self) -> int:
        """DecodeTerminate (11.2.4.3.5)."""
        self.range -= 2
        if self.offset >= self.range:
            return 1
        while self.range < 256:
            self.range <<= 1
            self._shift_in()
        return 0

    def int_param(self, previous: int, unary_length: int, state: int) -> int:
        """int_param() (11.1.2.5): the level before dependent quantization doubles it."""
        neighbour = 0 if previous == 0 else 1 if previous > 0 else 2
        if not self.decision("sig_flag", 3 * state + neighbour):
            return 0
        negative = self.decision("sign_flag", neighbour)
        size, flag = 1, 1
        for j in range(unary_length):
            flag = self.decision("abs_level_greater_x", 2 * j + negative)
            size += flag
            if not flag:
                break
        if flag:
            bits = 0
            while self.decision("abs_level_greater_x2", bits):
                size += 1 << bits
                bits += 1
            size += self.uae(bits)
        return -size if negative else size

    def quant_tensor(self, count: int, unary_length: int, dq_flag: int) -> list[int]:
        """quant_tensor() (11.1.2.4): QuantParam in raster order."""
        state, level, values = 0, 0, []
        for _ in range(count):
            level = self.int_param(level, unary_length, state)
            value = level
            if dq_flag:
                if level:
                    value = 2 * level - (state & 1 if level > 0 else -(state & 1))
                state = STATE_TRANSITION[state][level & 1]
            values.append(value)
        return values

    def finish(self) -> None:
        """terminating_one_bit, the bit read last, and nesting_zero_bit up to the end (11.1.2.1)."""
        assert self.terminate() == 1
        assert self.last_bit == 1
        assert set(self.bits[self.read :]) <= {"0"}
        assert len(self.bits) - self.read < 8


def decode_int32(payload: bytes, count: int, unary_length: int) -> tuple[int, np.ndarray]:
    """dq_flag and the QuantParam values of an NNR_PT_INT32 payload (5.2.1)."""
    decoder = TextDecoder(payload)
    dq_flag = decoder.uae(1)
    values = decoder.quant_tensor(count, unary_length, dq_flag)
    decoder.finish()
    return dq_flag, np.array(values, np.int64)
