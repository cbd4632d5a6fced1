//go:build early

#include "textflag.h"

// hotspots_early_entry is hotspots_entry with the address of the runtime's table of
// signals in R15 (cmd/hotspots/internal/launch/early.go). Only a link with
// -checklinkname=0 may name that: so it is here, and by a build tag of its own.
TEXT hotspots_early_entry(SB), NOSPLIT|NOFRAME, $0
	LEAQ	runtime·sigtable(SB), R15
	JMP	hotspots_known(SB)
