"""Every number that the compiler decides by and that was measured or set by hand, with its unit.

What the instruction set or a configuration fixes is not here: it is derived from `hw.isa`, `hw.config` and
`hw.constants`. A number's text says what it stands for and where its value comes from: a decision of docs/decisions
that has figures, or the commit that set it by hand. What a number is worth on the benchmark set is measured by

    python bench/number_effects.py NAME

which compiles that set with half the number and with twice it. `tests/compiler/test_machine_numbers.py` sees that no
such number stands elsewhere in the compiler.

`..._AM_PART` is the n of 1/n of the activation memory, `..._WM_PART` that of the weight memory; `..._SHARE` is a
factor.
"""

# --- cycles of VECTOR beside its vectors

VECTOR_GO_CYCLES = 40
"""Cycles of one GO of VECTOR: its configuration, and the pipeline that fills and runs empty. Set by hand in 02b69d80
(2026-11-23)."""
CHANNEL_GO_CYCLES = 26
"""Cycles of VECTOR for a group of channels of several batches: parameters, streams, and the pipeline that runs empty.
Set by hand in 3740dd2e (2026-11-28)."""
CHANNEL_BATCH_CYCLES = 19
"""The same for a group of one batch, which needs no command of its own. Set by hand in 3740dd2e (2026-11-28)."""
TILE_DRAIN_CYCLES = 28
"""Cycles of VECTOR for a tile of channels: parameters, a stream, and the pipeline that runs empty. Set by hand in
3fb142ca (2026-11-23), with decision 0025."""
TILE_PARAMETER_CYCLES = 10
"""Cycles of VECTOR_PARAM for a tile of channels, at most. Set by hand in 252af9ff (2026-11-23);
decision 0031 measured the same."""
POOL_LEAST_STEPS = 3
"""Steps of VECTOR at least for a result that is reduced: a start and two elements. Set by hand in 6fb64f08
(2026-11-23)."""
PLANE_JOIN_CYCLES = 7
"""Cycles of VECTOR to put a vector of some planes together; then a cycle for each pixel. Set by hand in 80643f20
(2026-11-28)."""
PLANES_JOINED = 4
"""Planes that VECTOR puts together at once. Set by hand in 80643f20 (2026-11-28)."""

# --- the clock of the units

PROGRAM_START_CYCLES = 8
"""Cycles from the start to the first instruction, beside the memory's latency.
As the emulator's timing has it (f4983474, 2026-11-29)."""
ARRAY_START_CYCLES = 6
"""Cycles from a GO at the head of an idle array's queue to its first slot.
As the emulator's timing has it (f4983474, 2026-11-29)."""
ARRAY_DRAIN_CYCLES = 12
"""Cycles from the slot that delivers a vector to the first one in which VECTOR may take it.
As the emulator's timing has it (f4983474, 2026-11-29)."""
VECTOR_START_CYCLES = 2
"""Cycles from taking a GO of VECTOR to its first vector.
As the emulator's timing has it (f4983474, 2026-11-29)."""
VECTOR_TOKEN_CYCLES = 8
"""Cycles from a GO's last vector to its token.
As the emulator's timing has it (f4983474, 2026-11-29)."""
LOAD_TOKEN_CYCLES = 3
"""Cycles from a load's last beat to its token.
As the emulator's timing has it (f4983474, 2026-11-29)."""
STORE_TOKEN_CYCLES = 11
"""Cycles from taking a store to its token, beside the memory's latency and its beats.
As the emulator's timing has it (f4983474, 2026-11-29)."""
TOKEN_CYCLES = 3
"""Cycles from a token to the command behind the wait for it.
As the emulator's timing has it (f4983474, 2026-11-29)."""
WOVEN_WAIT_CYCLES = 16
"""Cycles that VECTOR may wait, where GOs of several layers take turns, as if it did not. Set by hand from timelines on
`base` in 8eff7a4f (2026-11-29)."""

# --- cycles in which a unit waits

