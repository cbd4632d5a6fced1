/* Loads N libraries, DIR/0.so and so on, and calls step in each. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int sum = 0;
	if (argc < 3)
		return 2;
	for (int i = 0; i < atoi(argv[2]); i++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/%d.so", argv[1], i);
		void *library = dlopen(path, RTLD_NOW);
		int (*step)(int) = (int (*)(int))(library ? dlsym(library, "step") : 0);
		if (!step)
			return 3;
		sum = step(sum);
	}
	printf("%d\n", sum);
	return 0;
}
