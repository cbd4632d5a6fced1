/* A library with lines. */
int late_leaf(int a)
{
	return a + 1;
}

int late_loop(int n)
{
	int s = 0;
	for (int i = 0; i < n; i++)
		s += late_leaf(i) ^ i;
	return s;
}

int (*late_pointer)(int) = late_leaf;
