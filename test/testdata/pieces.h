enum { RUNS = 20 };

/* Pages of text, where they are in their file, and one of them that is all padding. */
struct pieces {
	char *low, *high, *spare;
	const char *file;
	long offset;
};

long pieces_run(void);
void pieces_where(struct pieces *p);
