/* Text that other memory takes the place of. */
#ifndef DYNPROF_REPLACED_H
#define DYNPROF_REPLACED_H

#include "base/raw.h"
#include "base/regs.h"

/* Called with the registers of an mmap, munmap, mremap or madvise that is to come. */
void dp_memory_changes(struct dp_regs *r) HIDDEN;

#endif
