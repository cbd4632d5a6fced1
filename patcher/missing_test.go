package patcher

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestNoFile: an object is read from its links, or from memory; what cannot be is said.
func TestNoFile(t *testing.T) {
	r := open(t)
	whole := must(New(r.everything(), r))
	names := func(p *Plan, path string) (all []string) {
		for f := range p.Ledger().Stream {
			if filepath.Base(p.fitting[f.Object].path) == path {
				all = append(all, f.Name)
			}
		}
		return all
	}
	r = open(t)
	delete(r.files, "/recorded/liblate.so")
	p := must(New(r.everything(), r))
	if got := names(p, "liblate.so"); !slices.Contains(got, "late_loop") || len(got) > len(names(whole, "liblate.so")) {
		t.Errorf("from memory: %v", got)
	}
	p.Patch()
	check(t, "from memory", r, p)

	r = open(t)
	r.files["/recorded/liblate.so"] = r.files["/recorded/libgs.so"] // an upgrade
	if got := names(must(New(r.everything(), r)), "liblate.so"); !slices.Contains(got, "late_loop") {
		t.Errorf("an upgraded file: %v", got)
	}

	r = open(t)
	delete(r.files, "/recorded/liblate.so")
	clear(r.View(r.loaded["liblate.so"].Bias, 4))
	q := r.request("liblate.so")
	if _, err := New(q, r); err == nil || !strings.Contains(err.Error(), "cannot read what is loaded") {
		t.Errorf("nothing to read: %v", err)
	}
	for i := range r.maps {
		if strings.HasSuffix(r.maps[i].Path, "liblate.so") {
			r.maps[i].Path += deleted
		}
	}
	if _, err := New(q, r); err == nil || strings.Contains(err.Error(), "/recorded/liblate.so: file does not exist") {
		t.Errorf("a name that is no file's: %v", err)
	}
}

// TestNoMaps: without them nothing is planned, and the line says what may help.
func TestNoMaps(t *testing.T) {
	r := open(t)
	q := r.everything()
	r.mapsErr = fs.ErrNotExist
	if _, err := New(q, r); err == nil || !strings.Contains(err.Error(), "is /proc mounted?") {
		t.Error(err)
	}
}

// TestLittleRoom: what has no room in the reserve is left, and so said.
func TestLittleRoom(t *testing.T) {
	reasons := func(p *Plan) map[ledger.Reason]int {
		count := map[ledger.Reason]int{}
		for f := range p.Ledger().Stream {
			count[f.Reason]++
		}
		return count
	}
	r := open(t)
	all, fewer := callsLed(t, must(New(r.everything(), r))), false
	for size := uint64(pageSize); ; size += pageSize {
		r = open(t)
		q := r.everything()
		q.ReserveSize, r.reserve = size, r.reserve[:size]
		p, err := New(q, r)
		if err != nil {
			if !strings.Contains(err.Error(), "the stubs need more than the reserve") {
				t.Fatal(err)
			}
			continue
		}
		n := callsLed(t, p)
		fewer = fewer || n > 0 && n < all
		if n == all && reasons(p)[ledger.ReasonNoMemory] == 0 {
			if size == pageSize {
				t.Error("a page is enough")
			}
			break
		}
	}
	if !fewer {
		t.Error("calls are led all or none")
	}
}

// callsLed is how many calls are led to stubs.
func callsLed(t *testing.T, p *Plan) (calls int) {
	t.Helper()
	p.Patch()
	for _, c := range changesOf(t, "little room", p) {
		if c.call {
			calls++
		}
	}
	return calls
}

// TestNoSpace: where there is no room near an object none of its functions is counted.
func TestNoSpace(t *testing.T) {
	r := open(t)
	q := r.everything()
	at := uint64(0)
	var full []procmaps.Mapping
	for _, m := range r.maps {
		full = append(full, procmaps.Mapping{Start: at, End: m.Start}, m)
		at = m.End
	}
	r.maps = append(full, procmaps.Mapping{Start: at, End: 1 << 47})
	p := must(New(q, r))
	p.Patch()
	if len(p.Arenas()) != 0 || len(p.Texts()) != 0 {
		t.Errorf("%d arenas, %d texts", len(p.Arenas()), len(p.Texts()))
	}
	for f := range p.Ledger().Stream {
		if f.Counter != layout.NoCounter || f.Reason == ledger.ReasonNone {
			t.Errorf("%s: counter %d, %s", f.Name, f.Counter, f.Reason)
		}
	}
	r = open(t)
	q = r.everything()
	q.Options.On[setting.AllowTraps] = true
	r.maps = append(full, procmaps.Mapping{Start: at, End: 1 << 47})
	if _, err := New(q, r); err == nil || !strings.Contains(err.Error(), "traps cannot be used") {
		t.Errorf("traps without room for their sites: %v", err)
	}
}

// TestTrapsNeedTheirSites: where nothing handles SIGTRAP for good there are no traps.
func TestTrapsNeedTheirSites(t *testing.T) {
	r := open(t)
	q := r.request("program")
	q.Options.On[setting.AllowTraps] = true
	if p := must(New(q, r)); p.NeedsTraps() {
		t.Error("traps without a site of sigaction")
	}
	r = open(t)
	q = r.request("program", "ld-linux-x86-64.so.2")
	q.Options.On[setting.AllowTraps], q.Traps = true, true
	p := must(New(q, r))
	if !p.NeedsTraps() {
		t.Error("no traps, and they are handled")
	}
	n := 0
	for f := range p.Ledger().Stream {
		if f.Tactic == ledger.TacticTrap {
			n++
		}
	}
	if traps := p.Arenas()[0].TrapsCount; n == 0 || traps < n {
		t.Errorf("%d traps for %d functions", traps, n)
	}
}
