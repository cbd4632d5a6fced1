package stubgen

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
)

var update = flag.Bool("update", false, "write generated and golden files")

const (
	arenaAt  = x86.RunAddr(0x200000) // where the stubs of these tests run
	sharedAt = arenaAt + 0x3080      // the counter, where threads share it
	testSlow = 0x7f0000001000        // the slow paths
)

// options are those of plans whose stubs count so.
func (c Count) options() Options { return Options{Threshold: c.Threshold != 0, Shared: c.Shared != 0} }

// link assembles and links source to a program with its text at 0x401000.
func link(t *testing.T, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("gcc", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none",
		"-Wl,-e,outside", "-Wl,-Ttext=0x401000", "-Wl,-Tdata=0x600000", "-o", out, source)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, msg)
	}
	return out
}

// load reads a linked program as the planner would read it from memory.
func load(t testing.TB, path string) *Object {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	scan, err := elfscan.Scan(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	o := FromFile(scan, b, 0)
	o.Absolute = false // the listings stay what they were
	return o
}

// name returns the index of the function of that name.
func (o *Object) named(t *testing.T, name string) int {
	t.Helper()
	for i := range o.Functions {
		if o.Functions[i].Name == name {
			return i
		}
	}
	t.Fatalf("no function %q", name)
	return -1
}

// TestGolden compares the plan and the stub of every function of entries.s,
// as objdump reads it, with entries.golden.
func TestGolden(t *testing.T) {
	o := load(t, link(t, "testdata/entries.s"))
	var got strings.Builder
	for _, c := range []Count{{}, {Threshold: 1000}, {Shared: sharedAt}, {Shared: sharedAt, Threshold: 1000}} {
		survey := NewSurvey(o, 1)
		for i, p := range survey.Plans(c.options(), 1, nil) {
			name := o.Functions[i].Name
			if (c.Threshold != 0 || c.Shared != 0) && name != "leaf" && name != "flags_live" {
				continue // the count looks the same in every stub
			}
			got.WriteString(show(t, o, survey, &p, c))
		}
	}
	compare(t, "testdata/entries.golden", got.String())
}

// TestGoldenTraps compares what traps change.
func TestGoldenTraps(t *testing.T) {
	o := load(t, link(t, "testdata/entries.s"))
	survey := NewSurvey(o, 1)
	without := survey.Plans(Options{}, 1, nil)
	var got strings.Builder
	for i, p := range survey.Plans(Options{Traps: true}, 1, nil) {
		if p.Tactic != without[i].Tactic || p.Size != without[i].Size || p.Counted() != without[i].Counted() {
			got.WriteString(show(t, o, survey, &p, Count{}))
		}
	}
	compare(t, "testdata/traps.golden", got.String())
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("stubs differ from %s (go test -update, then look at the change):\n%s", golden, firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\n want %s\n  got %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// show renders a plan and its stub.
func show(t *testing.T, o *Object, survey *Survey, p *Plan, c Count) string {
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
	for _, l := range survey.Leads(p) {
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
	fmt.Fprintf(&out, "\n%s", disassemble(t, o.Code(f.Addr)[:p.Start-f.Addr+uint64(p.Moved)], f.Addr))
	cold := make([]byte, ColdSize)
	var e Emitter
	buf, before := make([]byte, p.Size), make([]byte, p.Front)
	c.Counter, c.Cold, c.ColdAt, c.ColdCommon = 0x80, cold, arenaAt+0x1000, arenaAt+0x2000
	c.Front, c.Pointers, c.PointersAt = before, make([]byte, PointersSize), arenaAt+0x3000
	stub, err := e.Emit(o, p, buf, arenaAt, c)
	if err != nil {
		t.Errorf("%s: %v", f.Name, err)
	}
	if p.Front > 0 {
		fmt.Fprintf(&out, "-- front\n%s", disassemble(t, before, uint64(arenaAt)-uint64(p.Front)))
	}
	fmt.Fprintf(&out, "-- stub\n%s", disassemble(t, buf[:stub.Len], uint64(arenaAt)))
	if c.Threshold != 0 {
		fmt.Fprintf(&out, "-- cold\n%s", disassemble(t, cold[:28], uint64(arenaAt)+0x1000))
	}
	return out.String() + "\n"
}

var listing = regexp.MustCompile(`(?m)^ *([0-9a-f]+):\t([0-9a-f ]+?) *\t(.*?) *$`)

// disassemble is code as objdump reads it: address, hex, text.
func disassemble(t *testing.T, code []byte, at uint64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64",
		fmt.Sprintf("--adjust-vma=%#x", at), file).Output()
	if err != nil {
		t.Fatalf("objdump: %v", err)
	}
	var out strings.Builder
	for _, m := range listing.FindAllStringSubmatch(string(text), -1) {
		fmt.Fprintf(&out, "%8s  %-32s %s\n", m[1], strings.ReplaceAll(m[2], " ", ""), strings.Join(strings.Fields(m[3]), " "))
	}
	return out.String()
}

// stubMark names a listing of docs/stubs.md; the listing follows it.
var stubMark = regexp.MustCompile("(?s)<!-- stub (\\w+) (\\d+)( shared| redirectable)? -->\n(\n```\n.*?```\n)?")

// TestDocs keeps the listings of docs/stubs.md what the code emits.
func TestDocs(t *testing.T) {
	o := load(t, link(t, "testdata/entries.s"))
	const path = "../docs/stubs.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	survey := NewSurvey(o, 1)
	listings := 0
	want := stubMark.ReplaceAllStringFunc(string(doc), func(old string) string {
		m := stubMark.FindStringSubmatch(old)
		threshold, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		listings++
		c := Count{Threshold: int32(threshold)}
		if m[3] == " shared" {
			c.Shared = sharedAt
		}
		opt := c.options()
		opt.Traps = true
		opt.Redirectable = m[3] == " redirectable"
		p := survey.Plans(opt, 1, nil)[o.named(t, m[1])]
		return fmt.Sprintf("<!-- stub %s %s%s -->\n\n```\n%s```\n", m[1], m[2], m[3],
			strings.TrimRight(show(t, o, survey, &p, c), "\n")+"\n")
	})
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(doc) {
		t.Errorf("%s is stale (go test -update): %s", path, firstDifference(want, string(doc)))
	}
	if listings < 4 {
		t.Errorf("%d listings in %s", listings, path)
	}
}

// reasons is what entries.s says should be left alone; the golden file shows
// the rest.
func TestReasons(t *testing.T) {
	o := load(t, link(t, "testdata/entries.s"))
	planner := NewSurvey(o, 0).NewPlanner(Options{})
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
		p := planner.Plan(i)
		if p.Reason != refused[name] || p.Counted() != (refused[name] == ledger.ReasonNone) {
			t.Errorf("%s: tactic %v, reason %q; want reason %q", name, p.Tactic, p.Reason, refused[name])
		}
	}
}
