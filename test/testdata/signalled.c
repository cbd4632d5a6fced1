/* What becomes of signals. "-ignore CMD...", "-block CMD..." and "-default CMD..."
 * execute CMD with all signals ignored, blocked, or neither; else all are "handled", "ignored", "awaited" by a
 * thread, read from a "descriptor", or left as they are, and at the end of the input it is told how many came.
 * "left" handles them as the leader of a session of its own. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static volatile int came[65];

static void on(int sig, siginfo_t *info, void *context)
{
	char line[64];
	(void)context;
	came[sig]++;
	if (info->si_code == SI_QUEUE)
		snprintf(line, sizeof line, "got %d with %d\n", sig, info->si_value.sival_int);
	else
		snprintf(line, sizeof line, "got %d\n", sig);
	if (write(1, line, strlen(line)) < 0)
		_exit(3);
}

static void for_all(void (*handler)(int, siginfo_t *, void *), void (*plain)(int))
{
	struct sigaction a;
	memset(&a, 0, sizeof a);
	sigfillset(&a.sa_mask);
	if (handler) {
		a.sa_flags = SA_SIGINFO | SA_RESTART;
		a.sa_sigaction = handler;
	} else
		a.sa_handler = plain;
	for (int sig = 1; sig <= 64; sig++)
		sigaction(sig, &a, 0); /* refused for some */
}

static void *await(void *all)
{
	siginfo_t info;
	for (;;)
		if (sigwaitinfo(all, &info) > 0)
			on(info.si_signo, &info, 0);
	return 0;
}

static void receive(int from)
{
	struct signalfd_siginfo s;
	siginfo_t info;
	memset(&info, 0, sizeof info);
	if (read(from, &s, sizeof s) != sizeof s)
		return;
	info.si_code = s.ssi_code;
	info.si_value.sival_int = s.ssi_int;
	on(s.ssi_signo, &info, 0);
}

int main(int argc, char **argv)
{
	sigset_t all, none;
	char c;
	sigfillset(&all);
	sigemptyset(&none);
	if (argc > 2) {
		for_all(0, strcmp(argv[1], "-ignore") == 0 ? SIG_IGN : SIG_DFL);
		sigprocmask(SIG_SETMASK, strcmp(argv[1], "-block") == 0 ? &all : &none, 0);
		execv(argv[2], argv + 2);
		return 126;
	}
	if (strcmp(argv[1], "left") == 0)
		setsid();
	if (strcmp(argv[1], "handled") == 0 || strcmp(argv[1], "left") == 0)
		for_all(on, 0);
	if (strcmp(argv[1], "ignored") == 0)
		for_all(0, SIG_IGN);
	struct pollfd from[2] = {{0, POLLIN, 0}, {-1, POLLIN, 0}};
	pthread_t thread;
	sigprocmask(SIG_SETMASK, &all, 0);
	if (strcmp(argv[1], "awaited") == 0)
		pthread_create(&thread, 0, await, &all);
	else if (strcmp(argv[1], "descriptor") == 0)
		from[1].fd = signalfd(-1, &all, 0);
	else
		sigprocmask(SIG_SETMASK, &none, 0);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		if (poll(from, 2, -1) < 0)
			continue;
		if (from[1].revents)
			receive(from[1].fd);
		else if (from[0].revents && read(0, &c, 1) <= 0)
			break;
	}
	sigprocmask(SIG_SETMASK, &all, 0);
	for (int sig = 1; sig <= 64; sig++)
		if (came[sig])
			printf("%d: %d\n", sig, came[sig]);
	return 7;
}
