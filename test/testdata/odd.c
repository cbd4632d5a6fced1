/* Calls the functions of odd.S and prints what they return and how often each
 * was entered ("calls NAME NUMBER"), worked out by hand from odd.S. */
#include <stdio.h>

typedef long odd(long a, long b, long c, long d); /* d is in rcx */

#define ALL \
	X(odd_1byte) X(odd_2bytes) X(odd_3bytes) X(odd_int3_padding) X(odd_narrow) X(odd_narrow_next) \
	X(odd_falls) X(odd_falls_on) X(odd_fallen_into) X(odd_falls_far) X(odd_fallen_into_far) \
	X(odd_outer) X(odd_outer_middle) \
	X(odd_loop_short) X(odd_loop_endbr) X(odd_loop_insn) X(odd_loop_long) X(odd_loop_calls) \
	X(odd_loop_stuck) X(odd_loop_cold) X(odd_loop_table) X(odd_loop_window) X(odd_recursive) \
	X(odd_jmp) X(odd_jmp_short) X(odd_jmp_target) X(odd_jcc) X(odd_jcc_target) X(odd_jcc_far) \
	X(odd_jmp_bnd) X(odd_jmp_memory) X(odd_call) X(odd_where) X(odd_call_prefixed) X(odd_call_memory) \
	X(odd_call_register) X(odd_by_ret) X(odd_pc) X(odd_table) \
	X(odd_carry) X(odd_set_carry) X(odd_flags) X(odd_flags_live) X(odd_set_flags) \
	X(odd_red_zone) X(odd_red_zone_end) X(odd_keep) X(odd_registers) \
	X(odd_rip_load) X(odd_rip_compare) X(odd_rip_store) X(odd_rip_lea)

#define X(name) odd name;
ALL
#undef X

enum {
#define X(name) id_##name,
	ALL
#undef X
	FUNCTIONS
};

static const char *const names[] = {
#define X(name) #name,
	ALL
#undef X
};

static long entered[FUNCTIONS];
static odd *volatile function;

/* Makes the call and notes it. */
#define CALL(name, ...) (function = name, entered[id_##name]++, function(__VA_ARGS__))
/* The call also enters another, n times. */
#define ENTERS(name, n) entered[id_##name] += (n)

static void shorts(void)
{
	for (int i = 0; i < 10; i++) {
		CALL(odd_1byte, 0, 0, 0, 0);
		CALL(odd_2bytes, 0, 0, 0, 0);
		CALL(odd_3bytes, 0, 0, 0, 0);
		CALL(odd_int3_padding, 0, 0, 0, 0);
		CALL(odd_narrow, i, 0, 0, 0);
	}
	printf("narrow %ld\n", CALL(odd_narrow_next, 5, 0, 0, 0));
}

static void falls(void)
{
	long sum = 0;
	for (int i = 0; i < 7; i++)
		sum += CALL(odd_falls, i, 0, 0, 0); /* and on, and in */
	ENTERS(odd_falls_on, 7);
	sum += CALL(odd_falls_on, 1, 0, 0, 0);
	ENTERS(odd_fallen_into, 8);
	sum += CALL(odd_fallen_into, 1, 0, 0, 0);
	sum += CALL(odd_falls_far, 1, 0, 0, 0);
	sum += CALL(odd_falls_far, 2, 0, 0, 0);
	ENTERS(odd_fallen_into_far, 2);
	sum += CALL(odd_fallen_into_far, 1, 0, 0, 0);
	printf("falls %ld\n", sum);

	sum = 0;
	for (int i = -2; i < 9; i++)
		sum += CALL(odd_outer, i, 0, 0, 0); /* always goes through the middle */
	ENTERS(odd_outer_middle, 11);
	CALL(odd_outer_middle, 4, 0, 0, 0);
	printf("outer %ld\n", sum);
}