BOX_WAIT_CYCLES = 40
"""Cycles of every box in which ARRAY waits: for tokens, and for banks that other units use. Set by hand in 3fb142ca
(2026-11-23), with decision 0025."""
BUFFER_TURN_CYCLES = 60
"""Cycles, beside the memory's latency, from the end of a box, for whose buffers LOAD or VECTOR waits, until these are
filled or empty again. Set by hand in 3fb142ca (2026-11-23), with decision 0025."""
IM2COL_TURN_CYCLES = 50
"""Cycles, beside the memory's latency, from the end of a box by im2col, for whose buffer LOAD waits, to the first byte
of the next one in its place. Set by hand in 28344d0e (2026-11-23), with decision 0018."""
IM2COL_BOX_CYCLES = 10
"""Cycles that LOAD loses from box to box by im2col: it waits for a token, and its first burst for others. Set by hand
in b78fbd21 (2026-11-23)."""
STRIPE_WAIT_CYCLES = 64
"""Cycles of a layer's stripe of a cascade beside computing: it waits for what the layer before it has written. Set by
hand in 6b4fc94b (2026-11-23), with decision 0017."""
LAYER_TURN_CYCLES = 60
"""Cycles from the end of a layer to the first result of one that reads what it wrote. Set by hand in 252af9ff
(2026-11-23); decision 0031 measured 40 to 48 to the first slot of the array."""
LAYER_END_CYCLES = 36
"""Cycles from the array's last slot until the next GO may begin that reads what VECTOR made of it, less the rows' way
out. Set by hand in 0d25f640 (2026-11-23), with decision 0031."""
SEGMENT_BORDER_CYCLES = 150
"""Cycles between two segments of several cores, beside the latency of a STORE and a LOAD: units run empty and fill
again. Set by hand in 3fb142ca (2026-11-23), with decision 0027."""
SEGMENT_OUT_OF_STEP_FACTOR = 2
"""How much longer a core waits for others than it takes to compute and store a last layer: they come to it at
different times. Measured in 3fb142ca (2026-11-23): less lets LOAD stand still, more holds up the operands."""
COPY_BLOCK_CYCLES = 160
"""Cycles of a block of a copy, beside the memory's latency and its elements: nests of several GOs. Set by hand in
4847371d (2026-11-29)."""
BRANCH_CYCLES = 25
"""Cycles of a VECTOR_TEST and a BRANCH that is not taken: units run empty. Measured with decision 0003."""
BRANCH_TAKEN_CYCLES = 25
"""Cycles of a BRANCH that is taken until the next instruction, beside the memory's latency and `BRANCH_CYCLES`.
Measured with decision 0003."""
SEARCH_START_CYCLES = 200
"""Cycles of VECTOR for an index whose row is found by branches: the bits of its block's number, and its place. Measured
with decision 0003."""
POOL_START_CYCLES = 150
"""Cycles of a pool by convolution beside its products: weights, biases and latencies. Set by hand in 6fb64f08
(2026-11-23)."""
PLANES_START_CYCLES = 200
"""Cycles of a convolution that turns planes beside its products: weights, and the array's and VECTOR's latencies. Set
by hand in 80643f20 (2026-11-28)."""
PLANES_IMAGE_CYCLES = 100
"""Cycles of each image of such a convolution, whose boxes are its own. Set by hand in 80643f20 (2026-11-28)."""
BURST_TURN_CYCLES = 8
"""Cycles from a burst's issue to room for another one, beyond the memory's latency. Set by hand in 28344d0e
(2026-11-23), with decision 0018."""
PACKED_ROW_CYCLES = 4
"""Cycles from the last word of weights of a packed row to the next row's header. Set by hand in 2daeb40e
(2026-11-23)."""

# --- instructions, which come from the bus that operands come from

