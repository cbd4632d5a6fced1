/* A library for late.c whose functions only a trap serves (traps.S). */
void trap_ret(void), trap_arrival(void), trap_loop(int);

int late_work(int n)
{
	for (int i = 0; i < n; i++) {
		trap_ret();
		trap_arrival();
		trap_loop(2);
	}
	return n;
}
