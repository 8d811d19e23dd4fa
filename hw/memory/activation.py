"""The activation memory: banks, arbitration and the rotation of unaligned accesses."""

import dataclasses
from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..interfaces import AM_READ_LATENCY, AmPairRead, AmRead, AmWrite
from ..one_hot import any_of, only_if
from .parity import CELL_BITS, READ_BITS, as_read, bytes_of, with_parity, wrong_parity
from .words import large_memory

EVEN, ODD = 0, 1
"""An access takes two words: a memory of even words has one of them, a memory of odd words the other."""
_READERS = ("vector_read", "array_read", "store_read")


@dataclasses.dataclass
class _Access:
    """Where a prepared access goes. Pairs are of the even and the odd word."""

    offset: Value
    """Byte within the first word."""
    odd: Value
    """The first word is an odd one."""
    row: tuple[Value, Value]
    """Row of the word in its memory."""
    bank: tuple[Value, Value]
    """Bit per bank: the word is there."""
    reach: Value
    """Bit per bank: the access, if there is one, takes it."""
    banks: Value
    """`reach` if there is one; not a register."""


@dataclasses.dataclass
class _Rotated:
    """Data and mask of a prepared unaligned write as they lie in the even and the odd word."""

    data: Value
    """The same for both words: every lane is written in one of them at most."""
    mask: tuple[Value, Value]


