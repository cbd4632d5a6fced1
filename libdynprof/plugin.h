/* The plug-in of a program. */
#ifndef DYNPROF_PLUGIN_H
#define DYNPROF_PLUGIN_H

#include <stdint.h>

#include "base/raw.h"

/* Loads the plug-in when the program is about to begin. */
void dp_plan_plugin(const char *path, uint64_t entry) HIDDEN;

/* Whether an object asks for a translator by importing its functions. */
struct dl_phdr_info;
int dp_has_translator(const struct dl_phdr_info *info) HIDDEN;

#endif
