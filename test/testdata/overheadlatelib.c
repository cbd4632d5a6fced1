/* A function that calls nothing, and always executes as many instructions. */
int late_leaf(int x)
{
	for (volatile int i = 0; i < 7; i++)
		x += i;
	return x;
}
