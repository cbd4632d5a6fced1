/* Regions that a user chose outside (hotspots run --region, docs/regions.md). */
#ifndef DYNPROF_CHOSEN_H
#define DYNPROF_CHOSEN_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

/* What could not be made: names of those whose object is not loaded, of those that are of another
 * program, and of others. */
struct dp_unmade {
	char absent[512], others[512], impossible[512];
};

/* Those that a user chose, NAME=WHAT with a semicolon in between. WHAT is OBJECT/OBJECT/+OFFSET:BYTES,
 * of the object that has one of these names, without one of the executable; OBJECT/ all of one;
 * @ADDRESS:BYTES; ^ the heap that brk(2) makes larger; _ the first thread's stack; <PATH
 * what is mapped of a file from now on;
 * *OBJECT/+OFFSET:BYTES,OFFSET:BYTES blocks that calls ask for which return into that code, behind
 * its first byte. %KINDS, in front of them, is what is recorded of all; !INODE:DEVICE which file the
 * executable is. unmade: is empty, or null. */
void dp_regions_choose(const char *list, const struct dp_ctl *ctl, struct dp_unmade *unmade) HIDDEN;

/* And those of objects that came later. */
void dp_regions_late(const struct dp_ctl *ctl) HIDDEN;

#endif
