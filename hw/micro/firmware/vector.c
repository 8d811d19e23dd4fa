/* VECTOR: micro-programs on vectors of W lanes. */

struct stream {
    u32 address, at; /* of the first access; of the next one, without its offset */
    s32 strides[STREAM_DIMS];
    u16 turns[STREAM_DIMS]; /* after the first one */
    u16 index[STREAM_DIMS];
    u8 element, splat, indexed;
};

/* What a micro-op may use beside itself. */
enum { USES_BIAS = 1, USES_SCALE = 2, USES_TABLE = 4, USES_BIG_TABLE = 8 };

static struct {
    const u32 *params; /* the last one */
    instruction_number uops[VECTOR_UOPS], bounds[VECTOR_UOPS]; /* in the program; 0: not written */
    struct stream streams[STORE_STREAM + 1];
    u32 params_end; /* the address behind the parameters loaded last */
    u32 used, loaded; /* bits: what the micro-ops written so far use, and what was loaded */
    u32 offsets_count;
    s32 bias[W], multiplier[W];
    u8 shift[W];
    u16 register_high[VECTOR_REGISTERS][VECTOR_SLOTS][W]; /* bits 32 to 47 of the registers, and their low halves */
    u32 register_low[VECTOR_REGISTERS][VECTOR_SLOTS][W];
    u32 table[512];
    am_offset offsets[OFFSETS_MAX];
} vector;

/* The address of a stream's next access. */
static u32 stream_address(const struct stream *s)
{
    return s->at + (s->indexed ? vector.offsets[s->index[1]] : 0);
}

static void next_access(struct stream *s)
{
    for (u32 d = 0; d < STREAM_DIMS; d++) {
        if (s->index[d] != s->turns[d]) {
            s->index[d]++;
            s->at += s->strides[d];
            return;
        }
        s->at -= s->index[d] * s->strides[d];
        s->index[d] = 0;
    }
}

static u32 element_log2_bytes(u32 element)
{
    return (element + (element == ELEMENT_INT48)) >> 1;
}

static u32 element_bytes(u32 element)
{
    return 1 << element_log2_bytes(element);
}

static void load_params(void)
{
    u32 bias = VECTOR_PARAM_bias(vector.params), scale = VECTOR_PARAM_scale(vector.params);
    u32 unused_bits = VECTOR_PARAM_narrow(vector.params) ? 16 : 0;
    for (u32 c = 0; bias && c < W; c++, vector.params_end += unused_bits ? 2 : 4)
        vector.bias[c] = (s32)(am_word(vector.params_end) << unused_bits) >> unused_bits;
    for (u32 c = 0; scale && c < W; c++, vector.params_end += 4)
        vector.multiplier[c] = am_word(vector.params_end);
    for (u32 c = 0; scale && c < W; c++, vector.params_end++)
        vector.shift[c] = am_word(vector.params_end) & 63;
}

/* The micro-op that is executed. */
static struct {
    u32 op, bias, per_channel, round, clamp, wrap32, shift;
    s32 a_zp, out_zp, multiplier, low, high;
} uop;

static s64 wrap(s64 value)
{
    return (s64)((u64)value << (64 - VECTOR_BITS)) >> (64 - VECTOR_BITS);
}

/* (x * multiplier + half, rounded twice if `twice`) >> shift; the product wraps at 64 bits, the sum with half does not */
static s64 scale(s64 x, s32 multiplier, u32 shift, u32 twice)
{
    u64 product = (u64)x * (u64)(s64)multiplier;
    if (twice && shift > 31)
        product += x >= 0 ? 1 << 30 : -(1 << 30);
    return ((s64)product >> shift) + (shift ? product >> (shift - 1) & 1 : 0);
}

/* RESCALE of lanes that have 32 bits, and so have their results: nearly always all. Returns the number of lanes that are
 * done; the first one that is not ends it. */
