#include "base/sidestack.h"

uint8_t dp_small_stacks HIDDEN;
uint32_t dp_side_stacks_taken HIDDEN = DP_NO_SIDE_STACKS;
uint8_t dp_side_stacks[DP_SIDE_STACKS][1 << DP_SIDE_STACK_SHIFT] HIDDEN __attribute__((aligned(16)));