class ActivationMemory(wiring.Component):
    """`am_bytes` bytes in `am_banks` contiguous banks; every port moves W bytes at any byte address per
    cycle.

    A bank has one memory for its even words of W bytes and one for its odd words, each with one read and one
    write port, so that the two words an unaligned access touches come in the same cycle. A bank takes one
    read and one write per cycle. An access whose W bytes (masked or not) cross a bank boundary takes both
    banks.

    In the cycle in which an access is prepared its banks and rows are computed, and a write's bytes are rotated. It is
    made in a later cycle. A `grant` therefore depends on registers only, and comes early.

    `grant` implies `request`. Read data appears exactly AM_READ_LATENCY (2: memory register, word register,
    then the rotation) cycles after the grant and holds until the port's next data. A write is in the memory
    at the clock edge that ends the cycle of its grant: a read granted later sees it, one granted in the same
    cycle returns the old bytes (in simulation; on an FPGA a byte read and written in one cycle is undefined,
    its neighbours are not). Addresses wrap at `am_bytes`.

    Ports:
        vector_read (AmRead, in): always granted.
        array_read (AmPairRead, in): granted unless `vector_read` requests one of its banks.
        store_read (AmRead, in): granted unless one of the two above requests one of its banks, granted or not.
        vector_write (AmWrite, in): always granted.
        load_write (AmWrite, in): granted unless `vector_write` requests one of its banks.
        wrong (3, out): only with `memory_parity`: in the cycle before, the data of a read had a byte whose parity is
            wrong and that was not written in its cycle; a bit each for the reads of VECTOR, ARRAY and STORE.
    """

    def __init__(self, config: Config):
        self.config = config
        self._cell_bits, self._read_bits = (CELL_BITS, READ_BITS) if config.memory_parity else (8, 8)
        super().__init__(
            {
                **({"wrong": Out(len(_READERS))} if config.memory_parity else {}),
                "vector_read": In(AmRead(config)),
                "array_read": In(AmPairRead(config)),
                "store_read": In(AmRead(config)),
                "vector_write": In(AmWrite(config)),
                "load_write": In(AmWrite(config)),
            }
        )

    def _access(self, m: Module, port: wiring.PureInterface, name: str) -> _Access:
        """`port`'s access in registers, from the cycle after its `prepare` on."""
        address, config = port.address, self.config
        offset_bits, bank_bits = exact_log2(config.word_bytes), exact_log2(config.am_banks)
        # A pair is an even word and the odd one after it; a row of a bank's two memories.
        pair_bits = exact_log2(config.am_bytes) - offset_bits - 1
        row_bits = pair_bits - bank_bits
        offset, odd = address[:offset_bits], address[offset_bits]
        pair = address[offset_bits + 1 : offset_bits + 1 + pair_bits]
        even_pair = Signal(pair_bits, name=f"{name}_even_pair")
        odd_pair = Signal(pair_bits, name=f"{name}_odd_pair")
        m.d.comb += [even_pair.eq(pair + odd), odd_pair.eq(pair)]
        # Off the critical path: this does not wait for the sum `even_pair`. An access ends in the next bank if it is
        # unaligned and begins in its bank's last word.
        bank = pair[row_bits:]
        also = Signal(bank_bits, name=f"{name}_also")
        two_banks = Signal(name=f"{name}_two_banks")
        m.d.comb += [also.eq(bank + 1), two_banks.eq(pair[:row_bits].all() & odd & offset.any())]
        if isinstance(port.signature, AmPairRead):
            second_pair = port.second[offset_bits + 1 : offset_bits + 1 + pair_bits]
            with m.If(port.paired):
                m.d.comb += [
                    even_pair.eq(Mux(odd, second_pair, pair)),
                    odd_pair.eq(Mux(odd, pair, second_pair)),
                    also.eq(second_pair[row_bits:]),
                    two_banks.eq(1),
                ]

        def one_hot(bank: Value) -> Value:
            return Cat(bank == index for index in range(config.am_banks))

        def prepared(value: Value, register: str) -> Signal:
            return self._prepared(m, port, value, f"{name}_{register}")

        reach = prepared(one_hot(bank) | only_if(two_banks, one_hot(also)), "reach")
        banks = Signal(config.am_banks, name=f"{name}_banks")
        m.d.comb += banks.eq(only_if(port.request, reach))
        return _Access(
            offset=prepared(offset, "offset"),
            odd=prepared(odd, "odd"),
            row=(prepared(even_pair[:row_bits], "even_row"), prepared(odd_pair[:row_bits], "odd_row")),
            bank=(
                prepared(one_hot(even_pair[row_bits:]), "even_bank"),
                prepared(one_hot(odd_pair[row_bits:]), "odd_bank"),
            ),
            reach=reach,
            banks=banks,
        )

    @staticmethod
    def _prepared(m: Module, port: wiring.PureInterface, value: Value, name: str) -> Signal:
        """`value` of the last cycle with `prepare`."""
        register = Signal(len(value), name=name, reset_less=True)
        with m.If(port.prepare):
            m.d.sync += register.eq(value)
        return register

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        cell, word_bytes, rows = (
            self._cell_bits,
            config.word_bytes,
            config.am_bank_bytes // config.word_bytes // 2,
        )

        reads = {"vector": self.vector_read, "array": self.array_read, "store": self.store_read}
        read = {k: self._access(m, port, f"{k}_read") for k, port in reads.items()}
        writes = {"vector": self.vector_write, "load": self.load_write}
        write = {k: self._access(m, port, f"{k}_write") for k, port in writes.items()}

        # Off the critical path: what an access takes is known before whether it is made.
        def blocks(first: _Access, port: wiring.PureInterface, second: _Access) -> Value:
            return port.request & (first.reach & second.reach).any()

        m.d.comb += [
            self.vector_read.grant.eq(self.vector_read.request),
            self.array_read.grant.eq(
                self.array_read.request & ~blocks(read["vector"], self.vector_read, read["array"])
            ),
            self.store_read.grant.eq(
                self.store_read.request
                & ~blocks(read["vector"], self.vector_read, read["store"])
                & ~blocks(read["array"], self.array_read, read["store"])
            ),
            self.vector_write.grant.eq(self.vector_write.request),
            self.load_write.grant.eq(
                self.load_write.request & ~blocks(write["vector"], self.vector_write, write["load"])
            ),
        ]

        # Off the critical path of an FPGA: what nobody asked for is not taken, so who asks is no enable there.
        enables = self._read_enables(m, reads, read) if getattr(platform, "family", None) is None else None
        rotated = {k: self._rotate_in(m, port, f"{k}_write") for k, port in writes.items()}
        words: tuple[list[Value], list[Value]] = ([], [])
        for bank in range(config.am_banks):
            for half, half_name in ((EVEN, "even"), (ODD, "odd")):
                bytes_ = memory.Memory(
                    shape=unsigned(cell * word_bytes), depth=rows, init=[], attrs=large_memory(platform)
                )
                m.submodules[f"bank{bank}_{half_name}"] = bytes_
                read_port, write_port = bytes_.read_port(), bytes_.write_port(granularity=cell)
                row = {k: access.row[half] for k, access in read.items()}
                write_row = {k: access.row[half] for k, access in write.items()}
                by_vector, by_array = read["vector"].banks[bank], read["array"].banks[bank]
                write_by_vector = write["vector"].banks[bank]
                # A write across banks takes both, but only one half of each.
                write_enables = {
                    k: rotated[k].mask[half] & access.bank[half][bank].replicate(word_bytes)
                    for k, access in write.items()
                }
                load_enables = write_enables["load"] & (
                    write["load"].banks[bank] & self.load_write.grant
                ).replicate(word_bytes)
                # Off the critical path: whether ARRAY reads is known last. `keep` has synthesis choose between the
                # others before.
                of_others = Signal.like(
                    read_port.addr, name=f"{half_name}{bank}_of_others", attrs={"keep": 1}
                )
                m.d.comb += [
                    of_others.eq(Mux(by_vector, row["vector"], row["store"])),
                    read_port.addr.eq(Mux(by_array & ~by_vector, row["array"], of_others)),
                    read_port.en.eq(1 if enables is None else enables[half][bank]),
                    write_port.addr.eq(Mux(write_by_vector, write_row["vector"], write_row["load"])),
                    write_port.data.eq(Mux(write_by_vector, rotated["vector"].data, rotated["load"].data)),
                    write_port.en.eq(Mux(write_by_vector, write_enables["vector"], load_enables)),
                ]
                word = read_port.data
                if config.memory_parity:
                    written = Signal(word_bytes, name=f"{half_name}{bank}_written", reset_less=True)
                    meets = read_port.addr == write_port.addr
                    m.d.sync += written.eq(write_port.en & meets.replicate(word_bytes))
                    word = as_read(word, written)
                words[half].append(word)

        for k, port in reads.items():
            self._rotate_out(m, port, read[k], words, f"{k}_read")
        return m

    def _read_enables(
        self, m: Module, ports: Mapping[str, wiring.PureInterface], accesses: Mapping[str, _Access]
    ) -> tuple[list[Value], list[Value]]:
        """For the even and the odd memory of each bank: a granted read takes a byte of it. An aligned access that is no
        pair takes its first word only."""
        offset_bits = exact_log2(self.config.word_bytes)
        reads: tuple[list[Value], list[Value]] = ([], [])
        for name, port in ports.items():
            offset, odd = port.address[:offset_bits], port.address[offset_bits]
            both = offset.any()
            if isinstance(port.signature, AmPairRead):
                both |= port.paired
            for half, first in ((EVEN, ~odd), (ODD, odd)):
                half_name = "even" if half == EVEN else "odd"
                takes = self._prepared(m, port, both | first, f"{name}_read_takes_{half_name}")
                reads[half].append(only_if(port.grant & takes, accesses[name].bank[half]))
        return [*any_of(reads[EVEN])], [*any_of(reads[ODD])]

    def _rotate_in(self, m: Module, port: wiring.PureInterface, name: str) -> _Rotated:
        """`port`'s data and mask, from the cycle after its `prepare` on."""
        word_bytes = self.config.word_bytes
        offset_bits = exact_log2(word_bytes)
        offset, odd = port.address[:offset_bits], port.address[offset_bits]
        mask = Signal(2 * word_bytes, name=f"{name}_unfolded_mask")
        m.d.comb += mask.eq(port.mask << offset)
        first, second = mask[:word_bytes], mask[word_bytes:]
        data = _rotate_bytes(port.data, (-offset)[:offset_bits])
        data = self._prepared(m, port, data, f"{name}_data")
        return _Rotated(
            data=with_parity(data) if self.config.memory_parity else data,
            mask=(
                self._prepared(m, port, Mux(odd, second, first), f"{name}_even_mask"),
                self._prepared(m, port, Mux(odd, first, second), f"{name}_odd_mask"),
            ),
        )

    def _rotate_out(
        self,
        m: Module,
        port: wiring.PureInterface,
        access: _Access,
        words: tuple[list[Value], list[Value]],
        name: str,
    ) -> None:
        """Moves words from the memories' registers to the port: first it chooses every lane's byte, then it rotates.

        Off the critical path: block RAMs answer late, so the bytes are only chosen before the second register, and
        rotated after it. Lane i has a byte of the second word below the offset, and of the first one from there on.
        """
        word_bytes, banks = self.config.word_bytes, self.config.am_banks
        granted = Signal(name=f"{name}_granted")
        # Read only in the cycle after a grant.
        from_even = Signal(banks, name=f"{name}_from_even", reset_less=True)
        from_odd = Signal(banks, name=f"{name}_from_odd", reset_less=True)
        odd_lanes = Signal(word_bytes, name=f"{name}_odd_lanes", reset_less=True)
        offset = Signal(len(access.offset), name=f"{name}_offset", reset_less=True)
        m.d.sync += [
            granted.eq(port.grant),
            from_even.eq(access.bank[EVEN]),
            from_odd.eq(access.bank[ODD]),
            # The last lane always has a byte of the first word.
            odd_lanes.eq(
                Cat(*((access.offset > lane) ^ access.odd for lane in range(word_bytes - 1)), access.odd)
            ),
            offset.eq(access.offset),
        ]
        even, odd = (
            any_of(map(only_if, chosen, words[half])) for half, chosen in ((EVEN, from_even), (ODD, from_odd))
        )
        cell = self._read_bits
        lanes = Signal(cell * word_bytes, name=f"{name}_lanes", reset_less=True)
        rotation = Signal(len(access.offset), name=f"{name}_rotation", reset_less=True)
        with m.If(granted):
            m.d.sync += rotation.eq(offset)
            for lane in range(word_bytes):
                place = slice(cell * lane, cell * lane + cell)
                m.d.sync += lanes[place].eq(Mux(odd_lanes[lane], odd[place], even[place]))
        parity = self.config.memory_parity
        m.d.comb += port.data.eq(_rotate_bytes(bytes_of(lanes) if parity else lanes, rotation))
        read = [(lanes, Const(1))]
        if isinstance(port.signature, AmPairRead):
            second = Signal(cell * word_bytes, name=f"{name}_second", reset_less=True)
            with m.If(granted):
                # The words of a pair are aligned, so `data` is all of the first one.
                m.d.sync += second.eq(Mux(odd_lanes[-1], even, odd))
            m.d.comb += port.second_data.eq(bytes_of(second) if parity else second)
            if parity:
                pair = self._prepared(m, port, port.paired, f"{name}_paired")
                read.append((second, self._cycles_later(m, pair, f"{name}_pair")))
        if parity:
            there = self._cycles_later(m, port.grant, f"{name}_there")
            wrong = Cat(wrong_parity(cells) & counts for cells, counts in read).any()
            m.d.sync += self.wrong[list(_READERS).index(name)].eq(there & wrong)

    @staticmethod
    def _cycles_later(m: Module, value: Value, name: str) -> Signal:
        """`value` in the cycle of the data of a read that is granted in this one."""
        for cycle in range(AM_READ_LATENCY):
            later = Signal(name=f"{name}_{cycle}")
            m.d.sync += later.eq(value)
            value = later
        return value


def _rotate_bytes(word: Value, count: Value) -> Value:
    """`word` with byte `count` in its lowest byte, and so on around."""
    for stage, bit in enumerate(count):
        word = Mux(bit, word.rotate_right(8 << stage), word)
    return word
