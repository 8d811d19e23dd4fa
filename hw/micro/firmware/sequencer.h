/* What the units ask of the sequencer. */

enum { BLOCKED, MOVED, DONE }; /* what a unit's instruction came to: nothing, a part of it, or all of it */

static const u32 no_instruction[4]; /* fields of what was never set up */

static inline u32 opcode(const u32 *i)
{
    return i[0] & 0xFF;
}

static struct {
    const u32 *program;
    u32 instructions;
    u32 next;      /* instruction that is dispatched next */
    u32 behind;    /* bit per unit: it has not executed all that was dispatched */
    u32 cursor[5]; /* by unit: the instruction it is at, if it is behind */
    u32 running;
    u32 flag; /* of BRANCH: what the last VECTOR_TEST found */
    u16 semaphores[16];
} sequencer;

/* Lets something move that is not the unit `busy`; without anything that can, the run ends in WATCHDOG. */
static void let_move(u32 busy);
