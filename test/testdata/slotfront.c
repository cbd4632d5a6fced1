/* Put in front of slotlib.c's. */
long slot_target(long x) { return x - 5; }
