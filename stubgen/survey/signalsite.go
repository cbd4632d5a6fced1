package survey

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// System calls of signal sites.
const (
	SysSigaction    = 13
	sysSigprocmask  = 14
	sysSigsuspend   = 130
	sysPselect6     = 270
	sysPpoll        = 271
	sysEpollPwait   = 281
	sysEpollPwait2  = 441
	maxSiteBetween  = 2          // instructions
	maxBetweenBytes = x86.MaxLen // of them; emit.EmitSignalThunk has no room for more
)

// FindSignalSites looks for signal sites by their bytes, in address order.
func FindSignalSites(text []stubgen.Segment) []stubgen.SignalSite {
	var all []stubgen.SignalSite
	for _, seg := range text {
		for _, nr := range []uint32{SysSigaction, sysSigprocmask, sysSigsuspend, sysPselect6, sysPpoll, sysEpollPwait, sysEpollPwait2} {
			mov := binary.LittleEndian.AppendUint32([]byte{opMovEAX}, nr)
			for at := 0; ; at++ {
				k := bytes.Index(seg.Code[at:], mov)
				if k < 0 {
					break
				}
				at += k
				n, ok := toSyscall(seg.Code[at+setupLen:])
				if n == 0 && isWatched(nr) {
					continue // a kernel site
				}
				if ok && likelyBoundary(seg.Code, at) {
					all = append(all, stubgen.SignalSite{Addr: seg.Addr + uint64(at), NR: nr, Between: n})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b stubgen.SignalSite) int { return cmp.Compare(a.Addr, b.Addr) })
	return all
}

// toSyscall is the number of bytes of code in front of a syscall, if they can
// move.
func toSyscall(code []byte) (n uint8, ok bool) {
	var in x86.Inst
	for range maxSiteBetween + 1 {
		if bytes.HasPrefix(code[n:], opSyscall) {
			return n, n <= maxBetweenBytes
		}
		if x86.Decode(code[n:], &in) != nil || in.Kind != x86.Plain || !emit.Movable(&in, code[n:]) {
			return 0, false
		}
		n += in.Len
	}
	return 0, false
}

// HasSite reports whether a kernel site or a signal site lies in [low, high), in
// part at least.
func (s *Survey) HasSite(low, high uint64) bool {
	for _, site := range s.sites {
		if site.Addr < high && low < max(site.End(), site.Addr+stubgen.WindowSize) {
			return true
		}
	}
	for _, site := range s.obj.SignalSites {
		if site.Addr < high && low < site.End() {
			return true
		}
	}
	return false
}
