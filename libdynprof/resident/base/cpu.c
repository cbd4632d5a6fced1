/* See cpu.h. */
#include <cpuid.h>

#include "base/cpu.h"

/* BMI2; AMD before Zen 3 runs pext in microcode, 20 cycles and more. */
static int masks_fast(uint32_t family, uint32_t features)
{
	enum { HYGON_ECX = 0x656e6975, ZEN3 = 0x19 }; /* "uine", of HygonGenuine */
	uint32_t a, vendor, last, d;
	if (!(features & bit_BMI2) || !__get_cpuid(0, &a, &vendor, &last, &d))
		return 0;
	int amd = vendor == signature_AMD_ebx || last == HYGON_ECX;
	return !amd || (family >> 8 & 0xf) + (family >> 20 & 0xff) >= ZEN3;
}

/* SDM volume 1, 13.2, 14.3, 15.2. */
static struct dp_cpu asked(void)
{
	enum { AVX = 0x6, AVX512 = 0xe6 };
	struct dp_cpu is = {0};
	uint32_t family, b, c, d, a, features = 0, low = 0, high, size;
	if (!__get_cpuid(1, &family, &b, &c, &d))
		return is;
	if (!__get_cpuid_count(7, 0, &a, &features, &high, &d))
		features = 0;
	is.masks = (uint8_t)masks_fast(family, features);
	if (!(c & bit_OSXSAVE))
		return is;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	is.avx = c & bit_AVX && (low & AVX) == AVX;
	is.avx512 = is.avx && features & bit_AVX512F && (low & AVX512) == AVX512;
	is.words = is.avx512 && features & bit_AVX512BW;
	if (__get_cpuid_count(13, 0, &a, &size, &high, &d))
		is.state = size;
	return is;
}

const struct dp_cpu *dp_cpu(void)
{
	static struct dp_cpu is;
	static uint8_t known;
	if (!__atomic_load_n(&known, __ATOMIC_ACQUIRE)) {
		is = asked(); /* the same, whoever does */
		__atomic_store_n(&known, 1, __ATOMIC_RELEASE);
	}
	return &is;
}
