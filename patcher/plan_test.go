package patcher

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/target"
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
			} else if !bytes.Equal(first.reserve, p.reserve) || !bytes.Equal(first.List, p.List) {
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
		list := mem.Values[patch.Undo](buf[text.Undos-at:])[:text.Count]
		for _, u := range list {
			if u.Kind == patch.KindCall {
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

// TestLittleRoom: what has no room in the reserve or in the list is left, and so said.
func TestLittleRoom(t *testing.T) {
	reasons := func(p *Plan) map[ledger.Reason]int {
		count := map[ledger.Reason]int{}
		for f := range p.Ledger().Stream {
			count[f.Reason]++
		}
		return count
	}
	r := open(t)
	q := r.everything()
	q.List = q.List[:40*patch.Size]
	p := must(New(q, r))
	if n := reasons(p); n[ledger.ReasonNoMemory] == 0 {
		t.Errorf("a short list: %v", n)
	}
	p.Patch()
	for size := uint64(pageSize); ; size += pageSize {
		r = open(t)
		q = r.everything()
		q.ReserveSize, r.reserve = size, r.reserve[:size]
		p, err := New(q, r)
		if err != nil {
			if !strings.Contains(err.Error(), "the stubs need more than the reserve") {
				t.Fatal(err)
			}
			continue
		}
		if n := reasons(p); n[ledger.ReasonNoMemory] == 0 && p.undos != nil {
			if size == pageSize {
				t.Error("a page is enough")
			}
			break
		}
	}
}

// TestLate: objects that come later get numbers behind those of the table, and room
// that is held for them; one that may use GS ends the counting.
func TestLate(t *testing.T) {
	r := open(t)
	q := r.request("program", "libc.so.6", "ld-linux-x86-64.so.2")
	start := must(New(q, r))
	start.Patch()
	path := filepath.Join(t.TempDir(), "table")
	f, err := build.Create(path, start.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	late := func(r *recordedTarget, names ...string) *Request {
		q := r.request(names...)
		q.Late = true
		for i := range q.Objects {
			q.Objects[i].Span = target.Loaded{}.Span
			q.Objects[i].Span.Low = q.Objects[i].Bias
		}
		q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
		return q
	}
	r = open(t)
	q = late(r, "liblate.so")
	p, err := New(q, r)
	if err != nil {
		t.Fatal(err)
	}
	p.Patch()
	check(t, "late", r, p)
	spec := p.Ledger()
	if len(spec.Objects) != 1 || spec.Objects[0].Flags&layout.ObjLate == 0 || spec.Objects[0].Low != r.loaded["liblate.so"].Span.Low {
		t.Errorf("%+v", spec.Objects)
	}
	first := uint32(0)
	for f := range start.Ledger().Stream {
		if f.Counter != layout.NoCounter {
			first++
		}
	}
	for f := range spec.Stream {
		if f.Object != uint16(len(start.all)) || f.Counter != layout.NoCounter && f.Counter < first {
			t.Errorf("%+v", f)
		}
	}

	r = open(t)
	q = late(r, "libgs.so", "liblate.so")
	stopped := false
	q.Stop = func() { stopped = true }
	p, err = New(q, r)
	if err != nil {
		t.Fatal(err)
	}
	for f := range p.Ledger().Stream {
		if f.Counter != layout.NoCounter {
			t.Errorf("%s is counted beside what uses GS", f.Name)
		}
	}
	if !stopped {
		t.Error("nobody was told that GS is taken")
	}

	r = open(t)
	q = late(r, "liblate.so")
	q.Table = func() (*build.Appender, error) { return nil, errors.New("no table") }
	if _, err := New(q, r); err == nil || err.Error() != "no table" {
		t.Error(err)
	}

	r = open(t)
	q = late(r, "liblate.so") // without program headers it takes the maps
	copy(r.View(r.loaded["liblate.so"].Bias, 64)[54:], []byte{0xff, 0xff})
	if _, err := New(q, r); err != nil {
		t.Error(err)
	}
}

// TestLateNoRoom: what the table has no room for is missed, and named.
func TestLateNoRoom(t *testing.T) {
	for _, row := range []struct {
		name   string
		shared bool
		why    ledger.Reason
	}{
		{"liblate.so", false, ledger.ReasonNoMemory},
		{"libgs.so", false, ledger.ReasonUsesGS},
		{"libgs.so", true, ledger.ReasonNoMemory},
	} {
		r := open(t)
		start := must(New(r.request("program", "ld-linux-x86-64.so.2"), r))
		spec := start.Ledger()
		spec.NoSpare = true
		path := filepath.Join(t.TempDir(), "table")
		f, err := build.Create(path, spec)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		q := r.request(row.name)
		q.Late, q.Shared = true, row.shared
		q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
		q.Stop = func() {}
		missed := ledger.ReasonNone
		q.Miss = func(i int, why ledger.Reason) { missed = why }
		p, err := New(q, r)
		if err != nil {
			t.Fatal(err)
		}
		if missed != row.why || len(p.Ledger().Objects) != 0 {
			t.Errorf("%+v: missed for %s, %d objects", row, missed, len(p.Ledger().Objects))
		}
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
