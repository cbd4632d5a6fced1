/* A small language with a fixed workload: scanner, parser, byte code, a stack
 * machine with functions, a hash table, a sort and a regular expression
 * matcher. Everything allocates, recurses and calls through pointers. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hash table: strings to numbers, open addressing ---- */

struct entry { char *key; long value; };
struct table { struct entry *entries; size_t used, size; };

static unsigned long hash_of(const char *s)
{
	unsigned long h = 5381;
	while (*s)
		h = h * 33 ^ (unsigned char)*s++;
	return h;
}

static struct entry *table_slot(struct table *t, const char *key)
{
	for (size_t i = hash_of(key);; i++) {
		struct entry *e = &t->entries[i & (t->size - 1)];
		if (!e->key || !strcmp(e->key, key))
			return e;
	}
}

static char *copy_string(const char *s, size_t n)
{
	char *p = malloc(n + 1);
	memcpy(p, s, n);
	p[n] = 0;
	return p;
}

static void table_grow(struct table *t)
{
	struct table bigger = {calloc(t->size ? t->size * 2 : 8, sizeof(struct entry)), 0, t->size ? t->size * 2 : 8};
	for (size_t i = 0; i < t->size; i++)
		if (t->entries[i].key) {
			*table_slot(&bigger, t->entries[i].key) = t->entries[i];
			bigger.used++;
		}
	free(t->entries);
	*t = bigger;
}

static long *table_put(struct table *t, const char *key)
{
	if (t->used * 4 >= t->size * 3)
		table_grow(t);
	struct entry *e = table_slot(t, key);
	if (!e->key) {
		e->key = copy_string(key, strlen(key));
		t->used++;
	}
	return &e->value;
}

static long table_get(struct table *t, const char *key)
{
	return t->size ? table_slot(t, key)->value : 0;
}

static void table_each(struct table *t, void (*f)(struct entry *, void *), void *arg)
{
	for (size_t i = 0; i < t->size; i++)
		if (t->entries[i].key)
			f(&t->entries[i], arg);
}

static void entry_free(struct entry *e, void *arg)
{
	(void)arg;
	free(e->key);
}

static void table_free(struct table *t)
{
	table_each(t, entry_free, 0);
	free(t->entries);
}

/* ---- merge sort of lists ---- */

struct item { struct item *next; long value; };

static int item_less(const struct item *a, const struct item *b) { return a->value < b->value; }
static int item_more(const struct item *a, const struct item *b) { return a->value > b->value; }

static struct item *merge(struct item *a, struct item *b, int (*before)(const struct item *, const struct item *))
{
	if (!a || !b)
		return a ? a : b;
	if (before(b, a)) {
		b->next = merge(a, b->next, before);
		return b;
	}
	a->next = merge(a->next, b, before);
	return a;
}

static struct item *split(struct item *list)
{
	struct item *slow = list, *fast = list->next;
	while (fast && fast->next) {
		slow = slow->next;
		fast = fast->next->next;
	}
	struct item *second = slow->next;
	slow->next = 0;
	return second;
}

static struct item *sort(struct item *list, int (*before)(const struct item *, const struct item *))
{
	if (!list || !list->next)
		return list;
	struct item *second = split(list);
	return merge(sort(list, before), sort(second, before), before);
}

static struct item *cons(long value, struct item *next)
{
	struct item *i = malloc(sizeof *i);
	i->next = next;
	i->value = value;
	return i;
}

static void list_free(struct item *list)
{
	if (list) {
		list_free(list->next);
		free(list);
	}
}

/* ---- regular expressions: . * + ? ^ $ [a-z] and groups with | ---- */

static const char *match_here(const char *re, const char *end, const char *s);

static const char *atom_end(const char *re, const char *end)
{
	int depth = 0;
	if (*re == '[')
		while (re < end && *re != ']')
			re++;
	else if (*re == '(')
		do {
			depth += (*re == '(') - (*re == ')');
			if (!depth)
				break;
			re++;
		} while (re < end);
	return re + 1;
}

static int in_class(const char *re, int c)
{
	int found = 0, not = *re == '^';
	for (re += not; *re != ']'; re++)
		if (re[1] == '-' && re[2] != ']') {
			found |= c >= re[0] && c <= re[2];
			re += 2;
		} else {
			found |= c == *re;
		}
	return found != not;
}

