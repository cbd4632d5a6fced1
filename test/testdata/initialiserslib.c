static int initial;
__attribute__((noinline)) int inner(int x) { return x ^ 5; }
int of_library(int x) { return inner(x) + initial; }
__attribute__((constructor)) static void library_begins(void) { initial = of_library(1); }
