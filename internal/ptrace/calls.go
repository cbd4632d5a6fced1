package ptrace

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// reaching are system calls that come to memory by way of what their arguments point to, or by
// no argument at all.
var reaching = []uint64{
	unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_VMSPLICE,
	unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_IOCTL, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_IO_SUBMIT, unix.SYS_IO_URING_ENTER, unix.SYS_BPF, unix.SYS_KEYCTL,
	unix.SYS_FUTEX_WAITV, unix.SYS_PRCTL, unix.SYS_PSELECT6, unix.SYS_RT_SIGRETURN, unix.SYS_SECCOMP, unix.SYS_PTRACE,
	unix.SYS_PROCESS_MADVISE,
	unix.SYS_EPOLL_PWAIT2, unix.SYS_FSCONFIG, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_NOTIFY, unix.SYS_TIMER_CREATE,
}

// Reaches reports whether a system call may come to memory in some ranges, as overlaps tells:
// which arguments are addresses, and which are lengths, is not known of most. read reads memory.
func Reaches(r *Regs, overlaps func(low, high uint64) bool, read func(at uint64, b []byte) []byte) bool {
	const most = 1 << 40
	args := [...]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9}
	switch {
	case slices.Contains(reaching, r.Orig_rax):
		return true
	case r.Orig_rax == unix.SYS_BRK: // what is behind is unmapped
		const much = 1 << 36
		return overlaps(r.Rdi, r.Rdi+much)
	case r.Orig_rax == unix.SYS_FUTEX:
		const word, time = 4, 16
		return overlaps(r.Rdi, r.Rdi+word) || overlaps(r.R8, r.R8+word) || overlaps(r.R10, r.R10+time)
	case r.Orig_rax == unix.SYS_CLONE3: // numbers of threads are written to what it points to
		const size, word = 88, 8
		b := read(r.Rdi, make([]byte, size))
		for ; len(b) >= word; b = b[word:] {
			if at := binary.LittleEndian.Uint64(b); overlaps(at, at+word) {
				return true
			}
		}
		return overlaps(r.Rdi, r.Rdi+size)
	}
	longest := uint64(512) // of what has no length
	for _, n := range args {
		if n < most && n > longest {
			longest = n
		}
	}
	for _, at := range args {
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
