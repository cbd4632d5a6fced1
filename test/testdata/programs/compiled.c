/* What the compiler is given: enough for most of its passes to run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *left, *right;
	int key;
	char name[12];
};

static struct node *insert(struct node *n, int key)
{
	if (!n) {
		n = calloc(1, sizeof *n);
		n->key = key;
		snprintf(n->name, sizeof n->name, "n%d", key);
		return n;
	}
	if (key < n->key)
		n->left = insert(n->left, key);
	else
		n->right = insert(n->right, key);
	return n;
}

static double sum(const struct node *n)
{
	return n ? sum(n->left) + sqrt(n->key) + sum(n->right) : 0;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static unsigned crc(const unsigned char *p, size_t n)
{
	unsigned c = ~0u;
	while (n--) {
		c ^= *p++;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
	}
	return ~c;
}

static const char *kind(int n)
{
	switch (n % 9) {
	case 0: return "zero";
	case 1: return "one";
	case 2: return "two";
	case 4: return "four";
	case 7: return "seven";
	default: return n & 1 ? "odd" : "even";
	}
}

int main(int argc, char **argv)
{
	static int values[1000];
	float matrix[16][16], trace = 0;
	struct node *root = 0;
	for (int i = 0; i < 1000; i++)
		root = insert(root, values[i] = i * 7919 % 1009);
	qsort(values, 1000, sizeof *values, compare);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 16; j++)
			matrix[i][j] = (float)(i * j) / (float)(i + j + 1);
	for (int i = 0; i < 16; i++)
		trace += matrix[i][i];
	printf("%.3f %d %s %08x %.3f\n", sum(root), values[argc], kind(values[500]),
	       crc((const unsigned char *)argv[0], strlen(argv[0])), trace);
	return 0;
}