__attribute__((noinline)) static u32 rescale(s64 *lanes, const s64 *b)
{
    s32 a_zp = uop.a_zp, out_zp = uop.out_zp, low = uop.low, high = uop.high, multiplier = uop.multiplier;
    u32 bias = uop.bias, per_channel = uop.per_channel, shift = uop.shift, twice = uop.round, clamp = uop.clamp;
    for (u32 c = 0; c < W; c++) {
        s64 x = lanes[c] - a_zp;
        if (bias)
            x += vector.bias[c];
        if (per_channel) {
            multiplier = vector.multiplier[c];
            shift = vector.shift[c];
        }
        if (x != (s32)x || !shift || shift == 63)
            return c;
        s64 product = (s64)(s32)x * multiplier;
        u32 less = product;
        s32 y = product >> 32;
        if (shift > 32) {
            if (twice)
                y += x < 0 ? -(less < 0x40000000) : less >= 0xC0000000;
            y = (y + (1 << (shift - 33))) >> (shift - 32);
        } else {
            u32 half = (u32)1 << (shift - 1);
            if (shift == 32 && twice)
                half += x < 0 ? -(1u << 30) : 1u << 30;
            less += half;
            y += less < half;
            if (shift < 32) {
                s32 above = y >> shift;
                y = (u32)y << (32 - shift) | less >> shift;
                if (above != y >> 31)
                    return c;
            }
        }
        x = y + b[c] + out_zp;
        y = x;
        if (x != y)
            return c;
        if (clamp) {
            y = y < low ? low : y;
            y = y > high ? high : y;
        }
        lanes[c] = y;
    }
    return W;
}

/* The result of lane `c`. */
__attribute__((noinline)) static s64 operate(s64 a, s64 b, u32 c)
{
    s64 x = wrap(a - uop.a_zp + (uop.bias ? vector.bias[c] : 0)), y = x;
    u32 count = (u32)b & 63, entry;
    switch (uop.op) {
    case OP_ADD:
        y = x + b;
        break;
    case OP_SUB:
        y = x - b;
        break;
    case OP_MUL:
        y = scale(x, (s32)b, uop.shift, 0);
        break;
    case OP_RESCALE:
        y = b + (uop.per_channel ? scale(x, vector.multiplier[c], vector.shift[c], uop.round)
                                 : scale(x, uop.multiplier, uop.shift, uop.round));
        break;
    case OP_MAX:
        y = x > b ? x : b;
        break;
    case OP_MIN:
        y = x < b ? x : b;
        break;
    case OP_AND:
        y = x & b;
        break;
    case OP_OR:
        y = x | b;
        break;
    case OP_XOR:
        y = x ^ b;
        break;
    case OP_ABS:
        y = x < 0 ? -x : x;
        break;
    case OP_CLZ:
        y = 32;
        for (u32 low = x; low; low >>= 1)
            y--;
        break;
    case OP_LSL:
        y = count > 31 ? 0 : (s64)((u64)x << count);
        break;
    case OP_LSR:
        y = count > 31 ? 0 : (u32)x >> count;
        break;
    case OP_ASR:
        y = x >> count;
        if (uop.round && count)
            y += (x >> (count - 1)) & 1;
        break;
    case OP_EQ:
        y = x == b;
        break;
    case OP_GT:
        y = x > b;
        break;
    case OP_GE:
        y = x >= b;
        break;
    case OP_TABLE8:
        y = (s16)vector.table[((u32)x + 128) & 255];
        break;
    case OP_TABLE16:
        entry = vector.table[(((u32)x + 32768) >> 7) & 511];
        y = (s16)entry * 128 + (((s32)entry >> 16) - (s16)entry) * (s32)(x & 127);
        break;
    }
    y = wrap(y + uop.out_zp);
    if (uop.clamp) {
        if (y < uop.low)
            y = uop.low;
        if (y > uop.high)
            y = uop.high;
    }
    return uop.wrap32 ? (s32)y : y;
}

/* The largest element has 8 bytes, but where W is 4 there are none of these. */
enum { LANE_BYTES_MAX = W < 8 ? 4 : 8, LANE_WORDS_MAX = W * LANE_BYTES_MAX / 4 };

static void load_lanes(s64 *lanes, struct stream *s)
{
    u32 address = stream_address(s), bytes = element_bytes(s->element), element = s->element, words[LANE_WORDS_MAX];
    next_access(s);
    for (u32 k = 0; k < (s->splat ? LANE_BYTES_MAX : W * bytes) / 4; k++)
        words[k] = am_word(address + 4 * k);
    const u8 *from = (const u8 *)words;
    for (u32 c = 0; c < W; c++) {
        switch (element) {
        case ELEMENT_INT8:
            lanes[c] = *(const s8 *)from;
            break;
        case ELEMENT_UINT8:
            lanes[c] = *from;
            break;
        case ELEMENT_INT16:
            lanes[c] = *(const s16 *)from;
            break;
        case ELEMENT_UINT16:
            lanes[c] = *(const u16 *)from;
            break;
        case ELEMENT_INT32:
            lanes[c] = *(const s32 *)from;
            break;
        default:
            lanes[c] = wrap((u64)((const u32 *)from)[1] << 32 | ((const u32 *)from)[0]);
        }
        if (!s->splat)
            from += bytes;
    }
}

