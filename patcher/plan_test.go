package patcher

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
)

var update = flag.Bool("update", false, "write testdata/ledger.golden anew")

// ways are the requests whose plans are compared with the golden file.
var ways = []struct {
	name   string
	change func(r *recordedTarget, q *Request)
}{
	{"default", func(_ *recordedTarget, q *Request) { q.Options.Objects = nil }},
	{"all", func(*recordedTarget, *Request) {}},
	{"traps", func(_ *recordedTarget, q *Request) { q.Options.On[setting.AllowTraps] = true }},
	{"threshold", func(_ *recordedTarget, q *Request) { q.Options.Threshold = must(symname.ParseThresholds("1000")) }},
	{"thresholds by name", func(_ *recordedTarget, q *Request) {
		q.Options.Threshold = must(symname.ParseThresholds("1000,late_*=5"))
	}},
	{"translator", func(_ *recordedTarget, q *Request) {
		q.Options.Threshold, q.Translator = must(symname.ParseThresholds("1000")), true
	}},
	{"lock", func(_ *recordedTarget, q *Request) { q.Options.On[setting.Lock] = true }},
	{"kept calls", func(_ *recordedTarget, q *Request) { q.Options.On[setting.KeepCalls] = true }},
	{"debugged", func(r *recordedTarget, _ *Request) { r.debugged = true }},
	{"only", func(_ *recordedTarget, q *Request) { q.Options.Only = must(symname.ParseNames("^l", nil)) }},
	{"a library that uses GS", func(r *recordedTarget, q *Request) { q.Objects = append(q.Objects, r.loaded["libgs.so"]) }},
	{"nothing that comes later is seen", func(_ *recordedTarget, q *Request) { q.LinkerHook = 0 }},
	{"kept", func(_ *recordedTarget, q *Request) { q.Keep = true }},
}

// TestPlans: what is planned for a recorded process is right in itself, the same each
// time, and what it was.
func TestPlans(t *testing.T) {
	var golden strings.Builder
	for _, way := range ways {
		var first *Plan
		for range 2 {
			r := open(t)
			q := r.everything()
			way.change(r, q)
			asked := *q
			p, err := New(q, r)
			if err != nil {
				t.Fatalf("%s: %v", way.name, err)
			}
			p.Patch()
			if !reflect.DeepEqual(asked.Objects, q.Objects) || asked.Options != q.Options || asked.Shared != q.Shared || asked.ReserveUsed != q.ReserveUsed {
				t.Errorf("%s: the request was changed", way.name)
			}
			check(t, way.name, r, p)
			if first == nil {
				first = p
				golden.WriteString(summary(way.name, p))
			} else if !bytes.Equal(first.reserve, p.reserve) {
				t.Errorf("%s: the second plan is another one", way.name)
			}
		}
	}
	const file = "testdata/ledger.golden"
	if *update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if golden.String() != string(want) {
		t.Errorf("the ledger is another (go test ./patcher -run Plans -update):\n%s\nwas\n%s", golden.String(), want)
	}
}

// TestBytesThatChanged: where a debugger has set a breakpoint nothing is overwritten,
// and the instruction in the file is what is decoded.
func TestBytesThatChanged(t *testing.T) {
	r := open(t)
	p := must(New(r.everything(), r))
	at := r.at(t, p, "late_loop")
	r = open(t)
	r.View(at, 1)[0] = 0xcc
	r.written = []uint64{at &^ (pageSize - 1)}
	p = must(New(r.everything(), r))
	for f := range p.Ledger().Stream {
		if f.Name == "late_loop" && f.Reason != ledger.ReasonBytesChanged {
			t.Errorf("late_loop: %s, %s", f.Tactic, f.Reason)
		}
	}
	p.Patch()
	check(t, "breakpoint", r, p)
}

// TestGoPrograms: a function that may fault needs libc's sigaction, which is found.
func TestGoPrograms(t *testing.T) {
	r := open(t)
	p := must(New(r.everything(), r))
	if !p.hasActionSite() {
		t.Error("libc's sigaction is there")
	}
	r = open(t)
	for i := range r.maps {
		r.maps[i].Path = strings.ReplaceAll(r.maps[i].Path, "libc.so.6", "libd.so.6")
	}
	if p := must(New(r.request("program"), r)); p.hasActionSite() {
		t.Error("there is no libc")
	}
	if sites := p.all[1].sites; len(sites) == 0 || !slices.ContainsFunc(sites, isAction) {
		t.Errorf("sites of libc: %v", sites)
	}
}
