/* Packet filters (McCanne, Jacobson, "The BSD Packet Filter", USENIX 1993) as C. */
#ifndef BPF_H
#define BPF_H

#include <linux/filter.h>
#include <stddef.h>

enum { MOST_INSTRUCTIONS = 4096 };

/* How many instructions the program has: its first ones beyond which none of them
 * leads. Reads no others. 0: more than MOST_INSTRUCTIONS, or it has loops. */
size_t bpf_length(const struct sock_filter *program);

/* C text of unsigned filter(const unsigned char *packet, unsigned length,
 * unsigned captured), which returns what libpcap's interpreter does. To be freed;
 * NULL: no memory, or an instruction that is not known. */
char *bpf_text(const struct sock_filter *program, size_t length);

#endif
