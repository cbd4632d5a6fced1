package bisect

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/survey"
	"github.com/dynprof/dynprof/stubgen/translate"
)

// Culprit is a patched function: where it is, how it was patched, and by what.
// Addresses are those of the ELF file, but for StubAt.
type Culprit struct {
	Object  string         `json:"object"`
	BuildID string         `json:"build_id"`
	Address report.Address `json:"address"`
	Name    string         `json:"name"`
	Aliases []string       `json:"aliases"`
	Size    uint32         `json:"size"`
	Source  string         `json:"source"`
	Tactic  string         `json:"tactic"`

	// The plan and the stub, made again from the file.
	Window    report.Address `json:"window"`      // its first byte
	WindowLen int            `json:"window_size"` // bytes overwritten
	Moved     int            `json:"moved"`       // bytes from there that run in the stub
	FlagsKept bool           `json:"flags_kept"`
	Code      []Instruction  `json:"code"`           // the first of the function
	StubAt    report.Address `json:"stub_address"`   // where it ran
	Stub      []Instruction  `json:"stub"`           // Address is the offset; Text names addresses of the file
	Copy      []string       `json:"copy,omitempty"` // lines of translate.Code.Text: what ran behind the count, if that was a copy with counters in its blocks
	Note      string         `json:"note,omitempty"` // why something is missing or may not be so
}

// Instruction is one line of a disassembly.
type Instruction struct {
	Address report.Address `json:"address"`
	Bytes   string         `json:"bytes"` // hex
	Text    string         `json:"text"`  // AT&T syntax
	Moved   bool           `json:"moved"` // it runs in the stub
}

// explain tells all that is known of the functions that a run patched.
func (o *object) explain() []*Culprit {
	var all []*Culprit
	for i := range o.counted {
		all = append(all, o.newCulprit(&o.counted[i]))
	}
	again, err := o.planAgain()
	for i, c := range all {
		if err == nil {
			err = c.plan(o, again, &o.counted[i])
		}
		if err != nil {
			c.Note = "no plan: " + err.Error()
		}
	}
	return all
}

func (o *object) newCulprit(f *layout.Function) *Culprit {
	c := &Culprit{
		Object: symname.Clean(o.Path), BuildID: symname.Clean(o.BuildID), Address: report.Address(f.Address), Name: o.name(f),
		Aliases: []string{}, Size: f.Size, Source: f.Source.String(), Tactic: f.Tactic.String(),
		Code: []Instruction{}, StubAt: report.Address(o.Arena + uint64(f.Stub)), Stub: []Instruction{},
	}
	for _, a := range f.Aliases {
		c.Aliases = append(c.Aliases, symname.Display(a, o.Path, f.Address, true))
	}
	return c
}

