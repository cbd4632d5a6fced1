package stubgen

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// CloneSite is a `mov $NR,%eax; syscall` that makes a thread or process. The
// 5-byte mov is a ready window: the new thread gets its row there.
type CloneSite struct {
	Addr uint64 // of the mov
	NR   uint32 // system call number
}

// System calls that make a thread or process which does not run on its
// parent's stack while the parent waits (vfork, 58, does, and needs no row).
const (
	sysClone  = 56
	sysFork   = 57
	sysClone3 = 435
)

// cloneSiteLen is the length of mov and syscall.
const cloneSiteLen = 7

const opMovEAX = 0xb8

func isCloneNR(nr uint32) bool { return nr == sysClone || nr == sysFork || nr == sysClone3 }

// CloneSites lists the clone sites of the object's functions, in address
// order. libc has three, in _Fork, clone and clone3.
func (s *Survey) CloneSites() []CloneSite { return s.sites }

// site looks at a system call, at offset at of the function's code, for the
// mov in front of it, at offset prev.
func (w *sweep) site(code []byte, prev, at int, pc uint64) {
	if at-prev != 5 || code[prev] != opMovEAX {
		return
	}
	if nr := binary.LittleEndian.Uint32(code[prev+1:]); isCloneNR(nr) {
		w.sites = append(w.sites, CloneSite{pc - 5, nr})
	}
}

var opSyscall = []byte{0x0f, 0x05}

// sitePatterns are the bytes of mov and syscall, by system call.
var sitePatterns = func() (all [][]byte) {
	for _, nr := range []uint32{sysClone, sysFork, sysClone3} {
		mov := binary.LittleEndian.AppendUint32([]byte{opMovEAX}, nr)
		all = append(all, append(mov, opSyscall...))
	}
	return all
}()

// FindCloneSites looks for clone sites by their bytes, in text whose functions
// are not known.
func FindCloneSites(text []Segment) []CloneSite {
	var sites []CloneSite
	for _, seg := range text {
		sites = appendSites(sites, seg, 0, len(seg.Code))
	}
	slices.SortFunc(sites, func(a, b CloneSite) int { return cmp.Compare(a.Addr, b.Addr) })
	return sites
}

// appendSites looks for clone sites whose system call lies in [from, to) of the
// segment.
func appendSites(sites []CloneSite, seg Segment, from, to int) []CloneSite {
	from = max(from-(cloneSiteLen-2), 0)
	for _, pattern := range sitePatterns {
		for at := from; ; at++ {
			k := bytes.Index(seg.Code[at:to], pattern)
			if k < 0 {
				break
			}
			at += k
			if likelyBoundary(seg.Code, at) {
				sites = append(sites, CloneSite{seg.Addr + uint64(at), binary.LittleEndian.Uint32(pattern[1:])})
			}
		}
	}
	return sites
}

// sitesBetween looks where the sweep does not: in text that no function is
// known to cover. In libc's clone3 the FDE ends in front of the syscall, since
// in the child it would be wrong.
func (s *Survey) sitesBetween() {
	for _, seg := range s.obj.Text {
		if seg.Tail {
			continue
		}
		covered := seg.Addr
		for i := range s.obj.Functions {
			f := &s.obj.Functions[i]
			if f.Addr < seg.Addr || f.Addr >= seg.end() {
				continue
			}
			if f.Addr > covered && bytes.Contains(seg.Code[covered-seg.Addr:f.Addr-seg.Addr], opSyscall) {
				s.sites = appendSites(s.sites, seg, int(covered-seg.Addr), int(f.Addr-seg.Addr))
			}
			covered = max(covered, f.Addr+f.Size)
		}
		if covered < seg.end() {
			s.sites = appendSites(s.sites, seg, int(covered-seg.Addr), len(seg.Code))
		}
	}
}

// likelyBoundary reports whether an instruction starts at offset at: decoding
// falls into step with the true instructions within a few, so of the starts
// in front of it most must arrive there.
func likelyBoundary(code []byte, at int) bool {
	const starts, near = 32, 16
	arrived, tried := 0, 0
	for from := at - near - starts; from < at-near; from++ {
		if from < 0 {
			continue
		}
		tried++
		var in x86.Inst
		pos := from
		for pos < at {
			if x86.Decode(code[pos:], &in) != nil {
				in.Len = 1
			}
			pos += int(in.Len)
		}
		if pos == at {
			arrived++
		}
	}
	return arrived*4 >= tried*3 && tried > 0
}
