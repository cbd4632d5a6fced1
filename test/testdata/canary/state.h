/* What the canary test knows of the processor's state, for C and assembly. */
#define STATE_FLAGS 128
#define STATE_RED 192
#define STATE_ABOVE 320
#define STATE_XSAVE 832
#define STATE_SIZE (STATE_XSAVE + 4096)
#define STATE_RSP 32 /* of the general registers, in the order of their numbers */

#define RED_ZONE 128
#define ABOVE 512
