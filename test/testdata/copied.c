/* A program with functions on more than a hundred pages, which it calls; with "where" it
 * says which file its code is mapped from, with "change" it changes one of them, with
 * "fork" its children call them. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define F(n) __attribute__((noipa, aligned(256))) static int f##n(int x) { return x * 3 + n; }
#define G(n) f##n,
#define TEN(f, m) f(m##0) f(m##1) f(m##2) f(m##3) f(m##4) f(m##5) f(m##6) f(m##7) f(m##8) f(m##9)
#define HUNDRED(f, m) TEN(f, m##0) TEN(f, m##1) TEN(f, m##2) TEN(f, m##3) TEN(f, m##4) TEN(f, m##5) TEN(f, m##6) TEN(f, m##7) TEN(f, m##8) TEN(f, m##9)
#define THOUSAND(f, m) HUNDRED(f, m##0) HUNDRED(f, m##1) HUNDRED(f, m##2) HUNDRED(f, m##3) HUNDRED(f, m##4) HUNDRED(f, m##5) HUNDRED(f, m##6) HUNDRED(f, m##7) HUNDRED(f, m##8) HUNDRED(f, m##9)

THOUSAND(F, 1)
THOUSAND(F, 2)
static int (*const all[])(int) = {THOUSAND(G, 1) THOUSAND(G, 2)};

__attribute__((noipa)) static int sum(void)
{
	int s = 0;
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		s = all[i](s) % 1000003;
	return s + f1000(1) + f2999(2);
}

static void where_is(const void *at)
{
	char line[512], path[256];
	unsigned long low, high;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %255s", &low, &high, path) == 3 && low <= (uintptr_t)at && (uintptr_t)at < high)
			fprintf(stderr, "%s\n", path);
	fclose(maps);
}

extern const char __ehdr_start[];

static void where(void)
{
	where_is(sum);
	where_is(__ehdr_start);
	where_is("constant");
}

static int change(void)
{
	static const unsigned char same[] = {0x89, 0xf8, 0xc3}; /* mov %edi, %eax; ret */
	unsigned char *code = (unsigned char *)all[1234];
	void *page = (void *)((uintptr_t)code & ~4095ul);
	if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 1;
	for (int i = 0; i < 10; i++)
		printf("%02x ", code[i]);
	memcpy(code, same, sizeof same);
	if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
		return 2;
	printf("%d %d %d\n", all[1234](77), all[1235](77), sum());
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	printf("%d\n", sum());
	fflush(stdout);
	if (!strcmp(how, "where"))
		where();
	if (!strcmp(how, "change"))
		return change();
	for (int i = 0; !strcmp(how, "fork") && i < 20; i++) {
		if (fork() == 0) {
			printf("%d\n", sum());
			fflush(stdout);
			_exit(change());
		}
		int status;
		wait(&status);
		if (status)
			return 3;
	}
	return 0;
}