BOX_INSTRUCTIONS = 24
"""Instructions of a box. Set by hand in 3fb142ca (2026-11-23), with decision 0025."""
TILE_INSTRUCTIONS = 8
"""Instructions of a tile of channels of a box. Set by hand in 3fb142ca (2026-11-23), with decision 0025."""
CODED_BLOCK_INSTRUCTIONS = 2
"""Instructions of a block that every run decodes: LOAD_STREAMS and LOAD_DECODE (0b2d4209, 2026-11-22)."""
BOOT_BLOCK_INSTRUCTIONS = 6
"""Instructions of a block that the boot part decodes: LOAD_STREAMS, LOAD_DECODE and STORE_GO with their wait and
signals (0c5bd9a7, 2026-11-23)."""

# --- shares of the cycles of another plan, below which a plan is taken

OTHER_BOXES_SHARE = 0.99
"""Share of the cycles of the largest boxes below which others are taken: a prediction is no better than that. Set by
hand in 3fb142ca (2026-11-23), with decision 0025."""
RESIDENT_PLAN_SHARE = 0.9
"""Share of the cycles of a plan of more residency below which another is taken: the prediction leaves out what units
wait for each other. Set by hand in 2fb78b3b (2026-11-22)."""
COPY_BLOCKS_SHARE = 0.9
"""The share of the largest block's cycles below which a copy has other ones. Set by hand in 4847371d (2026-11-29)."""
REDUCED_BOXES_SHARE = 0.9
"""The same of a reduction: many GOs of a few vectors each wait for each other, which the prediction leaves out. Set by
hand in 4b5d4a52 (2026-11-29)."""
CASCADE_SHARE = 0.99
"""Share of the cycles of its layers below which a cascade is proposed. Set by hand in 6b4fc94b (2026-11-23), with
decision 0017."""
PIXEL_GROUP_SHARE = 0.9
"""Share of the cycles of groups of a power of two, whose weights are few, below which other groups are taken. Set by
hand in cb861a6c (2026-11-28)."""
POOL_ON_ARRAY_SHARE = 1.1
"""Share of the cycles of VECTOR up to which a pool is a convolution: the array reads less of the activation memory,
which is left to what comes and goes. Set by hand in 6fb64f08 (2026-11-23), on 40 random pools of bench/cliffs.py."""
POOL_APART_SHARE = 0.85
"""Share of the cycles of a window at once up to which a pool is one over rows and one over columns: what lies between
the two takes room in the activation memory. Set by hand in 6fb64f08 (2026-11-23), on 40 random pools."""
PACKED_ROWS_SHARE = 0.95
"""Share of the cycles to load weights as they are below which they are packed. Set by hand in 2daeb40e
(2026-11-23)."""
DECODED_SHARE = 0.9
"""Share of the cycles to load weights below which every run decodes them: other loads wait behind a block. Set by hand
in 0c5bd9a7 (2026-11-23), with decision 0019."""

# --- shares of the memories

