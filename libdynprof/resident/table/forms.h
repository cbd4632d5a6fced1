/* Operands of which more than an address has to be worked out (stubgen/emit/form.go). */
#ifndef DYNPROF_FORMS_H
#define DYNPROF_FORMS_H

#include <stdint.h>

#include "base/raw.h"

struct dp_form;

/* The registers in front of the instruction, as dp_record_access has pushed them: up to the word that
 * rbp leads to. */
struct dp_form_registers {
	uint64_t none, r15, r14, r13, r12, rbx;
	uint64_t r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax, eflags, rbp;
};

/* The instruction at home is about to access what the forms say, with these registers, but for those that
 * are saved below rsp, as it is in front of it: rcx, and with flags rax, as what says
 * (Touch.Record). */
void dp_form_access(const struct dp_form *f, uint64_t home, uint64_t what, const struct dp_form_registers *r, const uint64_t *rsp) HIDDEN;

/* A vector register, as it is: 16 bytes of it (0), of AVX 32 (1), of AVX-512 64 (2). The CPU has it,
 * or the instruction faults for whose sake it is asked for: then nothing is stored. */
void dp_store_vector(uint64_t n, uint64_t how, void *to) HIDDEN;
/* 16 bits of a mask register, or 64. */
uint64_t dp_mask_word(uint64_t n) HIDDEN;
uint64_t dp_mask_quad(uint64_t n) HIDDEN;

#endif
