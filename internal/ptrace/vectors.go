package ptrace

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Vectors are a tracee's vector and mask registers.
type Vectors struct {
	Vector [32][64]byte
	Mask   [8]uint64
}

// cpuid asks the CPU.
func cpuid(leaf, sub uint32) (a, b uint32)

// Vectors are those of a thread that has stopped. What the CPU or the kernel does not have is 0, as
// is what the thread has not used.
func (t Tracee) Vectors() (v Vectors, err error) {
	const xstate, extended, legacy = 0x202, 512, 160 // SDM vol. 1, 13.4: the area without compaction
	var b [16 << 10]byte
	vec := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	if err = requestAt(unix.PTRACE_GETREGSET, int(t), xstate, unsafe.Pointer(&vec)); err != nil {
		return v, err
	}
	has := binary.LittleEndian.Uint64(b[extended:])
	for i := range 16 {
		copy(v.Vector[i][:], b[legacy+16*i:][:16])
	}
	area := func(n, size int) []byte {
		const leaf = 13
		if has>>n&1 == 0 {
			return make([]byte, size)
		}
		_, at := cpuid(leaf, uint32(n))
		return b[at:][:size]
	}
	const upper, masks, upper256, more = 2, 5, 6, 7
	if has>>1&1 == 0 { // xmm0 to 15 are 0
		v.Vector = [32][64]byte{}
	}
	for i, b := 0, area(upper, 16*16); i < 16; i++ {
		copy(v.Vector[i][16:], b[16*i:][:16])
	}
	for i, b := 0, area(masks, 8*8); i < 8; i++ {
		v.Mask[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	for i, b := 0, area(upper256, 16*32); i < 16; i++ {
		copy(v.Vector[i][32:], b[32*i:][:32])
	}
	for i, b := 0, area(more, 16*64); i < 16; i++ {
		copy(v.Vector[16+i][:], b[64*i:][:64])
	}
	return v, nil
}
