#include "sites/slowpath.h"
#include "sites/transfers.h"
#include "table/heat.h"

uint64_t dp_transfers_entry(void) { return dp_heat_how() != DP_HEAT_NONE ? (uint64_t)&dp_transfer_site : 0; }
