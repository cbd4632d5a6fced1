package entry

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// options are those of plans whose stubs count so.
func options(c *emit.Count) Options {
	return Options{Threshold: c.Threshold != 0, Shared: c.Shared != 0}
}

// TestGolden compares the plan and the stub of every function of entries.s,
// as objdump reads it, with entries.golden.
func TestGolden(t *testing.T) {
	o := fixture.Load(t, fixture.Link(t, fixture.Entries))
	var got strings.Builder
	for _, c := range []emit.Count{{}, {Threshold: 1000}, {Shared: fixture.SharedAt}, {Shared: fixture.SharedAt, Threshold: 1000}} {
		s := survey.New(o, 1)
		for i, p := range Plans(s, options(&c), 1, nil) {
			name := o.Functions[i].Name
			if (c.Threshold != 0 || c.Shared != 0) && name != "leaf" && name != "flags_live" {
				continue // the count looks the same in every stub
			}
			got.WriteString(show(t, o, s, &p, c))
		}
	}
	fixture.Compare(t, "testdata/entries.golden", got.String(), "go test -update, then look at the change")
}

// TestGoldenTraps compares what traps change.
func TestGoldenTraps(t *testing.T) {
	o := fixture.Load(t, fixture.Link(t, fixture.Entries))
	s := survey.New(o, 1)
	without := Plans(s, Options{}, 1, nil)
	var got strings.Builder
	for i, p := range Plans(s, Options{Traps: true}, 1, nil) {
		if p.Tactic != without[i].Tactic || p.Size != without[i].Size || p.Counted() != without[i].Counted() {
			got.WriteString(show(t, o, s, &p, emit.Count{}))
		}
	}
	fixture.Compare(t, "testdata/traps.golden", got.String(), "go test -update, then look at the change")
}

// show renders a plan and its stub.
func show(t *testing.T, o *stubgen.Object, s *survey.Survey, p *Plan, c emit.Count) string {
	t.Helper()
	f := &o.Functions[p.Function]
	var out strings.Builder
	fmt.Fprintf(&out, "== %s: ", f.Name)
	if !p.Counted() {
		fmt.Fprintf(&out, "%s\n\n", p.Reason)
		return out.String()
	}
	fmt.Fprintf(&out, "%s, window %#x, %d bytes moved", p.Tactic, p.Start, p.Moved)
	if p.Detour != nil && p.Detour.Trap {
		out.WriteString(", int3 at the entry")
	}
	if p.Detour != nil && p.Detour.Island != 0 {
		fmt.Fprintf(&out, ", island at %#x", p.Detour.Island)
	}
	for _, l := range Leads(s, p) {
		fmt.Fprintf(&out, ", lead at %#x to %#x", l.Addr, l.To)
		if l.Wide {
			out.WriteString(" made long")
		} else if l.Island != 0 {
			fmt.Fprintf(&out, " by an island at %#x", l.Island)
		}
	}
	for _, e := range evictions(p) {
		if e.Trap {
			fmt.Fprintf(&out, ", int3 at %#x leads to %#x", e.Addr, e.To)
			continue
		}
		fmt.Fprintf(&out, ", %d bytes at %#x evicted", e.Len, e.Addr)
		if e.To != 0 {
			fmt.Fprintf(&out, ", which lead to %#x", e.To)
		}
	}
	fmt.Fprintf(&out, "\n%s", fixture.Disassemble(t, o.Code(f.Addr)[:p.Start-f.Addr+uint64(p.Moved)], f.Addr))
	cold := make([]byte, emit.ColdSize)
	var e emit.Emitter
	buf, before := make([]byte, p.Size), make([]byte, p.Front())
	c.Counter, c.Cold, c.ColdAt, c.ColdCommon = 0x80, cold, fixture.ArenaAt+0x1000, fixture.ArenaAt+0x2000
	c.Front, c.Pointers, c.PointersAt = before, make([]byte, emit.PointersSize), fixture.ArenaAt+0x3000
	spec := p.Spec(o)
	stub, err := e.Emit(o, &spec, buf, fixture.ArenaAt, c)
	if err != nil {
		t.Errorf("%s: %v", f.Name, err)
	}
	if p.Front() > 0 {
		fmt.Fprintf(&out, "-- front\n%s", fixture.Disassemble(t, before, uint64(fixture.ArenaAt)-uint64(p.Front())))
	}
	fmt.Fprintf(&out, "-- stub\n%s", fixture.Disassemble(t, buf[:stub.Len], uint64(fixture.ArenaAt)))
	if c.Threshold != 0 {
		fmt.Fprintf(&out, "-- cold\n%s", fixture.Disassemble(t, cold[:28], uint64(fixture.ArenaAt)+0x1000))
	}
	return out.String() + "\n"
}

