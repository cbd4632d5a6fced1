/* What libdynprof/bar.c writes to a terminal, which is told how it shall be. */
#include "../../libdynprof/bar.c"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

int dp_may(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d) { return (void)nr, (void)a, (void)b, (void)c, (void)d, 1; }

int main(int argc, char **argv)
{
	static struct dp_ctl ctl = {.shows = 1};
	struct dp_bar bar = {0, 0};
	struct termios t;
	const char *how = argc > 1 ? argv[1] : "";
	if (!strcmp(how, "background")) {
		pid_t child = fork();
		if (child)
			return waitpid(child, 0, WUNTRACED) != child;
		setpgid(0, 0);
	}
	if (!strcmp(how, "tostop")) {
		tcgetattr(2, &t);
		t.c_lflag |= TOSTOP;
		tcsetattr(2, TCSANOW, &t);
	}
	if (!strcmp(how, "stopped"))
		tcflow(2, TCOOFF);
	if (!strcmp(how, "unasked"))
		ctl.shows = 0;
	static const int64_t waited[] = {0, 1999, 2000, 2249, 2250, 2600};
	for (unsigned i = 0; i < sizeof waited / sizeof *waited; i++) {
		ctl.percent = 20 * i;
		dp_bar_tell(&bar, &ctl, waited[i]);
	}
	dp_bar_end(&bar);
	if (!strcmp(how, "stopped"))
		tcflow(2, TCOON);
	if (strcmp(how, "background"))
		puts("the program");
	return 0;
}