/* Waits for the array, while the other units go on. */
static void take_sums(s64 *lanes)
{
    while (!accumulators.waiting)
        let_move(UNIT_VECTOR);
    for (u32 c = 0; c < W; c++)
        lanes[c] = accumulators.vectors[accumulators.first][c];
    accumulators.waiting--;
    if (++accumulators.first == QUEUE_VECTORS)
        accumulators.first = 0;
}

/* What a source has in the lanes of a slot. Constants are there already. */
static void fetch(s64 *lanes, u32 source, u32 index, u32 slot)
{
    if (source == SOURCE_LOAD)
        load_lanes(lanes, &vector.streams[index & 3]);
    else if (source == SOURCE_ARRAY)
        take_sums(lanes);
    else if (source == SOURCE_REGISTER) {
        const u16 *high = vector.register_high[index][slot];
        const u32 *low = vector.register_low[index][slot];
        for (u32 c = 0; c < W; c++)
            lanes[c] = (s64)((u64)(s16)high[c] << 32 | low[c]);
    }
}

/* The lanes of a micro-op that write: of its widest elements a beat has a word, and no beat begins behind the GO's
 * lanes. */
static u32 lanes_in_beats(const u32 *go, const u32 *i)
{
    u32 log2_bytes = VECTOR_UOP_to_memory(i) ? element_log2_bytes(vector.streams[STORE_STREAM].element) : 0;
    u32 lanes = VECTOR_GO_lanes(go), per_beat;
    const struct stream *s = 0;
    if (VECTOR_UOP_a_source(i) == SOURCE_LOAD)
        s = &vector.streams[VECTOR_UOP_a_index(i)];
    else if (VECTOR_UOP_b_source(i) == SOURCE_LOAD)
        s = &vector.streams[VECTOR_UOP_b_index(i)];
    if (s && !s->splat && element_log2_bytes(s->element) > log2_bytes)
        log2_bytes = element_log2_bytes(s->element);
    per_beat = W >> log2_bytes;
    return lanes - 1 < W ? (lanes + per_beat - 1) & -per_beat : W;
}

static void store_lanes(const u32 *go, const s64 *lanes, u32 most)
{
    struct stream *s = &vector.streams[STORE_STREAM];
    u32 address = stream_address(s), bytes = element_bytes(s->element);
    u32 stored = s->index[0] == s->turns[0] ? VECTOR_GO_tail_lanes(go) : VECTOR_GO_lanes(go);
    next_access(s);
    if (stored > most)
        stored = most;
    for (const s64 *end = lanes + stored; lanes != end; lanes++) {
        const u8 *from = (const u8 *)lanes; /* of a little endian number */
        for (const u8 *last = from + bytes; from != last; from++)
            AM[address++ & AM_MASK] = *from;
    }
}

/* The lanes of a source that is the same in all lanes and slots. */
static void fill(s64 *lanes, u32 source, s32 immediate, u32 turn)
{
    for (u32 c = 0; c < W; c++)
        lanes[c] = source == SOURCE_IMMEDIATE ? immediate : source == SOURCE_ITERATION ? (s32)turn : 0;
}

/* The program's instruction `number`. */
static const u32 *instruction(u32 number)
{
    return number ? sequencer.program + number * 4 : no_instruction;
}

