/* Texts that a program hands to what dynprof.h has. */
#ifndef DYNPROF_API_TEXTS_H
#define DYNPROF_API_TEXTS_H

#include "base/raw.h"

/* Copies a text that may be nowhere, cut to fit; -EFAULT: it is. */
long dp_read_name(char *to, size_t room, const char *from) HIDDEN;

#endif
