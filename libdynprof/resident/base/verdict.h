/* What seccomp filters say. */
#ifndef DYNPROF_VERDICT_H
#define DYNPROF_VERDICT_H

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/raw.h"

/* The verdict of a filter of len instructions, SECCOMP_RET_KILL_PROCESS if it cannot be
 * told. */
uint32_t dp_verdict(const struct sock_filter *code, uint32_t len, const struct seccomp_data *data) HIDDEN;

/* Whether a filter does no more to a system call of x86-64 than let it through or refuse it, as
 * far as its code tells: it ends no process, nor has others answer. reached has room for
 * BPF_MAXINSNS bytes. */
int dp_only_refuses(const struct sock_filter *code, uint32_t len, uint8_t *reached) HIDDEN;

#endif
