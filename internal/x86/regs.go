package x86

// RegSet is a set of registers. G has the general ones, 0 to 15 by their
// numbers, and k0 to k7 from bit 16 on. V has the low 128 bits of vector
// registers 0 to 15, from bit 16 on what lies above these (ymm, zmm), and from
// bit 32 on the whole of registers 16 to 31.
type RegSet struct {
	G uint32
	V uint64
}

// General registers.
const (
	RAX = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
)

// CallerSaved are the registers that the ABI lets a function change (System V ABI,
// 3.2.1); the x87 and MMX registers are not looked at.
var CallerSaved = RegSet{0xff0000 | 0x0fc7, ^uint64(0)}

// Results are the registers in which functions return something, vectors of 256 and 512 bits included.
var Results = RegSet{1<<RAX | 1<<RDX, 0x3_0003}

// Arguments are the registers in which functions get something: AL is the number of
// vector registers that a variable argument list has, R10 the static chain.
var Arguments = RegSet{1<<RAX | 1<<RDI | 1<<RSI | 1<<RDX | 1<<RCX | 1<<R8 | 1<<R9 | 1<<R10, 0xff_00ff}

// Or is the union.
func (s RegSet) Or(t RegSet) RegSet { return RegSet{s.G | t.G, s.V | t.V} }

// And is the intersection.
func (s RegSet) And(t RegSet) RegSet { return RegSet{s.G & t.G, s.V & t.V} }

// Without is s but for what is in t.
func (s RegSet) Without(t RegSet) RegSet { return RegSet{s.G &^ t.G, s.V &^ t.V} }

// Empty reports whether nothing is in s.
func (s RegSet) Empty() bool { return s.G == 0 && s.V == 0 }

const (
	maskShift  = 16 // of k0 in G
	upperShift = 16 // of what lies above xmm0 in V
)

func general(n byte) RegSet { return RegSet{G: 1 << n} }
func mask(n byte) RegSet    { return RegSet{G: 1 << (maskShift + n&7)} }

// vector is register n, of which wide says whether all of it or only 128 bits.
func vector(n byte, wide bool) RegSet {
	switch {
	case n >= 16:
		return RegSet{V: 1 << (16 + n)}
	case wide:
		return RegSet{V: 1<<n | 1<<(n+upperShift)}
	}
	return RegSet{V: 1 << n}
}

// Has reports whether general register n is in the set.
func (s RegSet) Has(n byte) bool { return s.G>>n&1 != 0 }
