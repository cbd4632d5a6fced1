package test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// planned is a program that is started with a cache of plans.
type planned struct {
	command
	home string // XDG_CACHE_HOME
	by   string // "run" or "preload"
	env  []string

	flags []string // of run
}

// newPlanned is c with an empty cache.
func newPlanned(t *testing.T, c command, by string, env ...string) *planned {
	t.Helper()
	settle(t, c.args...)
	return &planned{command: c, home: cacheHome(t), by: by, env: append(env, "DYNPROF_CACHE=1", "DYNPROF_TEXT_COPIES=1")}
}

// settle waits until those of names that are files have not changed for a while: of what
// has just been written no plan is kept.
func settle(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		var st syscall.Stat_t
		if syscall.Stat(name, &st) == nil {
			time.Sleep(time.Until(time.Unix(st.Ctim.Unix()).Add(50 * time.Millisecond)))
		}
	}
}

// unmount takes away what is mounted at dir, as soon as nobody uses it: what keeps plans may
// end a little behind the program.
func unmount(t *testing.T, dir string) {
	t.Helper()
	var r result
	for range 200 {
		if r = run(t, cmd("umount", dir)); r.status == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%+v", r)
}

// cacheHome is a directory that is removed whether somebody writes to it yet or not.
func cacheHome(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dynprof-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start runs it and returns what it did, the report, and how many of its objects had a
// plan of an earlier start, of how many.
func (p *planned) start(t *testing.T) (r result, rep *report, cached, all int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table")
	c := p.command
	c.env = slices.Concat(c.env, p.env, []string{"XDG_CACHE_HOME=" + p.home})
	if p.by == "run" {
		c.args = append([]string{build(t, "hotspots"), "run", "-o", path, "--summary", "0"}, slices.Concat(p.flags, []string{"--"}, c.args)...)
	} else {
		c.env = append(c.env, "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+path)
	}
	r = run(t, c)
	tab, err := table.Open(path)
	if err != nil {
		t.Fatalf("%v\n%+v", err, r)
	}
	defer tab.Close()
	for i := range tab.Objects {
		if tab.Objects[i].Flags&layout.ObjCached != 0 {
			cached++
		}
	}
	return r, readReport(t, path), cached, len(tab.Objects)
}

// isWarm is whether no planner has run.
func isWarm(t *testing.T, rep *report) bool {
	t.Helper()
	tab, err := table.Open(rep.table)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	return tab.Flags&layout.FlagWarm != 0
}

func (p *planned) plans() []string {
	list, _ := filepath.Glob(filepath.Join(p.home, "dynprof/plans/*.plan")) // the pattern is sound
	return list
}

// warm starts it on the empty cache until all plans are there: an agent writes them while
// the program runs, and longer.
func (p *planned) warm(t *testing.T) {
	t.Helper()
	_, _, cached, all := p.start(t)
	if cached != 0 {
		t.Errorf("%d plans were there before the first start", cached)
	}
	for starts := 0; len(p.plans()) < all; starts++ {
		if _, _, cached, _ := p.start(t); starts > 20 {
			t.Logf("%d plans were used", cached)
			t.Fatalf("%d of %d plans are written: %v", len(p.plans()), all, p.plans())
		}
	}
}

// alike fails unless a start did the same as another, and counted the same.
func alike(t *testing.T, what string, r result, rep *report, want result, wantReport *report) {
	t.Helper()
	if r != want {
		t.Errorf("%s: %+v, not %+v", what, r, want)
	}
	byAddress := map[string]function{}
	for _, f := range wantReport.Functions {
		byAddress[f.Object+f.Address] = f
	}
	for _, f := range rep.Functions {
		if want := byAddress[f.Object+f.Address]; !reflect.DeepEqual(f, want) {
			t.Errorf("%s: %+v, not %+v", what, f, want)
		}
	}
	if len(rep.Functions) != len(wantReport.Functions) {
		t.Errorf("%s: %d functions, not %d", what, len(rep.Functions), len(wantReport.Functions))
	}
}

// alikeTables compares what reports do not tell.
func alikeTables(t *testing.T, path, other string) {
	t.Helper()
	var tables [2]*table.Table
	for i, p := range []string{path, other} {
		var err error
		if tables[i], err = table.Open(p); err != nil {
			t.Fatal(err)
		}
		defer tables[i].Close()
	}
	a, b := tables[0], tables[1]
	if a.Geometry != b.Geometry {
		t.Errorf("geometry %+v, not %+v", a.Geometry, b.Geometry)
	}
	if a.Program != b.Program || a.Creator != b.Creator || a.UID != b.UID || a.PidNS != b.PidNS || a.BootID != b.BootID || a.StartTicks == 0 || a.Nonce == b.Nonce || a.Flags&^layout.FlagWarm != b.Flags || a.Threshold != b.Threshold {
		t.Errorf("%+v\n%+v", a.Header, b.Header)
	}
	for i := range a.Objects {
		x, y := a.Objects[i], b.Objects[i]
		if x.Path != y.Path || x.BuildID != y.BuildID || x.High-x.Low != y.High-y.Low || x.Flags != y.Flags|layout.ObjCached || x.Reason != y.Reason || x.Code != y.Code || x.Untold != y.Untold {
			t.Errorf("%+v\n%+v", x, y)
		}
	}
	sites, err := a.Sites()
	wantSites, errWant := b.Sites()
	if err != nil || errWant != nil || a.HasSites() != b.HasSites() || len(sites) != len(wantSites) {
		t.Fatalf("%d sites, not %d: %v %v", len(sites), len(wantSites), err, errWant)
	}
	for i := range sites {
		x, y := sites[i], wantSites[i]
		if x.Stub, y.Stub = 0, 0; x != y { // arenas are others
			t.Errorf("site %d: %+v, not %+v", i, x, y)
			break
		}
	}
	if !a.HasBlocks() {
		return
	}
	_, flow := flowOf(t, path)
	_, want := flowOf(t, other)
	for i, f := range []*table.Flow{flow, want} { // wherever the objects lie
		for k := range f.Callees {
			for o := range tables[i].Objects {
				if o, at := &tables[i].Objects[o], &f.Callees[k].Address; *at >= o.Low && *at < o.High {
					*at -= o.Bias
					break
				}
			}
		}
		slices.SortFunc(f.Callees, func(a, b table.Callee) int {
			return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Address, b.Address))
		})
	}
	for _, f := range []*table.Flow{flow, want} {
		forgetStrings(a, f)
	}
	if !reflect.DeepEqual(flow, want) {
		t.Errorf("%d blocks, %d ways, %d loops: not as the %d, %d, %d without", len(flow.Blocks), len(flow.Ways), len(flow.Loops), len(want.Blocks), len(want.Ways), len(want.Loops))
	}
}

// forgetStrings forgets how often blocks of libc ran: its functions for strings look whether one
// reaches the next page, and where strings lie is random.
func forgetStrings(tab *table.Table, f *table.Flow) {
	of := func(function uint32) bool {
		return strings.HasPrefix(filepath.Base(tab.Objects[tab.Functions[function].Object].Path), "libc.so")
	}
	inLibc := make([]bool, len(f.Blocks))
	for i := range f.Blocks {
		if inLibc[i] = of(f.Blocks[i].Function); inLibc[i] {
			f.Blocks[i].Runs = 0
		}
	}
	is := func(block uint32) bool { return block < uint32(len(inLibc)) && inLibc[block] }
	for i := range f.Ways {
		if w := &f.Ways[i]; is(w.From) || is(w.To) {
			w.Taken = 0
		}
	}
	for i := range f.Loops {
		if l := &f.Loops[i]; of(l.Function) {
			l.Iterations, l.Entries, l.Executed = 0, 0, 0
		}
	}
}

// cachePrograms do the same each time, down to the last call.
func cachePrograms(t *testing.T) []command {
	sql := "create table t(a); with recursive c(x) as (select 1 union all select x + 1 from c where x < 500) insert into t select x from c; select sum(a) from t;"
	input := filepath.Join(t.TempDir(), "input") // a pipe would have to be waited for now and then
	if err := os.WriteFile(input, []byte(strings.Repeat("what is found out once need not be found out again\n", 300)), 0o600); err != nil {
		t.Fatal(err)
	}
	return []command{
		{args: []string{need(t, "xz"), "-c", input}},
		{args: []string{need(t, "sqlite3"), ":memory:", sql}},
	}
}

// TestCache: a start with the plans of an earlier one does and counts what a start
// without them does, function by function.
func TestCache(t *testing.T) {
	lane.Parallel(t)
	ways := [][]string{nil, {"DYNPROF_BLOCKS=1"}, {"DYNPROF_OBJECTS=all"}, {"DYNPROF_KEEP_CALLS=1"}, {"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=1000", "DYNPROF_CONTROL=1"}, {"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=1000"}, {"DYNPROF_EDGES=1"}, {"DYNPROF_BLOCKS=1", "DYNPROF_EDGES=1"}, {"DYNPROF_BLOCKS_OF=hot", "DYNPROF_THRESHOLD=20"}, {"DYNPROF_EDGES=1", "DYNPROF_THRESHOLD=1000"}, {"DYNPROF_BLOCKS=1", "DYNPROF_CONTROL=1"}}
	for i, c := range cachePrograms(t) {
		for k, way := range lane.Thin(ways, 1+2*i) {
			for _, by := range lane.Turn([]string{"run", "preload"}, i+k) {
				t.Run(fmt.Sprintf("%s/%s/%s", filepath.Base(c.args[0]), by, strings.Join(way, " ")), func(t *testing.T) {
					p := newPlanned(t, c, by, way...)
					without := *p
					without.env = append(slices.Clone(way), "DYNPROF_CACHE=0")
					want, wantReport, cached, _ := without.start(t)
					if cached != 0 || len(p.plans()) != 0 {
						t.Errorf("%d plans are used, %d made, though they are turned off", cached, len(p.plans()))
					}
					p.warm(t)
					r, rep, cached, all := p.start(t)
					if cached != all {
						t.Errorf("%d of %d objects had a plan", cached, all)
					}
					if control := slices.Contains(way, "DYNPROF_CONTROL=1"); isWarm(t, rep) == control || isWarm(t, wantReport) {
						t.Errorf("a planner ran: %t; without a cache: %t", !isWarm(t, rep), !isWarm(t, wantReport))
					}
					alike(t, "warm", r, rep, want, wantReport)
					alikeTables(t, rep.table, wantReport.table)
				})
			}
		}
	}
}

// TestCacheSound: the library takes those files for plans that hotspots does, whatever is
// in them.
func TestCacheSound(t *testing.T) {
	lane.Parallel(t)
	sound := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-I../libdynprof/resident"}, "sound.c")
	p := newPlanned(t, cmd(need(t, "xz"), "--version"), "preload")
	p.warm(t)
	var in bytes.Buffer
	var want strings.Builder
	add := func(b []byte) {
		if len(b) >= plancache.PlanHeaderSize {
			binary.LittleEndian.PutUint64(b[plancache.PlanCheck:], xxhash.Sum64(b[plancache.PlanCheck+8:]))
		}
		binary.Write(&in, binary.LittleEndian, uint64(len(b)))
		in.Write(b)
		_, err := plancache.Decode(b)
		want.WriteByte(map[bool]byte{true: '1', false: '0'}[err == nil])
	}
	blocks := newPlanned(t, cmd(compile(t, need(t, "g++"), []string{"-O2", "-pthread"}, "blocks.cc")), "preload", "DYNPROF_BLOCKS=1", "DYNPROF_EDGES=1", "DYNPROF_OBJECTS=main")
	blocks.warm(t)
	sites := newPlanned(t, cmd(compile(t, need(t, "gcc"), []string{"-O2", "-pthread"}, "sites.c"), "1", "1"), "preload", "DYNPROF_EDGES=1", "DYNPROF_OBJECTS=main")
	sites.warm(t)
	for _, path := range slices.Concat(p.plans(), blocks.plans(), sites.plans()) {
		whole := []byte(read(t, path))
		if len(whole) > 200<<10 {
			continue // enough of them are smaller
		}
		add(whole)
		flow := len(whole) // blocks, ways and loops come last, and sites
		if binary.LittleEndian.Uint32(whole[plancache.PlanSites+plancache.PartCount:]) > 0 {
			flow = int(binary.LittleEndian.Uint64(whole[plancache.PlanSites+plancache.PartOffset:]))
		}
		if binary.LittleEndian.Uint32(whole[plancache.PlanBlocks+plancache.PartCount:]) > 0 {
			flow = int(binary.LittleEndian.Uint64(whole[plancache.PlanBlocks+plancache.PartOffset:]))
		}
		for i := range lane.Of(200, 5000) {
			b, at := bytes.Clone(whole), rand.IntN(len(whole))
			if i%2 == 0 {
				at = rand.IntN(plancache.PlanHeaderSize)
			} else if flow < len(whole) && i%4 == 1 {
				at = flow + rand.IntN(len(whole)-flow)
			}
			switch i % 8 {
			case 0, 1, 2:
				b[at] ^= 1 << rand.IntN(8)
			case 3, 4:
				b[at] = byte(rand.IntN(256))
			case 5, 6:
				binary.LittleEndian.PutUint32(b[min(at&^3, len(b)-4):], rand.Uint32()>>rand.IntN(32))
			default:
				b = b[:at]
				if at >= plancache.PlanHeaderSize {
					binary.LittleEndian.PutUint64(b[plancache.PlanFileSize:], uint64(at))
				}
			}
			add(b)
		}
	}
	c := cmd(sound)
	c.stdin = in.String()
	r := run(t, c)
	if r.stdout != want.String() || r.status != 0 {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
	if n := strings.Count(want.String(), "1"); n < 3 || n == want.Len() {
		t.Errorf("%d of %d are plans", n, want.Len())
	}
}

// TestCacheHome: programs that are executed with another home find the same plans, and
// nothing is put there, which they would meet as files of their own.
func TestCacheHome(t *testing.T) {
	lane.Parallel(t)
	cache, other, tables := cacheHome(t), t.TempDir(), t.TempDir()
	c := cmd(build(t, "hotspots"), "run", "--follow-exec", "--summary", "0", "-o", tables+"/%p", "--",
		need(t, "env"), "-u", "XDG_CACHE_HOME", "HOME="+other, need(t, "env"), "true")
	c.env = []string{"XDG_CACHE_HOME=" + cache}
	for range 3 {
		if r := run(t, c); r.status != 0 || r.stdout+r.stderr != "" {
			t.Errorf("%+v", r)
		}
	}
	if plans, err := filepath.Glob(cache + "/dynprof/plans/*.plan"); err != nil || len(plans) < 4 {
		t.Errorf("plans: %v, %v", plans, err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("the other home has %v, %v", left, err)
	}
}

// TestCacheSpoilt: whatever somebody has done to the files of the cache, the program runs
// and is counted; and nothing is taken from what is not the user's alone.
func TestCacheSpoilt(t *testing.T) {
	lane.Parallel(t)
	p := newPlanned(t, cachePrograms(t)[0], "preload")
	p.warm(t)
	want, wantReport, _, all := p.start(t)
	type plan struct {
		path string
		b    []byte
	}
	each := func(spoil func(path string, b []byte) error) func(string, []plan) error {
		return func(_ string, plans []plan) (err error) {
			for _, f := range plans {
				err = errors.Join(err, os.Remove(f.path), spoil(f.path, f.b))
			}
			return err
		}
	}
	write := func(path string, b []byte) error { return os.WriteFile(path, b, 0o600) }
	other := cacheHome(t)
	for name, spoil := range map[string]func(dir string, plans []plan) error{
		"cut":          each(func(path string, b []byte) error { return write(path, b[:len(b)/2]) }),
		"empty":        each(func(path string, _ []byte) error { return write(path, nil) }),
		"another byte": each(func(path string, b []byte) error { b[len(b)-9]++; return write(path, b) }),
		"zeros":        each(func(path string, b []byte) error { clear(b); return write(path, b) }),
		"a hole":       each(func(path string, b []byte) error { return errors.Join(write(path, b), os.Truncate(path, 1<<40)) }),
		"a pipe":       each(func(path string, _ []byte) error { return syscall.Mkfifo(path, 0o600) }),
		"a directory":  each(func(path string, _ []byte) error { return os.Mkdir(path, 0o700) }),
		"a link": each(func(path string, b []byte) error {
			to := filepath.Join(other, filepath.Base(path))
			return errors.Join(write(to, b), os.Symlink(to, path))
		}),
		"writable": each(func(path string, b []byte) error { return errors.Join(write(path, b), os.Chmod(path, 0o622)) }),
		"another's": each(func(path string, b []byte) error {
			if os.Geteuid() != 0 {
				return nil // nobody else can be made its owner
			}
			return errors.Join(write(path, b), os.Chown(path, 65534, 65534))
		}),
		"open to all": func(dir string, _ []plan) error { return os.Chmod(dir, 0o755) },
		"a linked one": func(dir string, _ []plan) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir))
		},
	} {
		q := *p
		q.home = cacheHome(t)
		dir := filepath.Join(q.home, "dynprof/plans")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var plans []plan
		for _, path := range p.plans() {
			plans = append(plans, plan{filepath.Join(dir, filepath.Base(path)), []byte(read(t, path))})
			if err := write(plans[len(plans)-1].path, plans[len(plans)-1].b); err != nil {
				t.Fatal(err)
			}
		}
		if err := spoil(dir, plans); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, rep, cached, _ := q.start(t)
		if cached != 0 || isWarm(t, rep) {
			t.Errorf("%s: %d of %d plans are used", name, cached, all)
		}
		alike(t, name, r, rep, want, wantReport)
	}
}

