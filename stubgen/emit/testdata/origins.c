/* Prints what the library reads of each record in a file: instructions, bytes of front
 * and count, and the sum of the lengths, those of copies times 256. */
#include <stdio.h>
#include <stdlib.h>

#include "stubs/arenas.h"

static void *whole(const char *path, long *size)
{
	FILE *f = fopen(path, "r");
	void *all = 0;
	if (f && fseek(f, 0, SEEK_END) == 0 && (*size = ftell(f)) > 0 && (all = malloc((size_t)*size)) != 0) {
		rewind(f);
		if (fread(all, 1, (size_t)*size, f) == (size_t)*size)
			return all;
	}
	exit(1);
}

int main(int argc, char **argv)
{
	long size = 0, n = 0;
	struct dp_known k = {0};
	if (argc != 3)
		return 2;
	k.origins = whole(argv[1], &size);
	k.lengths = whole(argv[2], &n);
	for (long i = 0; i < size / (long)sizeof *k.origins; i++) {
		struct dp_run r = dp_run_of(&k, &k.origins[i]);
		unsigned long sum = 0;
		for (uint32_t j = 0; j < r.count; j++)
			sum += r.lengths[j][0] + 256ul * r.lengths[j][1];
		printf("%u %u %lu\n", r.count, r.body, sum);
	}
	return 0;
}
