int step(int x) { return x * 3 + 1; }
int twice(int x) { return step(x) + step(x + 1); }
