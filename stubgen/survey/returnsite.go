package survey

import (
	"bytes"
	"iter"
	"slices"

	"github.com/dynprof/dynprof/stubgen"
)

// What a signal handler returns to: mov $15,%rax; syscall. Unwinders know it by these bytes where
// no call frame information tells of it.
var (
	returnSetup = []byte{0x48, 0xc7, 0xc0, sysRtSigreturn, 0, 0, 0}
	returnCode  = slices.Concat(returnSetup, opSyscall)
)

// FindReturnSites lists what signal handlers may return to, by its bytes.
func FindReturnSites(text []stubgen.Segment) (sites []stubgen.KernelSite) {
	for seg, at := range each(text, returnCode) {
		sites = append(sites, stubgen.KernelSite{Addr: seg.Addr + uint64(at), Setup: string(returnSetup), Number: sysRtSigreturn})
	}
	return sites
}

// each is where bytes are in text, by segment and offset, in address order.
func each(text []stubgen.Segment, code []byte) iter.Seq2[stubgen.Segment, int] {
	return func(yield func(stubgen.Segment, int) bool) {
		for _, seg := range text {
			for at := 0; ; at += len(code) {
				k := bytes.Index(seg.Code[at:], code)
				if k < 0 {
					break
				}
				if at += k; !yield(seg, at) {
					return
				}
			}
		}
	}
}
