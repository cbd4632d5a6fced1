package survey_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// The function of tabled at 0x401000, and its table.
const (
	tabledAt = 0x401000
	tableAt  = 0x800000
)

var (
	tabledEntry = []byte{0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0xc3} // push %r15, %r14, %r13; ret
	dispatch    = []byte{0x48, 0x63, 0x04, 0xb8, 0x48, 0x01, 0xd0, 0xff, 0xe0}
)

// tabled is an object with one function: its code is the entry and what lea
// appends, `lea address(%rip),%rax` each time. Its data is a jump table of so many
// entries; the last leads between the first two instructions.
func tabled(entries int, body func(lea func(to uint64), jump func())) *stubgen.Object {
	code := slices.Clone(tabledEntry)
	lea := func(to uint64) {
		code = append(code, 0x48, 0x8d, 0x05) // lea
		code = binary.LittleEndian.AppendUint32(code, uint32(to-tabledAt-uint64(len(code))-4))
	}
	body(lea, func() { code = append(code, dispatch...) })
	table := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, uint32(int64(tabledAt+6-tableAt)&0xffffffff)), entries)
	binary.LittleEndian.PutUint32(table[4*entries-4:], uint32(int64(tabledAt+2-tableAt)&0xffffffff))
	return &stubgen.Object{
		Text:      []stubgen.Segment{{Addr: tabledAt, Code: append(code, bytes.Repeat([]byte{0xcc}, 64)...)}},
		Data:      []stubgen.Segment{{Addr: tableAt, Code: table}},
		Functions: []elfscan.Function{{Addr: tabledAt, Size: uint64(len(code)), Source: ledger.SourceSymtab}},
	}
}

// impossible has the first entry of the table lead to where the function ends, as clang's do
// for what cannot be.
func impossible(o *stubgen.Object) *stubgen.Object {
	binary.LittleEndian.PutUint32(o.Data[0].Code, uint32(int64(tabledAt+o.Functions[0].Size)-tableAt))
	return o
}

// TestJumpTables: what a table leads to is known, however long it is, however many
// addresses the function takes, and wherever.
func TestJumpTables(t *testing.T) {
	for name, o := range map[string]*stubgen.Object{
		"short": tabled(3, func(lea func(uint64), jump func()) { lea(tableAt); jump() }),
		"long":  tabled(100_000, func(lea func(uint64), jump func()) { lea(tableAt); jump() }),
		"behind others": tabled(3, func(lea func(uint64), jump func()) {
			for range 1000 {
				lea(tabledAt + 1<<20)
			}
			lea(tableAt)
			jump()
		}),
		"behind what cannot be": impossible(tabled(3, func(lea func(uint64), jump func()) { lea(tableAt); jump() })),
		"behind the jump":       tabled(3, func(lea func(uint64), jump func()) { jump(); lea(tableAt) }),
	} {
		t.Run(name, func(t *testing.T) {
			s := survey.New(o, 1)
			if _, others := s.Targeted(0); !others {
				t.Error("nobody branches into the window")
			}
			if p := entry.Plans(s, entry.Options{}, 1, nil)[0]; p.Counted() && p.Tactic != ledger.TacticHop {
				t.Errorf("%v overwrites what the table leads to", p.Tactic)
			}
		})
	}
}

// TestPastTable: what is read behind a table's end is left out where it seems to
// lead into an instruction of another function, and only there.
func TestPastTable(t *testing.T) {
	for name, want := range map[string]bool{"": false, "boundary": true, "overlapped": true} {
		t.Run(name, func(t *testing.T) {
			o := tabled(3, func(lea func(uint64), jump func()) { lea(tableAt); jump() })
			other := tabledAt + uint64(len(o.Text[0].Code))
			entry := []byte{0x83, 0xff, 0x0b, 0x0f, 0x87, 0, 0, 0, 0, 0xff, 0xd0, 0xc3} // cmp $11,%edi; ja; call *%rax; ret
			o.Text[0].Code = append(append(o.Text[0].Code, entry...), bytes.Repeat([]byte{0xcc}, 64)...)
			o.Functions = append(o.Functions, elfscan.Function{Addr: other, Size: uint64(len(entry)), Source: ledger.SourceSymtab})
			into := other + 4
			switch name {
			case "boundary":
				into = other + 3
			case "overlapped":
				o.Functions[0].Size = other + 1 - tabledAt
			}
			binary.LittleEndian.PutUint32(o.Data[0].Code[8:], uint32(int64(into)-tableAt))
			if _, others := survey.New(o, 1).Targeted(1); others != want {
				t.Errorf("a branch into the window: %v", others)
			}
		})
	}
}

// TestTooManyEntries: where not all tables are read, since a file has been made so
// that this would take for ever, nothing is patched.
func TestTooManyEntries(t *testing.T) {
	o := tabled(survey.MostEntries/16, func(lea func(uint64), jump func()) {
		for range 1000 {
			lea(tableAt)
		}
		jump()
	})
	s := survey.New(o, 1)
	if n := s.EntriesRead(); n > 2*survey.MostEntries {
		t.Errorf("%d entries are read", n)
	}
	for _, opt := range []entry.Options{{}, {Traps: true}} {
		if p := entry.Plans(s, opt, 1, nil)[0]; p.Reason != ledger.ReasonUndecodable {
			t.Errorf("%+v: %v %v", opt, p.Tactic, p.Reason)
		}
	}
}

// TestLabels: a label inside of a window whose address a function takes, its own, another, or code
// that nobody tells of, or that stands in data of a program that is not position independent, is one that a pointer leads to. What is inside
// of an instruction is none.
func TestLabels(t *testing.T) {
	word := func(to uint64) *stubgen.Object {
		o := tabled(3, func(func(uint64), func()) {})
		o.Absolute = true
		o.Data[0].Code = binary.LittleEndian.AppendUint64(nil, to)
		return o
	}
	relative := word(tabledAt + 2)
	relative.Absolute = false
	// The lea behind the entry is another function's, or in no function where there is one behind it.
	another := func(behind bool, to uint64) *stubgen.Object {
		o := tabled(3, func(lea func(uint64), _ func()) { lea(to) })
		first, size := uint64(len(tabledEntry)), o.Functions[0].Size
		other := elfscan.Function{Addr: tabledAt + first, Size: size - first, Source: ledger.SourceSymtab}
		if behind {
			other.Addr, other.Size = tabledAt+size, 1
		}
		o.Functions[0].Size = first
		o.Functions = append(o.Functions, other)
		return o
	}
	for name, row := range map[string]struct {
		o    *stubgen.Object
		want bool
	}{
		"word":             {word(tabledAt + 2), true},
		"inside":           {word(tabledAt + 3), false},
		"behind":           {word(tabledAt + 6), false},
		"no address":       {relative, false},
		"operand":          {tabled(3, func(lea func(uint64), _ func()) { lea(tabledAt + 4) }), true},
		"operand's inside": {tabled(3, func(lea func(uint64), _ func()) { lea(tabledAt + 1) }), false},
		"another's":        {another(false, tabledAt+4), true},
		"another's inside": {another(false, tabledAt+1), false},
		"nobody's":         {another(true, tabledAt+4), true},
		"nobody's inside":  {another(true, tabledAt+1), false},
	} {
		if _, elsewhere := survey.New(row.o, 1).Targeted(0); elsewhere != row.want {
			t.Errorf("%s: a pointer leads into the window: %v", name, elsewhere)
		}
	}
}
