/* The resident object alone: linked as a library of nobody, mapped here by hand, with
 * no relocation filled in and no symbol of libc's, at two places at once. */
#include <elf.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctl.h"
#include "base/filters.h"
#include "base/hooks.h"
#include "base/layout.h"
#include "base/state.h"
#include "events/ring.h"
#include "stubs/arenas.h"

#define CHECK(is) (void)((is) || (printf("line %d: %s\n", __LINE__, #is), wrong = 1))
static int wrong;

static const uint8_t *file;
static uint8_t *at;

static const Elf64_Ehdr *head(void) { return (const Elf64_Ehdr *)file; }
static const Elf64_Phdr *segment(int i) { return (const Elf64_Phdr *)(file + head()->e_phoff) + i; }

/* What a loader in another process would do. */
static void load(void)
{
	uint64_t size = 0;
	for (int i = 0; i < head()->e_phnum; i++)
		if (segment(i)->p_type == PT_LOAD)
			size = segment(i)->p_vaddr + segment(i)->p_memsz;
	at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < head()->e_phnum; i++) {
		const Elf64_Phdr *p = segment(i);
		uint64_t low = p->p_vaddr & -4096UL;
		int prot = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) | (p->p_flags & PF_X ? PROT_EXEC : 0);
		if (p->p_type != PT_LOAD)
			continue;
		memcpy(at + p->p_vaddr, file + p->p_offset, p->p_filesz);
		if (mprotect(at + low, p->p_vaddr + p->p_memsz - low, prot) != 0)
			exit(2);
	}
}

/* Whatever has that name in the object. */
static void *find(const char *name)
{
	const Elf64_Shdr *s = (const Elf64_Shdr *)(file + head()->e_shoff);
	for (int i = 0; i < head()->e_shnum; i++) {
		if (s[i].sh_type != SHT_SYMTAB)
			continue;
		const Elf64_Sym *y = (const Elf64_Sym *)(file + s[i].sh_offset);
		const char *names = (const char *)file + s[s[i].sh_link].sh_offset;
		for (uint64_t k = 0; k < s[i].sh_size / sizeof *y; k++)
			if (!strcmp(names + y[k].st_name, name))
				return at + y[k].st_value;
	}
	printf("no %s\n", name);
	exit(2);
}
#define OURS(name) __typeof__(name) *name##_ = find(#name)

static int gone;
static void note_gone(void) { gone++; }

static void hooks(void)
{
	OURS(dp_hooks);
	void (*changed)(void) = find("dp_objects_changed");
	dp_hooks_->objects_gone = note_gone;
	gone = 0;
	changed();
	CHECK(gone == 1);
}

static void ring(void)
{
	OURS(dp_ring_begin);
	OURS(dp_ring_put);
	OURS(dp_ring_take);
	struct dp_hot e = {0};
	dp_ring_begin_();
	CHECK(!dp_ring_take_(&e));
	for (e.counter = 1; e.counter <= 3; e.counter++)
		CHECK(dp_ring_put_(&e));
	for (uint32_t i = 1; i <= 3; i++)
		CHECK(dp_ring_take_(&e) && e.counter == i);
	CHECK(!dp_ring_take_(&e));
}

/* More than the registry has room for without memory from the kernel. */
static void arenas(void)
{
	enum { MANY = 100, SIZE = 1 << 16 };
	OURS(dp);
	OURS(dp_know_arenas);
	OURS(dp_arena_at);
	OURS(dp_arena_of_text);
	OURS(dp_forget_arenas);
	static uint64_t table[DP_PAGE_SIZE / 8];
	static struct dp_arena all[MANY];
	static struct dp_text texts[MANY];
	dp_->table = (struct dp_header *)table;
	for (uint64_t i = 0; i < MANY; i++) {
		all[i] = (struct dp_arena){.at = (i + 1) << 32, .size = SIZE, .cold = SIZE / 2, .keeps = SIZE / 2};
		texts[i] = (struct dp_text){.start = all[i].at + (1 << 24), .size = SIZE, .arena = (uint32_t)i};
	}
	struct dp_ctl ctl = {.arenas = all, .arenas_count = MANY, .texts = texts, .texts_count = MANY};
	CHECK(!dp_know_arenas_(&ctl));
	for (uint32_t i = 0; i < MANY; i++) {
		const struct dp_known *k = dp_arena_at_(all[i].at + SIZE - 1);
		CHECK(k && k->number == i && dp_arena_of_text_(texts[i].start) == k);
		CHECK(!dp_arena_at_(all[i].at + SIZE) && !dp_arena_at_(texts[i].start) && !dp_arena_of_text_(all[i].at));
	}
	dp_forget_arenas_();
	CHECK(!dp_arena_at_(all[0].at));
}

/* A filter that the program is about to install, while another thread writes it: what
 * was read first is what counts. Nothing is installed here. */
static void filters(void)
{
	OURS(dp_may);
	OURS(dp_filtered);
	OURS(dp_filter_read);
	OURS(dp_filter_sees_addresses);
	OURS(dp_filter_drop);
	OURS(dp_filter_comes);
	OURS(dp_filter_done);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	struct dp_regs r = {.rax = SYS_prctl, .rdi = PR_SET_SECCOMP, .rsi = SECCOMP_MODE_FILTER, .rdx = (uint64_t)&program};
	CHECK(!dp_filtered_() && dp_may_(SYS_getuid, 0, 0, 0, 0));
	struct dp_filter *f = dp_filter_read_(&r);
	code[1].k = SYS_getpid;
	code[0].k = offsetof(struct seccomp_data, instruction_pointer) + 4;
	CHECK(f && !dp_filter_sees_addresses_(&r, f));
	struct dp_filter *later = dp_filter_read_(&r);
	CHECK(later && dp_filter_sees_addresses_(&r, later));
	dp_filter_drop_(later);
	CHECK(dp_filter_sees_addresses_(&r, 0)); /* as where there is no memory for a copy */
	CHECK(!dp_filtered_());
	dp_filter_comes_(&r, f);
	CHECK(dp_filtered_() && !dp_may_(SYS_getuid, 0, 0, 0, 0) && dp_may_(SYS_getpid, 0, 0, 0, 0));
	r.rax = (uint64_t)-1; /* it could not be installed */
	dp_filter_done_(&r);
	CHECK(dp_may_(SYS_getuid, 0, 0, 0, 0));
}

int main(int argc, char **argv)
{
	struct stat st;
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	if (fd < 0 || fstat(fd, &st) != 0)
		return 2;
	file = mmap(0, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	for (int place = 0; place < 2; place++) {
		load();
		hooks();
		ring();
		arenas();
		filters();
	}
	return wrong;
}
