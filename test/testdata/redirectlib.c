long exported(long x);
long exported(long x) { return 10 * x; }