RESIDENCY_SHARES = (0.75, 0.5, 0.25, 0.125, 0.0)
"""Largest shares of the activation memory that one tensor may occupy, in the order in which plans are made. Set by
hand in 14747cf7 (2026-11-21)."""
OWN_BANK_ROOM_SHARE = 7 / 16
"""Least share of the activation memory in one piece beside a block in a bank of its own: a half, but for parameters.
Set by hand in 8fe2d94b (2026-11-23)."""
STREAM_RESERVE_AM_PART = 4
"""A resident result leaves 1/4 of the activation memory in one piece for operands that come from outside. Set by hand
in 14747cf7 (2026-11-21)."""
PARAMETERS_AM_PART = 4
"""Parameters of a layer above 1/4 of the activation memory are brought in box by box. Set by hand in 6a7a9979
(2026-11-21)."""
BOX_PARAMETERS_AM_PART = 8
"""Parameters that are brought in box by box take 1/8 of the activation memory at most, twice. Set by hand in 6a7a9979
(2026-11-21)."""
AHEAD_TABLE_AM_PART = 64
"""A table that GATHER reads comes ahead if it takes 1/64 of the activation memory at most. Set by hand in b14940b7
(2026-11-23)."""
ELEMENTWISE_BOX_AM_PART = 64
"""Boxes of elementwise layers below 1/64 of the activation memory cost more commands than they are worth: other tensors
are spilled instead. Set by hand in 08ebc163 (2026-11-21)."""
REDUCED_BOX_AM_PART = 8
"""Boxes of a reduction whose operands are outside take 1/8 of the activation memory: one is fetched while another is in
use. Set by hand in 02b69d80 (2026-11-23), with decision 0012."""
REDUCED_ROW_AM_PART = 4
"""A reduced axis above 1/4 of the activation memory is cut. Set by hand in 02b69d80 (2026-11-23), with decision
0012."""
REDUCED_INNER_AM_PART = 8
"""Elements behind a reduced axis beyond 1/8 of the activation memory are reductions of their own: an element of the
axis, a result and a partial result fit at once. Set by hand in 02b69d80 (2026-11-23), with decision 0012."""
COPY_BLOCK_AM_PART = 16
"""Blocks of a layout copy, and pieces in which a loop's tensors are copied, below 1/16 of the activation memory cost
more commands than they are worth: other tensors are spilled instead. Set by hand in ad7f24bc (2026-11-21)."""
TURN_SCRATCH_AM_PART = 32
"""A buffer between the passes of a turned copy takes 1/32 of the activation memory at most. Set by hand in c779a941
(2026-11-23), with decision 0014."""
PACKING_STEP_AM_PART = 16
"""Weights that the machine packs step by step take 1/16 of the activation memory for a step at most. Set by hand in
4fc04f7f (2026-11-21), with decision 0009."""
PACKED_WHOLE_LIMIT_PART = 2
"""The operand of such a packing comes as a whole if it takes 1/2 of what one tensor may occupy at most. Set by hand in
4fc04f7f (2026-11-21), with decision 0009."""
OFFSETS_AM_PART = 128
"""Offsets of GATHER and SCATTER that are computed at a time are 1/128 of the activation memory's bytes at most: their
four buffers, of four bytes each, take 1/8 of it. Set by hand in a1d90557 (2026-11-21), with decision 0003."""
SEARCHED_BLOCK_AM_PART = 8
"""A block of a table whose rows are found by branches takes 1/8 of the activation memory at most. Set by hand with
decision 0003."""
PARTED_IMAGE_AM_PART = 2
"""The image of a convolution takes 1/2 of the activation memory at most where several convolutions of parts of its
channels read it: a larger one would come for each. Set by hand in fad1c9c3 (2026-11-29)."""
IM2COL_COLUMN_AM_PART = 4
"""A column of an image by im2col takes 1/4 of the activation memory at most. Set by hand in b78fbd21 (2026-11-23)."""
BOOT_BLOCK_AM_PART = 4
"""A block that the boot part decodes takes 1/4 of the activation memory at most. Set by hand in 0c5bd9a7 (2026-11-23),
with decision 0019."""
KERNEL_PATCH_AM_PART = 4
"""What the array reads for one output of a convolution takes 1/4 of the activation memory at most, or the kernel is
split. Set by hand in 250694c1 (2026-11-21)."""
POOL_PATCH_AM_PART = 2
"""What a pool reads for one output takes 1/2 of the activation memory at most, or its window is split. Set by hand in
a5db8b7f (2026-11-21)."""
MATMUL_ROW_AM_PART = 4
"""A row of a MATMUL's first operand takes 1/4 of the activation memory at most, or the inner dimension is split. Set by
hand in 475e9d4f (2026-11-21)."""
FEW_ROWS_DEPTH_PART = 4
"""Rows of a MATMUL are few beside a matrix that must be turned where they are at most 1/4 of its depth: to turn the
sums takes 0.85 cycles an element, to pack the matrix 0.25 a byte. Measured with a decoder's 3 queries and 2,048 keys
on 2026-11-29, with decision 0014."""
WEIGHT_PIECE_WM_PART = 2
"""A part of a split kernel or MATMUL, and a piece of weights that are streamed, takes 1/2 of the weight memory: one is
fetched while the other is in use. Set by hand in 250694c1 (2026-11-21)."""
WEIGHT_GROUP_WM_PART = 4
"""Weights of tiles that are fetched, decoded or unpacked together take 1/4 of the weight memory at most. Set by hand in
250694c1 (2026-11-21)."""
PIXEL_GROUP_WM_PART = 4
"""A tile of pixels that share vectors takes 1/4 of the weight memory at most. Set by hand in 2518cb7f (2026-11-21)."""
STAYING_WEIGHTS_WM_PART = 2
"""A layer that is cut while its image arrives or its result leaves has weights of 1/2 of the weight memory at most, so
that they come once. Set by hand in 248a0363 (2026-11-21)."""

