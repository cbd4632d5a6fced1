/* Regions of files: what the program maps of a file that a user chose is a region from then on, until
 * it is mapped no more (docs/regions.md). */
#ifndef DYNPROF_FILES_H
#define DYNPROF_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/raw.h"

/* 1: some are chosen. */
extern uint32_t dp_files_are HIDDEN;

/* Mappings of a path, of n bytes, are regions of that name. Returns 0 if there is no room. */
int dp_files_choose(const char *path, size_t n, const char *name) HIDDEN;

/* A system call is about to be made: its number and its arguments. Returns what is to be known when it has
 * been; 0: its result does not matter. */
uint32_t dp_files_before(uint32_t number, const uint64_t *arguments) HIDDEN;
/* And has been made. Any thread, and any handler. */
void dp_files_after(uint32_t number, uint32_t note, const uint64_t *arguments, long result) HIDDEN;

#endif
