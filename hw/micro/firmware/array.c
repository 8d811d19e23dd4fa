/* ARRAY: convolutions, matrix products and depthwise convolutions, one vector of W sums after the other. */

enum { QUEUE_VECTORS = ROWS > 16 ? ROWS : 16 };

static struct {
    u32 first, waiting;
    s32 vectors[QUEUE_VECTORS][W]; /* on their way to VECTOR */
    s32 sums[ROWS][W];             /* what `accumulate` goes on from */
} accumulators;

static struct {
    const u32 *input, *window, *kernel, *depthwise; /* the last instructions of these */
    u32 active;                                     /* a GO is under way */
    u32 has_sums;                                   /* an ARRAY_GO left sums to go on from */
    u32 weights;                                    /* WM word: the first one of the block */
    u32 blocks, pixels;                             /* left, this one included */
    s32 x, xb, iy;                                  /* the pixel in its row, its xb and iy */
    u32 address, row_address;                       /* of the pixel, of its row's first pixel */
    u32 row;                                        /* of the array */
    u32 out_x, out_y, position, line_x;             /* depthwise: output, its line's advance and place in the image's row */
} array;

static u32 steps(void)
{
    return ARRAY_KERNEL_ky_count(array.kernel) * ARRAY_KERNEL_run_count(array.kernel) *
           ARRAY_KERNEL_chunks(array.kernel);
}

/* Adds the products of the operand bytes at `address`, those that are inside the image, with the weights in columns
 * 4 * group ... of the words from `index` on. */
static void edge_products(u32 address, s32 xb, s32 row_bytes, u32 index, u32 group)
{
    if (xb <= -4 || xb >= row_bytes)
        return;
    u32 inputs = am_word(address);
#define EDGE_PRODUCT(n)                                                                 \
    if (xb >= -n && xb < row_bytes - n)                                                 \
    sums_add(WM[((index + n) & (WM_WORDS - 1)) * WORDS + group], inputs, n)
    EDGE_PRODUCT(0);
    EDGE_PRODUCT(1);
    EDGE_PRODUCT(2);
    EDGE_PRODUCT(3);
}

static inline u32 smaller(u32 a, u32 b)
{
    return a < b ? a : b;
}

/* Adds the products of `words` words of operands in a row of the image, and returns the index of the weights behind. */
static inline u32 run_products(u32 address, s32 xb, s32 row_bytes, u32 words, u32 index, u32 group)
{
    while (words) {
        const u32 *inputs = (const u32 *)AM + ((address & AM_MASK) >> 2);
        /* Words before the end of the image's row, of WM and of AM. */
        u32 count = 0, shift = (address & 3) * 8;
        index &= WM_WORDS - 1;
        if (xb >= 0 && xb < row_bytes)
            count = smaller(smaller(words, (u32)(row_bytes - xb) >> 2),
                            smaller((WM_WORDS - index) >> 2, AM_BYTES / 4 - 1 - ((address & AM_MASK) >> 2)));
        if (!count) {
            edge_products(address, xb, row_bytes, index, group);
            count = 1;
        } else {
            const u32 *weights = WM + index * WORDS + group, *end = inputs + count;
            u32 low = *inputs;
            do {
                u32 high = *++inputs, operands = low;
                if (shift)
                    operands = low >> shift | high << (32 - shift);
                low = high;
                sums_add(weights[0], operands, 0);
                sums_add(weights[WORDS], operands, 1);
                sums_add(weights[2 * WORDS], operands, 2);
                sums_add(weights[3 * WORDS], operands, 3);
                weights += 4 * WORDS;
            } while (inputs != end);
        }
        index += 4 * count;
        address += 4 * count;
        xb += 4 * count;
        words -= count;
    }
    return index;
}

/* The sums of the pixel the walk is at, of channels 4 * group ...; `accumulate`: added to `sums`. */
__attribute__((noinline)) static void pixel_sums(s32 *sums, u32 group, u32 accumulate)
{
    u32 address = array.address, index = array.weights, height = ARRAY_INPUT_height(array.input);
    u32 runs = ARRAY_KERNEL_run_count(array.kernel), words = ARRAY_KERNEL_chunks(array.kernel) * WORDS;
    s32 iy = array.iy;
    sums_setup(ARRAY_INPUT_input_zp(array.input), ARRAY_INPUT_unsigned_input(array.input),
               ARRAY_INPUT_weight_zp(array.input));
    for (u32 ky = ARRAY_KERNEL_ky_count(array.kernel); ky; ky--) {
        u32 at = address;
        s32 xb = array.xb;
        if ((u32)iy < height)
            for (u32 run = runs; run; run--) {
                index = run_products(at, xb, ARRAY_INPUT_row_bytes(array.input), words, index, group);
                at += ARRAY_KERNEL_run_step(array.kernel);
                xb += ARRAY_KERNEL_run_step(array.kernel);
            }
        else
            index += runs * words * 4;
        address += ARRAY_KERNEL_ky_step_bytes(array.kernel);
        iy += ARRAY_KERNEL_ky_step(array.kernel);
    }
    u32 mask = -accumulate;
    sums[0] = (sums[0] & mask) + sums_take(0);
    sums[1] = (sums[1] & mask) + sums_take(1);
    sums[2] = (sums[2] & mask) + sums_take(2);
    sums[3] = (sums[3] & mask) + sums_take(3);
}

