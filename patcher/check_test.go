package patcher

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/patch"
)

// summary is how many functions of each object have which tactic or reason.
func summary(name string, p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %+v\n", name, p.how)
	spec := p.Ledger()
	for i, o := range spec.Objects {
		count := map[string]int{}
		for f := range spec.Stream {
			if int(f.Object) != i {
				continue
			}
			word := f.Tactic.String()
			if f.Reason != ledger.ReasonNone {
				word = f.Reason.String()
			}
			count[word]++
		}
		fmt.Fprintf(&b, "  %s %v %s: %v\n", filepath.Base(o.Path), o.Flags, o.Reason, count)
	}
	return b.String()
}

// check looks at a plan as the target that applies it does.
func check(t *testing.T, name string, r *recordedTarget, p *Plan) {
	t.Helper()
	arenas := p.Arenas()
	for i, a := range arenas {
		whole := a.Size + a.Pointers + a.ViewSize
		if !r.IsFree(a.At, whole) && !p.Late {
			t.Errorf("%s: arena %d lies where something is: %+v", name, i, a)
		}
		for _, b := range arenas[:i] {
			if a.At < b.At+b.Size+b.Pointers+b.ViewSize && b.At < a.At+whole || a.Offset < b.Offset+b.Size+b.Pointers && b.Offset < a.Offset+a.Size+a.Pointers {
				t.Errorf("%s: arenas overlap: %+v, %+v", name, a, b)
			}
		}
		if a.At%pageSize != 0 || a.Size%pageSize != 0 || a.Offset+a.Size+a.Pointers > p.ReserveSize {
			t.Errorf("%s: arena %+v", name, a)
		}
	}
	inArena := func(at uint64) bool {
		return slices.ContainsFunc(arenas, func(a Arena) bool { return at >= a.At && at < a.At+a.Size })
	}
	list, n := mem.Values[patch.Patch](p.List), 0
	for _, text := range p.Texts() {
		mine := list[n : n+text.Patches]
		n += text.Patches
		if text.Arena < 0 || text.Arena >= len(arenas) {
			t.Fatalf("%s: text %+v has no arena", name, text)
		}
		for i := range mine {
			m := &mine[i]
			at := uint64(m.At)
			if at < text.Start || at+uint64(m.Len) > text.End {
				t.Errorf("%s: a patch at %#x is outside %+v", name, at, text)
			}
			if i > 0 && at < uint64(mine[i-1].At)+uint64(mine[i-1].Len) {
				t.Errorf("%s: patches at %#x and %#x overlap", name, uint64(mine[i-1].At), at)
			}
			if !bytes.Equal(r.View(at, int(m.Len)), m.Old[:m.Len]) {
				t.Errorf("%s: at %#x is % x, not % x", name, at, r.View(at, int(m.Len)), m.Old[:m.Len])
			}
			if m.Len == 5 && !inArena(jumpTarget(t, m.New[:], at)) {
				t.Errorf("%s: the jump at %#x leads nowhere", name, at)
			}
		}
	}
	checkUndos(t, name, p, n)
	counted, seen := 0, map[uint32]bool{}
	for f := range p.Ledger().Stream {
		if f.Counter == layout.NoCounter {
			if f.Reason == ledger.ReasonNone {
				t.Errorf("%s: %s is not counted, and nobody knows why", name, f.Name)
			}
			continue
		}
		if seen[f.Counter] {
			t.Errorf("%s: counter %d twice", name, f.Counter)
		}
		seen[f.Counter] = true
		counted++
	}
	stubs := 0
	for s := range p.Stubs() {
		if !inArena(uint64(s.At)) || s.Name == "" {
			t.Errorf("%s: stub %+v", name, s)
		}
		stubs++
	}
	if stubs != counted {
		t.Errorf("%s: %d stubs of %d functions", name, stubs, counted)
	}
}

// checkUndos compares what takes the changes back with the n patches and the calls.
func checkUndos(t *testing.T, name string, p *Plan, n int) {
	t.Helper()
	at, count := p.Undos()
	pages := p.Arenas()[len(p.arenas)-1]
	if at != pages.At || int(count) != len(p.Texts()) {
		t.Fatalf("%s: undos at %#x of %d texts", name, at, count)
	}
	buf := p.reserve[pages.Offset : pages.Offset+pages.Size]
	undone, calls := 0, 0
	for _, text := range mem.Values[patch.UndoText](buf)[:count] {
		file := buf[text.File-at:]
		if path := string(file[:bytes.IndexByte(file, 0)]); !strings.HasPrefix(path, "/") {
			t.Errorf("%s: a text of file %q", name, path)
		}
		list := mem.Values[patch.Listed](buf[text.List-at:])[:text.Count]
		for _, u := range list {
			if u.Of&patch.CallBit != 0 {
				calls++
			}
		}
		undone += len(list)
	}
	want := 0
	for _, text := range p.Texts() {
		want += text.Calls
	}
	if undone != n+want || calls != want {
		t.Errorf("%s: %d changes are taken back, %d of them calls, of %d and %d", name, undone, calls, n, want)
	}
}
