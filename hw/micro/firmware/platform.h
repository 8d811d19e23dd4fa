/* What differs between the core and a native build. */

#ifdef NATIVE
#include <setjmp.h>
#include <string.h>

static jmp_buf end_of_run;
static u32 moves_left; /* a native run must end */

static inline void clear(void *start, size_t bytes)
{
    memset(start, 0, bytes);
}

static u32 cycles(void)
{
    return moves_left;
}

static void count_move(void)
{
    if (!moves_left--)
        longjmp(end_of_run, 1);
}

_Noreturn static void hang(void)
{
    longjmp(end_of_run, 1);
}

_Noreturn static void stop(void)
{
    longjmp(end_of_run, 1);
}
#else
#define EVENTS (*(volatile u32 *)(PORT_BASE + PORT_EVENTS))

static void clear(void *start, size_t bytes)
{
    for (u32 *word = start; word < (u32 *)((u8 *)start + bytes); word++)
        *(volatile u32 *)word = 0;
}

static u32 cycles(void)
{
    return *(volatile u32 *)(PORT_BASE + PORT_CYCLES);
}

static inline void count_move(void)
{
}

_Noreturn static void hang(void)
{
    for (;;)
        ;
}

_Noreturn static void stop(void)
{
    EVENTS = SIGNAL_FAILED;
    hang();
}
#endif

__attribute__((noinline)) _Noreturn static void fail(u32 code, u32 unit, u32 pc)
{
    REGISTER(CSR_ERROR) = code | unit << 8;
    REGISTER(CSR_PC) = pc;
    stop();
}