/* Micro-op `number` on `slots` slots. */
__attribute__((noinline)) static void execute(const u32 *go, u32 number, u32 slots, u32 turn)
{
    const u32 *i = instruction(vector.uops[number]), *bounds = instruction(vector.bounds[number]);
    u32 store = VECTOR_UOP_to_memory(i), lanes = lanes_in_beats(go, i);
    s64 a[W], b[W];
    uop.op = VECTOR_UOP_op(i);
    uop.bias = VECTOR_UOP_bias(i);
    uop.per_channel = VECTOR_UOP_per_channel(i);
    uop.round = VECTOR_UOP_round(i);
    uop.clamp = VECTOR_UOP_clamp(i);
    uop.wrap32 = VECTOR_UOP_wrap32(i);
    uop.shift = VECTOR_UOP_shift(i);
    uop.a_zp = VECTOR_UOP_a_zp(i);
    uop.out_zp = VECTOR_UOP_out_zp(i);
    uop.multiplier = VECTOR_UOP_multiplier(i);
    uop.low = VECTOR_BOUNDS_low(bounds);
    uop.high = VECTOR_BOUNDS_high(bounds);
    fill(a, VECTOR_UOP_a_source(i), VECTOR_BOUNDS_immediate(bounds), turn);
    fill(b, VECTOR_UOP_b_source(i), VECTOR_BOUNDS_immediate(bounds), turn);
    for (u32 slot = 0; slot < slots; slot++) {
        fetch(a, VECTOR_UOP_a_source(i), VECTOR_UOP_a_index(i), slot);
        if (VECTOR_UOP_b_source(i))
            fetch(b, VECTOR_UOP_b_source(i), VECTOR_UOP_b_index(i), slot);
        u32 c = uop.op == OP_RESCALE ? rescale(a, b) : 0;
        for (; c < W; c++)
            a[c] = operate(a[c], b[c], c);
        if (store)
            store_lanes(go, a, lanes);
        else {
            u16 *high = vector.register_high[VECTOR_UOP_destination(i)][slot];
            u32 *low = vector.register_low[VECTOR_UOP_destination(i)][slot];
            for (c = 0; c < lanes; c++) {
                high[c] = (u64)a[c] >> 32;
                low[c] = a[c];
            }
        }
        if (VECTOR_UOP_a_source(i) == SOURCE_NONE || VECTOR_UOP_a_source(i) >= SOURCE_IMMEDIATE)
            fill(a, VECTOR_UOP_a_source(i), VECTOR_BOUNDS_immediate(bounds), turn);
    }
}

static u32 is_legal_go(const u32 *go)
{
    u32 indexed = 0, uops = VECTOR_GO_uops(go), slots = VECTOR_GO_slots(go), end = VECTOR_GO_body_end(go);
    for (struct stream *s = vector.streams; s <= vector.streams + STORE_STREAM; s++)
        if (s->indexed)
            indexed += s->turns[1] < vector.offsets_count ? 1 : 2;
    return VECTOR_GO_vectors(go) && slots && slots <= VECTOR_SLOTS && uops && uops <= VECTOR_UOPS &&
           VECTOR_GO_repeats(go) && VECTOR_GO_body_start(go) <= end && end <= uops && indexed <= 1;
}

/* Whether the program has written all that the GO would execute. */
static u32 is_set_up(const u32 *go)
{
    for (u32 number = 0; number < VECTOR_GO_uops(go); number++) {
        const u32 *i = instruction(vector.uops[number]);
        u32 needs_bounds = VECTOR_UOP_clamp(i) || VECTOR_UOP_a_source(i) == SOURCE_IMMEDIATE ||
                           VECTOR_UOP_b_source(i) == SOURCE_IMMEDIATE;
        if (!vector.uops[number] || (needs_bounds && !vector.bounds[number]))
            return 0;
    }
    return !(vector.used & ~vector.loaded);
}

static void vector_go(const u32 *go)
{
    u32 start = VECTOR_GO_body_start(go), end = VECTOR_GO_body_end(go), slots = VECTOR_GO_slots(go);
    for (struct stream *s = vector.streams; s <= vector.streams + STORE_STREAM; s++) {
        s->at = s->address;
        clear(s->index, sizeof s->index);
    }
    for (u32 left = VECTOR_GO_vectors(go), first = 1; left; left -= slots, first = 0) {
        if (slots > left)
            slots = left;
        if (!first && VECTOR_GO_next_params(go))
            load_params();
        for (u32 number = 0, turn = 0; number < VECTOR_GO_uops(go);) {
            execute(go, number, slots, number >= start && number < end ? turn : 0);
            number++;
            if (number == end && start < end && ++turn < VECTOR_GO_repeats(go))
                number = start;
        }
    }
}

static u32 is_legal_operand(u32 source, u32 index)
{
    return source <= SOURCE_ITERATION && !(source == SOURCE_LOAD && index >= STORE_STREAM) &&
           !(source == SOURCE_REGISTER && index >= VECTOR_REGISTERS);
}

