/* A translator in a file of its own. It is loaded when the C library and all
 * constructors are ready, and before main: the first bytes of the executable's
 * entry are a jump to dp_entry_hook (deliver.S) until then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

#define DYNPROF_LIBRARY
#include "base/ctl.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/state.h"
#include "dynprof.h"
#include "plugin.h"
#include "stubs/redirect.h"
#include "table/outcome.h"

enum { JUMP = 14 }; /* jmp *0(%rip); the address */

uint64_t dp_entry HIDDEN;
static uint8_t saved[JUMP];
static char path[DP_PATH_MAX];
void dp_entry_hook(void) HIDDEN;

/* There may be threads by now, but none runs here. Writing by /proc leaves the
 * protection as it is; where it may not be used the text is made writable. */
static int put(uint64_t at, const uint8_t *bytes)
{
	long fd = dp_open_own("mem", O_RDWR);
	int done = !failed(fd) && raw(SYS_pwrite64, fd, bytes, JUMP, at) == JUMP;
	if (!failed(fd))
		raw(SYS_close, fd);
	uint64_t page = at & ~(uint64_t)(DP_PAGE_SIZE - 1), size = pages(at + JUMP - page);
	if (done || raw(SYS_mprotect, page, size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return done;
	for (int i = 0; i < JUMP; i++)
		((volatile uint8_t *)at)[i] = bytes[i];
	raw(SYS_mprotect, page, size, PROT_READ | PROT_EXEC);
	return 1;
}

void dp_plan_plugin(const char *file, uint64_t entry)
{
	uint8_t jump[JUMP] = {0xff, 0x25};
	if (!file || !*file || (file[0] == '-' && !file[1]) || !entry)
		return;
	text_copy(path, sizeof path, file);
	*(uint64_t *)(jump + 6) = (uint64_t)dp_entry_hook;
	dp_entry = entry;
	for (int i = 0; i < JUMP; i++)
		saved[i] = ((const uint8_t *)entry)[i];
	if (!put(entry, jump)) {
		dp_say("cannot be loaded: the program's entry cannot be changed");
		dp_translator_failed();
	}
}

static void complain(const char *what, const char *why, const char *whose)
{
	char line[DP_LINE_MAX];
	size_t n = text_copy(line, sizeof line, what);
	n += text_copy(line + n, sizeof line - n, why ? why : "");
	text_copy(line + n, sizeof line - n, whose);
	dp_say(line);
	dp_translator_failed();
}

/* What dlopen would die of (a file that is cut short: SIGBUS) or tell wrongly (of
 * another architecture: "No such file"). Null: it may try. */
static const char *unfit(void)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	const char *why = 0;
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC), size;
	if (failed(fd))
		return 0;
	size = raw(SYS_lseek, fd, 0, SEEK_END);
	if (raw(SYS_pread64, fd, &e, sizeof e, 0) == sizeof e && e.e_ident[EI_CLASS] == ELFCLASS64) {
		if (e.e_machine != EM_X86_64)
			why = "it is for another architecture: ";
		for (int i = 0; !why && !failed(size) && i < e.e_phnum && e.e_phentsize == sizeof p; i++)
			if (raw(SYS_pread64, fd, &p, sizeof p, e.e_phoff + i * sizeof p) != sizeof p ||
			    (p.p_type == PT_LOAD && (p.p_filesz > (uint64_t)size || p.p_offset > size - p.p_filesz)))
				why = "it is cut short: ";
	}
	raw(SYS_close, fd);
	return why;
}

static const struct dynprof_api api = {
	sizeof api, DYNPROF_API, dynprof_register_translator, dynprof_redirect, dynprof_restore, dynprof_rearm,
	dynprof_original, dynprof_find, dynprof_find_address, dynprof_calls_of, dynprof_functions, dynprof_function_info,
	dynprof_pause, dynprof_resume, dynprof_reset, dynprof_snapshot, dynprof_blocks, dynprof_loops,
};

void dp_entered(void) HIDDEN;
void dp_entered(void)
{
	if (!put(dp_entry, saved))
		return; /* it could be changed before */
	const char *why = unfit();
	if (why) {
		complain("cannot be loaded: ", why, path);
		return;
	}
	dp_own_objects = 1;
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	dp_own_objects = 0;
	if (!plugin) {
		complain("cannot be loaded: ", dlerror(), "");
		return;
	}
	dynprof_plugin_init_function *init = (dynprof_plugin_init_function *)dlsym(plugin, "dynprof_plugin_init");
	if (!init)
		complain("has no dynprof_plugin_init: ", path, "");
	else if (init(&api) != 0)
		complain("did not start: dynprof_plugin_init failed in ", path, "");
}

/* ---- whether a translator is wanted ------------------------------------ */

/* Symbols that an object imports come before those that DT_GNU_HASH has. */
int dp_has_translator(const struct dl_phdr_info *info)
{
	const Elf64_Dyn *d = 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	uint64_t symbols = 0, names = 0, gnu = 0, hash = 0;
	for (; d && d->d_tag != DT_NULL; d++) {
		uint64_t v = d->d_un.d_ptr < info->dlpi_addr ? d->d_un.d_ptr + info->dlpi_addr : d->d_un.d_ptr;
		switch (d->d_tag) {
		case DT_SYMTAB: symbols = v; break;
		case DT_STRTAB: names = v; break;
		case DT_GNU_HASH: gnu = v; break;
		case DT_HASH: hash = v; break;
		}
	}
	if (!symbols || !names || !(gnu || hash))
		return 0;
	uint32_t n = gnu ? ((const uint32_t *)gnu)[1] : ((const uint32_t *)hash)[1];
	for (uint32_t i = 1; i < n; i++) {
		const Elf64_Sym *s = (const Elf64_Sym *)symbols + i;
		const char *name = (const char *)names + s->st_name;
		if (s->st_shndx == SHN_UNDEF && has_prefix(name, "dynprof_re") &&
		    (has_prefix(name, "dynprof_register_translator") || has_prefix(name, "dynprof_redirect") ||
		     has_prefix(name, "dynprof_rearm")))
			return 1;
	}
	return 0;
}