# --- bytes and pieces of transfers

WEIGHT_GROUP_BYTES = 4096
"""Weights of neighbouring tiles are fetched together up to this size: fewer commands, and still early to start. Set by
hand in 662c5534 (2026-11-21); decision 0031 measured smaller groups, which were slower."""
WEIGHT_LOAD_BYTES = 16384
"""Bytes of weights per load at most: a load waits until the array has read all that it overwrites. Set by hand in
e346763b (2026-11-22)."""
STREAMED_LOAD_BYTES = 32768
"""Likewise of weights that are read as they come, where each command takes a cycle of the bus that binds. Set by hand
in 7f381c0b (2026-11-23)."""
CODED_GROUP_BYTES = 1 << 14
"""Weights of neighbouring tiles are coded together up to this size: contexts learn, and the array need not wait for the
whole tensor. Set by hand in 0b2d4209 (2026-11-22), with decision 0005."""
BOOT_BLOCK_BYTES = 1 << 16
"""Bytes at most that the boot part decodes together, through the activation memory. Set by hand in 0c5bd9a7
(2026-11-23), with decision 0019."""
CODED_STREAM_WEIGHTS = 1 << 9
"""Weights of a coded stream at least: with fewer, its contexts learn too little to pay for it. Set by hand in
16220dcd (2026-11-22)."""
CODED_UNARY_LENGTH = 1
"""cabac_unary_length of coded weights: int8 weights take the fewest cycles with it, and hardly more bytes than with any
other. Set by hand in 0b2d4209 (2026-11-22), with decision 0005."""
ARRIVING_BOX_BYTES = 4096
"""Least bytes of a box of a layer whose image arrives, or whose result leaves, while it runs. Set by hand in 248a0363
(2026-11-21)."""
ARRIVING_BOXES_SHARE = 0.95
"""The share of the usual box's cycles below which another one is taken: the prediction leaves out much that units wait
for each other there. Set by hand in 15d42a4d (2026-11-29)."""
ARRIVING_MOST_BOXES = 8
"""The largest number of boxes of such a layer. Set by hand in 248a0363 (2026-11-21)."""
ARRIVING_MOST_DEPTHWISE_BOXES = 4
"""The same in the depthwise mode, each box of which fills its delay line anew. Set by hand in 248a0363
(2026-11-21)."""
ELEMENTWISE_BOX_BYTES = 8192
"""Bytes of a piece of an elementwise layer that comes from outside or goes there: the bus and VECTOR work at a time.
Set by hand in e084855d (2026-11-23)."""
ELEMENTWISE_MOST_BOXES = 8
"""The largest number of such pieces that are asked for. Set by hand in e084855d (2026-11-23)."""
SEARCHED_BLOCK_BYTES = 1 << 13
"""Bytes of a block of a table whose rows are found by branches, at most: the four instructions that lead to one are
1/128 of it. Measured with decision 0003."""
COPY_FETCH_BYTES = 4096
"""A copy's source is fetched in pieces of this size, so that the first elements move before the last ones are there.
Set by hand in 4fc04f7f (2026-11-21)."""
PACKING_STEP_BYTES = 1024
"""Bytes of weights that the machine packs in a step, at least. Set by hand in 4fc04f7f (2026-11-21), with decision
0009."""
PACKING_LARGE_STEP_BYTES = 4096
"""The same at most, where the array takes long for a step: its bytes leave behind a result. Measured on `base` with
four heads of 256 queries and keys on 2026-11-29 (38,400 cycles instead of 44,900), with decision 0009."""
PACKING_LEAST_STEPS = 8
"""Steps at least of a packing whose steps are larger: the array waits for the first one. Measured on layers of
bench/cycles.py on 2026-11-29, some of which take 1.3 times as long with fewer, with decision 0009."""
PACKING_LARGE_STEP_FACTOR = 4
"""Times the rows of the array that images have in pixels, at least, for larger steps: with few, packing takes longest.
Measured with a decoder's layer of one token on 2026-11-29, with decision 0009."""
PACKING_STEPS_AHEAD = 3
"""Packed steps that are on their way to weight memory while the array works on another one. Set by hand in 4fc04f7f
(2026-11-21), with decision 0009."""
STRAIGHT_ROW_WORDS = 2
"""Words at least of a row that LOAD brings to its place: it has bursts of its own. Set by hand in f800e5ee
(2026-11-23)."""
INDEXED_LEAST_ROWS = 16
"""Smaller ranges of the table and blocks of the list of GATHER and SCATTER cost more commands than they are worth:
other tensors are spilled instead. Set by hand in a1d90557 (2026-11-21), with decision 0003."""
IM2COL_BUFFERS = 4
"""Buffers of boxes by im2col that take turns. Set by hand in b78fbd21 (2026-11-23)."""
IM2COL_MOST_COLUMNS = 16
"""Columns of a box by im2col at most: each takes a LOAD_GO, and a box must not fill LOAD's queue. Set by hand in
b78fbd21 (2026-11-23)."""
DEPTHWISE_LEAST_COLUMNS = 16
"""Where the delay line is too short for fewer output columns than this, the depthwise mode reads too much twice. Set by
hand in 6a7a9979 (2026-11-21)."""