static void loops(void)
{
	for (int n = 1; n < 20; n++) {
		CALL(odd_loop_short, n, 0, 0, 0);
		CALL(odd_loop_endbr, n, 0, 0, 0);
		CALL(odd_loop_insn, 0, 0, 0, n);
		CALL(odd_loop_long, n, 0, 0, 0);
		CALL(odd_loop_calls, n, 0, 0, 0);
		ENTERS(odd_1byte, n);
		CALL(odd_loop_stuck, n, 0, 0, 0);
		ENTERS(odd_1byte, n);
		CALL(odd_loop_cold, n, 0, 0, 0);
		CALL(odd_loop_table, n, 0, 0, 0);
		CALL(odd_loop_window, n, 0, 0, 0);
	}
	CALL(odd_recursive, 9, 0, 0, 0); /* a binary tree of 9 levels */
	ENTERS(odd_recursive, (1 << 9) - 2);
}

static void transfers(void)
{
	printf("jmp %ld", CALL(odd_jmp, 21, 0, 0, 0));
	ENTERS(odd_fallen_into, 1);
	printf(" %ld", CALL(odd_jmp_short, 1, 0, 0, 0));
	printf(" %ld", CALL(odd_jmp_bnd, 2, 0, 0, 0));
	printf(" %ld", CALL(odd_jmp_memory, 3, 0, 0, 0));
	printf(" %ld", CALL(odd_by_ret, 4, 0, 0, 0));
	ENTERS(odd_jmp_target, 4);
	printf(" %ld", CALL(odd_jmp_target, 5, 0, 0, 0));
	for (long i = 0; i < 4; i++) {
		printf(" %ld", CALL(odd_jcc, 0, 0, 0, i)); /* jumps where rcx is 0 */
		printf(" %ld", CALL(odd_jcc_far, i % 2, 0, 0, 0)); /* where edi is not */
	}
	ENTERS(odd_jcc_target, 1 + 2);
	printf("\ncall %ld", CALL(odd_call, 0, 0, 0, 0));
	printf(" %ld", CALL(odd_call_prefixed, 0, 0, 0, 0));
	printf(" %ld", CALL(odd_call_memory, 0, 0, 0, 0));
	ENTERS(odd_where, 3);
	CALL(odd_call_register, (long)odd_2bytes, 0, 0, 0);
	ENTERS(odd_2bytes, 1);
	printf(" %ld", CALL(odd_pc, 0, 0, 0, 0));
	for (long i = 0; i < 7; i++)
		printf(" %d", i % 4 < 3 ? (int)CALL(odd_table, i, 0, 0, 0) : (CALL(odd_table, i, 0, 0, 0), 0));
	ENTERS(odd_jmp_target, 2);
	ENTERS(odd_1byte, 1);
	puts("");
}

static void state(void)
{
	printf("carry %ld", CALL(odd_set_carry, 0, 0, 0, 0));
	ENTERS(odd_carry, 2);
	printf(" flags %ld", CALL(odd_set_flags, 0, 0, 0, 0));
	ENTERS(odd_flags_live, 2);
	CALL(odd_flags, 0, 0, 0, 0);
	printf(" red zone %ld", CALL(odd_red_zone, 1000, 0, 0, 0));
	ENTERS(odd_red_zone_end, 1);
	printf(" registers %ld\n", CALL(odd_registers, 0, 0, 0, 0));
	ENTERS(odd_keep, 1);
	printf("rip %lx", CALL(odd_rip_load, 0, 0, 0, 0));
	printf(" %ld", CALL(odd_rip_compare, 0, 0, 0, 0));
	printf(" %ld", CALL(odd_rip_store, 0, 0, 0, 0));
	printf(" %ld\n", CALL(odd_rip_lea, 0, 0, 0, 0));
	ENTERS(odd_1byte, 3);
}

int main(void)
{
	shorts();
	falls();
	loops();
	transfers();
	state();
	for (int i = 0; i < FUNCTIONS; i++)
		printf("calls %s %ld\n", names[i], entered[i]);
	return 0;
}
