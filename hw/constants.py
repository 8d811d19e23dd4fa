"""Sizes that no configuration changes. The hardware is built from them, and the emulator's timing counts with them.

Nothing here needs Amaranth.
"""

BURST_BEATS = 32
"""Beats of the longest burst of a DMA unit. No burst crosses a multiple of it, hence none crosses 4 KiB."""
OUTSTANDING_BURSTS = 32
"""Largest number of bursts that a DMA unit has issued and not completed."""
OUTSTANDING_BEATS = 256
"""Largest number of beats that LOAD has requested and not received. It hides 220 cycles of latency and leaves room
for the program."""
DECODE_BUFFER_BEATS = 2 * BURST_BEATS
"""Largest number of beats of compressed blocks that LOAD has requested and the decoder has not taken."""

FETCH_BURST_BYTES = 128
"""No burst of the program crosses a multiple of it, hence none crosses 4 KiB. It is short, because LOAD shares the
bus."""

ARRAY_FIFO_VECTORS = 16
"""Fewest places for vectors on their way from the array to the vector unit. They outnumber the cycles from a slot's
issue to the exit of its vector, so that one vector per cycle can flow."""

VECTOR_STORE_STAGE = 12
"""Stage of the vector unit's pipeline in which a slot's write is prepared. Stage 0 is the cycle after the issue."""
VECTOR_WRITE_CYCLES = VECTOR_STORE_STAGE + 1
"""Cycles from the issue of a slot that stores to its write."""
VECTOR_END_CYCLES = VECTOR_WRITE_CYCLES + 1
"""Cycles from the last issue until all that it leads to is complete."""
VECTOR_LATENCY_CYCLES = VECTOR_STORE_STAGE - 2
"""Fewest cycles from the issue of a slot that writes a register to the issue of one that reads it: the write is made
in stage VECTOR_STORE_STAGE - 2, the read from stage 1 on."""
VECTOR_NEXT_EARLY_CYCLES = 1
"""Cycles by which VECTOR takes a command before the GO in front of it is complete. None reads memory in the next cycle,
in which the last write is made, and what a GO or a stream changes is asked for no more by then."""
VECTOR_SIGNAL_EARLY_CYCLES = 6
"""Likewise a SIGNAL. The WAIT gets its token three cycles later, the command behind it follows in the next one, and no
unit reads memory within three more."""
VECTOR_SETUP_EARLY_CYCLES = 4
"""Likewise a UOP or BOUNDS, whose places are read no more from then on."""

BIAS_BYTES, NARROW_BIAS_BYTES = 4, 2
"""Bytes of a column's bias among the parameters of VECTOR_PARAM: int32, or int16 for a narrow one."""
MULTIPLIER_BYTES, SHIFT_BYTES = 4, 1
"""Bytes of a column's multiplier and shift, which follow the biases. A multiplier is as wide as an int32 bias."""
SCALE_BYTES = MULTIPLIER_BYTES + SHIFT_BYTES

AXI_INCR = 1
"""AXI burst type."""
