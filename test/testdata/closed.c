// Which of the first three descriptors are open: 10 if none is.
#include <fcntl.h>
#include <stdio.h>
int main(void) { return 10 + (fcntl(0, F_GETFD) >= 0) + 2 * (fcntl(1, F_GETFD) >= 0) + 4 * (fcntl(2, F_GETFD) >= 0); }