static void first_pixel(void)
{
    array.x = 0;
    array.xb = ARRAY_WINDOW_x_start(array.window);
    array.iy = ARRAY_WINDOW_y_start(array.window);
    array.address = array.row_address = ARRAY_INPUT_address(array.input);
}

static void next_pixel(void)
{
    if (++array.x == (s32)ARRAY_WINDOW_width(array.window)) {
        array.x = 0;
        array.xb = ARRAY_WINDOW_x_start(array.window);
        array.iy += ARRAY_WINDOW_y_step(array.window);
        array.address = array.row_address += ARRAY_WINDOW_y_step_bytes(array.window);
    } else {
        array.xb += ARRAY_WINDOW_x_step(array.window);
        array.address += ARRAY_WINDOW_x_step(array.window);
    }
}

/* A place for a vector in the queue, 0 if it is full. */
static s32 *queue_place(void)
{
    if (accumulators.waiting == QUEUE_VECTORS)
        return 0;
    u32 place = accumulators.first + accumulators.waiting;
    return accumulators.vectors[place >= QUEUE_VECTORS ? place - QUEUE_VECTORS : place];
}

static u32 is_byte_or_128(s32 zero_point)
{
    return zero_point >= -128 && zero_point <= 128;
}

/* Whether both modes' set-up is there, and operands minus their zero points have 9 bits, as the array's multipliers. */
static u32 is_legal_image(void)
{
    s32 zero_point = ARRAY_INPUT_input_zp(array.input);
    return array.input != no_instruction && ARRAY_WINDOW_width(array.window) &&
           (ARRAY_INPUT_unsigned_input(array.input) ? zero_point >= 0 : is_byte_or_128(zero_point)) &&
           is_byte_or_128(ARRAY_INPUT_weight_zp(array.input));
}

static u32 array_go(const u32 *go, u32 pc)
{
    u32 pixels = ARRAY_GO_pixels(go), drain = ARRAY_GO_drain(go), accumulate = ARRAY_GO_accumulate(go);
    if (!array.active) {
        u32 is_plain = drain && !accumulate;
        if (!pixels || !steps() || !is_legal_image() || (pixels > ROWS && !is_plain) ||
            (ARRAY_GO_more_blocks(go) && (pixels > ROWS || !is_plain)) || (accumulate && !array.has_sums))
            fail(ERROR_ILLEGAL, UNIT_ARRAY, pc);
        array.has_sums = 1;
        array.blocks = ARRAY_GO_more_blocks(go) + 1;
        array.weights = ARRAY_GO_weights(go);
        array.pixels = 0;
    }
    for (u32 result = BLOCKED;; result = MOVED, array.active = 1) {
        s32 *place = drain ? queue_place() : accumulators.sums[0];
        if (!place)
            return result;
        if (!array.pixels) {
            if (ARRAY_GO_streamed(go)) {
                if (transfer.streamed_words < steps() * W)
                    return result;
                transfer.streamed_words -= steps() * W;
            }
            first_pixel();
            array.pixels = pixels;
            array.row = 0;
        }
        s32 *sums = accumulators.sums[array.row];
        for (u32 group = 0; group < WORDS; group++)
            pixel_sums(sums + 4 * group, group, accumulate);
        if (drain) {
            for (u32 c = 0; c < W; c++)
                place[c] = sums[c];
            accumulators.waiting++;
        }
        array.row = array.row == ROWS - 1 ? 0 : array.row + 1;
        next_pixel();
        if (!--array.pixels) {
            array.weights += steps() * W;
            if (!--array.blocks)
                break;
        }
    }
    array.active = 0;
    return DONE;
}

/* Brings an advance `x` from the start of image row `y` into its row. The core has no division. */
static void into_row(s32 *x, s32 *y)
{
    s32 width = ARRAY_WINDOW_width(array.window);
    while (*x < 0 || *x >= width) {
        s32 rows = *x < 0 ? -1 : 1;
        *y += rows;
        *x -= rows * width;
    }
}

static u32 last_row_with_a_tap(const u32 *go)
{
    return ROWS - 1 - ARRAY_DEPTHWISE_GO_idle_rows(go);
}

