/* The memories, as the core addresses them; in a native build they are arrays. */

#include <stdint.h>

#include "coprocessor.h"
#include "machine.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint64_t u64;

#if AM_BYTES <= 65536
typedef u16 am_offset; /* addresses wrap at AM_BYTES */
#else
typedef u32 am_offset;
#endif

#if defined NATIVE || WINDOW_BYTES / 16 > 65536
typedef u32 instruction_number;
#else
typedef u16 instruction_number;
#endif

#define W COLUMNS
#define WORDS (COLUMNS / 4) /* words of 4 bytes, as the core has them, in one of W */
#define AM_MASK (AM_BYTES - 1)
#define WM_WORDS (WM_BYTES / W)

#ifdef NATIVE
static u32 am_memory[AM_BYTES / 4], wm_memory[WM_BYTES / 4], registers[REGISTERS_BYTES / 4];
static u8 *external_memory;
static u32 external_bytes;
#define AM ((u8 *)am_memory)
#define WM wm_memory
#define REGISTER(offset) registers[(offset) / 4]
#define EXTERNAL external_memory
#define EXTERNAL_BASE 0u
#define EXTERNAL_BYTES external_bytes
#else
#define AM ((u8 *)AM_BASE)
#define WM ((u32 *)WM_BASE)
#define REGISTER(offset) (*(volatile u32 *)(REGISTERS_BASE + (offset)))
#define EXTERNAL ((u8 *)WINDOW_BASE)
#define EXTERNAL_BASE WINDOW_BASE
#define EXTERNAL_BYTES WINDOW_BYTES
#endif

/* The program stops: ERROR and PC are written, and nothing more is executed before the next reset. */
_Noreturn static void fail(u32 code, u32 unit, u32 pc);

/* Four bytes of AM from any address on. */
static inline u32 am_word(u32 address)
{
    const u32 *words = (const u32 *)AM;
    u32 place = (address & AM_MASK) >> 2, shift = (address & 3) * 8, word = words[place];
    if (shift)
        word = word >> shift | words[(place + 1) & (AM_MASK >> 2)] << (32 - shift);
    return word;
}

/* Where `bytes` bytes of the memory window from `offset` on are; the error `code` where no memory is. */
static u8 *external(u32 offset, u32 bytes, u32 code, u32 unit, u32 pc)
{
    u32 place = REGISTER(CSR_MEM_BASE) + offset - EXTERNAL_BASE;
    if (place > EXTERNAL_BYTES || bytes > EXTERNAL_BYTES - place)
        fail(code, unit, pc);
    return EXTERNAL + place;
}
