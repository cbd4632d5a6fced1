// full LEFT PROGRAM [ARG]...: runs the program where only LEFT more processes and
// threads can be made, the program's among them: this process has the others.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int left;
static int go[2];

static void *wait_there(void *end) {
	char c;
	if (end) read(go[0], &c, 1);
	else pause();
	return 0;
}

int main(int argc, char **argv) {
	pthread_attr_t small;
	pthread_t last[64];
	int n = 0;
	left = argc > 2 ? atoi(argv[1]) : 0;
	if (left < 1 || left > 64 || pipe(go)) return 99;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (; n < left; n++)
		if (pthread_create(&last[n], &small, wait_there, &small)) return 98;
	pthread_t other;
	while (!pthread_create(&other, &small, wait_there, 0))
		;
	for (int i = 0; i < left; i++) write(go[1], "", 1);
	for (int i = 0; i < left; i++) pthread_join(last[i], 0);
	usleep(20000); // a thread is counted until the kernel has done with it
	pid_t child = vfork();
	if (!child) {
		execv(argv[2], argv + 2);
		_exit(97);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) < 0) return 96;
	_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
