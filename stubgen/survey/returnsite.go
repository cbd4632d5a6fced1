package survey

import (
	"bytes"
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
	for _, seg := range text {
		for at := 0; ; at += len(returnCode) {
			k := bytes.Index(seg.Code[at:], returnCode)
			if k < 0 {
				break
			}
			at += k
			sites = append(sites, stubgen.KernelSite{Addr: seg.Addr + uint64(at), Setup: string(returnSetup), Number: sysRtSigreturn})
		}
	}
	return sites
}
