/* par2's hot routine with AVX2.
 *
 * Debian's par2 computes recovery data with one routine:
 *
 *	bool ReedSolomon<Galois16>::InternalProcess(this, const Galois16 &factor,
 *		size_t size, const void *input, void *output)
 *	output[i] ^= factor * input[i]    for words of 16 bits in GF(2^16)
 *
 * by two look-ups in tables of 1 KB for each word. The file is stripped: what
 * tells the routine is its code. This plug-in waits for it to become hot and
 * sends its calls to a version that multiplies 32 words at a time.
 *
 * Method: Plank, Greenan, Miller, "Screaming Fast Galois Field Arithmetic Using
 * Intel SIMD Instructions", FAST 2013: a product is the sum of the products of
 * the word's four nibbles, and those are 16 values each: one byte shuffle.
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dynprof.h>

enum { NIBBLES = 4, CALLS = 100 /* where the run gives no threshold */ };

static const struct dynprof_api *dynprof;

/* ---- the routine ------------------------------------------------------- */

/* a * b modulo x^16 + x^12 + x^3 + x + 1, par2's field. */
static uint16_t multiply(unsigned a, unsigned b)
{
	unsigned product = 0;
	for (; b; b >>= 1, a = a << 1 ^ (a & 0x8000 ? 0x1100b : 0))
		if (b & 1)
			product ^= a;
	return (uint16_t)product;
}

/* The products of all values of each nibble: their low bytes and their high. */
struct tables {
	uint8_t low[NIBBLES][16], high[NIBBLES][16];
};

/* Multiplication is linear: products of other values than powers of 2 are sums. */
static void fill(struct tables *t, uint16_t factor)
{
	for (int n = 0; n < NIBBLES; n++) {
		uint16_t product[16] = {0};
		for (unsigned v = 0; v < 16; v++) {
			unsigned rest = v & (v - 1);
			product[v] = rest ? product[rest] ^ product[v ^ rest] : multiply(factor, v << 4 * n);
			t->low[n][v] = (uint8_t)product[v];
			t->high[n][v] = (uint8_t)(product[v] >> 8);
		}
	}
}

/* size is rounded up to 4 bytes, as the original does. It returns false. */
__attribute__((target("avx2"))) static int process(void *self, const uint16_t *factor, size_t size, const void *input, void *output)
{
	struct tables t;
	__m256i low[NIBBLES], high[NIBBLES];
	const __m256i nibble = _mm256_set1_epi8(15), byte = _mm256_set1_epi16(255);
	size_t i = 0, end = (size + 3) & ~(size_t)3;
	(void)self;
	fill(&t, *factor);
	for (int n = 0; n < NIBBLES; n++) {
		low[n] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t.low[n]));
		high[n] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t.high[n]));
	}
	for (; i + 64 <= end; i += 64) {
		const __m256i *in = (const __m256i *)((const char *)input + i);
		__m256i *out = (__m256i *)((char *)output + i);
		__m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
		__m256i l = _mm256_packus_epi16(_mm256_and_si256(a, byte), _mm256_and_si256(b, byte));
		__m256i h = _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
		__m256i word[NIBBLES] = {
			_mm256_and_si256(l, nibble), _mm256_and_si256(_mm256_srli_epi16(l, 4), nibble),
			_mm256_and_si256(h, nibble), _mm256_and_si256(_mm256_srli_epi16(h, 4), nibble),
		};
		__m256i pl = _mm256_setzero_si256(), ph = pl;
		for (int n = 0; n < NIBBLES; n++) {
			pl = _mm256_xor_si256(pl, _mm256_shuffle_epi8(low[n], word[n]));
			ph = _mm256_xor_si256(ph, _mm256_shuffle_epi8(high[n], word[n]));
		}
		_mm256_storeu_si256(out, _mm256_xor_si256(_mm256_loadu_si256(out), _mm256_unpacklo_epi8(pl, ph)));
		_mm256_storeu_si256(out + 1, _mm256_xor_si256(_mm256_loadu_si256(out + 1), _mm256_unpackhi_epi8(pl, ph)));
	}
	for (; i < end; i += 2) {
		uint16_t in, out;
		memcpy(&in, (const char *)input + i, 2);
		memcpy(&out, (char *)output + i, 2);
		out ^= multiply(*factor, in);
		memcpy((char *)output + i, &out, 2);
	}
	return 0;
}

/* ---- which function it is ---------------------------------------------- */

/* Debian 12's par2 0.8.1-3. Its last 5 bytes are a call, whose distance is
 * another in every build, and are not compared. */
enum { BYTES = 283, CALL = 5 };
static const uint64_t known = UINT64_C(0xb36e51fe7baa194a);

static uint64_t fnv1a(const uint8_t *p, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	while (n--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return h;
}

/* ---- whether it pays ---------------------------------------------------- */

/* Both begin with tables: the old routine with 256 rounds of a loop, whatever it is given, the
 * new one with more than that. Then the old one has a loop over the words, of 4 bytes a round;
 * with fewer rounds than these it is as fast. How often that goes round is known where blocks are
 * counted (hotspots run --blocks). */
enum { LEAST_ROUNDS = 64, LOOPS = 8 };

static int pays(int64_t function)
{
	struct dynprof_loop loops[LOOPS], *last = loops; /* blocks are in the order of their addresses */
	int64_t n = dynprof->size > offsetof(struct dynprof_api, loops) ? dynprof->loops(function, loops, sizeof *loops, LOOPS) : 0;
	for (int64_t i = 1; i < n && i < LOOPS; i++)
		if (loops[i].header > last->header)
			last = &loops[i];
	if (n <= 0 || last->entries <= 0)
		return 1; /* it is not known */
	double rounds = (double)last->iterations / (double)last->entries;
	if (getenv("AVX2_SHOW"))
		fprintf(stderr, "avx2: its loop goes round %.1f times: %s\n", rounds, rounds < LEAST_ROUNDS ? "it stays as it is" : "it is replaced");
	return rounds >= LEAST_ROUNDS;
}

static void hot(const struct dynprof_event *e, void *user)
{
	(void)user;
	if (!e->code || e->bytes <= CALL)
		return;
	uint64_t hash = fnv1a(e->code, e->bytes - CALL);
	if (getenv("AVX2_SHOW"))
		fprintf(stderr, "avx2: %s in %s: %llu bytes, %#llx\n", e->name, e->object, (unsigned long long)e->bytes, (unsigned long long)hash);
	if (e->bytes != BYTES || hash != known || !pays(e->function))
		return;
	int err = dynprof->redirect(e->function, (const void *)process, 1);
	if (err)
		fprintf(stderr, "avx2: the routine cannot be replaced: %s\n", strerror(-err));
}

int dynprof_plugin_init(const struct dynprof_api *api)
{
	dynprof = api;
	if (!__builtin_cpu_supports("avx2")) {
		fprintf(stderr, "avx2: this processor has no AVX2\n");
		return 1;
	}
	return api->size < sizeof *api || api->register_translator(hot, CALLS, DYNPROF_ASYNCHRONOUS, 0) != 0;
}
