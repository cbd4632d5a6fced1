// Package bodyhash tells functions of different builds by their bodies: it hashes a
// function's instructions without what a linker may put elsewhere. (The method is that of
// FLIRT signatures and of the first rounds of BinDiff: Dullien, Rolles, "Graph-based
// comparison of executable objects", SSTIC 2005. docs/names.md has it.)
package bodyhash

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/x86"
)

// Hash is the first 16 bytes of a SHA-256.
type Hash [16]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Parse reads what String writes.
func Parse(text string) (h Hash, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		return Hash{}, fmt.Errorf("%q is no hash of %d hex digits", text, 2*len(h))
	}
	return Hash(b), nil
}

// Body is what a function is known by without a name; zero where the file has no code of it.
type Body struct {
	Plain  Hash // its instructions, without places of what is outside of it
	Linked Hash // these, and what is there: hashes of functions, names of imports, strings

	// Refers are the addresses outside of it that its instructions name. Functions of one
	// Plain hash name the same things in the same order.
	Refers []uint64
	Shape  []uint16 // its opcodes, sorted
}

// Known reports whether there is a body.
func (b *Body) Known() bool { return b.Plain != Hash{} }

// Likeness is how many of the opcodes of two functions are the same, from 0 to 1: the
// Jaccard index of the multisets.
func Likeness(a, b *Body) float64 {
	same := 0
	for i, k := 0, 0; i < len(a.Shape) && k < len(b.Shape); {
		switch x, y := a.Shape[i], b.Shape[k]; {
		case x < y:
			i++
		case x > y:
			k++
		default:
			same, i, k = same+1, i+1, k+1
		}
	}
	if all := len(a.Shape) + len(b.Shape) - same; all > 0 {
		return float64(same) / float64(all)
	}
	return 0
}

// Function is where one is, by link-time address.
type Function struct {
	Address uint64
	Size    uint32
}

// Of are the bodies of functions of an object.
func Of(o *objcode.Object, functions []Function) []Body {
	bodies := make([]Body, len(functions))
	h := hasher{Object: o, hash: sha256.New(), plain: make(map[uint64]Hash, len(functions)), stubs: map[uint64]string{}}
	for i, f := range functions {
		code, b := o.Bytes(f.Address, f.Size), &bodies[i]
		if len(code) == 0 {
			continue
		}
		b.Plain = h.sum(f, code, func(to uint64, _ way) { b.Refers = append(b.Refers, to) })
		b.Shape = slices.Clone(h.shape)
		slices.Sort(b.Shape)
		h.plain[f.Address] = b.Plain
	}
	for i, f := range functions {
		if bodies[i].Known() {
			bodies[i].Linked = h.sum(f, o.Bytes(f.Address, f.Size), h.refer)
		}
	}
	return bodies
}

// hasher hashes functions of an object.
type hasher struct {
	*objcode.Object
	hash  hash.Hash
	plain map[uint64]Hash // of the functions at these addresses
	stubs map[uint64]string

	later bytes.Buffer // what refer writes, to be hashed behind the instructions
	shape []uint16     // of the function that was hashed last
}

// Kinds of what instructions refer to, as they are hashed.
const (
	unknown = iota
	function
	symbol
	text
)

// sum hashes a function: each instruction with zeros in place of what a linker fills in,
// and then what refer writes of the addresses outside of the function that are told there.
func (h *hasher) sum(f Function, code []byte, refer func(to uint64, way way)) (sum Hash) {
	h.hash.Reset()
	h.later.Reset()
	h.shape = h.shape[:0]
	var in x86.Inst
	var masked [x86.MaxLen]byte
	for at := f.Address; len(code) > 0; {
		if x86.Decode(code, &in) != nil {
			h.hash.Write(code) // data, or what we do not know: as it is
			break
		}
		one := masked[:copy(masked[:], code[:in.Len])]
		h.mask(f, at, one, &in, refer)
		h.hash.Write(one)
		h.shape = append(h.shape, uint16(in.Map)<<8|uint16(in.Op))
		code, at = code[in.Len:], at+uint64(in.Len)
	}
	h.hash.Write(h.later.Bytes())
	copy(sum[:], h.hash.Sum(nil))
	return sum
}

// way is how an instruction uses an address.
type way int

const (
	branches way = iota // goes there
	reads               // takes what is there, or goes where that says
	takes               // takes the address itself
)

// mask clears the fields of one instruction that the linker fills in.
func (h *hasher) mask(f Function, at uint64, one []byte, in *x86.Inst, refer func(uint64, way)) {
	field := func(off, size uint8, to uint64, use way) {
		clear(one[off : off+size])
		refer(to, use)
	}
	lea := in.Map == x86.MapLegacy && in.Op == 0x8d
	switch to := in.BranchTarget(one, at); {
	case to != 0:
		if to-f.Address >= uint64(f.Size) {
			field(in.ImmOff, in.ImmSize, to, branches)
		}
		return
	case in.RIPRel() && lea:
		field(in.DispOff, in.DispSize, in.RIPTarget(one, at), takes)
	case in.RIPRel():
		field(in.DispOff, in.DispSize, in.RIPTarget(one, at), reads)
	case h.Fixed && in.DispSize == 4:
		if to := uint64(binary.LittleEndian.Uint32(one[in.DispOff:])); h.inside(to) {
			field(in.DispOff, 4, to, reads)
		}
	}
	switch in.ImmSize {
	case 4:
		if to := uint64(binary.LittleEndian.Uint32(one[in.ImmOff:])); h.Fixed && h.inside(to) {
			field(in.ImmOff, 4, to, takes)
		}
	case 8:
		if to := binary.LittleEndian.Uint64(one[in.ImmOff:]); h.Fixed && h.inside(to) {
			field(in.ImmOff, 8, to, takes)
		}
	}
}

func (h *hasher) inside(to uint64) bool { return to >= h.Low && to < h.High }

// refer hashes what is at an address: of the same source it is the same in another build.
func (h *hasher) refer(to uint64, use way) {
	if use == reads {
		if name := h.Slots[to].Name; name != "" {
			h.write(symbol, []byte(name))
			return
		}
		if pointer, ok := h.Pointer(to); ok {
			to = pointer
		}
	}
	if name := h.Copies[to]; name != "" {
		h.write(symbol, []byte(name))
		return
	}
	if sum, ok := h.plain[to]; ok {
		h.write(function, sum[:])
		return
	}
	if use == branches {
		if name := h.stub(to); name != "" {
			h.write(symbol, []byte(name))
			return
		}
	} else if s, ok := h.Text(to); ok {
		h.write(text, []byte(s))
		return
	}
	h.write(unknown, nil)
}

// write hashes one thing such that no two lists of things are the same bytes.
func (h *hasher) write(kind byte, what []byte) {
	h.later.Write(binary.AppendUvarint([]byte{kind}, uint64(len(what))))
	h.later.Write(what)
}

// stub is the symbol that the PLT entry at an address leads to; empty if it is none.
func (h *hasher) stub(addr uint64) string {
	name, ok := h.stubs[addr]
	if !ok {
		if slot, ok := h.StubSlot(addr); ok {
			name = h.Slots[slot].Name
		}
		h.stubs[addr] = name
	}
	return name
}
