/* Another translator in the place of one that is gone or has crashed. */
#ifndef INSTEAD_H
#define INSTEAD_H

#include <dynprof.h>
#include <errno.h>
#include <unistd.h>

/* The first one is there until it is found out, which takes a thread that gets a CPU. */
static inline int instead(dynprof_translator *t, uint64_t threshold, int mode)
{
	int err = -EBUSY;
	for (int i = 0; i < 60000 && err == -EBUSY; i++) {
		err = dynprof_register_translator(t, threshold, mode, 0);
		usleep(err == -EBUSY ? 1000 : 0);
	}
	return err;
}

#endif
