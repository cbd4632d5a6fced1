/* What stubs jump to. */
#ifndef DYNPROF_SLOWPATH_H
#define DYNPROF_SLOWPATH_H

#include "base/raw.h"

void dp_cold(void) HIDDEN;
void dp_record_access(void) HIDDEN;
void dp_kernel_site(void) HIDDEN;
void dp_signal_site(void) HIDDEN;
void dp_transfer_site(void) HIDDEN;

#endif
