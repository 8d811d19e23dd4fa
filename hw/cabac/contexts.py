"""The memory of the context variables."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..nnr_streams import UNARY_MAX
from ..nnr_tables import PREFIX_CONTEXTS, STATE_TRANSITION
from .adaptation import LOW0_BITS, LOW1_BITS, Context
from .lookup import lookup

ROW_BITS = 4
CLEAR_CYCLES = 1 << ROW_BITS
NUMBER_BITS = 5
NEIGHBOURS = 3
STORED_BITS = Context.as_shape().size - 2
"""`low0` and `low1`, the last ones, follow from the others in a gate or two: they are not stored."""

assert UNARY_MAX <= CLEAR_CYCLES and PREFIX_CONTEXTS < 1 << NUMBER_BITS


class ContextPlace(data.Struct):
    """Which context a bin has: its kind, one-hot in the first four bits, and what its context depends on."""

    sig: 1
    sign: 1
    greater: 1
    prefix: 1
    state: 3  # stateId
    neighbour: 2  # level before: 0 zero, 1 positive, 2 negative
    negative: 1  # sign_flag
    number: NUMBER_BITS  # of the bin among abs_level_greater_x or abs_level_greater_x2


class ContextMemory(wiring.Component):
    """Contexts in small memories, one read each per cycle, and all cleared in CLEAR_CYCLES cycles.

    After a bin the next one has two possible contexts, one per value; both are read while the bin is decoded, and
    never two from one memory. The two of sig_flag differ in bit 1 of stateId, which chooses the memory.

    Ports:
        clear (1, in): row `row` of every memory becomes initial at the end of the cycle.
        row (ROW_BITS, in): see there.
        write (1, in): the context of `place` becomes `written` at the end of the cycle.
        place (Place, in): the current bin.
        written (Context, in): its context after it.
        dependent (1, in): stateId advances from `place.state` with each level, else it stays.
        next_parity (1, in): bit 0 of the level that ends, in the case of index 0 of the two outputs below.
        next_neighbour (2, in): that level, as the next one's `Place.neighbour`.
        greater_number (ROW_BITS, in): the next bin's number among abs_level_greater_x.
        prefix_number (NUMBER_BITS, in): the next bin's number among abs_level_greater_x2.
        sig (2 x Context, out): of the next level's sig_flag, for `next_parity` and for the other parity.
        next_states (2 x 3, out): stateId there, for `next_parity` and for the other parity.
        sign (Context, out): of sign_flag after `place.neighbour`.
        greater (2 x Context, out): of abs_level_greater_x `greater_number`, for sign_flag 0 and 1.
        prefix (Context, out): of abs_level_greater_x2 `prefix_number`.
    """

    clear: In(1)
    row: In(ROW_BITS)
    write: In(1)
    place: In(ContextPlace)
    written: In(Context)
    dependent: In(1)
    next_parity: In(1)
    next_neighbour: In(2)
    greater_number: In(ROW_BITS)
    prefix_number: In(NUMBER_BITS)
    sig: Out(Context).array(2)
    next_states: Out(3).array(2)
    sign: Out(Context)
    greater: Out(Context).array(2)
    prefix: Out(Context)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place = self.place
        transitions = [STATE_TRANSITION[index >> 1][index & 1] for index in range(16)]
        for index, state in enumerate(self.next_states):
            parity = self.next_parity ^ index
            following = lookup(m, f"transition{index}", transitions, 3, Cat(parity, place.state))
            m.d.comb += state.eq(Mux(self.dependent, following, place.state))

        row, rows = _sig_row(place.state, place.neighbour), 4 * NEIGHBOURS
        even_half = self._bank(m, "sig_low", rows, place.sig & ~place.state[1], row)
        odd_half = self._bank(m, "sig_high", rows, place.sig & place.state[1], row)
        # Two different next states lie in different halves. Two equal ones (not dependent) lie in one.
        first, second = self.next_states
        m.d.comb += [
            even_half.addr.eq(_sig_row(Mux(first[1], second, first), self.next_neighbour)),
            odd_half.addr.eq(_sig_row(Mux(first[1], first, second), self.next_neighbour)),
        ]
        for state, context in zip(self.next_states, self.sig, strict=True):
            m.d.comb += context.as_value().eq(whole(Mux(state[1], odd_half.data, even_half.data)))

        sign = self._bank(m, "sign", NEIGHBOURS, place.sign, place.neighbour)
        m.d.comb += [sign.addr.eq(place.neighbour), self.sign.as_value().eq(whole(sign.data))]
        for value, context in enumerate(self.greater):
            enable = place.greater & (place.negative == value)
            greater = self._bank(m, f"greater{value}", UNARY_MAX, enable, place.number[:ROW_BITS])
            m.d.comb += [greater.addr.eq(self.greater_number), context.as_value().eq(whole(greater.data))]
        halves = []
        for half, rows in enumerate((CLEAR_CYCLES, PREFIX_CONTEXTS - CLEAR_CYCLES)):
            enable = place.prefix & (place.number[-1] == half)
            halves.append(self._bank(m, f"prefix{half}", rows, enable, place.number[:ROW_BITS]))
        for port in halves:
            m.d.comb += port.addr.eq(self.prefix_number[:ROW_BITS])
        prefix = Mux(self.prefix_number[-1], halves[1].data, halves[0].data)
        m.d.comb += self.prefix.as_value().eq(whole(prefix))
        return m

    def _bank(self, m: Module, name: str, rows: int, selected: object, row: object) -> memory.ReadPort:
        """A memory of so many contexts, written where the current bin's context is `selected`; its read port. To clear
        a row that it has not does nothing."""
        m.submodules[name] = words = memory.Memory(shape=STORED_BITS, depth=rows, init=[])
        write = words.write_port()
        m.d.comb += [
            write.en.eq(self.clear | (self.write & selected)),
            write.addr.eq(Mux(self.clear, self.row, row)),
            write.data.eq(Mux(self.clear, 0, self.written.as_value()[:STORED_BITS])),
        ]
        return words.read_port(domain="comb")


def _sig_row(state: Signal, neighbour: Signal) -> Cat:
    return Cat(state[0], state[2], neighbour)


def whole(stored: Value) -> Value:
    """The context of which these bits are stored."""
    context = Context.as_shape()
    low0, low1 = (
        stored[context[name].offset :][:bits].any()
        for name, bits in (("state0", LOW0_BITS), ("state1", LOW1_BITS))
    )
    return Cat(stored, low0, low1)
