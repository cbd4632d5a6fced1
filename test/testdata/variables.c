// variables PROG ARG...: executes PROG with an environment that also has what no shell makes:
// one name several times, a string without a name, one without =, an empty one.
// variables: prints its environment.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc == 1) {
		for (char **v = environ; *v; v++)
			printf("[%s]\n", *v);
		return 0;
	}
	static char *more[] = {"TWICE=1", "TWICE=2", "=nameless", "bare", "", "TWICE=1", NULL};
	int count = 0;
	while (environ[count])
		count++;
	char **all = calloc(count + sizeof more / sizeof *more, sizeof *all), **to = all;
	for (int i = 0; i < count; i++)
		*to++ = environ[i];
	for (char **v = more; *v; v++)
		*to++ = *v;
	execve(argv[1], argv + 1, all);
	perror("variables");
	return 1;
}