/* What the chain of rows sums up for the advance that is `x` pixels behind the start of image row `y`. */
static void tap_sums(s32 *sums, const u32 *go, u32 position, s32 x, s32 y)
{
    const u32 *depthwise = array.depthwise, *window = array.window;
    u32 group_rows = ARRAY_DEPTHWISE_GO_group_rows(go), last_row = last_row_with_a_tap(go);
    u32 delay = 0, group = 0, rows = group_rows, is_paired = ARRAY_DEPTHWISE_paired(depthwise);
    clear(sums, sizeof accumulators.sums[0]);
    for (u32 row = 0; row <= last_row; row++, rows--) {
        if (!rows && group < LINE_GROUPS - 1) {
            group++;
            rows = group_rows;
            if (!is_paired)
                delay += ARRAY_DEPTHWISE_delay(depthwise);
            else if (group & 1)
                delay += ARRAY_DEPTHWISE_delay(depthwise) - group_rows;
            else
                delay += group_rows;
        }
        u32 back = delay + last_row - row, is_second = is_paired & group;
        if (position < back)
            continue;
        s32 px = x - back, iy = y;
        into_row(&px, &iy);
        u32 address = ARRAY_INPUT_address(array.input) + px * ARRAY_WINDOW_x_step(window) +
                      iy * ARRAY_WINDOW_y_step_bytes(window) +
                      (is_second ? ARRAY_WINDOW_y_step_bytes(window) >> 1 : 0);
        s32 xb = ARRAY_WINDOW_x_start(window) + px * ARRAY_WINDOW_x_step(window);
        iy = ARRAY_WINDOW_y_start(window) + iy * ARRAY_WINDOW_y_step(window) + is_second;
        if ((u32)iy >= ARRAY_INPUT_height(array.input))
            continue;
        const s8 *taps = (const s8 *)WM + ((ARRAY_DEPTHWISE_GO_weights(go) + last_row - row) * W & (WM_BYTES - 1));
        for (s32 c = 0; c < W; c++)
            if ((u32)(xb + c) < ARRAY_INPUT_row_bytes(array.input)) {
                u8 byte = AM[(address + c) & AM_MASK];
                s32 operand = (ARRAY_INPUT_unsigned_input(array.input) ? byte : (s8)byte) - ARRAY_INPUT_input_zp(array.input);
                sums[c] += operand * (taps[c] - ARRAY_INPUT_weight_zp(array.input));
            }
    }
}

static u32 is_legal_depthwise(const u32 *go)
{
    const u32 *depthwise = array.depthwise;
    u32 delay = ARRAY_DEPTHWISE_delay(depthwise), group_rows = ARRAY_DEPTHWISE_GO_group_rows(go);
    u32 legal = delay >= 2 && delay <= LINE_PIXELS && ARRAY_DEPTHWISE_line(depthwise) &&
                ARRAY_DEPTHWISE_x_stride(depthwise) && ARRAY_DEPTHWISE_y_stride(depthwise) && group_rows &&
                ARRAY_DEPTHWISE_GO_advances(go) && ARRAY_DEPTHWISE_GO_drain(go) &&
                !ARRAY_DEPTHWISE_GO_accumulate(go) && ARRAY_DEPTHWISE_GO_idle_rows(go) < ROWS && is_legal_image();
    if (ARRAY_DEPTHWISE_paired(depthwise))
        legal = legal && !((ARRAY_INPUT_address(array.input) | ARRAY_WINDOW_x_step(array.window)) & (W - 1)) &&
                (ARRAY_WINDOW_y_step_bytes(array.window) & (4 * W - 1)) == 2 * W && delay >= group_rows + 2;
    return legal;
}

static u32 depthwise_go(const u32 *go, u32 pc)
{
    const u32 *depthwise = array.depthwise;
    u32 result = BLOCKED, line = ARRAY_DEPTHWISE_line(depthwise) * ARRAY_DEPTHWISE_y_stride(depthwise);
    if (!array.active) {
        if (!is_legal_depthwise(go))
            fail(ERROR_ILLEGAL, UNIT_ARRAY, pc);
        array.has_sums = 0;
        array.out_x = array.out_y = 0;
        array.position = array.x = ARRAY_DEPTHWISE_skip(depthwise) + last_row_with_a_tap(go);
        array.iy = 0;
    }
    for (; array.out_y < ARRAY_DEPTHWISE_out_height(depthwise); array.out_y++, array.out_x = 0) {
        for (; array.out_x < ARRAY_DEPTHWISE_out_width(depthwise); array.out_x++, result = MOVED, array.active = 1) {
            s32 *place = queue_place();
            u32 right = array.out_x * ARRAY_DEPTHWISE_x_stride(depthwise);
            if (array.position + right >= ARRAY_DEPTHWISE_GO_advances(go))
                break;
            if (!place)
                return result;
            tap_sums(place, go, array.position + right, array.x + right, array.iy);
            accumulators.waiting++;
        }
        if (array.position >= ARRAY_DEPTHWISE_GO_advances(go))
            break;
        array.position += line;
        array.x += line;
        into_row(&array.x, &array.iy);
    }
    array.active = 0;
    return DONE;
}

static u32 array_step(const u32 *i, u32 pc)
{
    switch (opcode(i)) {
    case ARRAY_INPUT:
        array.input = i;
        break;
    case ARRAY_WINDOW:
        array.window = i;
        break;
    case ARRAY_KERNEL:
        array.kernel = i;
        break;
    case ARRAY_DEPTHWISE:
        array.depthwise = i;
        break;
    case ARRAY_GO:
        return array_go(i, pc);
    default:
        return depthwise_go(i, pc);
    }
    return DONE;
}

static void array_reset(void)
{
    clear(&accumulators, sizeof accumulators);
    clear(&array, sizeof array);
    array.input = array.window = array.kernel = array.depthwise = no_instruction;
}
