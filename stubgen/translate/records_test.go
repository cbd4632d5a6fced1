package translate

import (
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestRecords: in the slow copy in front of each instruction is a record for each operand that can have one, in
// order, none of another, and all else is as it was. The register of a record is none that its
// address needs.
func TestRecords(t *testing.T) {
	seen, none, forms := 0, 0, 0
	for _, path := range []string{fixture.Link(t, "../flow/testdata/flow.s"), fixture.Link(t, "testdata/forms.s")} {
		s, n, f := recordsOf(t, path)
		seen, none, forms = seen+s, none+n, forms+f
	}
	if seen < 40 || none == 0 || forms == 0 {
		t.Errorf("%d operands were looked at, and %d that have none, %d instructions with forms", seen, none, forms)
	}
}

// recordsOf looks at a program's operands, and says how many have a record, how many none, and how many instructions have forms.
func recordsOf(t *testing.T, path string) (seen, none, forms int) {
	o, p := load(t, path)
	for i := range p.Units() {
		c, plain := lowered(o, p, i), lowered(o, p, i)
		if c == nil {
			continue
		}
		for _, c := range []*Code{c, plain} {
			c.Count(true)
			c.NoteCallees(o, c.Counters)
		}
		how := Touching{Row: i%3 != 0, Bases: true}
		c.RecordAccesses(o, how)
		c = c.Slow
		g := c.Home.Graph
		for k := range g.Blocks {
			var rest []Op
			var records []*emit.Touch
			for _, op := range c.ops(k) {
				if op.Kind == Touch {
					records = append(records, &c.Touches[op.To])
					continue
				}
				rest = append(rest, op)
				if !op.Kind.runsHere() {
					continue
				}
				in := &g.Insts[op.Inst]
				var all [x86.MaxOperands]x86.Operand
				if formsGo(t, o, &how, in, records) {
					records, forms = nil, forms+1
					continue
				}
				for n, q := range all[:in.Operands(o.Code(in.Addr)[:in.Len], &all)] {
					if q.Kind&(x86.OperandLoad|x86.OperandStore) == 0 || !how.Recorded(&q) {
						none++
						continue
					}
					if len(records) == 0 {
						t.Fatalf("%x: operand %d has no record:\n%s", in.Addr, n, c.Text(o))
					}
					r := records[0]
					records, seen = records[1:], seen+1
					if m := &r.Marks[0]; r.Record != emit.Record(&q, n > 0) || m.At == 0 && (m.Memory.Base != q.Base || m.Memory.Index != q.Index || m.Memory.Segment != q.Segment || m.Memory.Addr32 != (q.Flags&x86.OperandAddr32 != 0) || int64(m.Memory.Disp) != q.Disp) || m.At != 0 != (q.Base == x86.RIP) {
						t.Errorf("%x: operand %d has another record: %+v", in.Addr, n, r)
					}
					if s := r.Scratch; s != x86.NoRegister && (s == q.Base || s == q.Index || s == x86.RSP) {
						t.Errorf("%x: operand %d needs the register of its record: %+v", in.Addr, n, r)
					}
				}
				if len(records) != 0 {
					t.Errorf("%x: too many records:\n%s", in.Addr, c.Text(o))
				}
			}
			if !slices.Equal(rest, plain.ops(k)) {
				t.Errorf("block %d has changed:\n%s", k, c.Text(o))
			}
		}
	}
	return seen, none, forms
}
