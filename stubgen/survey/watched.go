package survey

// System calls that make a thread or process, and that end one (endsite.go), those
// that install filters, the one that installs signal handlers, the one that
// resumes contexts, the one that sets the GS base, the one that locks all memory,
// those that execute a program, those by which text becomes writable, or other memory takes its place,
// and those that limit the address space.
const (
	sysMmap        = 9
	sysMprotect    = 10
	sysMunmap      = 11
	sysRtSigaction = 13
	sysRtSigreturn = 15
	sysMremap      = 25
	sysMadvise     = 28

	sysGetrlimit = 97
	sysSetrlimit = 160
	sysPrlimit64 = 302

	sysClone        = 56
	sysFork         = 57
	sysVfork        = 58
	sysExecve       = 59
	sysExit         = 60
	sysMlockall     = 151
	sysPrctl        = 157
	sysArchPrctl    = 158
	sysExitGroup    = 231
	sysSeccomp      = 317
	sysExecveat     = 322
	sysPkeyMprotect = 329
	sysClone3       = 435
)

// watched are the system calls that have kernel sites. libdynprof/resident/sites/watched.h is
// generated from it, in this order, but for those that slowpath.S asks for first.
var watched = []struct {
	name   string
	number uint32
	first  bool
}{
	{"rt_sigaction", sysRtSigaction, true},
	{"rt_sigreturn", sysRtSigreturn, true},
	{"mmap", sysMmap, true},
	{"munmap", sysMunmap, true},
	{"madvise", sysMadvise, true},
	{"mremap", sysMremap, true},
	{"getrlimit", sysGetrlimit, true},
	{"setrlimit", sysSetrlimit, true},
	{"prlimit64", sysPrlimit64, true},
	{"mprotect", sysMprotect, false},
	{"clone", sysClone, false},
	{"fork", sysFork, false},
	{"vfork", sysVfork, false},
	{"execve", sysExecve, false},
	{"execveat", sysExecveat, false},
	{"exit", sysExit, false},
	{"exit_group", sysExitGroup, false},
	{"mlockall", sysMlockall, false},
	{"prctl", sysPrctl, false},
	{"arch_prctl", sysArchPrctl, false},
	{"seccomp", sysSeccomp, false},
	{"pkey_mprotect", sysPkeyMprotect, false},
	{"clone3", sysClone3, false},
}

func isWatched(number uint32) bool {
	for i := range watched {
		if watched[i].number == number {
			return true
		}
	}
	return false
}
