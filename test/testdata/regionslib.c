/* With -DMAIN a program that calls the library's step ten times. */
void step(void);
#ifdef MAIN
int main(void)
{
	for (int i = 0; i < 10; i++)
		step();
	return 0;
}
#else
int counter = 1;
void step(void) { counter++; }
#endif
