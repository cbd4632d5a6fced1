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

var update = flag.Bool("update", false, "write golden files")

const (
	arenaAt  = x86.RunAddr(0x200000) // where the stubs of these tests run
	testSlow = 0x7f0000001000        // the slow paths
)

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
	for _, threshold := range []int32{0, 1000} {
		survey := NewSurvey(o, 1)
		for i, p := range survey.Plans(Options{Threshold: threshold != 0}, 1, nil) {
			name := o.Functions[i].Name
			if threshold != 0 && name != "leaf" && name != "flags_live" {
				continue // the check looks the same in every stub
			}
			got.WriteString(show(t, o, survey, &p, threshold))
		}
	}
	golden := "testdata/entries.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("stubs differ from %s (go test -update, then look at the change):\n%s", golden, firstDifference(string(want), got.String()))
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
func show(t *testing.T, o *Object, survey *Survey, p *Plan, threshold int32) string {
	t.Helper()
	f := &o.Functions[p.Function]
	var out strings.Builder
	fmt.Fprintf(&out, "== %s: ", f.Name)
	if !p.Counted() {
		fmt.Fprintf(&out, "%s\n\n", p.Reason)
		return out.String()
	}
	fmt.Fprintf(&out, "%s, window %#x, %d bytes moved", p.Tactic, p.Start, p.Moved)
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
		fmt.Fprintf(&out, ", %d bytes at %#x evicted", e.Len, e.Addr)
		if e.To != 0 {
			fmt.Fprintf(&out, ", which lead to %#x", e.To)
		}
	}
	fmt.Fprintf(&out, "\n%s", disassemble(t, o.Code(f.Addr)[:p.Start-f.Addr+uint64(p.Moved)], f.Addr))
	fmt.Fprintf(&out, "-- stub\n")
	cold := make([]byte, ColdSize)
	var e Emitter
	buf := make([]byte, p.Size)
	stub, err := e.Emit(o, p, buf, arenaAt, Count{Counter: 0x80, Index: 0, Threshold: threshold,
		Cold: cold, ColdAt: arenaAt + 0x1000, ColdCommon: arenaAt + 0x2000})
	if err != nil {
		t.Errorf("%s: %v", f.Name, err)
	}
	fmt.Fprintf(&out, "%s", disassemble(t, buf[:stub.Len], uint64(arenaAt)))
	if threshold != 0 {
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
var stubMark = regexp.MustCompile("(?s)<!-- stub (\\w+) (\\d+) -->\n(\n```\n.*?```\n)?")

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
		p := survey.Plans(Options{Threshold: threshold != 0}, 1, nil)[o.named(t, m[1])]
		return fmt.Sprintf("<!-- stub %s %s -->\n\n```\n%s```\n", m[1], m[2],
			strings.TrimRight(show(t, o, survey, &p, int32(threshold)), "\n")+"\n")
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
		"clone_site":      ledger.ReasonCloneSite,
		"evict_hop":       ledger.ReasonBranchIntoWindow,
		"evict_leads":     ledger.ReasonEntryLoop,
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
