/* Accesses of two bytes to known places: data, bss, the stack of the first thread, and of another. It
 * says where these are, and where the first thread's stack ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile short data[4] = {1, 2, 3, 4}, bss[4];

static void *locals(void *unused)
{
	volatile short local[64];
	for (int i = 0; i < 64; i++)
		local[i] = (short)i;
	return unused;
}

static void *deep(void *to)
{
	volatile char much[6 << 20]; /* further than the stack has been */
	volatile short local[64];
	much[0] = much[sizeof much - 1] = 0;
	for (int i = 0; i < 64; i++)
		local[i] = (short)i;
	return to;
}

int main(void)
{
	char line[256];
	unsigned long low, high = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, "[stack]"))
			sscanf(line, "%lx-%lx", &low, &high);
	for (int i = 0; i < 4; i++)
		bss[i] += data[i];
	locals(0);
	deep(0);
	pthread_t t;
	if (pthread_create(&t, 0, locals, 0) != 0)
		return 1;
	pthread_join(t, 0);
	printf("%#lx %#lx %#lx\n", (unsigned long)data, (unsigned long)bss, high);
	return 0;
}
