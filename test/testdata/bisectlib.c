/* The library of bisect.c. Its twin has the name of another function there. */
static volatile int sink;

int first_of_library(int x) { sink += x; return sink * 3; }
__attribute__((noinline)) static int twin(int x) { sink ^= x; return sink * 17; }
int last_of_library(int x) { sink += twin(x); return sink * 7; }

int (*library_function(void))(int) { return twin; }
