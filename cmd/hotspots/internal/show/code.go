package show

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
)

// Instruction is one of the function, as its file has it.
type Instruction struct {
	Address report.Address `json:"address"`
	Bytes   string         `json:"bytes"`   // hex
	Patched []int          `json:"patched"` // which of them are others in the program, from 0
	Text    string         `json:"text"`
	Refers  string         `json:"refers"` // what it refers to, in words
	Runs    *uint64        `json:"runs"`   // null: not counted
}

// addCode adds the function's code, and what refers to what.
func (v *View) addCode(f *Function) error {
	e := &v.table.Functions[f.number]
	o, err := v.object(int(e.Object))
	if err != nil {
		return err
	}
	f.Guess = symname.Clean(o.guesses[e.Address])
	part := v.flow.Of(uint32(f.number))
	runs := map[uint64]uint64{}
	for i := range part.Blocks {
		for at := range o.image.Instructions(part.Blocks[i].Address, part.Blocks[i].Size) {
			runs[at] = part.Blocks[i].Runs
		}
	}
	patched := v.patched(f, e, o)
	v.instructions(o, f.number, func(at uint64, code []byte, in *x86.Inst) {
		one := Instruction{Address: report.Address(at), Bytes: hex.EncodeToString(code), Patched: []int{}, Text: symname.Clean(x86.Text(code, at))}
		for i := range code {
			if patched[at+uint64(i)] {
				one.Patched = append(one.Patched, i)
			}
		}
		if n, ok := runs[at]; ok {
			one.Runs = &n
		}
		if r, ok := v.refer(o, f.number, at, code, in); ok {
			one.Refers = r.String()
			f.Refers = append(f.Refers, r)
		}
		f.Code = append(f.Code, one)
	})
	v.addCold(f, o)
	f.ReferredBy = v.referrers(o, f.number)
	return nil
}

// addCold adds what the function's cold parts refer to: compilers have moved there what it
// does when something is wrong. That it jumps there is no news, then.
func (v *View) addCold(f *Function, o *object) {
	var cold []int
	f.Refers = slices.DeleteFunc(f.Refers, func(r Reference) bool {
		i, ok := v.coldPart(o, r)
		if ok && !slices.Contains(cold, i) {
			cold = append(cold, i)
		}
		return ok
	})
	for _, i := range cold {
		v.instructions(o, i, func(at uint64, code []byte, in *x86.Inst) {
			r, ok := v.refer(o, i, at, code, in)
			if !ok {
				return
			}
			back := r.Kind == kindJump && r.Address != nil && uint64(*r.Address)-uint64(f.Address) < uint64(f.Size)
			if _, more := v.coldPart(o, r); !back && !more {
				f.Refers = append(f.Refers, r)
			}
		})
	}
}

// coldPart is the cold part that a function jumps to.
func (v *View) coldPart(o *object, r Reference) (function int, ok bool) {
	if r.Kind != kindJump || r.Address == nil {
		return 0, false
	}
	i, _ := v.at(o, uint64(*r.Address))
	return i, i >= 0 && v.table.Functions[i].Reason == ledger.ReasonColdPart
}

// patched are the addresses of the function's bytes that are others in the program: as its
// memory says while it runs, else as its tactic does.
func (v *View) patched(f *Function, e *layout.Function, o *object) map[uint64]bool {
	file := o.image.Bytes(e.Address, e.Size)
	at := map[uint64]bool{}
	if v.Status == alive.Running.String() && find.MappedBy(int(v.Pid)) != "" {
		memory, err := objcode.ReadProcess(int(v.Pid), v.table.Objects[e.Object].Bias+e.Address, len(file))
		if err == nil {
			for i := range file {
				if memory[i] != file[i] {
					at[e.Address+uint64(i)] = true
				}
			}
			f.Patch = "memory"
			return at
		}
	}
	n := overwritten[e.Tactic]
	if n == 0 || !e.Counted() {
		return at
	}
	start := e.Address
	if strings.HasPrefix(string(file), endbr64) {
		start += uint64(len(endbr64))
	}
	for i := range n {
		at[start+i] = true
	}
	f.Patch = "tactic"
	return at
}

const endbr64 = "\xf3\x0f\x1e\xfa"

// overwritten is how many bytes a tactic mostly overwrites (docs/architecture.md, "Planning
// an entry"): a jump, a short one to an island, or an int3.
var overwritten = map[ledger.Tactic]uint64{
	ledger.TacticWholeBody: 5, ledger.TacticJump: 5, ledger.TacticPunned: 5, ledger.TacticHop: 2, ledger.TacticEvict: 2, ledger.TacticTrap: 1,
}
