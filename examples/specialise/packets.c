/* packets COUNT > FILE: a capture to filter, the same one each time: Ethernet
 * frames with TCP, UDP, ICMP, fragments, ARP, IPv6, and some that are cut short. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t draw(uint32_t below)
{
	static uint64_t state = 1;
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

/* Fills in a frame; returns its length. */
static uint32_t frame(uint8_t *f)
{
	static const uint8_t protocols[] = {6, 6, 6, 17, 17, 1};
	uint32_t kind = draw(20), length = 64 + draw(64);
	for (uint32_t i = 0; i < length; i++)
		f[i] = (uint8_t)draw(256);
	memcpy(f + 12, kind == 0 ? "\x08\x06" : kind == 1 ? "\x86\xdd" : "\x08\x00", 2);
	if (kind == 0)
		memcpy(f + 14, "\x00\x01\x08\x00\x06\x04\x00\x01", 8);
	if (kind == 1)
		memcpy(f + 14, "\x60\x00\x00\x00\x00\x14\x06\x40", 8);
	if (kind < 2)
		return length;
	f[14] = kind == 2 ? 0x46 : 0x45; /* with options */
	memcpy(f + 20, kind == 3 ? "\x00\x10" : "\x40\x00", 2); /* a later fragment */
	f[23] = protocols[draw(sizeof protocols)];
	for (int i = 26; i < 34; i += 4) {
		uint8_t address[] = {10, (uint8_t)draw(4), 0, (uint8_t)draw(256)};
		memcpy(f + i, address, sizeof address);
	}
	return length;
}

int main(int argc, char **argv)
{
	const struct { uint32_t magic; uint16_t major, minor; uint32_t zone, digits, most, link; } file = {0xa1b2c3d4, 2, 4, 0, 0, 65535, 1};
	long count = argc > 1 ? atol(argv[1]) : 1000;
	fwrite(&file, sizeof file, 1, stdout);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t f[128];
		uint32_t length = frame(f), kept = draw(50) ? length : draw(length);
		uint32_t packet[] = {1700000000 + i / 1000, i % 1000 * 1000, kept, length};
		fwrite(packet, sizeof packet, 1, stdout);
		fwrite(f, 1, kept, stdout);
	}
	return fflush(stdout) || ferror(stdout);
}