static int match_one(const char *re, int c)
{
	switch (*re) {
	case '.': return c != 0;
	case '[': return c != 0 && in_class(re + 1, c);
	default: return *re == c;
	}
}

/* The first alternative that matches; a group is not tried again. */
static const char *match_group(const char *re, const char *end, const char *s)
{
	const char *start = re;
	for (;; re = atom_end(re, end)) {
		if (re < end && *re != '|')
			continue;
		const char *m = match_here(start, re, s);
		if (m || re >= end)
			return m;
		start = re + 1;
	}
}

static const char *match_atom(const char *re, const char *after, const char *s)
{
	if (*re == '(')
		return match_group(re + 1, after - 1, s);
	return match_one(re, *s) ? s + 1 : 0;
}

static const char *match_many(const char *re, const char *after, const char *end, const char *s, int least, int most)
{
	if (most != 0) {
		const char *next = match_atom(re, after, s);
		if (next && next != s) {
			const char *m = match_many(re, after, end, next, least - 1, most - 1);
			if (m)
				return m;
		}
	}
	return least <= 0 ? match_here(after + 1, end, s) : 0;
}

static const char *match_here(const char *re, const char *end, const char *s)
{
	if (re >= end)
		return s;
	if (*re == '$' && re + 1 == end)
		return *s ? 0 : s;
	const char *after = atom_end(re, end);
	if (after < end && *after == '*')
		return match_many(re, after, end, s, 0, -1);
	if (after < end && *after == '+')
		return match_many(re, after, end, s, 1, -1);
	if (after < end && *after == '?')
		return match_many(re, after, end, s, 0, 1);
	const char *next = match_atom(re, after, s);
	return next ? match_here(after, end, next) : 0;
}

static int match(const char *re, const char *s)
{
	const char *end = re + strlen(re);
	if (*re == '^')
		return match_here(re + 1, end, s) != 0;
	do
		if (match_here(re, end, s))
			return 1;
	while (*s++);
	return 0;
}

/* ---- the language ----
 *
 * program:  { "fn" name "(" [names] ")" block } block
 * block:    "{" { statement } "}"
 * statement: "if" expr block ["else" block] | "while" expr block |
 *           "return" expr ";" | name "=" expr ";" | expr ";"
 */

enum op { PUSH, LOAD, STORE, ADD, SUB, MUL, DIV, MOD, LESS, EQUAL, NOT, JUMP, BRANCH, CALL, RETURN, PRINT, DROP, HALT };

struct function { const char *name; long at; int arity; };

struct program {
	long code[4096];
	long length;
	struct function functions[32];
	int count;
};

struct parser {
	const char *at;
	char token[64];
	struct program *out;
	struct table locals;
	jmp_buf fail;
	char message[128];
};

static void fail(struct parser *p, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vsnprintf(p->message, sizeof p->message, format, list);
	va_end(list);
	longjmp(p->fail, 1);
}

static void scan(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
	const char *start = p->at;
	if (isalnum((unsigned char)*start))
		while (isalnum((unsigned char)*p->at))
			p->at++;
	else if (*start)
		p->at += 1 + (start[0] == '=' && start[1] == '=');
	size_t n = (size_t)(p->at - start);
	memcpy(p->token, start, n);
	p->token[n] = 0;
}

static int is(struct parser *p, const char *token) { return !strcmp(p->token, token); }

static int accept(struct parser *p, const char *token)
{
	if (!is(p, token))
		return 0;
	scan(p);
	return 1;
}

static void expect(struct parser *p, const char *token)
{
	if (!accept(p, token))
		fail(p, "%s expected, not %s", token, p->token);
}

static long emit(struct program *o, long word)
{
	o->code[o->length] = word;
	return o->length++;
}

static void emit2(struct program *o, enum op op, long arg)
{
	emit(o, op);
	emit(o, arg);
}

static void expression(struct parser *p);

static long local(struct parser *p, const char *name)
{
	long *slot = table_put(&p->locals, name);
	if (!*slot)
		*slot = (long)p->locals.used;
	return *slot - 1;
}

static void call(struct parser *p, const char *name)
{
	int n = 0;
	while (!is(p, ")")) {
		expression(p);
		n++;
		accept(p, ",");
	}
	expect(p, ")");
	if (!strcmp(name, "print")) {
		emit(p->out, PRINT);
		return;
	}
	for (int i = 0; i < p->out->count; i++)
		if (!strcmp(p->out->functions[i].name, name) && p->out->functions[i].arity == n) {
			emit2(p->out, CALL, i);
			return;
		}
	fail(p, "no function %s of %d arguments", name, n);
}

