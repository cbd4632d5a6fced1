// dynprof.h in C++.
#include <cstdio>

#include "dynprof.h"

int main()
{
	int paused = dynprof_pause();
	dynprof_resume();
	std::printf("%d %d\n", paused, dynprof_active());
}
