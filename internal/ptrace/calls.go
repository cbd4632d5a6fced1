package ptrace

import (
	"slices"

	"golang.org/x/sys/unix"
)

// reaching are system calls that come to memory by way of what their arguments point to, or by
// no argument at all.
var reaching = []uint64{
	unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_VMSPLICE,
	unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_IOCTL, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_IO_SUBMIT, unix.SYS_IO_URING_ENTER, unix.SYS_BPF, unix.SYS_KEYCTL,
	unix.SYS_FUTEX_WAITV, unix.SYS_PRCTL, unix.SYS_PSELECT6, unix.SYS_RT_SIGRETURN, unix.SYS_CLONE3, unix.SYS_SECCOMP, unix.SYS_PTRACE,
	unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_PROCESS_MADVISE,
	unix.SYS_EPOLL_PWAIT2, unix.SYS_FSCONFIG, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_NOTIFY, unix.SYS_TIMER_CREATE,
}

// Reaches reports whether a system call may come to memory in some ranges, as overlaps tells:
// which arguments are addresses, and which are lengths, is not known.
func Reaches(r *Regs, overlaps func(low, high uint64) bool) bool {
	const most = 1 << 40
	if slices.Contains(reaching, r.Orig_rax) {
		return true
	}
	args := [...]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9}
	for _, at := range args {
		longest := uint64(512) // of what has no length
		for _, n := range args {
			if n < most && n > longest {
				longest = n
			}
		}
		if at >= 4096 && at < 1<<47 && overlaps(at, min(at+longest, 1<<47)) {
			return true
		}
	}
	return false
}

// Numbers of system calls that somebody else asks for.
const (
	CallMprotect  = unix.SYS_MPROTECT
	CallSigaction = unix.SYS_RT_SIGACTION
	CallSeccomp   = unix.SYS_SECCOMP
	CallPrctl     = unix.SYS_PRCTL
	CallRseq      = unix.SYS_RSEQ
	SetSeccomp    = unix.PR_SET_SECCOMP
	NoCall        = noSyscall
)
