/* What seccomp filters say. */
#ifndef DYNPROF_VERDICT_H
#define DYNPROF_VERDICT_H

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/raw.h"

/* The verdict of a filter of len instructions, SECCOMP_RET_KILL_PROCESS if it cannot be
 * told. */
uint32_t dp_verdict(const struct sock_filter *code, uint32_t len, const struct seccomp_data *data) HIDDEN;

#endif
