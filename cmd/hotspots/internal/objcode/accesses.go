package objcode

import "github.com/dynprof/dynprof/internal/x86"

// Accesses are how often memory was read and written, by instructions that ran so often. What
// an instruction reads and then writes, as add to memory does, is in Loads, Stores and
// Modifies.
type Accesses struct {
	Loads      uint64 `json:"loads"`
	Stores     uint64 `json:"stores"`
	Modifies   uint64 `json:"modifies"`
	Atomics    uint64 `json:"atomics"` // those of Modifies that are one for other threads, too
	LoadBytes  uint64 `json:"load_bytes"`
	StoreBytes uint64 `json:"store_bytes"`
	// Executions of instructions whose accesses are a matter of data, and in none of the
	// above: with a rep prefix, with a mask, xsave.
	Untold uint64 `json:"untold_accesses"`
}

// Fields are all numbers of a, in the order of the struct.
func (a *Accesses) Fields() [7]*uint64 {
	return [...]*uint64{&a.Loads, &a.Stores, &a.Modifies, &a.Atomics, &a.LoadBytes, &a.StoreBytes, &a.Untold}
}

// Add adds those of what ran n times.
func (a *Accesses) Add(b Accesses, n uint64) {
	for i, p := range a.Fields() {
		*p += *b.Fields()[i] * n
	}
}

// More stands behind numbers of loads and stores that are greater in truth.
func (a *Accesses) More() string {
	if a.Untold > 0 {
		return "+"
	}
	return ""
}

// AccessesOf are those of an instruction that runs once.
func AccessesOf(code []byte) (a Accesses) {
	const untold = x86.OperandRepeated | x86.OperandMasked | x86.OperandVariable
	var in x86.Inst
	if x86.Decode(code, &in) != nil {
		return a
	}
	var ops [x86.MaxOperands]x86.Operand
	for _, o := range ops[:in.Operands(code, &ops)] {
		reads, writes := o.Kind&x86.OperandLoad != 0, o.Kind&x86.OperandStore != 0
		if o.Flags&untold != 0 {
			if reads || writes {
				a.Untold = 1
			}
			continue
		}
		n, bytes := uint64(o.Count), uint64(o.Count)*uint64(o.Size)
		if reads {
			a.Loads += n
			a.LoadBytes += bytes
		}
		if writes {
			a.Stores += n
			a.StoreBytes += bytes
		}
		if reads && writes {
			a.Modifies += n
			if o.Flags&x86.OperandAtomic != 0 {
				a.Atomics += n
			}
		}
	}
	return a
}

// Accesses are those of the instructions in size bytes at a link-time address that run once.
func (m *Image) Accesses(addr uint64, size uint32) (sum Accesses) {
	for _, code := range m.Instructions(addr, size) {
		sum.Add(AccessesOf(code), 1)
	}
	return sum
}
