/* A program for any C library: its environment, threads and children. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *square(void *arg)
{
	return (void *)((long)arg * (long)arg);
}

int main(void)
{
	for (long i = 0; i < 3; i++) {
		pthread_t t;
		void *result = 0;
		int r = pthread_create(&t, 0, square, (void *)i);
		if (r == 0)
			pthread_join(t, &result);
		printf("thread %d %ld\n", r, (long)result);
	}
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		_exit(4);
	int status = 0;
	waitpid(pid, &status, 0);
	printf("child %d\n", WEXITSTATUS(status));
	fflush(stdout);
	return system("env | sort") == 0 ? 6 : 5;
}