// stubMark names a listing of docs/stubs.md; the listing follows it.
var stubMark = regexp.MustCompile("(?s)<!-- stub (\\w+) (\\d+)( shared| redirectable)? -->\n(\n```\n.*?```\n)?")

// TestDocs keeps the listings of docs/stubs.md what the code emits.
func TestDocs(t *testing.T) {
	o := fixture.Load(t, fixture.Link(t, fixture.Entries))
	const path = "../../docs/stubs.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := survey.New(o, 1)
	listings := 0
	want := stubMark.ReplaceAllStringFunc(string(doc), func(old string) string {
		m := stubMark.FindStringSubmatch(old)
		threshold, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		listings++
		c := emit.Count{Threshold: int32(threshold)}
		if m[3] == " shared" {
			c.Shared = fixture.SharedAt
		}
		opt := options(&c)
		opt.Traps = true
		opt.Redirectable = m[3] == " redirectable"
		p := Plans(s, opt, 1, nil)[fixture.Named(t, o, m[1])]
		return fmt.Sprintf("<!-- stub %s %s%s -->\n\n```\n%s```\n", m[1], m[2], m[3],
			strings.TrimRight(show(t, o, s, &p, c), "\n")+"\n")
	})
	fixture.Compare(t, path, want, "go test -update")
	if listings < 4 {
		t.Errorf("%d listings in %s", listings, path)
	}
}

// reasons is what entries.s says should be left alone; the golden file shows
// the rest.
func TestReasons(t *testing.T) {
	o := fixture.Load(t, fixture.Link(t, fixture.Entries))
	planner := newPlanner(survey.New(o, 0), Options{}, make(passing, len(o.Functions)))
	refused := map[string]ledger.Reason{
		"too_short":       ledger.ReasonTooShort,
		"two_entries":     ledger.ReasonEntryInWindow,
		"foreign_target":  ledger.ReasonBranchIntoWindow,
		"own_target_call": ledger.ReasonBranchIntoWindow,
		"switch_window":   ledger.ReasonBranchIntoWindow,
		"return_inside":   ledger.ReasonReturnInWindow,
		"entry_loop_call": ledger.ReasonEntryLoop,
		"opsize_call":     ledger.ReasonUnsupported,
		"transaction":     ledger.ReasonUnsupported,
		"call_on_stack":   ledger.ReasonUnsupported,
		"breakpoint":      ledger.ReasonBreakpoint,
		"garbage":         ledger.ReasonUndecodable,
		"clone_site":      ledger.ReasonKernelSite,
		"evict_hop":       ledger.ReasonBranchIntoWindow,
		"evict_leads":     ledger.ReasonEntryLoop,
		"trap_short":      ledger.ReasonTooShort,
		"trap_arrival":    ledger.ReasonBranchIntoWindow,
		"trap_call":       ledger.ReasonReturnInWindow,
		"trap_loop":       ledger.ReasonEntryLoop,
	}
	for i := range o.Functions {
		name := o.Functions[i].Name
		if name == "outside" { // the program's entry point
			continue
		}
		p := planner.plan(i)
		if p.Reason != refused[name] || p.Counted() != (refused[name] == ledger.ReasonNone) {
			t.Errorf("%s: tactic %v, reason %q; want reason %q", name, p.Tactic, p.Reason, refused[name])
		}
	}
}
