/* Files that can be mapped without fear. */
#ifndef DYNPROF_LOCAL_H
#define DYNPROF_LOCAL_H

#include "base/raw.h"

/* Whether a file is on a file system of this machine's: it stays readable to who has it
 * mapped when it is removed, and no other machine makes it shorter. */
int dp_is_local(long fd) HIDDEN;

#endif
