/* Loads a library by itself and tells debuggers of it, as linkers do that a program brings
 * along (libhybris, Android's): behind the dynamic linker's list of objects. How, the
 * library, which needs no relocation, and another, for the dynamic linker.
 *
 *	mapped  its segments are the file's
 *	copied  they are copies of it
 *	code    that is a copy, the rest the file's
 *	data    the other way round
 *	nameless  they are copies, and no file has the name that is told
 *	nowhere  nothing is where that object is said to be
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SEGMENTS = 16 };

__attribute__((noinline, noclone)) int step(int x)
{
	__asm__ volatile("");
	return x + 1;
}

static int protection(const Elf64_Phdr *p)
{
	return (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) | (p->p_flags & PF_X ? PROT_EXEC : 0);
}

static int is_copied(const char *how, const Elf64_Phdr *p)
{
	if (!strcmp(how, "code"))
		return p->p_flags & PF_X;
	if (!strcmp(how, "data"))
		return !(p->p_flags & PF_X);
	return strcmp(how, "mapped") != 0;
}

static int put(const char *how, int fd, char *base, const Elf64_Phdr *p)
{
	size_t in = p->p_vaddr % PAGE, size = in + p->p_filesz;
	char *at = base + p->p_vaddr - in;
	off_t from = (off_t)(p->p_offset - in);
	if (mmap(at, in + p->p_memsz, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
		return 0;
	if (is_copied(how, p))
		return pread(fd, at, size, from) == (ssize_t)size && mprotect(at, in + p->p_memsz, protection(p)) == 0;
	if (mmap(at, size, protection(p), MAP_PRIVATE | MAP_FIXED, fd, from) != at)
		return 0;
	if (p->p_flags & PF_W)
		memset(at + size, 0, -size % PAGE);
	return 1;
}

static char *load(const char *how, const char *path, void **dynamic)
{
	Elf64_Ehdr e;
	Elf64_Phdr p[SEGMENTS];
	int fd = open(path, O_RDONLY);
	if (read(fd, &e, sizeof e) != sizeof e || e.e_phnum > SEGMENTS || pread(fd, p, e.e_phnum * sizeof *p, (off_t)e.e_phoff) < 0)
		return 0;
	size_t size = 0;
	for (int i = 0; i < e.e_phnum; i++)
		if (p[i].p_type == PT_LOAD)
			size = p[i].p_vaddr + p[i].p_memsz;
	char *base = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < e.e_phnum; i++) {
		if (p[i].p_type == PT_LOAD && !put(how, fd, base, &p[i]))
			return 0;
		if (p[i].p_type == PT_DYNAMIC)
			*dynamic = base + p[i].p_vaddr;
	}
	close(fd);
	return base;
}

static void *find(char *base, const Elf64_Dyn *d, const char *name)
{
	const Elf64_Sym *symbols = 0;
	const char *names = 0;
	for (; d->d_tag; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = (const Elf64_Sym *)(base + d->d_un.d_ptr);
		if (d->d_tag == DT_STRTAB)
			names = base + d->d_un.d_ptr;
	}
	while (strcmp(names + symbols->st_name, name))
		symbols++;
	return base + symbols->st_value;
}

static void tell(int state)
{
	_r_debug.r_state = state;
	((void (*)(void))_r_debug.r_brk)();
}

int main(int argc, char **argv)
{
	static union {
		struct link_map map;
		char room[PAGE]; /* the dynamic linker's own are longer */
	} mine;
	void *dynamic = 0;
	char *base = argc == 4 ? load(argv[1], argv[2], &dynamic) : 0;
	if (!base)
		return 2;
	int sum = step(1);
	struct link_map *last = _r_debug.r_map;
	while (last->l_next)
		last = last->l_next;
	mine.map.l_addr = (ElfW(Addr))base;
	mine.map.l_name = argv[2];
	if (argv[1][0] == 'n')
		mine.map.l_name = "/no/such/file";
	mine.map.l_ld = dynamic;
	if (!strcmp(argv[1], "nowhere")) {
		mine.map.l_addr = 0x7000000;
		mine.map.l_ld = (ElfW(Dyn) *)0x7001000;
	}
	mine.map.l_prev = last;
	tell(RT_ADD);
	last->l_next = &mine.map;
	tell(RT_CONSISTENT);
	sum += ((int (*)(int))find(base, dynamic, "late_work"))(300);
	tell(RT_DELETE);
	last->l_next = 0;
	tell(RT_CONSISTENT);
	void *library = dlopen(argv[3], RTLD_NOW);
	if (!library)
		return 3;
	sum += ((int (*)(int))dlsym(library, "late_work"))(100);
	printf("%d\n", step(sum));
	return 0;
}
