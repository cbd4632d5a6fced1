package emit

import "github.com/dynprof/dynprof/internal/x86"

// Marks by the base of FS or GS, as thread-local variables have, and those of whose address only
// 32 bits count. The base is asked for each time, as a program may have its threads change it.

// mostOfFar is how many bytes more such a mark takes than another.
const mostOfFar = 5 + 2*4

func (m *Mark) isFar() bool {
	return m.At == 0 && (m.Memory.Segment != x86.SegmentNone || m.Memory.Addr32)
}

// moreOfFar is how many bytes more such marks take than others.
func (t *Touch) moreOfFar() (n int) {
	for i := range t.Marks {
		if t.Marks[i].isFar() {
			n += mostOfFar
		}
	}
	return n
}

// far loads the address of such a mark:
//
//	rdfsbase r
//	lea      r, [r+index*scale+disp]
//	lea      r, [r+base]              ; if it has both
//	add      r, [rsp]                 ; in place of rax, where flags are saved
//
// or
//
//	lea      r32, [base+index*scale+disp]
//	lea      r, [r+ahead]             ; unless that is 0
func (t *Touch) far(a *x86.Asm, r byte, m *Mark) {
	at := m.Memory
	if at.Addr32 {
		a.Lea32(r, t.memory(a, r, at))
		if m.Ahead != 0 {
			a.Lea(r, x86.Memory{Base: r, Index: x86.NoRegister, Scale: 1, Disp: m.Ahead})
		}
		return
	}
	saved := 0
	if t.Scratch == x86.NoRegister && t.KeepsFlags {
		if at.Base == x86.RAX {
			at.Base, saved = x86.NoRegister, saved+1
		}
		if at.Index == x86.RAX {
			at.Index, saved = x86.NoRegister, saved+1
		}
	}
	at = t.memory(a, r, at)
	a.Base(r, at.Segment)
	base := at.Base
	if base != x86.NoRegister && at.Index == x86.NoRegister {
		at.Index, at.Scale, base = base, 1, x86.NoRegister
	}
	if at.Index == x86.RSP { // is no index
		at.Index, base = x86.NoRegister, x86.RSP
	}
	at.Base = r
	a.Lea(r, at)
	if base != x86.NoRegister {
		a.Lea(r, x86.Memory{Base: base, Index: r, Scale: 1})
	}
	for range saved {
		a.AddTop(r)
	}
}
