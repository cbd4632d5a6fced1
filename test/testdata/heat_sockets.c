/* Sends and receives by all of libc's functions that do, in all ways that a call may end, by threads on
 * several cores at once, which are interrupted and cancelled, in children, too. It adds up by itself what
 * came and went, and prints that: calls that came back to it, and bytes, of receiving, then of sending. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct sums {
	uint64_t calls, bytes, untold;
};

/* Shared by processes. */
static struct all {
	struct sums in, out;
	int ready;
} *all;

static void add(struct sums *s, long calls, long bytes)
{
	__atomic_fetch_add(&s->calls, calls, __ATOMIC_RELAXED);
	__atomic_fetch_add(&s->bytes, bytes, __ATOMIC_RELAXED);
}

static long in(long n)
{
	add(&all->in, 1, n > 0 ? n : 0);
	return n;
}

static long out(long n)
{
	add(&all->out, 1, n > 0 ? n : 0);
	return n;
}

/* What is received is messages, of which each has its length. */
static int messages(struct sums *s, const struct mmsghdr *m, int n)
{
	long bytes = 0;
	for (int i = 0; i < n; i++)
		bytes += m[i].msg_len;
	add(s, 1, bytes);
	return n;
}

#define MUST(what)                                                                  \
	do {                                                                        \
		if (!(what)) {                                                      \
			fprintf(stderr, "%d: %s (%d)\n", __LINE__, #what, errno);    \
			_exit(3);                                                   \
		}                                                                   \
	} while (0)

enum { MOST = 8, ROOM = 4096 };

static void pin(int cpu)
{
	cpu_set_t mine, may;
	CPU_ZERO(&mine);
	sched_getaffinity(0, sizeof may, &may);
	int n = CPU_COUNT(&may), k = cpu % n;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &may) && k-- == 0)
			CPU_SET(i, &mine);
	sched_setaffinity(0, sizeof mine, &mine);
}

/* All ways, on a pair of datagram sockets, or of streams. */
static void ways(int type, unsigned seed)
{
	int pair[2];
	char from[ROOM], to[ROOM];
	MUST(socketpair(AF_UNIX, type, 0, pair) == 0);
	memset(from, 1, sizeof from);
	for (int i = 0; i < 50; i++) {
		size_t n = 1 + rand_r(&seed) % 700;
		struct iovec part[3] = {{from, n / 3}, {from + n / 3, 0}, {from + n / 3, n - n / 3}};
		struct msghdr head = {.msg_iov = part, .msg_iovlen = 3};
		struct iovec room[3] = {{to, 5}, {to + 5, 100}, {to + 105, sizeof to - 105}};
		struct msghdr back = {.msg_iov = room, .msg_iovlen = 3};
		MUST(out(send(pair[0], from, n, 0)) == (long)n);
		MUST(in(recv(pair[1], to, sizeof to, 0)) == (long)n);
		MUST(out(sendto(pair[0], from, n, 0, 0, 0)) == (long)n);
		MUST(in(recvfrom(pair[1], to, sizeof to, 0, 0, 0)) == (long)n);
		MUST(out(sendmsg(pair[0], &head, 0)) == (long)n);
		MUST(in(recv(pair[1], to, sizeof to, MSG_PEEK)) == (long)n);
		MUST(in(recvmsg(pair[1], &back, 0)) == (long)n);
		MUST(in(recv(pair[1], to, sizeof to, MSG_DONTWAIT)) == -1 && errno == EAGAIN);
		MUST(out(send(pair[0], from, n, 0)) == (long)n);
		size_t less = 1 + rand_r(&seed) % n; /* a part, and of a datagram the rest is lost */
		MUST(in(recv(pair[1], to, less, 0)) == (long)less);
		if (type == SOCK_STREAM && less < n)
			MUST(in(recv(pair[1], to, sizeof to, 0)) == (long)(n - less));
		MUST(out(send(pair[0], from, n, 0)) == (long)n);
		MUST(in(recv(pair[1], (char *)8, n, 0)) == -1 && errno == EFAULT);
		in(recv(pair[1], to, sizeof to, MSG_DONTWAIT)); /* whatever is left */
		MUST(out(send(pair[0], (char *)8, n, 0)) == -1 && errno == EFAULT);
		MUST(out(sendmsg(pair[0], (struct msghdr *)8, 0)) == -1 && errno == EFAULT);
		MUST(in(recvmsg(pair[1], (struct msghdr *)8, MSG_DONTWAIT)) == -1);
		if (type == SOCK_DGRAM) {
			MUST(out(send(pair[0], from, 0, 0)) == 0);
			MUST(in(recv(pair[1], to, sizeof to, 0)) == 0);
		}
	}
	MUST(out(send(-1, from, 1, 0)) == -1 && errno == EBADF);
	MUST(in(recv(-1, to, 1, 0)) == -1 && errno == EBADF);
	close(pair[0]);
	if (type == SOCK_STREAM) {
		MUST(out(send(pair[1], from, 1, MSG_NOSIGNAL)) == -1 && errno == EPIPE);
		MUST(in(recv(pair[1], to, 1, 0)) == 0);
	}
	close(pair[1]);
}

