/* The firmware of the micro-coded machine, one translation unit so that the compiler sees all of it. */

#include <stddef.h>

#include "memory.h"

#include "platform.h"

#include "sequencer.h"

#include "transfer.c"

#include "array.c"

#include "marks.c"

#include "vector.c"

#include "sequencer.c"

#ifdef NATIVE
#include "native.c"
#else
#include "core.c"
#endif
