/* A program that replaces text of its own, or of a library, by pieces: textgone HOW
 * [LIBRARY]. Without a library it is linked with the text. It runs all functions
 * after each change, and prints what they return.
 *
 *	forget	madvise(MADV_DONTNEED): each page, then all
 *	map	mmap of the file over each page
 *	remap	mremap of the file's page over each page
 *	away	mremap of each page to elsewhere and back
 *	pages	mremap of a copy over each page
 *	unmap	munmap of a page of padding
 *	hide	memory without rights over that page
 *	copy	a copy in place of all, as for large pages
 *	threads	forget and map, while threads run there
 *	fork	map in a child
 *	libc	mmap of the file over each page of libc, then a thread and a child
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pieces.h"

enum { PAGE = 4096, RX = PROT_READ | PROT_EXEC, THREADS = 2 };

static long (*run)(void);
static struct pieces text;
static int file;

__attribute__((noipa)) static void calm(long i)
{
	if (i % 4 == 0)
		printf("%ld: %lx\n", i, run());
	else
		run();
}

static void must(int ok)
{
	if (!ok) {
		perror("textgone");
		exit(1);
	}
}

static void map_page(char *at)
{
	must(mmap(at, PAGE, RX, MAP_PRIVATE | MAP_FIXED, file, text.offset + (at - text.low)) == at);
}

static void forget_page(char *at) { must(madvise(at, PAGE, MADV_DONTNEED) == 0); }

static void remap_page(char *at)
{
	char *other = mmap(0, PAGE, RX, MAP_PRIVATE, file, text.offset + (at - text.low));
	must(other != MAP_FAILED && mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
}

static void each_page(void (*change)(char *))
{
	long i = 0;
	for (char *at = text.low; at < text.high; at += PAGE) {
		change(at);
		calm(i++);
	}
}

static void forget(void)
{
	each_page(forget_page);
	must(madvise(text.low, (size_t)(text.high - text.low), MADV_DONTNEED) == 0);
	calm(0);
	printf("%d %d\n", madvise(text.low + 1, PAGE, MADV_DONTNEED), madvise(text.low, 0, MADV_DONTNEED));
}

static void away_page(char *at)
{
	char *other = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
	must(mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
}

static void copy_page(char *at)
{
	char *other = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(other != MAP_FAILED);
	memcpy(other, at, PAGE);
	must(mprotect(other, PAGE, RX) == 0);
	must(mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
}

static void copy(void)
{
	size_t size = (size_t)(text.high - text.low);
	char *other = malloc(size);
	memcpy(other, text.low, size);
	must(mmap(text.low, size, RX | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == text.low);
	memcpy(text.low, other, size);
	must(mprotect(text.low, size, RX) == 0);
	calm(0);
}

/* ---- threads ---------------------------------------------------------- */

static volatile int over;

static void *runs(void *arg)
{
	long *sum = arg;
	*sum = run();
	while (!over)
		if (run() != *sum)
			*sum = 0;
	return 0;
}

static void threads(void)
{
	pthread_t t[THREADS];
	long sums[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, runs, &sums[i]);
	for (int i = 0; i < 3; i++)
		each_page(forget_page);
	each_page(map_page);
	over = 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], 0);
		printf("%lx\n", sums[i]);
	}
}

/* ---- others ----------------------------------------------------------- */

static void in_child(void)
{
	if (fork() == 0) {
		each_page(map_page);
		exit(0);
	}
	int status;
	wait(&status);
	calm(0);
	printf("%x\n", status);
}

static int look_at_libc(struct dl_phdr_info *i, size_t size, void *arg)
{
	(void)size, (void)arg;
	if (!strstr(i->dlpi_name, "libc.so.6"))
		return 0;
	for (int k = 0; k < i->dlpi_phnum; k++) {
		const ElfW(Phdr) *h = &i->dlpi_phdr[k];
		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
			continue;
		text.low = (char *)((i->dlpi_addr + h->p_vaddr) & -PAGE);
		text.high = (char *)((i->dlpi_addr + h->p_vaddr + h->p_memsz + PAGE - 1) & -PAGE);
		text.offset = (long)h->p_offset & -PAGE;
		text.file = i->dlpi_name;
	}
	return 1;
}

static void *runs_once(void *arg)
{
	calm(0);
	return arg;
}

static void of_libc(void)
{
	pthread_t t;
	dl_iterate_phdr(look_at_libc, 0);
	file = open(text.file, O_RDONLY);
	for (char *at = text.low; at < text.high; at += PAGE)
		map_page(at);
	pthread_create(&t, 0, runs_once, 0);
	pthread_join(t, 0);
	in_child();
}

__attribute__((weak)) long pieces_run(void);
__attribute__((weak)) void pieces_where(struct pieces *p);

static void find(const char *library)
{
	void (*where)(struct pieces *) = pieces_where;
	run = pieces_run;
	if (library) {
		void *l = dlopen(library, RTLD_NOW);
		must(l != 0);
		run = (long (*)(void))dlsym(l, "pieces_run");
		where = (void (*)(struct pieces *))dlsym(l, "pieces_where");
	}
	where(&text);
	file = open(text.file, O_RDONLY);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	setvbuf(stdout, 0, _IONBF, 0);
	find(argc > 2 ? argv[2] : 0);
	calm(0);
	if (!strcmp(how, "forget"))
		forget();
	else if (!strcmp(how, "map"))
		each_page(map_page);
	else if (!strcmp(how, "remap"))
		each_page(remap_page);
	else if (!strcmp(how, "away"))
		each_page(away_page);
	else if (!strcmp(how, "pages"))
		each_page(copy_page);
	else if (!strcmp(how, "unmap"))
		must(munmap(text.spare, PAGE) == 0);
	else if (!strcmp(how, "hide"))
		must(mmap(text.spare, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == text.spare);
	else if (!strcmp(how, "copy"))
		copy();
	else if (!strcmp(how, "threads"))
		threads();
	else if (!strcmp(how, "fork"))
		in_child();
	else if (!strcmp(how, "libc"))
		of_libc();
	calm(0);
	return 3;
}
