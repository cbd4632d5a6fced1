/* A translator in a library; it closes that if it is given its handle. */
#include <dlfcn.h>
#include <dynprof.h>

void hot(const struct dynprof_event *e, void *user)
{
	(void)e;
	if (user)
		dlclose(user);
}