static u32 uses(const u32 *i)
{
    u32 op = VECTOR_UOP_op(i), used = VECTOR_UOP_bias(i) ? USES_BIAS : 0;
    if (op == OP_RESCALE && VECTOR_UOP_per_channel(i))
        used |= USES_SCALE;
    if (op == OP_TABLE8 || op == OP_TABLE16)
        used |= op == OP_TABLE8 ? USES_TABLE : USES_BIG_TABLE;
    return used;
}

static u32 is_legal_uop(const u32 *i)
{
    u32 a_source = VECTOR_UOP_a_source(i), b_source = VECTOR_UOP_b_source(i);
    return VECTOR_UOP_index(i) < VECTOR_UOPS && VECTOR_UOP_op(i) <= OP_TABLE16 && b_source != SOURCE_ARRAY &&
           !(a_source == SOURCE_LOAD && b_source == SOURCE_LOAD) &&
           (VECTOR_UOP_to_memory(i) || VECTOR_UOP_destination(i) < VECTOR_REGISTERS) &&
           is_legal_operand(a_source, VECTOR_UOP_a_index(i)) && is_legal_operand(b_source, VECTOR_UOP_b_index(i));
}

static u32 vector_step(const u32 *i, u32 pc)
{
    u32 legal = 1, d;
    struct stream *s = &vector.streams[VECTOR_STREAM_stream(i)];
    switch (opcode(i)) {
    case VECTOR_UOP:
        legal = is_legal_uop(i);
        if (legal) {
            vector.uops[VECTOR_UOP_index(i)] = pc / 16;
            vector.used |= uses(i);
        }
        break;
    case VECTOR_BOUNDS:
        legal = VECTOR_BOUNDS_index(i) < VECTOR_UOPS;
        if (legal)
            vector.bounds[VECTOR_BOUNDS_index(i)] = pc / 16;
        break;
    case VECTOR_STREAM:
        legal = VECTOR_STREAM_element(i) <= (W < 8 ? ELEMENT_INT32 : ELEMENT_INT48);
        s->address = VECTOR_STREAM_address(i);
        s->element = VECTOR_STREAM_element(i);
        s->splat = VECTOR_STREAM_splat(i);
        s->indexed = VECTOR_STREAM_indexed(i);
        break;
    case VECTOR_DIMS:
        d = VECTOR_DIMS_pair(i) * 2;
        legal = d < STREAM_DIMS && VECTOR_DIMS_count_low(i) && VECTOR_DIMS_count_high(i);
        if (legal) {
            s->turns[d] = VECTOR_DIMS_count_low(i) - 1;
            s->turns[d + 1] = VECTOR_DIMS_count_high(i) - 1;
            s->strides[d] = VECTOR_DIMS_stride_low(i);
            s->strides[d + 1] = VECTOR_DIMS_stride_high(i);
        }
        break;
    case VECTOR_PARAM:
        vector.params = i;
        vector.params_end = VECTOR_PARAM_address(i);
        vector.loaded |= (VECTOR_PARAM_bias(i) ? USES_BIAS : 0) | (VECTOR_PARAM_scale(i) ? USES_SCALE : 0);
        load_params();
        break;
    case VECTOR_TABLE:
        legal = VECTOR_TABLE_entries(i) == 256 || VECTOR_TABLE_entries(i) == 512;
        vector.loaded |= VECTOR_TABLE_entries(i) == 512 ? USES_TABLE | USES_BIG_TABLE : USES_TABLE;
        for (u32 k = 0; legal && k < VECTOR_TABLE_entries(i); k++)
            vector.table[k] = am_word(VECTOR_TABLE_address(i) + 4 * k);
        break;
    case VECTOR_GO:
        legal = is_legal_go(i) && is_set_up(i);
        if (legal)
            vector_go(i);
        break;
    case VECTOR_MARK:
        mark(VECTOR_MARK_layer(i));
        break;
    case VECTOR_OFFSETS:
        vector.offsets_count = VECTOR_OFFSETS_count(i);
        legal = vector.offsets_count && vector.offsets_count <= OFFSETS_MAX;
        for (u32 k = 0; legal && k < vector.offsets_count; k++)
            vector.offsets[k] = am_word(VECTOR_OFFSETS_address(i) + 4 * k);
        break;
    default: /* VECTOR_TEST */
        sequencer.flag = AM[VECTOR_TEST_address(i) & AM_MASK] != 0;
    }
    if (!legal)
        fail(ERROR_ILLEGAL, UNIT_VECTOR, pc);
    return DONE;
}

static void vector_reset(void)
{
    clear(&vector, sizeof vector);
    vector.params = no_instruction;
}
