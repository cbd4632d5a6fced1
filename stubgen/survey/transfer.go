package survey

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/stubgen"
)

// System calls that move bytes between sockets and memory, which
// libdynprof/resident/sites/transfers.c knows apart.
const (
	sysSendto   = 44
	sysRecvfrom = 45
	sysSendmsg  = 46
	sysRecvmsg  = 47
	sysRecvmmsg = 299
	sysSendmmsg = 307
)

var transfers = []uint32{sysSendto, sysRecvfrom, sysSendmsg, sysRecvmsg, sysRecvmmsg, sysSendmmsg}

// FindTransfers looks for such system calls by their bytes, in address order. libc has one
// for programs without threads, and one in which a thread can be cancelled, in each of its
// functions, and compares the result, so that no flag is live:
//
//	mov  $NR,%eax
//	...                   ; other arguments are loaded
//	syscall
//	cmp  $-4096,%rax      ; or -4095
//
// musl makes all by one system call, as do glibc's of 2.41 and later.
func FindTransfers(text []stubgen.Segment) (all []stubgen.Transfer) {
	for seg, at := range each(text, opSyscall) {
		if t, ok := transfer(seg, at); ok {
			all = append(all, t)
		}
	}
	return all
}

// transfer is the one whose system call is at offset at.
func transfer(seg stubgen.Segment, at int) (t stubgen.Transfer, ok bool) {
	const near = 48
	behind := at + len(opSyscall)
	end := behind + len(opCmpRAX)
	if end > len(seg.Code) || !comparesResult(seg.Code[behind:end]) {
		return t, false
	}
	t = stubgen.Transfer{Addr: seg.Addr + uint64(behind), Compares: string(seg.Code[behind:end])}
	for from := at - setupLen; from >= max(0, at-near); from-- {
		if seg.Code[from] != opMovEAX || !keepsRAX(seg.Code, from+setupLen, at) {
			continue
		}
		t.Number = binary.LittleEndian.Uint32(seg.Code[from+1:])
		return t, slices.Contains(transfers, t.Number) && likelyBoundary(seg.Code, from) && !branchesInto(seg, t.Addr, t.Addr, t.End()) // past the system call
	}
	return t, false
}

// comparesResult reports whether code is a comparison of rax with the least number of an error,
// or the one below.
func comparesResult(code []byte) bool {
	const last = 3 // bytes that are the same
	first, n := len(opCmpRAX)-last, code[len(opCmpRAX)-last-1]
	return bytes.Equal(code[:first-1], opCmpRAX[:first-1]) && n <= opCmpRAX[first-1] && bytes.Equal(code[first:], opCmpRAX[first:])
}
