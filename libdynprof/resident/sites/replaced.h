/* Text that other memory takes the place of. */
#ifndef DYNPROF_REPLACED_H
#define DYNPROF_REPLACED_H

#include "base/raw.h"
#include "base/regs.h"

/* Called with the registers of an mmap, munmap, mremap or madvise that is to come. */
void dp_memory_changes(struct dp_regs *r) HIDDEN;

/* What a static program's own dynamic linker is about (r_debug.r_state); 0: it has none. */
extern const int *dp_linker_state HIDDEN;

#endif
