package audit

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/x86"
)

// accesses are those of an operand with a mask, each of which the program records: what is in one
// piece, or each lane.
func accesses(f *x86.Form, in *x86.Inst, r *ptrace.Regs, v *ptrace.Vectors, one operand) (all []operand) {
	add := func(at uint64, size int) {
		p := one
		p.at, p.size = at, uint32(size)
		all = append(all, p)
	}
	element := int(f.Element)
	switch f.Way {
	case x86.FormAny:
		if bits(f, v, element, 0) != 0 {
			add(address(&f.Operand, in, r), int(f.Size))
		}
	case x86.FormLanes:
		mask := bits(f, v, element, int(f.Size))
		for i := range element {
			if mask>>i&1 != 0 {
				add(lane(f, in, r, v, i), int(f.Size))
			}
		}
	default:
		at, n := address(&f.Operand, in, r), int(f.Size)/element
		mask := bits(f, v, n, element)
		if f.Way == x86.FormPacked {
			packed := uint64(0)
			for ; mask != 0; mask &= mask - 1 {
				packed = packed<<1 | 1
			}
			mask = packed
		}
		for i := 0; i < n; {
			end := i
			for end < n && mask>>end&1 != 0 {
				end++
			}
			if end > i {
				add(at+uint64(i*element), (end-i)*element)
			}
			i = end + 1
		}
	}
	return all
}

// bits is the mask of n elements of so many bytes.
func bits(f *x86.Form, v *ptrace.Vectors, n, size int) (mask uint64) {
	for i := range n {
		bit := v.Mask[f.Register&7] >> i & 1
		if f.Vector {
			bit = uint64(v.Vector[f.Register&31][i*size+size-1] >> 7)
		}
		mask |= bit << i
	}
	return mask
}

func lane(f *x86.Form, in *x86.Inst, r *ptrace.Regs, v *ptrace.Vectors, i int) uint64 {
	o, index := f.Operand, v.Vector[f.Index&31][:]
	n := int64(0)
	if f.Flags&x86.OperandIndex32 != 0 {
		n = int64(int32(binary.LittleEndian.Uint32(index[4*i:])))
	} else {
		n = int64(binary.LittleEndian.Uint64(index[8*i:]))
	}
	o.Index = x86.NoRegister
	o.Disp += n * int64(f.Scale)
	return address(&o, in, r)
}