WOVEN_BOXES_SHARE = 0.95
"""Share of the cycles of boxes in a part of the memory below which others are taken, for a layer that runs together
with others: it gains more than that from their buffers being apart. Measured in 8eff7a4f (2026-11-29)."""
WOVEN_BUFFERS_AM_PART = 6
"""Activation memory for the buffers of a layer that runs together with others. Measured in 8eff7a4f (2026-11-29)."""

# --- how far searches go

BOX_CHANNEL_CUTS = (2, 3, 4, 6, 8)
"""Numbers of boxes along the channels of a convolution that are compared. Set by hand in 3fb142ca (2026-11-23), with
decision 0025."""
LARGE_WEIGHTS_CHANNEL_CUTS = (12, 16, 24, 32)
"""More of them where weights are larger than the activation memory: they had better come once than again for each box
of rows. Set by hand after 0ac458df (2026-11-29): the gate of Qwen2.5's 4,864 channels by 64 tokens takes 1,093,553
cycles instead of 1,184,516."""
ELEMENTWISE_CHANNEL_CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of boxes along the channels of an elementwise layer that are compared. Set by hand in 77732a7a
(2026-11-28)."""
BOX_NARROW_COLUMNS = (64, 32, 16, 8, 4, 2, 1)
"""Widths of boxes that are cut along the channels too, the best first: many columns use weights often. Set by hand in
6a7a9979 (2026-11-21)."""
EVEN_PARTS_GROWTH_PART = 4
"""The part by which each next number of even parts is larger, of more than `EVEN_PARTS_COMPARED`. Set by hand in
15d42a4d (2026-11-29)."""
EVEN_PARTS_COMPARED = 64
"""Even parts of an axis of up to this number are all compared. Set by hand in 15d42a4d (2026-11-29)."""
STRIP_HEIGHTS_COMPARED = 4
"""Heights of boxes in strips that are compared. Set by hand in a4a6b96f (2026-11-29)."""
IM2COL_BOXES_COMPARED = 32
"""Boxes by im2col that are compared. Set by hand in b78fbd21 (2026-11-23)."""
CASCADE_MOST_LAYERS = 4
"""Layers of a cascade at most: each one needs memory for a stripe, and more rows are computed again. Set by hand in
6b4fc94b (2026-11-23), with decision 0017."""
CASCADE_MOST_STRIPES = 32
"""Stripes of a cascade at most: small stripes compute too many rows again. Set by hand in 6b4fc94b (2026-11-23), with
decision 0017."""
SEGMENT_MOST_LAYERS = 6
"""Layers of a segment of several cores at most. Set by hand in 3fb142ca (2026-11-23), with decision 0027."""
SEGMENT_CONSTANT_ELEMENTS = 16
"""Elements of constants that may be shapes or zero points, by which equal shares of cores are found. Set by hand in
3fb142ca (2026-11-23)."""
WOVEN_LAYERS = 4
"""Layers that run together at most. Set by hand in 8eff7a4f (2026-11-29): exponentials, their sums, and
products with them."""
GROUP_MOST_PIXELS = 512
"""Pixels that share vectors of a row whose length has no divisor but large ones, at most. Set by hand in 80643f20
(2026-11-28)."""
LOADS_AHEAD_ITEMS = 8
"""Loads that may be queued ahead of the last one somebody waits for. More would fill the load queue and hold up the
dispatch of other units' work. Set by hand in 14747cf7 (2026-11-21)."""
JOINED_CHAIN_STEPS = 4
"""Operators, one behind the other, that join a layer together at most, where each alone would need more operands. Set
by hand in bc326c8e (2026-11-29): a negated half between integers is three of them."""
VECTORS_BEHIND = 64
"""Vectors that the array may have made while VECTOR is not done with those before: the queue behind it, and what comes
while VECTOR turns from one GO to the next. Set by hand in 0d25f640 (2026-11-23), with decision 0031."""
SEMAPHORE_MOST_TOKENS = 2000
"""Tokens of a semaphore at most, in the order of the work. A counter goes to 4095; loads that are pulled ahead, and
units that run ahead by as many commands as a queue holds, add a few tokens. Set by hand in 9c0feee5 (2026-11-23)."""
PARAMETERS_LINGER_LAYERS = 12
"""Layers for which a layer's parameters keep their memory after it, so that the next layers' come early. Set by hand
in 7f381c0b (2026-11-23)."""
UNTOUCHED_LAYERS = 16
"""What LOAD brings ahead comes to memory that no layer used for that long, if there is some. Set by hand in f800e5ee
(2026-11-23)."""

