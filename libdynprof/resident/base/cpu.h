/* What the CPU has, and the system has enabled. */
#ifndef DYNPROF_CPU_H
#define DYNPROF_CPU_H

#include <stdint.h>

#include "base/raw.h"

struct dp_cpu {
	uint8_t avx, avx512;  /* vectors of 256 and of 512 bits, with mask registers of 16 */
	uint8_t words;        /* mask registers of 64 bits, with both (AVX512BW) */
	uint8_t masks;        /* pext, in a few cycles */
	uint32_t state;       /* bytes that xsave takes for all that is enabled; 0 if it is not */
};

/* It is asked once. A program may have that refused (ARCH_SET_CPUID), so that a question is a
 * fault: whoever will need to know asks at the start, before it runs. */
const struct dp_cpu *dp_cpu(void) HIDDEN;

#endif