static void primary(struct parser *p)
{
	char name[64];
	strcpy(name, p->token);
	if (accept(p, "(")) {
		expression(p);
		expect(p, ")");
	} else if (accept(p, "!")) {
		primary(p);
		emit(p->out, NOT);
	} else if (isdigit((unsigned char)*name)) {
		scan(p);
		emit2(p->out, PUSH, atol(name));
	} else if (isalpha((unsigned char)*name)) {
		scan(p);
		if (accept(p, "("))
			call(p, name);
		else
			emit2(p->out, LOAD, local(p, name));
	} else {
		fail(p, "what is %s?", name);
	}
}

static void product(struct parser *p)
{
	primary(p);
	for (;;) {
		enum op op = is(p, "*") ? MUL : is(p, "/") ? DIV : is(p, "%") ? MOD : HALT;
		if (op == HALT)
			return;
		scan(p);
		primary(p);
		emit(p->out, op);
	}
}

static void sum(struct parser *p)
{
	product(p);
	for (;;) {
		enum op op = is(p, "+") ? ADD : is(p, "-") ? SUB : HALT;
		if (op == HALT)
			return;
		scan(p);
		product(p);
		emit(p->out, op);
	}
}

static void expression(struct parser *p)
{
	sum(p);
	if (is(p, "<") || is(p, "==")) {
		enum op op = is(p, "<") ? LESS : EQUAL;
		scan(p);
		sum(p);
		emit(p->out, op);
	}
}

static void block(struct parser *p);

static void if_statement(struct parser *p)
{
	expression(p);
	emit(p->out, BRANCH);
	long otherwise = emit(p->out, 0);
	block(p);
	if (accept(p, "else")) {
		emit(p->out, JUMP);
		long end = emit(p->out, 0);
		p->out->code[otherwise] = p->out->length;
		block(p);
		p->out->code[end] = p->out->length;
	} else {
		p->out->code[otherwise] = p->out->length;
	}
}

static void while_statement(struct parser *p)
{
	long head = p->out->length;
	expression(p);
	emit(p->out, BRANCH);
	long end = emit(p->out, 0);
	block(p);
	emit2(p->out, JUMP, head);
	p->out->code[end] = p->out->length;
}

static void statement(struct parser *p)
{
	if (accept(p, "if"))
		return if_statement(p);
	if (accept(p, "while"))
		return while_statement(p);
	if (accept(p, "return")) {
		expression(p);
		emit(p->out, RETURN);
	} else {
		struct parser ahead = *p;
		scan(&ahead);
		if (is(&ahead, "=")) {
			long slot = local(p, p->token);
			scan(p);
			scan(p);
			expression(p);
			emit2(p->out, STORE, slot);
		} else {
			expression(p);
			emit(p->out, DROP);
		}
	}
	expect(p, ";");
}

static void block(struct parser *p)
{
	expect(p, "{");
	while (!accept(p, "}"))
		statement(p);
}

static void function(struct parser *p)
{
	struct function *f = &p->out->functions[p->out->count++];
	f->name = copy_string(p->token, strlen(p->token));
	f->at = p->out->length;
	scan(p);
	expect(p, "(");
	while (!accept(p, ")")) {
		local(p, p->token);
		f->arity++;
		scan(p);
		accept(p, ",");
	}
	block(p);
	emit2(p->out, PUSH, 0);
	emit(p->out, RETURN);
	table_free(&p->locals);
	memset(&p->locals, 0, sizeof p->locals);
}

/* Returns where the main block begins, or -1. */
static long parse(struct program *o, const char *text)
{
	struct parser p = {.at = text, .out = o};
	if (setjmp(p.fail)) {
		printf("error: %s\n", p.message);
		table_free(&p.locals);
		return -1;
	}
	scan(&p);
	while (accept(&p, "fn"))
		function(&p);
	long start = o->length;
	block(&p);
	emit(o, HALT);
	table_free(&p.locals);
	return start;
}

enum { LOCALS = 16, STACK = 1 << 14 };