// planAgain plans the object's functions as the run did: from the file, which
// the run compared with memory.
func (o *object) planAgain() (again *planned, err error) {
	defer func() {
		if p := recover(); p != nil { // of all functions, this may be the one that the planner cannot stand
			err = fmt.Errorf("planning fails: %v", p)
		}
	}()
	content, err := os.ReadFile(o.Path)
	if err != nil {
		return nil, err
	}
	scan, err := elfscan.Scan(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	if hex.EncodeToString(scan.BuildID) != o.BuildID {
		return nil, fmt.Errorf("%s is another file now", o.Path)
	}
	code := stubgen.FromFile(scan, content, o.Bias)
	choose := func(i int) bool { return o.chosen[code.Functions[i].Addr] }
	traps := slices.ContainsFunc(o.counted, func(f layout.Function) bool { return f.Tactic == ledger.TacticTrap })
	if traps {
		code.SignalSites = survey.FindSignalSites(code.Text)
	}
	again = &planned{code: code, survey: survey.New(code, 0)}
	again.plans = entry.Plans(again.survey, entry.Options{KnownFaults: true, Traps: traps, Shared: o.shared}, 0, choose)
	again.sites, _ = elfscan.CallSites(bytes.NewReader(content), int64(len(content))) // that of a file that was counted can be read
	return again, nil
}

// planned is an object that is planned again.
type planned struct {
	code   *stubgen.Object
	survey *survey.Survey
	plans  []entry.Plan
	sites  []elfscan.CallSite
	flow   *flow.Program // once it is needed
}

// copyOf is the copy of the function that is plans[i] as text; nil: there is none.
func (p *planned) copyOf(i int) []string {
	if p.flow == nil {
		p.flow = flow.New(p.survey, p.sites, 0)
	}
	k := slices.IndexFunc(p.flow.Units(), func(u flow.Unit) bool { return u.Function == i })
	if k < 0 {
		return nil
	}
	g, _ := p.flow.Graph(k)
	if g == nil {
		return nil
	}
	home, _ := translate.PlanHome(g)
	if home == nil {
		return nil
	}
	code := translate.Lower(home)
	code.RebuildTables(p.code)
	code.Count(true)
	return strings.Split(strings.TrimSpace(code.Text(p.code)), "\n")
}

// plan adds plan, code and stub.
func (c *Culprit) plan(o *object, again *planned, f *layout.Function) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("generating fails: %v", p)
		}
	}()
	code, plans := again.code, again.plans
	i := slices.IndexFunc(plans, func(p entry.Plan) bool { return code.Functions[p.Function].Addr == f.Address })
	if i < 0 {
		return fmt.Errorf("no function at %#x of %s", f.Address, o.Path)
	}
	p := &plans[i]
	if p.Tactic != f.Tactic && !(o.blocks && p.Counted()) { // a copy may need no more than a jump
		return fmt.Errorf("planned again it is %s (%s), not %s", p.Tactic, p.Reason, f.Tactic)
	}
	c.Window, c.WindowLen, c.Moved, c.FlagsKept = report.Address(p.Start), windowLen(p, f), int(p.Moved), p.Has(entry.KeepsFlags)
	end := p.Start + uint64(p.Moved)
	c.Code = disassemble(code.Code(f.Address), shown(f, end), f.Address)
	for i := range c.Code {
		at := uint64(c.Code[i].Address)
		c.Code[i].Moved = p.Start <= at && at < end
	}
	stub := make([]byte, p.Size)
	at := x86.RunAddr(c.StubAt)
	var e emit.Emitter
	count := emit.Count{Counter: int32(layout.RowCounters + 8*uint64(f.Counter)), Index: int32(f.Counter)}
	if o.shared { // the table does not tell where it was
		count.Shared, c.Note = at, "the counter was at another address"
	}
	spec := p.Spec(code)
	if _, err := e.Emit(code, &spec, stub, at, count); err != nil {
		return err
	}
	c.Stub = disassemble(stub, len(stub), uint64(at)-o.Bias)
	for i := range c.Stub {
		c.Stub[i].Address -= report.Address(uint64(at) - o.Bias)
	}
	if len(stub) != int(f.StubSize) {
		if o.blocks && !o.shared {
			if c.Copy = again.copyOf(int(p.Function)); c.Copy != nil {
				c.Stub = c.Stub[:1] // the count: what follows it is in the copy
				return nil
			}
		}
		c.Note = fmt.Sprintf("the stub had %d bytes when the program ran", f.StubSize)
	}
	return nil
}

// shown is how many bytes of f to show: what was moved and some behind it.
func shown(f *layout.Function, movedEnd uint64) int {
	const atLeast, behind = 32, 16
	moved := movedEnd - f.Address
	return int(max(moved, min(uint64(f.Size), max(atLeast, moved+behind))))
}

// windowLen is how many bytes are overwritten at the entry.
func windowLen(p *entry.Plan, f *layout.Function) int {
	switch {
	case f.Tactic == ledger.TacticJump:
		return 5
	case p.Detour != nil && p.Detour.Trap:
		return 1
	case p.Detour != nil && p.Detour.Island != 0:
		return 2
	}
	return 5
}

// disassemble names the instructions in the first n bytes of code, which lies
// at address at. The last one may be longer.
func disassemble(code []byte, n int, at uint64) []Instruction {
	var all []Instruction
	for n > 0 && len(code) > 0 {
		var in x86.Inst
		size := 1
		if x86.Decode(code, &in) == nil {
			size = int(in.Len)
		}
		all = append(all, Instruction{Address: report.Address(at), Bytes: hex.EncodeToString(code[:size]), Text: x86.Text(code, at)})
		code, at, n = code[size:], at+uint64(size), n-size
	}
	return all
}
