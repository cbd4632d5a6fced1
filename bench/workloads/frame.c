/* A codec's work on one VGA frame, whose planes are registered with memtr: frame LINES.
 *
 * Of so many lines of luma each pixel is compared with five of the frame before, and what is left
 * is written; chroma, of half the size, likewise. Prints the accesses to planes, and how many ns
 * that took by CLOCK_MONOTONIC and CLOCK_PROCESS_CPUTIME_ID. Built with -DPAPER it has memtr as it
 * was published in place of ours. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef PAPER
#include "memtr_paper.h"
#else
#include "memtr.h"
#endif

enum { WIDTH = 640, HEIGHT = 480, PLANES = 3, NEIGHBOURS = 5 };

/* In order, and none left out: one access for each that is written here. */
typedef volatile uint8_t *plane;

static uint64_t accesses;

__attribute__((noinline)) static void lines(plane out, plane now, plane before, long width, long n)
{
	static const int offset[NEIGHBOURS] = {0, -1, 1, -2, 2};
	for (long y = 0; y < n; y++)
		for (long x = 2; x < width - 2; x++) {
			int v = now[y * width + x], best = 255;
			for (int k = 0; k < NEIGHBOURS; k++) {
				int d = abs(v - before[y * width + x + offset[k]]);
				best = d < best ? d : best;
			}
			out[y * width + x] = (uint8_t)best;
		}
	accesses += (uint64_t)n * (uint64_t)(width - 4) * (NEIGHBOURS + 2);
}

static uint64_t ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : HEIGHT, size[PLANES] = {WIDTH * HEIGHT, WIDTH * HEIGHT / 4, WIDTH * HEIGHT / 4};
	uint8_t *frames[3][PLANES];
	memtr_init();
	for (int f = 0; f < 3; f++)
		for (int p = 0; p < PLANES; p++) {
			if (posix_memalign((void **)&frames[f][p], 4096, (size_t)size[p]))
				return 1;
			for (long i = 0; i < size[p]; i++)
				frames[f][p][i] = (uint8_t)(i * 31 + i / WIDTH * 7 + f * 3);
		}
	for (int f = 0; f < 3; f++)
		for (int p = 0; p < PLANES; p++)
			memtr_regist(frames[f][p], (size_t)size[p]);
	uint64_t wall = ns(CLOCK_MONOTONIC), cpu = ns(CLOCK_PROCESS_CPUTIME_ID);
	for (long left = n; left > 0; left -= HEIGHT) {
		long now = left < HEIGHT ? left : HEIGHT;
		lines(frames[2][0], frames[1][0], frames[0][0], WIDTH, now);
		for (int p = 1; p < PLANES; p++)
			lines(frames[2][p], frames[1][p], frames[0][p], WIDTH / 2, now / 2);
	}
	memtr_end();
	cpu = ns(CLOCK_PROCESS_CPUTIME_ID) - cpu, wall = ns(CLOCK_MONOTONIC) - wall;
	for (int f = 0; f < 3; f++)
		for (int p = 0; p < PLANES; p++)
			memtr_remove(frames[f][p]);
	long sum = 0;
	for (int p = 0; p < PLANES; p++)
		for (long i = 0; i < size[p]; i++)
			sum += frames[2][p][i];
	printf("%lu %lu %lu %ld\n", accesses, wall, cpu, sum);
	return 0;
}