static long execute(struct program *o, long pc)
{
	long *stack = calloc(STACK, sizeof *stack), *top = stack + LOCALS, *frame = stack, steps = 0;
	for (;; steps++) {
		long b;
		switch ((enum op)o->code[pc++]) {
		case PUSH: *top++ = o->code[pc++]; break;
		case LOAD: *top++ = frame[o->code[pc++]]; break;
		case STORE: frame[o->code[pc++]] = *--top; break;
		case ADD: b = *--top; top[-1] += b; break;
		case SUB: b = *--top; top[-1] -= b; break;
		case MUL: b = *--top; top[-1] *= b; break;
		case DIV: b = *--top; top[-1] /= b ? b : 1; break;
		case MOD: b = *--top; top[-1] %= b ? b : 1; break;
		case LESS: b = *--top; top[-1] = top[-1] < b; break;
		case EQUAL: b = *--top; top[-1] = top[-1] == b; break;
		case NOT: top[-1] = !top[-1]; break;
		case JUMP: pc = o->code[pc]; break;
		case BRANCH: pc = *--top ? pc + 1 : o->code[pc]; break;
		case CALL: {
			struct function *f = &o->functions[o->code[pc++]];
			long *args = top - f->arity, *old = frame;
			frame = args;
			top = args + LOCALS;
			top[0] = old - stack;
			top[1] = pc;
			top += 2;
			pc = f->at;
			break;
		}
		case RETURN: {
			long result = top[-1], *base = frame + LOCALS;
			top = frame;
			frame = stack + base[0];
			pc = base[1];
			*top++ = result;
			break;
		}
		case PRINT: printf("%ld\n", top[-1]); break;
		case DROP: top--; break;
		case HALT: free(stack); return steps;
		}
	}
}

static void run_text(const char *text)
{
	struct program *o = calloc(1, sizeof *o);
	long start = parse(o, text);
	if (start >= 0)
		printf("steps %ld\n", execute(o, start));
	for (int i = 0; i < o->count; i++)
		free((char *)o->functions[i].name);
	free(o);
}

/* ---- the workload ---- */

static void count_values(struct entry *e, void *sum) { *(long *)sum += e->value * (long)strlen(e->key); }

static void tables(void)
{
	struct table t = {0};
	char key[32];
	long sum = 0;
	for (int i = 0; i < 3000; i++) {
		snprintf(key, sizeof key, "key%d", i * 31 % 701);
		++*table_put(&t, key);
	}
	for (int i = 0; i < 900; i++) {
		snprintf(key, sizeof key, "key%d", i);
		sum += table_get(&t, key);
	}
	table_each(&t, count_values, &sum);
	printf("table %zu %ld\n", t.used, sum);
	table_free(&t);
}

static void sorts(void)
{
	struct item *list = 0;
	unsigned x = 1;
	for (int i = 0; i < 2000; i++)
		list = cons((long)((x = x * 69069 + 1) >> 16), list);
	list = sort(list, item_less);
	long first = list->value;
	list = sort(list, item_more);
	printf("sort %ld %ld\n", first, list->value);
	list_free(list);
}

static void expressions(void)
{
	static const char *const res[] = {"^a*b", "(ab|cd)+e?f", "[0-9]+\\.[0-9]*", "x.*y.*z$", "^([a-z]+)@([a-z]+)(com|org)$",
					  "[^a-m]n?o", "(a|b)*c(d|ef)*g"};
	static const char *const texts[] = {"aaaab", "xababcdf", "v 3\\.14", "xx yy zz", "user@examplecom", "panorama",
					    "ababcdefefdg", "", "zzzzzzzzzzzzzzz"};
	for (size_t i = 0; i < sizeof res / sizeof *res; i++) {
		for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
			putchar(match(res[i], texts[j]) ? '1' : '0');
		putchar('\n');
	}
}

int main(void)
{
	tables();
	sorts();
	expressions();
	run_text("fn fib(n) { if n < 2 { return n; } return fib(n - 1) + fib(n - 2); }"
		 "fn gcd(a, b) { while !(b == 0) { t = a % b; a = b; b = t; } return a; }"
		 "fn ack(m, n) { if m == 0 { return n + 1; } if n == 0 { return ack(m - 1, 1); }"
		 "  return ack(m - 1, ack(m, n - 1)); }"
		 "{ print(fib(14)); print(gcd(1071, 462) * 1000 + gcd(17, 5)); print(ack(2, 3)); }");
	run_text("{ i = 0; s = 0; while i < 2000 { i = i + 1; if i % 3 == 0 { s = s + i * 2; } else { s = s - 1; } } print(s); }");
	run_text("{ x = ; }");
	run_text("{ y = nothing(1, 2); }");
	return 0;
}
