package patcher

import (
	"bytes"
	"encoding/binary"
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
	for _, text := range p.Texts() {
		if text.Arena < 0 || text.Arena >= len(arenas) {
			t.Fatalf("%s: text %+v has no arena", name, text)
		}
	}
	changes := changesOf(t, name, p)
	var pages []uint64
	for i := range changes {
		c := &changes[i]
		pages = append(pages, c.at>>12<<12, (c.at+uint64(len(c.old))-1)>>12<<12)
		if c.at < c.text.Start || c.at+uint64(len(c.old)) > c.text.Start+c.text.Size {
			t.Errorf("%s: a change at %#x is outside %+v", name, c.at, c.text)
		}
		if i > 0 && c.at < changes[i-1].at+uint64(len(changes[i-1].old)) {
			t.Errorf("%s: changes at %#x and %#x overlap", name, changes[i-1].at, c.at)
		}
		if was := r.View(c.at, len(c.old)); !bytes.Equal(was, c.old) {
			t.Errorf("%s: at %#x is % x, not % x", name, c.at, was, c.old)
		}
		if !c.call && len(c.new) == 5 && !inArena(jumpTarget(t, c.new, c.at)) {
			t.Errorf("%s: the jump at %#x leads nowhere", name, c.at)
		}
	}
	kept := slices.ContainsFunc(p.changes, func(t patchedText) bool { return t.kept != nil })
	if pages = slices.Compact(pages); !kept && !slices.Equal(p.ChangedPages(), pages) {
		t.Errorf("%s: %d pages have changes, %d are told", name, len(pages), len(p.ChangedPages()))
	}
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

// change is what a target is to do to its text.
type change struct {
	text     *patch.UndoText
	at       uint64
	old, new []byte
	call     bool
}

// changesOf are the changes of all texts, in the order of their addresses.
func changesOf(t *testing.T, name string, p *Plan) (all []change) {
	t.Helper()
	at, count := p.Undos()
	pages := p.Arenas()[len(p.arenas)-1]
	if at != pages.At || int(count) != len(p.Texts()) {
		t.Fatalf("%s: undos at %#x of %d texts", name, at, count)
	}
	buf := p.reserve[pages.Offset : pages.Offset+pages.Size]
	texts := mem.Values[patch.UndoText](buf)[:count]
	for i := range texts {
		text := &texts[i]
		file := buf[text.File-at:]
		if path := string(file[:bytes.IndexByte(file, 0)]); !strings.HasPrefix(path, "/") {
			t.Errorf("%s: a text of file %q", name, path)
		}
		patches := mem.Values[patch.Overwritten](buf[text.Overwritten-at:])
		leds := mem.Values[patch.Led](buf[text.Leds-at:])
		for _, u := range mem.Values[patch.Listed](buf[text.List-at:])[:text.Count] {
			c := change{text: text, at: text.Start + uint64(u.At), call: u.Of&patch.CallBit != 0}
			if behind := u.At + 4; c.call {
				led := &leds[u.Of&^patch.CallBit]
				c.old = binary.LittleEndian.AppendUint32(nil, led.Entry-behind)
				c.new = binary.LittleEndian.AppendUint32(nil, led.Stub-behind)
			} else {
				o := &patches[u.Of]
				c.old, c.new = o.Old[:o.Len], o.New[:o.Len]
			}
			all = append(all, c)
		}
	}
	return all
}
