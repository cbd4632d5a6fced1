/* A library that a program loads later. Its functions know how often they are
 * called from the caller alone. */
int late_step(int n);
static int made;

__attribute__((noinline)) static void late_made(void) { made++; }

__attribute__((constructor)) static void start(void)
{
	for (int i = 0; i < 7; i++)
		late_made();
}

__attribute__((noinline)) int late_step(int n) { return made + n * 3; }

int late_work(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += late_step(i) & 1;
	return sum;
}