// TestCacheChanged: a program that has been built anew, or written to, is planned anew.
func TestCacheChanged(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	dir := t.TempDir()
	program, source := filepath.Join(dir, "program"), filepath.Join(dir, "program.c")
	make := func(calls int) {
		t.Helper()
		text := fmt.Sprintf("#include <stdio.h>\n__attribute__((noipa)) int step(int i) { return i + %d; }\nint main(void) { int s = 0; for (int i = 0; i < %[1]d; i++) s = step(s); return !printf(\"%%d\\n\", s); }\n", calls)
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := run(t, cmd(gcc, "-O1", "-o", program, source)); r.status != 0 {
			t.Fatal(r.stderr)
		}
		settle(t, program)
	}
	make(3)
	p := newPlanned(t, cmd(program), "preload")
	p.warm(t)
	others := len(p.plans()) - 1 // of libraries
	for name, change := range map[string]func(){
		"built anew": func() { os.Remove(program); make(5) },
		"over it":    func() { make(7) },
		"touched":    func() { os.Chtimes(program, time.Time{}, time.Unix(1e9, 0)) },
		"a byte": func() {
			b := []byte(read(t, program))
			f, err := os.OpenFile(program, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.WriteAt(b[len(b)-1:], int64(len(b)-1)) // the same: that nobody can know
		},
	} {
		change()
		want := run(t, p.command)
		r, rep, cached, _ := p.start(t)
		same(t, want, r)
		if cached != others {
			t.Errorf("%s: %d objects had a plan, not %d", name, cached, others)
		}
		if n := rep.calls(t, "step"); fmt.Sprintln(n*n) != want.stdout {
			t.Errorf("%s: %d calls, and it says %s", name, n, want.stdout)
		}
	}
}

// TestCacheAtOnce: many starts on an empty cache leave whole files and nothing else.
func TestCacheAtOnce(t *testing.T) {
	lane.Parallel(t)
	p := newPlanned(t, cmd(need(t, "true")), "preload")
	var all sync.WaitGroup
	for range lane.Of(8, 100) {
		all.Go(func() {
			if r, _, _, _ := p.start(t); r != (result{}) {
				t.Errorf("%+v", r)
			}
		})
	}
	all.Wait()
	p.wholePlans(t)
}

// wholePlans fails unless the cache holds whole plans, and nothing else before long.
func (p *planned) wholePlans(t *testing.T) {
	t.Helper()
	dir := filepath.Join(p.home, "dynprof/plans")
	left := func() bool {
		list, _ := filepath.Glob(dir + "/.new-*")
		return len(list) > 0 || len(p.plans()) == 0
	}
	for end := time.Now().Add(patience); left() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	for _, path := range p.plans() {
		if _, err := plancache.Decode([]byte(read(t, path))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(p.plans()) {
		t.Errorf("%v: %v", entries, err)
	}
}

// TestCacheUsers: many starts at once of two users on empty caches, which are each one's own,
// or where both look: all count the same, and nobody takes or spoils the other's plans.
func TestCacheUsers(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot start programs of another user")
	program := manyFunctions(t, 2000, 60_000)
	for _, row := range lane.Some([]string{"apart", "together"}, 1) {
		t.Run(row, func(t *testing.T) {
			dir := forOthers(t)
			copyFile(t, program, filepath.Join(dir, "program"))
			copyFile(t, build(t, "hotspots"), filepath.Join(dir, "hotspots"))
			settle(t, filepath.Join(dir, "program"))
			homes := [2]string{filepath.Join(dir, "home"), filepath.Join(dir, "home")}
			if row == "apart" {
				homes[1] += "1"
			}
			for _, home := range homes {
				if err := errors.Join(os.MkdirAll(home, 0o777), os.Chmod(home, 0o777)); err != nil {
					t.Fatal(err)
				}
			}
			start := func(name string, user int, cache string) (result, *report) {
				table := filepath.Join(dir, name)
				args := []string{filepath.Join(dir, "hotspots"), "run", "--cache=" + cache, "--summary", "0", "-o", table, "--", filepath.Join(dir, "program")}
				if user == 1 {
					args = append([]string{need(t, "setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", "--"}, args...)
				}
				r := run(t, command{args: args, env: []string{"HOME=/nonexistent", "XDG_RUNTIME_DIR=", "XDG_CACHE_HOME=" + homes[user]}})
				return r, readReport(t, table)
			}
			want, wantReport := start("planned", 0, "false")
			var all sync.WaitGroup
			for i := range lane.Of(12, 200) {
				all.Go(func() {
					r, rep := start(fmt.Sprint("table", i), i%2, "true")
					alike(t, fmt.Sprint("start ", i), r, rep, want, wantReport)
				})
			}
			all.Wait()
			(&planned{home: homes[0]}).wholePlans(t)
			(&planned{home: homes[1]}).wholePlans(t)
			for user, home := range homes {
				st, err := os.Stat(filepath.Join(home, "dynprof/plans"))
				if err != nil {
					t.Fatal(err)
				}
				owner := st.Sys().(*syscall.Stat_t).Uid
				mine := owner == 0 == (user == 0)
				if row == "apart" && !mine {
					t.Errorf("user %d's plans are %d's", user, owner)
				}
				r, rep := start(fmt.Sprint("again", user), user, "true")
				alike(t, fmt.Sprint("user ", user, " again"), r, rep, want, wantReport)
				if st.Mode().Perm() != 0o700 || isWarm(t, rep) != mine {
					t.Errorf("user %d's plans: mode %o, warm %t", user, st.Mode().Perm(), !mine)
				}
			}
		})
	}
}

// hotspots fails unless hotspots cache ends with a status and says something.
func (p *planned) hotspots(t *testing.T, status int, said string, args ...string) {
	t.Helper()
	c := cmd(append([]string{build(t, "hotspots"), "cache"}, args...)...)
	c.env = []string{"XDG_CACHE_HOME=" + p.home}
	if r := run(t, c); r.status != status || !strings.Contains(r.stdout+r.stderr, said) {
		t.Errorf("%q: %+v, not %d and %q", args, r, status, said)
	}
}

// TestCacheWarmed: behind hotspots cache warm, with its flags, the first start plans nothing, and
// counts as one that does.
func TestCacheWarmed(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2", "-fPIE", "-pie"}, "heat.c")
	for _, row := range lane.Some([][2][]string{
		{{"--heat"}, {"--heat"}},
		{{"--heat=pages"}, {"--heat=pages"}},
		{{"--heat=bytes", "--objects", "all"}, {"--heat=bytes", "--objects", "all"}},
		{{"--heat=who"}, {"--heat=who"}},
		{{"--regions"}, {"--regions"}},
		{{"--regions"}, {"--region", "main"}},
		{{"--blocks", "--edges", "--trips"}, {"--blocks", "--edges", "--trips"}},
	}, 0, 3, 5) {
		t.Run(strings.Join(row[1], " "), func(t *testing.T) {
			p := newPlanned(t, cmd(program), "run")
			p.flags = row[1]
			r, rep, _, _ := p.start(t)
			total := rep.TotalCalls
			p.home = cacheHome(t)
			p.hotspots(t, 0, "1 programs: 3 more plans", slices.Concat([]string{"warm"}, row[0], []string{program})...)
			again, rep, cached, all := p.start(t)
			if cached != all || !isWarm(t, rep) || rep.TotalCalls != total || again.status != r.status || again.stderr != r.stderr {
				t.Errorf("%d of %d plans are used, %d calls, not %d; %+v, not %+v", cached, all, rep.TotalCalls, total, again, r)
			}
		})
	}
	p := newPlanned(t, cmd(program), "run")
	p.hotspots(t, 2, "it is pages, lines, bytes, threads or who", "warm", "--heat=words", program)
	p.hotspots(t, 2, "does not go with", "warm", "--heat", "--regions", program)
}

// TestCacheCommand: hotspots cache tells of plans, finds what is wrong, and removes them.
func TestCacheCommand(t *testing.T) {
	lane.Parallel(t)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte(read(t, need(t, "true"))), 0o700); err != nil {
		t.Fatal(err)
	}
	p := newPlanned(t, cmd(program), "preload")
	p.hotspots(t, 0, "removed 0 plans", "clear")
	p.warm(t)
	p.hotspots(t, 0, program+",good,", "ls", "--format", "csv")
	p.hotspots(t, 0, `"object":"`+program+`"`, "ls", "--format", "json")
	p.hotspots(t, 0, program+"\n", "ls")
	p.hotspots(t, 0, "", "verify")
	if err := os.Chtimes(program, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	p.hotspots(t, 0, program+"): stale: its object has been changed", "verify")
	p.hotspots(t, 0, "removed 1 plans", "clear", "--stale")
	if err := errors.Join(os.Chmod(p.plans()[0], 0o600), os.Truncate(p.plans()[0], 100)); err != nil {
		t.Fatal(err)
	}
	p.hotspots(t, 1, "damaged: it is no cached plan", "verify")
	p.hotspots(t, 2, "say warm, ls, verify or clear")
	p.hotspots(t, 0, "removed 2 plans", "clear")
	p.hotspots(t, 0, "1 programs: 3 more plans", "warm", program)
	p.hotspots(t, 0, "1 programs: 0 more plans", "warm", filepath.Dir(program))
	if r, rep, cached, all := p.start(t); r != (result{}) || cached != all || !isWarm(t, rep) {
		t.Errorf("%d of %d plans are used after warm, %+v", cached, all, r)
	}
	p.hotspots(t, 2, "no program named", "warm")
	p.hotspots(t, 127, "no such program", "warm", "/nowhere/x")
	p.hotspots(t, 0, "removed 3 plans", "clear")
	if list := p.plans(); len(list) > 0 {
		t.Errorf("%v", list)
	}
}

// TestCacheNowhere: where no plan can be kept nobody hears of it.
func TestCacheNowhere(t *testing.T) {
	lane.Parallel(t)
	c := cmd(need(t, "true"))
	full := newPlanned(t, c, "preload")
	if os.Geteuid() == 0 && run(t, cmd("mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "none", full.home)).status == 0 {
		t.Cleanup(func() { unmount(t, full.home) })
	}
	for name, home := range map[string]string{"a file": build(t, "hotspots"), "nothing": "", "not absolute": "cache", "/proc": "/proc", "not there": "/nowhere/x", "full": full.home} {
		p := newPlanned(t, c, "preload", "HOME=")
		p.home = home
		for range 2 {
			if r, _, cached, _ := p.start(t); r != (result{}) || cached != 0 && name != "full" {
				t.Errorf("%s: %d plans used, %+v", name, cached, r)
			}
		}
	}
}

// forOthers is a directory that all users may write to, with a program and the library.
func forOthers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	copyFile(t, need(t, "true"), filepath.Join(dir, "program"))
	copyFile(t, build(t, "libdynprof.so"), filepath.Join(dir, "libdynprof.so"))
	return dir
}

// TestCacheSystem: what root has planned for all, others start with, by run and by preload,
// and write nothing there.
func TestCacheSystem(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot keep plans for all users")
	dir := forOthers(t)
	copyFile(t, build(t, "hotspots"), filepath.Join(dir, "hotspots"))
	settle(t, filepath.Join(dir, "program"))
	const script = `set -e
mount -t tmpfs -o mode=755 none /var/cache
umask 077
"$1"/hotspots cache --system warm --text-copies "$1"/program
stat -c %a /var/cache/dynprof/plans /var/cache/dynprof/plans/*.plan
user() { setpriv --reuid=65534 --regid=65534 --clear-groups -- env HOME=/nonexistent XDG_CACHE_HOME= XDG_RUNTIME_DIR= "$@"; }
user LD_PRELOAD="$1"/libdynprof.so DYNPROF_OUTPUT="$1"/preload DYNPROF_TEXT_COPIES=1 "$1"/program
user "$1"/hotspots run --summary 0 -o "$1"/run "$1"/program
user "$1"/hotspots cache --system warm "$1"/program || echo refused
ls -A /var/cache/dynprof/plans | grep -c plan
chmod 777 /var/cache/dynprof/plans
user LD_PRELOAD="$1"/libdynprof.so DYNPROF_OUTPUT="$1"/open "$1"/program
`
	r := run(t, cmd(need(t, "unshare"), "-m", "sh", "-c", script, "sh", dir))
	if want := "755\n444\n444\n444\nrefused\n3\n"; r.status != 0 || r.stdout != want || !strings.Contains(r.stderr, "only root keeps plans for all users") {
		t.Fatalf("%+v, not %q", r, want)
	}
	for name, warm := range map[string]bool{"preload": true, "run": true, "open": false} {
		if rep := readReport(t, filepath.Join(dir, name)); isWarm(t, rep) != warm {
			t.Errorf("%s: warm %t", name, !warm)
		}
	}
}

// TestCacheCapabilities: a program that may more than others of its user takes no plans, which
// they could have written, and keeps none.
func TestCacheCapabilities(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot give capabilities")
	dir := forOthers(t)
	settle(t, filepath.Join(dir, "program"))
	const script = `set -e
mkdir -m 700 "$1"/home
chown 65534:65534 "$1"/home
count() { setpriv --reuid=65534 --regid=65534 --clear-groups $more -- env HOME="$1"/home XDG_CACHE_HOME= DYNPROF_CACHE=1 LD_PRELOAD="$1"/libdynprof.so DYNPROF_OUTPUT="$1"/$2 "$1"/program; }
more="--inh-caps +net_bind_service --ambient-caps +net_bind_service"
count "$1" able
ls -A "$1"/home
more=
count "$1" cold
count "$1" warm
more="--inh-caps +net_bind_service --ambient-caps +net_bind_service"
count "$1" ablewarm
`
	if r := run(t, cmd("sh", "-c", script, "sh", dir)); r != (result{}) {
		t.Fatalf("%+v", r)
	}
	for name, warm := range map[string]bool{"able": false, "cold": false, "warm": true, "ablewarm": false} {
		if rep := readReport(t, filepath.Join(dir, name)); isWarm(t, rep) != warm {
			t.Errorf("%s: warm %t", name, !warm)
		}
	}
}
