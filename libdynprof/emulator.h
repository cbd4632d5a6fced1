/* Who runs the program's instructions, if that is not the CPU. */
#ifndef DYNPROF_EMULATOR_H
#define DYNPROF_EMULATOR_H

#include "base/raw.h"

/* Asked by instructions that mean nothing elsewhere. */
int dp_in_valgrind(void) HIDDEN;
/* Asked only where there are threads already, which qemu-user always has. */
int dp_in_qemu(void) HIDDEN;

#endif
