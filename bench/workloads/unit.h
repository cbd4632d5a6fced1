/* What the compiler compiles in the benchmark of cc1: the two halves of a small
 * library in turn, included once for each unit with P(name) as the unit's own name
 * for each function and K as a constant of its own, which is odd, even, odd... */
#if K % 2
struct P(entry) { struct P(entry) *next; unsigned hash, length; char name[24]; double value[4]; };
struct P(map) { struct P(entry) **slots; unsigned size, used; long collisions; };

static unsigned P(hash)(const char *s, unsigned *length) {
	unsigned h = 2166136261u ^ K;
	const char *from = s;
	while (*s)
		h = (h ^ (unsigned char)*s++) * 16777619u;
	*length = (unsigned)(s - from);
	return h;
}

struct P(entry) *P(find)(struct P(map) *m, const char *name, int make) {
	unsigned length, h = P(hash)(name, &length);
	struct P(entry) **at = &m->slots[h % m->size];
	for (; *at; at = &(*at)->next) {
		if ((*at)->hash == h && (*at)->length == length && !memcmp((*at)->name, name, length))
			return *at;
		m->collisions++;
	}
	if (!make || length >= sizeof (*at)->name)
		return NULL;
	struct P(entry) *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	memcpy(e->name, name, length + 1);
	e->hash = h, e->length = length;
	m->used++;
	return *at = e;
}

int P(grow)(struct P(map) *m, unsigned size) {
	struct P(entry) **slots = calloc(size, sizeof *slots);
	if (!slots)
		return -1;
	for (unsigned i = 0; i < m->size; i++)
		for (struct P(entry) *e = m->slots[i], *next; e; e = next) {
			next = e->next;
			e->next = slots[e->hash % size];
			slots[e->hash % size] = e;
		}
	free(m->slots);
	m->slots = slots, m->size = size;
	return 0;
}

int P(number)(const char **text, double *out) {
	const char *s = *text;
	int negative = 0, digits = 0, exponent = 0;
	double v = 0;
	while (*s == ' ' || *s == '\t' || *s == '\n')
		s++;
	if (*s == '-' || *s == '+')
		negative = *s++ == '-';
	for (; *s >= '0' && *s <= '9'; s++, digits++)
		v = v * 10 + (*s - '0');
	if (*s == '.')
		for (s++; *s >= '0' && *s <= '9'; s++, digits++, exponent--)
			v = v * 10 + (*s - '0');
	if (digits == 0)
		return 0;
	if (*s == 'e' || *s == 'E') {
		int e = 0, sign = 1;
		s++;
		if (*s == '-' || *s == '+')
			sign = *s++ == '-' ? -1 : 1;
		while (*s >= '0' && *s <= '9')
			e = e * 10 + (*s++ - '0');
		exponent += sign * e;
	}
	for (; exponent > 0; exponent--)
		v *= 10;
	for (; exponent < 0; exponent++)
		v /= 10;
	*text = s, *out = negative ? -v : v;
	return 1;
}

long P(summary)(struct P(map) *m, const char *text) {
	long n = 0;
	double v;
	char name[24];
	for (; *text; n++) {
		unsigned i = 0;
		while (*text && *text != '=' && i < sizeof name - 1)
			name[i++] = *text++;
		name[i] = 0;
		if (*text++ != '=' || !P(number)(&text, &v))
			break;
		struct P(entry) *e = P(find)(m, name, 1);
		if (!e)
			return -1;
		e->value[0] += v, e->value[1] += v * v;
		e->value[2] = v < e->value[2] ? v : e->value[2];
		e->value[3] = v > e->value[3] ? v : e->value[3];
		if (m->used > m->size * 3 / 4 && P(grow)(m, m->size * 2 + 1) != 0)
			return -1;
	}
	return n + m->collisions;
}

#else
void P(multiply)(double *restrict c, const double *restrict a, const double *restrict b, int n) {
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			double sum = K;
			for (int k = 0; k < n; k++)
				sum += a[i * n + k] * b[k * n + j];
			c[i * n + j] = sum;
		}
}

void P(sort)(long *v, long n) {
	while (n > 1) {
		long pivot = v[n / 2], i = 0, j = n - 1;
		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i <= j) {
				long t = v[i];
				v[i++] = v[j], v[j--] = t;
			}
		}
		if (j + 1 < n - i) {
			P(sort)(v, j + 1);
			v += i, n -= i;
		} else {
			P(sort)(v + i, n - i);
			n = j + 1;
		}
	}
}

enum P(op) { P(PUSH), P(ADD), P(SUB), P(MUL), P(DIV), P(DUP), P(SWAP), P(JUMP), P(JUMPZ), P(LOAD), P(STORE), P(PRINT), P(HALT) };

long P(run)(const int *code, long *memory, long limit) {
	long stack[64], *top = stack;
	for (const int *pc = code; limit-- > 0;) {
		switch ((enum P(op))*pc++) {
		case P(PUSH): *top++ = *pc++ ^ K; break;
		case P(ADD): top--; top[-1] += *top; break;
		case P(SUB): top--; top[-1] -= *top; break;
		case P(MUL): top--; top[-1] *= *top; break;
		case P(DIV): top--; if (*top == 0) return -1; top[-1] /= *top; break;
		case P(DUP): *top = top[-1]; top++; break;
		case P(SWAP): { long t = top[-1]; top[-1] = top[-2]; top[-2] = t; break; }
		case P(JUMP): pc = code + *pc; break;
		case P(JUMPZ): pc = *--top ? pc + 1 : code + *pc; break;
		case P(LOAD): *top++ = memory[*pc++ & 63]; break;
		case P(STORE): memory[*pc++ & 63] = *--top; break;
		case P(PRINT): printf("%ld\n", *--top); break;
		case P(HALT): return top > stack ? top[-1] : 0;
		}
		if (top < stack || top >= stack + 64)
			return -2;
	}
	return -3;
}

#endif
