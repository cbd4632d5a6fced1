package stubgen

import (
	"bytes"
	"encoding/binary"

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

// cloneTail is how a clone site ends: the upper half of the number, syscall.
var cloneTail = []byte{0, 0, 0x0f, 0x05}

// nextSite finds the next bytes of a clone site at or after from in text; its
// offset is -1 if there are no more.
func nextSite(text []byte, from int) (at int, nr uint32) {
	for {
		k := bytes.Index(text[from:], cloneTail)
		if k < 0 {
			return -1, 0
		}
		mov := from + k - 3 // opcode and the number's lower half come before
		from += k + 1
		if mov < 0 || text[mov] != opMovEAX {
			continue
		}
		switch nr := binary.LittleEndian.Uint32(text[mov+1:]); nr {
		case sysClone, sysFork, sysClone3:
			return mov, nr
		}
	}
}

const opMovEAX = 0xb8

// MayClone reports whether text holds the bytes of a clone site.
func MayClone(text []byte) bool {
	at, _ := nextSite(text, 0)
	return at >= 0
}

// FindCloneSites looks for clone sites in all functions of o. libc has three,
// in _Fork, clone and clone3. A match counts only where decoding its function
// from the entry arrives at it.
func FindCloneSites(o *Object) []CloneSite {
	var sites []CloneSite
	for _, seg := range o.Text {
		for at, nr := nextSite(seg.Code, 0); at >= 0; at, nr = nextSite(seg.Code, at+cloneSiteLen) {
			if addr := seg.Addr + uint64(at); o.isBoundary(addr) {
				sites = append(sites, CloneSite{addr, nr})
			}
		}
	}
	return sites
}

// isBoundary reports whether decoding from the entry of the function around
// addr arrives at addr.
func (o *Object) isBoundary(addr uint64) bool {
	i := o.function(addr)
	if i < 0 {
		return false
	}
	code, pc := o.body(i), o.Functions[i].Addr
	var in x86.Inst
	for len(code) > 0 && pc < addr {
		if x86.Decode(code, &in) != nil {
			return false
		}
		code, pc = code[in.Len:], pc+uint64(in.Len)
	}
	return pc == addr && len(code) > 0
}
