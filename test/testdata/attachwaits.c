/* Threads wait in system calls that are interrupted by whoever stops them, each for what does not
 * come, and count how often they were told EINTR. "ready"; at the end of stdin a line NAME TIMES
 * for each that was.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int polled, sems, queue, pair[2], full[2], listener, pipes[2];
static sigset_t nothing;
static const struct timespec hour = {3600, 0};

static long in_epoll_wait(void) { struct epoll_event e; return epoll_wait(polled, &e, 1, -1); }
static long in_epoll_pwait(void) { struct epoll_event e; return epoll_pwait(polled, &e, 1, 3600000, &nothing); }
static long in_semop(void) { struct sembuf b = {0, -1, 0}; return semop(sems, &b, 1); }
static long in_semtimedop(void) { struct sembuf b = {0, -1, 0}; return semtimedop(sems, &b, 1, &hour); }
static long in_sigtimedwait(void) { return sigtimedwait(&nothing, 0, &hour); }
static long in_sigwaitinfo(void) { return sigwaitinfo(&nothing, 0); }
static long in_recv(void) { char c; return recv(pair[0], &c, 1, 0); }
static long in_preadv2(void) { char c; struct iovec v = {&c, 1}; return preadv2(pair[0], &v, 1, -1, 0); }
static long in_pwritev2(void) { char c = 0; struct iovec v = {&c, 1}; return pwritev2(full[0], &v, 1, -1, 0); }
static long in_splice(void) { return splice(pair[0], 0, pipes[1], 0, 1, 0); }
static long in_sendfile(void) { return sendfile(full[0], open("/proc/self/exe", O_RDONLY), 0, 1); }
static long in_accept(void) { return accept(listener, 0, 0); }
static long in_poll(void) { return poll(0, 0, -1); }
static long in_ppoll(void) { return ppoll(0, 0, &hour, &nothing); }
static long in_select(void) { struct timeval t = {3600, 0}; return select(0, 0, 0, 0, &t); }
static long in_nanosleep(void) { return nanosleep(&hour, 0); }
static long in_clock_nanosleep(void) { errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, 0); return errno ? -1 : 0; }
static long in_msgrcv(void) { char m[64]; return msgrcv(queue, m, 8, 0, 0); }
static long in_futex(void) { int word = 0; return syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0); }
static long in_futex_timed(void) { int word = 0; return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &hour, 0, 0); }
static long in_pause(void) { return pause(); }
static long in_sigsuspend(void) { return sigsuspend(&nothing); }
static long in_inotify(void) { char b[512]; return read(inotify_init(), b, sizeof b); }

#define ONE(x) {#x, in_##x, 0}
static struct {
	const char *name;
	long (*wait)(void);
	unsigned long told;
} all[] = {
	ONE(epoll_wait), ONE(epoll_pwait), ONE(semop), ONE(semtimedop), ONE(sigtimedwait), ONE(sigwaitinfo), ONE(recv), ONE(preadv2), ONE(pwritev2), ONE(splice), ONE(sendfile), ONE(accept), ONE(poll), ONE(ppoll),
	ONE(select), ONE(nanosleep), ONE(clock_nanosleep), ONE(msgrcv), ONE(futex), ONE(futex_timed), ONE(pause), ONE(sigsuspend), ONE(inotify),
};
enum { COUNT = sizeof all / sizeof *all };

static void *waits(void *arg)
{
	long n = (long)arg;
	for (;;)
		if (all[n].wait() < 0 && errno == EINTR)
			all[n].told++;
		else
			all[n].told += 1000; /* it has come back otherwise */
	return 0;
}

int main(void)
{
	pthread_t t;
	struct timeval limit = {3600, 0};
	polled = epoll_create1(0);
	sems = semget(IPC_PRIVATE, 1, 0600);
	queue = msgget(IPC_PRIVATE, 0600);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	socketpair(AF_UNIX, SOCK_STREAM, 0, full);
	setsockopt(full[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	while (send(full[0], &limit, sizeof limit, MSG_DONTWAIT) > 0)
		;
	if (pipe(pipes))
		return 2;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (sems < 0 || queue < 0 || listen(listener, 1))
		return 2;
	for (long i = 0; i < COUNT; i++)
		pthread_create(&t, 0, waits, (void *)i);
	usleep(200000);
	printf("ready\n");
	fflush(stdout);
	getchar();
	for (int i = 0; i < COUNT; i++)
		if (all[i].told)
			printf("%s %lu\n", all[i].name, all[i].told);
	semctl(sems, 0, IPC_RMID);
	msgctl(queue, IPC_RMID, 0);
	return 0;
}
