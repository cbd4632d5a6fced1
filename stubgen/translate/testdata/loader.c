/* Loads what run_test.go has made of a program, in the program: copies and counters into
 * an arena, patches into its text. At the end the counters go to a file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct head {
	uint64_t arena, room, code, counters, count, patches, text, text_size;
};

static struct head head;

static int first(struct dl_phdr_info *info, size_t size, void *bias)
{
	(void)size;
	*(uint64_t *)bias = info->dlpi_addr;
	return 1;
}

static void die(const char *what)
{
	perror(what);
	_exit(99);
}

__attribute__((constructor)) static void load(void)
{
	uint64_t bias;
	FILE *f = fopen(getenv("TRANSLATE_BLOB"), "r");
	dl_iterate_phdr(first, &bias);
	if (!f || fread(&head, sizeof head, 1, f) != 1)
		die("blob");
	void *arena = mmap((void *)(bias + head.arena), head.room, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (arena == MAP_FAILED || fread(arena, head.code, 1, f) != 1)
		die("arena");
	if (mprotect((void *)(bias + head.text), head.text_size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		die("text");
	for (uint64_t i = 0; i < head.patches; i++) {
		uint64_t at[2];
		if (fread(at, sizeof at, 1, f) != 1 || fread((void *)(bias + at[0]), at[1], 1, f) != 1)
			die("patch");
	}
	fclose(f);
	head.counters += bias + head.arena;
	unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void save(void)
{
	int fd = open(getenv("TRANSLATE_COUNTS"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (write(fd, (void *)head.counters, head.count * 8) != (ssize_t)(head.count * 8))
		die("counts");
}
