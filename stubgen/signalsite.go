package stubgen

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// SignalSite is a `mov $NR,%eax`, up to two plain instructions, and a `syscall`
// that changes what a signal does or which are blocked. Where traps are allowed
// the library stands in for it, so that SIGTRAP stays handled and unblocked;
// the program sees what it asked for.
type SignalSite struct {
	Addr    uint64 // of the mov
	NR      uint32 // system call number
	Between uint8  // bytes between the two
}

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
	maxBetweenBytes = maxInst    // of them; EmitSignalThunk has no room for more
	movSize         = windowSize // of mov $NR,%eax
	syscallSize     = 2
)

func (s SignalSite) syscall() uint64 { return s.Addr + movSize + uint64(s.Between) }

func (s SignalSite) end() uint64 { return s.syscall() + syscallSize }

// FindSignalSites looks for signal sites by their bytes, in address order.
func FindSignalSites(text []Segment) []SignalSite {
	var all []SignalSite
	for _, seg := range text {
		for _, nr := range []uint32{SysSigaction, sysSigprocmask, sysSigsuspend, sysPselect6, sysPpoll, sysEpollPwait, sysEpollPwait2} {
			mov := binary.LittleEndian.AppendUint32([]byte{opMovEAX}, nr)
			for at := 0; ; at++ {
				k := bytes.Index(seg.Code[at:], mov)
				if k < 0 {
					break
				}
				at += k
				n, ok := toSyscall(seg.Code[at+movSize:])
				if n == 0 && isWatched(nr) {
					continue // a kernel site
				}
				if ok && likelyBoundary(seg.Code, at) {
					all = append(all, SignalSite{seg.Addr + uint64(at), nr, n})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b SignalSite) int { return cmp.Compare(a.Addr, b.Addr) })
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
		if x86.Decode(code[n:], &in) != nil || in.Kind != x86.Plain || !movable(&in, code[n:]) {
			return 0, false
		}
		n += in.Len
	}
	return 0, false
}

// siteIn reports whether a kernel site or a signal site lies in [low, high), in
// part at least.
func (s *Survey) siteIn(low, high uint64) bool {
	for _, site := range s.sites {
		if site.Addr < high && low < max(site.End(), site.Addr+windowSize) {
			return true
		}
	}
	for _, site := range s.obj.SignalSites {
		if site.Addr < high && low < site.end() {
			return true
		}
	}
	return false
}

// EmitSignalThunk writes what a signal site jumps to instead of loading its
// system call number; slow is dp_signal_site of libdynprof/resident/sites/slowpath.S. The
// system call itself stays where it is, and %rcx leads behind it: unwinders
// take that for the return address.
//
//	        mov   $NR, %eax
//	        <what stands in front of the system call>
//	        lea   <behind the system call>(%rip), %rcx
//	        jmp   *literal
//	literal: <slow>
//
// It takes ThunkSize bytes at most.
func EmitSignalThunk(o *Object, site SignalSite, dst []byte, at x86.RunAddr, slow uint64) error {
	var a x86.Asm
	a.Reset(dst, at)
	l := a.NewLabel()
	a.Copy(binary.LittleEndian.AppendUint32([]byte{opMovEAX}, site.NR))
	r := relocator{asm: &a, obj: o}
	var in x86.Inst
	for pc := site.Addr + movSize; pc < site.syscall(); pc += uint64(in.Len) {
		code := o.Code(pc)
		decodeAgain(code, &in)
		r.one(&in, code[:in.Len], pc)
	}
	a.LeaRCXTo(o.Run(site.end()))
	a.JmpMem(l)
	quad(&a, l, slow)
	return a.Finish()
}