/* Several messages at once: all, more than are read at once, and some of those that were asked for. */
static void many(unsigned seed)
{
	enum { N = 20 };
	int pair[2];
	static _Thread_local char data[N][64];
	struct iovec part[N];
	struct mmsghdr on_stack[N], *m = seed % 2 ? on_stack : malloc(sizeof on_stack);
	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	for (int i = 0; i < 40; i++) {
		int n = 1 + rand_r(&seed) % 8; /* what a queue holds */
		memset(m, 0, sizeof on_stack);
		for (int k = 0; k < N; k++) {
			part[k] = (struct iovec){data[k], 1 + rand_r(&seed) % sizeof data[k]};
			m[k].msg_hdr = (struct msghdr){.msg_iov = &part[k], .msg_iovlen = 1};
		}
		MUST(messages(&all->out, m, sendmmsg(pair[0], m, n, MSG_DONTWAIT)) == n);
		for (int k = 0; k < N; k++) {
			m[k].msg_len = 1 << 20; /* as in what nothing came to */
			part[k].iov_len = sizeof data[k];
		}
		MUST(messages(&all->in, m, recvmmsg(pair[1], m, N, MSG_DONTWAIT, 0)) == n);
		MUST(messages(&all->in, m, recvmmsg(pair[1], m, N, MSG_DONTWAIT, 0)) == -1);
		MUST(messages(&all->out, 0, sendmmsg(pair[0], (struct mmsghdr *)8, 2, 0)) == -1 && errno == EFAULT);
	}
	close(pair[0]);
	close(pair[1]);
	/* By UDP a queue holds more. */
	int s = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, who;
	socklen_t size = sizeof at;
	MUST(bind(to, (struct sockaddr *)&at, size) == 0 && getsockname(to, (struct sockaddr *)&at, &size) == 0);
	for (int i = 0; i < 10; i++) {
		MUST(out(sendto(s, data, 33, 0, (struct sockaddr *)&at, size)) == 33);
		socklen_t length = sizeof who;
		MUST(in(recvfrom(to, data, sizeof data, 0, (struct sockaddr *)&who, &length)) == 33);
		memset(m, 0, sizeof on_stack);
		for (int k = 0; k < N; k++) {
			part[k] = (struct iovec){data[k], 1 + k};
			m[k].msg_hdr = (struct msghdr){.msg_iov = &part[k], .msg_iovlen = 1, .msg_name = &at, .msg_namelen = size};
		}
		MUST(messages(&all->out, m, sendmmsg(s, m, N, 0)) == N);
		for (int k = 0; k < N; k++) {
			part[k].iov_len = sizeof data[k];
			m[k].msg_hdr.msg_name = 0, m[k].msg_hdr.msg_namelen = 0;
		}
		for (int n = 0; n < N;)
			n += messages(&all->in, m, recvmmsg(to, m, N - n, MSG_WAITFORONE, 0));
	}
	/* More than there is room for: the length is of what there was, and not of what was stored. */
	MUST(out(sendto(s, data, 33, 0, (struct sockaddr *)&at, size)) == 33);
	add(&all->in, 1, 0);
	MUST(recv(to, data, 10, MSG_TRUNC) == 33);
	__atomic_fetch_add(&all->in.untold, 1, __ATOMIC_RELAXED);
	close(s);
	close(to);
	if (m != on_stack)
		free(m);
}

static void handler(int sig) { (void)sig; }

static sigjmp_buf leaves;
static void leave(int sig) { (void)sig; siglongjmp(leaves, 1); }

static void set(int sig, void (*to)(int), int flags)
{
	struct sigaction a = {.sa_handler = to, .sa_flags = flags};
	sigaction(sig, &a, 0);
}

/* Waits until a thread sleeps in a system call, by its state. */
static void until_it_sleeps(pid_t tid)
{
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	for (;;) {
		FILE *f = fopen(path, "r");
		MUST(f && fgets(line, sizeof line, f));
		fclose(f);
		if (strrchr(line, ')')[2] == 'S')
			return;
		sched_yield();
	}
}

