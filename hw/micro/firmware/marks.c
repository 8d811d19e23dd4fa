/* Layer marks: fewer than the register map allows, for want of memory. They lie behind the registers. */

struct mark {
    u32 cycles;
    u32 layer;
};

enum { MARKS = (REGISTERS_BYTES - REGISTERS_END) / sizeof(struct mark) };

static volatile struct mark *marks(void)
{
    return (volatile struct mark *)&REGISTER(REGISTERS_END);
}

static void mark(u32 layer)
{
    u32 count = REGISTER(CSR_MARK_COUNT);
    if (count == MARKS)
        return;
    marks()[count].cycles = cycles();
    marks()[count].layer = layer;
    REGISTER(CSR_MARK_COUNT) = count + 1;
}

/* MARK_LAYER and MARK_CYCLE of MARK_INDEX. */
static void show_mark(void)
{
    u32 index = REGISTER(CSR_MARK_INDEX);
    if (index < REGISTER(CSR_MARK_COUNT)) {
        REGISTER(CSR_MARK_LAYER) = marks()[index].layer;
        REGISTER(CSR_MARK_CYCLE) = marks()[index].cycles;
    }
}