# --- where a rewrite of the graph pays

KERNEL_MOST_PLANES = 256
"""A kernel of CONV3D with more planes is turned, if it is smaller along another axis. Set by hand in 166e735d
(2026-11-21)."""
RESIZE_WIDE_PIXEL_CHANNELS = 8
"""Channels from which on moving every pixel of a RESIZE's result by itself is cheaper than first fewer, then whole
rows. Set by hand in 5094fab6 (2026-11-21)."""
REMAINDER_MOVE_PRODUCTS = 2048
"""Multiply-accumulates that a TRANSPOSE_CONV2D by remainders must save per element of the result to make up for putting
it in order. Measured on `base` in a3d5d313 (2026-11-21): a 4 x 4 kernel of stride 2, 128 to 64 channels, saves 1536
and is 1.2 times slower by remainder; 16 x 16 of stride 8, 32 to 21 channels, saves 8064 and is 13 times faster."""
REMAINDER_IDLE_CHANNELS = 16
"""Output channels below which the array is partly idle when zeros are put between the inputs. Set by hand in a3d5d313
(2026-11-21)."""
BATCH_PROGRAM_BYTES = 1 << 20
"""Bytes of the instructions for the samples of a turn, at most; twice as many for all are no loop. Set by hand
in 86e6d1ae (2026-11-29): a program of 1 MiB takes two seconds to compile."""
TURN_COPY_BUFFERS = 4
"""Pieces of activation memory for the copies of samples between two turns of a batch: some come while others leave. Set
by hand in 86e6d1ae (2026-11-29)."""
BOUNDS_STEPS = 8
"""Operators that are looked at, one behind the other, for the bounds of a tensor. Set by hand in c16b9030
(2026-11-29)."""
WEIGHTS_KEY_ELEMENTS = 1024
"""Elements by which the weights of a recurrence's steps are told from others, where only costs depend on it. Set by
hand in 23019a9b (2026-11-29)."""
SUMMED_LANES_FACTOR = 2
"""Lanes of a row of which VECTOR adds up as many in a cycle, at most. Measured on `base` in 556afe1a (2026-11-29): 11.4
cycles for a row's 16 lanes."""
BRANCH_INLINED_ELEMENTS = 4096
"""Results of both branches of a COND_IF, in elements, up to which it costs less to compute them both than to branch.
Set by hand in 88c5e687 (2026-11-21)."""
NARROWED_LEAST_ELEMENTS = 1024
"""Elements of an int32 constant, at least, that becomes bytes where it is added to products. Set by hand
in 383e0664 (2026-11-29)."""
PARTED_LEAST_ELEMENTS = 2048
"""Results, at least, of each of the convolutions that one becomes for parts of its channels. Set by hand in
fad1c9c3 (2026-11-29): a layer costs some hundred cycles."""
CURVE_MOST_VALUES = 512
"""The largest number of values of a tensor that others are functions of, and are looked up by. Set by hand in b14940b7
(2026-11-23)."""
CHAIN_LEAST_TABLES = 2
"""TABLEs in a chain that one GATHER replaces, at least: one table is loaded as fast as offsets are computed. Set by
hand in b14940b7 (2026-11-23)."""
CHAIN_MOST_ELEMENTS = 2048
"""Elements that such a GATHER looks up at most. It takes one at a time, a TABLE one per lane: for more elements,
loading tables does not count. Set by hand in b14940b7 (2026-11-23)."""
SHORT_ROWS_LEAST_ROWS = 128
"""Rows of few elements that are turned, at least: fewer take little time either way. Set by hand in f0a80e12
(2026-11-23)."""
SHORT_ROW_ELEMENTS = 16
"""Elements of the longest row of bytes that is turned, on 16 columns: longer ones fill the lanes. Set by hand in
f0a80e12 (2026-11-23)."""
SHORT_ROW_INT16_ELEMENTS = 8
"""The same of int16: wider ones take as long to be turned. Set by hand in f0a80e12 (2026-11-23)."""
SHORT_CHOICE_ELEMENTS = 48
"""The same of bytes where the place of the largest is wanted: its passes over partial results take longer. Measured in
1c54df99 (2026-11-23): ARGMAX of 21 classes by pixel takes 48 thousand cycles where it took 117."""
SHORT_CHOICE_INT16_ELEMENTS = 16
"""The same of int16. Set by hand in 1c54df99 (2026-11-23)."""
SHORT_ROW_COLUMNS = 16
"""Columns of the array and lanes of VECTOR that the longest rows were measured on (1c54df99, 2026-11-23)."""
SHORT_ROW_IDLE_COLUMNS = 4
"""Columns of which short rows leave so few idle that none is turned: on `nano`, which has 4, to turn rows of 16 took
three times as long as to reduce them as they lie (1c54df99, 2026-11-23)."""
SHORT_ROW_TURNED_BYTES = 2
"""Bytes that are turned at most for each element that is reduced. Set by hand in f0a80e12 (2026-11-23)."""
CONSTANT_GROWTH_FACTOR = 4
"""Times the bytes of those that it comes from that a computed constant may have: int8 becomes int32. Set by hand in
170f0d5b (2026-11-28)."""
CONSTANT_SMALL_BYTES = 1 << 16
"""Bytes up to which a computed constant is always kept, whatever it comes from. Set by hand in 170f0d5b
(2026-11-28)."""
CONSTANTS_SMALL_BYTES = 1 << 20
"""Bytes that all computed constants may have in sum, beside `CONSTANT_GROWTH_FACTOR` times the graph's own. Set by
hand in 170f0d5b (2026-11-28)."""
