/* Has the kernel keep threads of its own in this process: a request of io_uring that waits
 * for a pipe, in a thread iou-wrk, and with "poll" iou-sqp, too, which looks for requests.
 * "begin" makes the request, "call" calls work a thousand times, "end" lets the pipe have a
 * byte, and says what has come of the request. */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct io_uring_params params;
static int ring = -1, from[2], to[2];
static char *completions;

static __attribute__((noinline)) long work(long a)
{
	__asm__ volatile("");
	return a + 1;
}

static void *map(size_t size, off_t what)
{
	return mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
}

static int waits_in_kernel(void)
{
	char name[300], line[64] = "";
	int found = 0;
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(name, sizeof name, "/proc/self/task/%s/wchan", e->d_name);
		FILE *f = fopen(name, "r");
		if (f && fgets(line, sizeof line, f) && strstr(line, "pipe"))
			found = 1;
		if (f)
			fclose(f);
	}
	closedir(d);
	return found;
}

static const char *begin(int poll)
{
	params.flags = poll ? IORING_SETUP_SQPOLL : 0;
	params.sq_thread_idle = 50; /* ms, then it sleeps */
	ring = (int)syscall(SYS_io_uring_setup, 8, &params);
	if (ring < 0 || pipe(from) != 0 || pipe(to) != 0)
		return "none";
	char *queue = map(params.sq_off.array + params.sq_entries * 4, IORING_OFF_SQ_RING);
	completions = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	struct io_uring_sqe *request = map(params.sq_entries * sizeof *request, IORING_OFF_SQES);
	if (queue == MAP_FAILED || completions == MAP_FAILED || request == MAP_FAILED)
		return "none";
	memset(request, 0, sizeof *request);
	request->opcode = IORING_OP_SPLICE; /* what waits for a pipe in a thread */
	request->splice_fd_in = from[0];
	request->splice_off_in = request->off = (uint64_t)-1;
	request->fd = to[1];
	request->len = 1;
	uint32_t *tail = (uint32_t *)(queue + params.sq_off.tail);
	((uint32_t *)(queue + params.sq_off.array))[*tail & *(uint32_t *)(queue + params.sq_off.ring_mask)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 0, poll ? IORING_ENTER_SQ_WAKEUP : 0, NULL, 0);
	for (int i = 0; i < 10000; i++, usleep(1000))
		if (waits_in_kernel())
			return "waits";
	return "none";
}

static int result(void)
{
	uint32_t *tail = (uint32_t *)(completions + params.cq_off.tail);
	if (write(from[1], "x", 1) != 1)
		return -1;
	syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	while (!__atomic_load_n(tail, __ATOMIC_ACQUIRE))
		usleep(1000);
	return ((struct io_uring_cqe *)(completions + params.cq_off.cqes))->res;
}

int main(int argc, char **argv)
{
	char line[64];
	(void)argv;
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "begin\n"))
			puts(begin(argc > 1));
		if (!strcmp(line, "call\n")) {
			for (long i = 0; i < 1000;)
				i = work(i);
			puts("called");
		}
		if (!strcmp(line, "end\n")) {
			printf("%d\n", result());
			return 0;
		}
	}
	return 1;
}
