/* Interval timers, which an exec leaves as they are: with arguments it sets them and executes these,
 * without it tells what it has. */
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

enum { TIMERS = 3, FIRST = 1000, EVERY = 2000 };

int main(int argc, char **argv)
{
	struct itimerval t = {0};
	for (int which = 0; which < TIMERS; which++) {
		if (argc > 1) {
			t.it_interval.tv_sec = EVERY + which;
			t.it_value.tv_sec = FIRST;
			setitimer(which, &t, 0);
			continue;
		}
		getitimer(which, &t);
		long left = t.it_value.tv_sec;
		printf("%d: every %ld s, %s\n", which, (long)t.it_interval.tv_sec, !left ? "off" : left > FIRST / 2 && left <= FIRST ? "as set" : "wrong");
	}
	if (argc == 1)
		return 0;
	execvp(argv[1], argv + 1);
	return 127;
}