struct sleeper {
	int pair[2];
	pid_t tid;
	int kind;
};

static void *sleeps(void *arg)
{
	struct sleeper *s = arg;
	char to[64];
	struct iovec room = {to, sizeof to};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &room, .msg_iovlen = 1}};
	__atomic_store_n(&s->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	switch (s->kind) {
	case 0: /* it is made again, and gets what comes then */
		MUST(in(recv(s->pair[1], to, sizeof to, 0)) == 7);
		break;
	case 1: /* it ends */
		MUST(in(recvmsg(s->pair[1], &m.msg_hdr, 0)) == -1 && errno == EINTR);
		break;
	case 2: /* it is left, and does not come back */
		if (!sigsetjmp(leaves, 1))
			recvfrom(s->pair[1], to, sizeof to, 0, 0, 0);
		break;
	case 3: /* as well */
		recv(s->pair[1], to, sizeof to, 0);
		break;
	case 4:
		recvmmsg(s->pair[1], &m, 1, 0, 0);
		break;
	}
	return 0;
}

static void interrupted(void)
{
	char from[7] = {0};
	for (int i = 0; i < 25; i++) {
		struct sleeper s = {.kind = i % 5};
		pthread_t t;
		void *end;
		MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s.pair) == 0);
		MUST(pthread_create(&t, 0, sleeps, &s) == 0);
		while (!__atomic_load_n(&s.tid, __ATOMIC_ACQUIRE))
			sched_yield();
		until_it_sleeps(s.tid);
		set(SIGUSR1, s.kind == 2 ? leave : handler, s.kind == 0 ? SA_RESTART : 0);
		if (s.kind < 3)
			pthread_kill(t, SIGUSR1);
		else
			pthread_cancel(t);
		if (s.kind == 0) {
			until_it_sleeps(s.tid);
			MUST(out(send(s.pair[0], from, sizeof from, 0)) == sizeof from);
		}
		pthread_join(t, &end);
		MUST((end == PTHREAD_CANCELED) == (s.kind >= 3));
		close(s.pair[0]);
		close(s.pair[1]);
	}
}

/* Signals all the time, while bytes come and go in pieces. */
static int stop;
static void *strikes(void *arg)
{
	pthread_t t = *(pthread_t *)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		pthread_kill(t, SIGUSR2);
		sched_yield();
	}
	return 0;
}

static void *streams_out(void *arg)
{
	static char from[100000];
	int fd = *(int *)arg;
	pin(1);
	for (long left = 3000000; left > 0;) {
		long n = out(send(fd, from, left < (long)sizeof from ? (size_t)left : sizeof from, 0));
		MUST(n > 0 || errno == EINTR);
		left -= n > 0 ? n : 0;
	}
	shutdown(fd, SHUT_WR);
	return 0;
}

static void struck(void)
{
	static char to[70000];
	int pair[2];
	pthread_t t, u, self = pthread_self();
	set(SIGUSR2, handler, 0);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pthread_create(&t, 0, streams_out, &pair[0]);
	pthread_create(&u, 0, strikes, &self);
	for (long n = 1; n != 0;) {
		n = in(recv(pair[1], to, sizeof to, MSG_WAITALL));
		MUST(n >= 0 || errno == EINTR);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(u, 0);
	pthread_join(t, 0);
	close(pair[0]);
	close(pair[1]);
}

static void *thread(void *arg)
{
	unsigned k = (unsigned)(uintptr_t)arg;
	pin(k);
	ways(SOCK_STREAM, k);
	ways(SOCK_DGRAM, k);
	many(k);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t t[MOST];
	all = mmap(0, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	thread(0); /* alone libc makes calls that no thread can be cancelled in */
	pid_t child = fork();
	if (child == 0) {
		thread((void *)1);
		_exit(0);
	}
	waitpid(child, 0, 0);
	if (vfork() == 0) {
		char c = 0;
		out(send(-1, &c, 1, 0));
		_exit(0);
	}
	for (int i = 0; i < MOST; i++)
		pthread_create(&t[i], 0, thread, (void *)(uintptr_t)i);
	for (int i = 0; i < MOST; i++)
		pthread_join(t[i], 0);
	interrupted();
	struck();
	child = fork();
	if (child == 0) {
		thread((void *)2);
		kill(getpid(), SIGKILL);
	}
	waitpid(child, 0, 0);
	printf("%lu %lu %lu %lu %lu %lu\n", all->in.calls, all->in.bytes, all->in.untold, all->out.calls, all->out.bytes, all->out.untold);
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "kill") == 0)
		raise(SIGKILL);
	return 0;
}
