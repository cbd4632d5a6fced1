package test

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/procmaps"
)

// attached is test/testdata/attached.c, which runs, or another that says when it is ready.
type attached struct {
	t    *testing.T
	c    *exec.Cmd
	to   io.WriteCloser
	from *bufio.Reader
}

func startAttached(t *testing.T, args ...string) *attached {
	t.Helper()
	return converseAttached(t, exec.Command(args[0], args[1:]...))
}

func converseAttached(t *testing.T, c *exec.Cmd) *attached {
	t.Helper()
	a := &attached{t: t, c: c}
	a.c.Stderr = os.Stderr
	a.to, a.from = converse(t, a.c)
	t.Cleanup(func() { a.c.Process.Kill(); a.c.Wait() }) // of one that has ended it says so
	a.expect("ready")
	return a
}

func (a *attached) pid() string { return strconv.Itoa(a.c.Process.Pid) }

func (a *attached) line() string {
	a.t.Helper()
	timer := time.AfterFunc(patience, func() { a.c.Process.Kill() })
	defer timer.Stop()
	s, err := a.from.ReadString('\n')
	if err != nil {
		a.t.Fatalf("the program is gone: %v, %v", err, a.c.Wait())
	}
	return strings.TrimSuffix(s, "\n")
}

func (a *attached) expect(want string) {
	a.t.Helper()
	if got := a.line(); got != want {
		a.t.Fatalf("the program says %q, not %q", got, want)
	}
}

// quiet is what the program has called, by its own word; nobody calls anything then.
func (a *attached) quiet() map[string]uint64 {
	a.t.Helper()
	fmt.Fprintln(a.to, "quiet")
	calls := map[string]uint64{}
	for {
		s := a.line()
		if s == "." {
			return calls
		}
		name, n, _ := strings.Cut(s, " ")
		calls[name], _ = strconv.ParseUint(n, 10, 64)
	}
}

func (a *attached) goOn() {
	a.t.Helper()
	fmt.Fprintln(a.to, "go")
	a.expect("gone")
}

// end has the program end, which must go as it would without us.
func (a *attached) end() {
	a.t.Helper()
	fmt.Fprintln(a.to, "end")
	a.expect("wrong 0 interrupted 0")
	a.ends()
}

func (a *attached) ends() {
	a.t.Helper()
	if err := a.c.Wait(); err != nil {
		a.t.Errorf("the program ends with %v", err)
	}
}

// hotspots runs the command on the program.
func (a *attached) hotspots(args ...string) result {
	a.t.Helper()
	if args[0] == "attach" {
		args = append([]string{"attach"}, append(blockFlags(), args[1:]...)...)
	}
	return run(a.t, cmd(append([]string{build(a.t, "hotspots")}, append(args, a.pid())...)...))
}

// blockFlags are those of hotspots attach that DYNPROF_TEST_BLOCKS asks for (harness_test.go).
func blockFlags() []string {
	switch setting("TEST_BLOCKS") {
	case "", "sites":
		return nil
	case "edges":
		return []string{"--blocks", "--edges"}
	case "switched":
		return []string{"--blocks", "--control"}
	}
	return []string{"--blocks"}
}

// needPlain: blocks are not counted, or, if kind is another, so.
func needPlain(t *testing.T, kind string) {
	t.Helper()
	if b := setting("TEST_BLOCKS"); b != "" && b != "sites" && b != kind {
		t.Skip("blocks are counted")
	}
}

func (a *attached) attach(flags ...string) (table string) {
	a.t.Helper()
	table = filepath.Join(a.t.TempDir(), "table.dynprof")
	if r := a.hotspots(append([]string{"attach", "-o", table}, flags...)...); r.status != 0 {
		a.t.Fatalf("attach: status %d: %s", r.status, r.stderr)
	}
	return table
}

func (a *attached) detach() {
	a.t.Helper()
	if r := a.hotspots("detach"); r.status != 0 || !strings.Contains(r.stderr, "is as it was") {
		a.t.Fatalf("detach: status %d: %s", r.status, r.stderr)
	}
}

// mappings are those of the program, without the sizes of what grows.
func (a *attached) mappings() (all []string) {
	a.t.Helper()
	grows := regexp.MustCompile(`\[heap\]|\[stack\]`)
	for line := range strings.Lines(read(a.t, "/proc/"+a.pid()+"/maps")) {
		if !grows.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

func (a *attached) descriptors() []string {
	a.t.Helper()
	var all []string
	list, err := os.ReadDir("/proc/" + a.pid() + "/fd")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range list {
		to, err := os.Readlink("/proc/" + a.pid() + "/fd/" + e.Name())
		if err == nil && !strings.Contains(to, "libresolv.so") { // attached.c may be loading it, or have closed it
			all = append(all, e.Name()+" "+to)
		}
	}
	return all
}

// compare: between two quiet moments as many calls were counted as were made.
func (a *attached) compare(before, after map[string]uint64, first, last *report) {
	a.t.Helper()
	for name := range after {
		made, counted := after[name]-before[name], last.calls(a.t, name)
		if first != nil {
			counted -= first.calls(a.t, name)
		}
		if counted != made {
			a.t.Errorf("%s: %d calls were counted, %d made", name, counted, made)
		}
	}
}

// TestAttach: a program that runs is counted, exactly, from a moment on, and is then what it
// was before.
func TestAttach(t *testing.T) {
	lane.Parallel(t)
	for _, build := range lane.Some([][]string{{"gcc", "-O1"}, {"gcc", "-O2", "-fcf-protection=full"}, {"clang", "-O2"}, {"gcc", "-O0", "-no-pie", "-fno-pie"}}, 2) {
		p := compile(t, need(t, build[0]), build[1:], "attached.c")
		for _, args := range lane.Some([][]string{{"1"}, {"4"}, {"4", "births"}, {"4", "births", "forks", "signals"}, {"16", "signals"}}, 4) {
			t.Run(strings.Join(append(build, args...), " "), func(t *testing.T) {
				attachAndDetach(t, append([]string{p}, args...)...)
			})
		}
	}
}

// attachAndDetach: a program is counted exactly, from a moment in the middle of everything on,
// and is then what it was before.
func attachAndDetach(t *testing.T, args ...string) {
	t.Helper()
	a := startAttached(t, args...)
	descriptors := a.descriptors()
	time.Sleep(20 * time.Millisecond)
	table := a.attach()
	before := a.quiet()
	first := readReport(t, table)
	a.goOn()
	time.Sleep(100 * time.Millisecond)
	after := a.quiet()
	last := readReport(t, table)
	a.compare(before, after, first, last)
	if after["leaf"] == before["leaf"] {
		t.Error("nothing was called")
	}
	a.goOn()
	time.Sleep(20 * time.Millisecond)
	a.detach()
	ended := readReport(t, table)
	a.quiet()
	a.goOn()
	time.Sleep(20 * time.Millisecond)
	a.quiet()
	if again := readReport(t, table); again.TotalCalls != ended.TotalCalls {
		t.Errorf("%d calls are counted after the end", again.TotalCalls-ended.TotalCalls)
	}
	if now := a.descriptors(); !slices.Equal(now, descriptors) {
		t.Errorf("descriptors: %q, before: %q", now, descriptors)
	}
	a.end()
}

// TestAttachQuiet: attached to where nobody calls anything, all calls that follow are counted.
func TestAttachQuiet(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "4")
	before := a.quiet()
	table := a.attach()
	a.goOn()
	time.Sleep(50 * time.Millisecond)
	after := a.quiet()
	a.compare(before, after, nil, readReport(t, table))
	if r := a.hotspots("report", "--format", "csv"); r.status != 0 || !strings.Contains(r.stdout, "spin") {
		t.Errorf("report by number: status %d: %s", r.status, r.stderr)
	}
	if r := a.hotspots("attach"); r.status != 1 || !strings.Contains(r.stderr, "is counted already") {
		t.Errorf("attach once more: status %d: %s", r.status, r.stderr)
	}
	a.detach()
	a.goOn()
	a.end()
}

// TestAttachThreshold: each function that is called so often from then on has one event; how often
// it is attached to and detached from, while events come in all threads.
func TestAttachThreshold(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "4", "births", "forks", "signals")
	for range lane.Of(3, 40) {
		const threshold = 50
		table := a.attach("--threshold", fmt.Sprint(threshold))
		before := a.quiet()
		first := readReport(t, table)
		a.goOn()
		time.Sleep(20 * time.Millisecond)
		after := a.quiet()
		last := readReport(t, table)
		a.compare(before, after, first, last)
		of := eventsOf(t, last, eventList(t, table).Events)
		for name := range after {
			e, has := of[name]
			n := last.calls(t, name)
			const sure = 1000 // times: a thread's own calls decide
			once := name == "born" || name == "forked" || name == "struck"
			if has && (n < threshold || e.Calls < threshold) || !has && n >= sure*threshold && !once {
				t.Errorf("%s has %d calls, and an event: %v, %+v", name, n, has, e)
			}
		}
		a.goOn()
		a.detach()
		os.Remove(table)
	}
	a.quiet()
	a.goOn()
	a.end()
}

// TestAttachCycles: nothing is left behind, how often it may be.
func TestAttachCycles(t *testing.T) {
	lane.Parallel(t)
	cycles := 20
	if lane.Long {
		cycles = 100
	}
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "2", "signals")
	maps, descriptors := a.mappings(), a.descriptors()
	for range cycles {
		os.Remove(a.attach())
		a.detach()
	}
	if now := a.mappings(); !slices.Equal(maps, now) {
		t.Errorf("mappings:\n%s\nbefore:\n%s", strings.Join(now, ""), strings.Join(maps, ""))
	}
	if now := a.descriptors(); !slices.Equal(descriptors, now) {
		t.Errorf("descriptors: %q, before: %q", now, descriptors)
	}
	a.quiet()
	a.goOn()
	a.end()
}

// cyclesOf is how often a program is attached to and detached from: TEST_CYCLES, or so often.
func cyclesOf(usual int) int {
	n, err := strconv.Atoi(setting("TEST_CYCLES"))
	if err != nil {
		return usual
	}
	return n
}

// cycled is a program that is attached to and detached from again and again.
type cycled struct {
	pid      int
	function string      // if not those that are called once for each call made, as is seen first
	object   string      // that the function is of, if not of the executable
	flags    []string    // of hotspots attach
	calls    int         // each time, if not so many as usual
	do       func(n int) // has it call the function n times; without it nothing is compared
	loads    []func()    // what happens all the time, but while do is counted
	late     bool        // it goes on a little when it has answered

	// steady: so many rounds of calls are made at first; functions that have the same calls in each,
	// how many ever, are compared, not those alone that have one for each call. Of those that differ
	// later it is asked whether they do by another counter, too (explain).
	steady int

	// calm, instead of do, has it make no call until it is woken, and is how many it has made.
	calm func() uint64
	wake func()

	known   map[string]uint64   // the functions that are compared, and how often each is called for a call made, or in a round
	last    map[string]uint64   // what was counted, if nobody has called anything since
	differs map[string][]uint64 // by steady: those that had other calls, how many
}

// cycleBlocks does as cycle, with blocks and whom calls by pointers reach.
func (p *cycled) cycleBlocks(t *testing.T, cycles int) {
	t.Helper()
	p.flags = []string{"--blocks", "--edges"}
	p.cycle(t, cycles)
}

// cycle: each time as many calls are counted as are made, and nothing is left: neither memory
// nor descriptors, threads, children, other code.
func (p *cycled) cycle(t *testing.T, cycles int) {
	t.Helper()
	var quiet sync.RWMutex
	var all sync.WaitGroup
	ends := make(chan struct{})
	for _, load := range p.loads {
		all.Go(func() {
			for {
				select {
				case <-ends:
					return
				default:
				}
				quiet.RLock()
				load()
				quiet.RUnlock()
			}
		})
	}
	defer all.Wait()
	defer close(ends)
	still := func(do func()) {
		quiet.Lock()
		defer quiet.Unlock()
		do()
	}
	hotspots := func(args ...string) {
		t.Helper()
		if r := run(t, cmd(append([]string{build(t, "hotspots")}, args...)...)); r.status != 0 {
			t.Fatalf("%v: status %d: %s", args, r.status, r.stderr)
		}
	}
	pid, dir := strconv.Itoa(p.pid), t.TempDir()
	code := codeSums(t, pid)
	alone, err := time.ParseDuration(setting("TEST_ALONE"))
	if err == nil { // what it uses if nobody attaches to it for so long each time
		hotspots = func(...string) { time.Sleep(alone / 2) }
	}
	if p.function != "" {
		p.known = map[string]uint64{p.function: 1}
	}
	var used []usage
	for n := range cycles {
		table := filepath.Join(dir, fmt.Sprint(n))
		hotspots(slices.Concat([]string{"attach", "-o", table}, blockFlags(), p.flags, []string{pid})...)
		switch {
		case err == nil && p.do != nil:
			still(func() { p.do(cmp.Or(p.calls, usualCalls)) })
		case err == nil:
		case p.do != nil || p.calm != nil:
			still(func() { p.compare(t, n, table) })
		}
		hotspots("detach", pid)
		os.Remove(table)
		still(func() { used = append(used, usageOf(t, pid)) }) // a server has a descriptor more while somebody connects to it
	}
	if cycles > 2 { // a server may close late what a client has closed
		still(func() {
			until(t, func() bool { return usageOf(t, pid).descriptors <= used[1].descriptors }, fmt.Sprintf("there are more descriptors than %d", used[1].descriptors))
		})
	}
	leavesNothing(t, used)
	now := codeSums(t, pid)
	for name, sum := range code {
		if now[name] != sum {
			t.Errorf("another code at %s", name)
		}
	}
}

// compare: so many calls are counted as are made.
func (p *cycled) compare(t *testing.T, cycle int, table string) {
	t.Helper()
	p.last = nil
	if p.known == nil {
		p.learn(t, table)
	}
	made, counted := p.makes(t, table)
	for f, each := range p.known {
		switch {
		case counted[f] == made*each:
		case p.steady > 0:
			p.differs[f] = append(p.differs[f], counted[f])
		default:
			t.Errorf("cycle %d: %d calls of %s were counted, %d made", cycle, counted[f], f, made*each)
		}
	}
}

// learn finds the functions whose calls are known.
func (p *cycled) learn(t *testing.T, table string) {
	t.Helper()
	p.known, p.differs = map[string]uint64{}, map[string][]uint64{}
	times := cmp.Or(p.steady, 4)
	for n := range times {
		made, counted := p.makes(t, table)
		for f, calls := range counted {
			if n == 0 && calls != 0 && (calls == made || p.steady > 0) {
				p.known[f] = calls / made
			}
		}
		maps.DeleteFunc(p.known, func(f string, each uint64) bool { return counted[f] != made*each })
	}
	if len(p.known) == 0 {
		t.Fatal("no function is known that has the same calls each time")
	}
	t.Logf("%d functions have the same calls each time, in %d times", len(p.known), times)
}

const usualCalls = 300

// makes has the program make calls, and is how many of them, or one round, and what was counted.
func (p *cycled) makes(t *testing.T, table string) (made uint64, counted map[string]uint64) {
	t.Helper()
	var before map[string]uint64
	if p.calm != nil {
		made = p.calm()
		before = p.called(t, table)
		p.wake()
		time.Sleep(10 * time.Millisecond)
		made = p.calm() - made
		defer p.wake()
	} else {
		if before = p.last; before == nil {
			before = p.called(t, table)
		}
		calls := cmp.Or(p.calls, usualCalls)
		p.do(calls)
		if made = uint64(calls); p.steady > 0 {
			made = 1
		}
	}
	p.last = p.called(t, table)
	counted = maps.Clone(p.last)
	for f, calls := range before {
		counted[f] -= calls
	}
	return made, counted
}

// called is how often functions have been called, by the table: the function, or all that were.
// Of who goes on a little it is what does not change any more.
func (p *cycled) called(t *testing.T, table string) map[string]uint64 {
	t.Helper()
	if p.late {
		total := func() uint64 { return readReport(t, table, "--filter", "^$").TotalCalls }
		calls := total()
		until(t, func() bool {
			time.Sleep(50 * time.Millisecond)
			before := calls
			calls = total()
			return calls == before
		}, "it does not come to rest")
	}
	return p.callsIn(t, table)
}

func (p *cycled) callsIn(t *testing.T, table string) map[string]uint64 {
	t.Helper()
	var flags []string
	if p.function != "" {
		flags = []string{"--filter", "^" + regexp.QuoteMeta(p.function) + "$"}
	}
	r, calls := readReport(t, table, flags...), map[string]uint64{}
	for _, f := range r.Functions {
		switch {
		case p.function == "":
			if f.Calls != 0 {
				calls[f.Object+" "+f.Address] = f.Calls
			}
		case f.Name != p.function && !slices.Contains(f.Aliases, p.function):
		case p.object == "" && f.Object == r.Program, p.object != "" && filepath.Base(f.Object) == p.object:
			calls[p.function] = f.Calls
			return calls
		}
	}
	if p.function != "" {
		t.Errorf("no function %q of %s in the report", p.function, cmp.Or(p.object, r.Program))
	}
	return calls
}

// codeSums are sums of what a process has mapped of files as code, by where.
func codeSums(t *testing.T, pid string) map[string]string {
	t.Helper()
	all, err := procmaps.Of(pid)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open("/proc/" + pid + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	code := map[string]string{}
	for _, m := range all {
		if m.Inode == 0 || m.Prot&procmaps.ProtExec == 0 {
			continue
		}
		b := make([]byte, m.End-m.Start)
		if _, err := mem.ReadAt(b, int64(m.Start)); err != nil {
			t.Fatal(err)
		}
		code[fmt.Sprintf("%x", m.Start)] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return code
}

// leavesNothing: what we leave, we leave in each cycle, and so in both halves; the program has its
// own reasons to grow, once or twice, as by an arena of malloc for a thread that had none.
func leavesNothing(t *testing.T, used []usage) {
	t.Helper()
	cycles := len(used)
	if cycles <= 2 {
		return
	}
	first, middle, last := used[1], used[cycles/2], used[cycles-1]
	t.Logf("after 2 cycles %v; after %d %v", first, cycles, last)
	if middle.more(first) && last.more(middle) {
		t.Errorf("after 2, %d and %d cycles it uses\n%v\n%v\n%v\nmapped then:\n%s\nand now:\n%s", cycles/2+1, cycles, first, middle, last, first.maps, last.maps)
	}
}

// usage is what a process uses: numbers, and bytes.
type usage struct {
	mappings, descriptors, threads, children, mapped, resident int
	maps                                                       string
}

// more: by a mapping, a row, a thread or a process in every second cycle of ten.
func (u usage) more(before usage) bool {
	return u.mappings > before.mappings+4 || u.threads > before.threads+4 || u.children > before.children+4 ||
		u.mapped > before.mapped+4<<20 || u.resident > before.resident+16<<20
}

// String leaves out maps, which are long.
func (u usage) String() string {
	return fmt.Sprintf("%d mappings, %d descriptors, %d threads, %d children, %d kB mapped, %d resident", u.mappings, u.descriptors, u.threads, u.children, u.mapped>>10, u.resident>>10)
}

func usageOf(t *testing.T, pid string) usage {
	t.Helper()
	files, err := os.ReadDir("/proc/" + pid + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	pages := strings.Fields(read(t, "/proc/"+pid+"/statm"))
	bytes := func(i int) int {
		n, _ := strconv.Atoi(pages[i])
		return n * os.Getpagesize()
	}
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	children := 0
	for _, name := range threads {
		b, _ := os.ReadFile(name) // a thread may have ended
		children += len(strings.Fields(string(b)))
	}
	maps := read(t, "/proc/"+pid+"/maps")
	return usage{strings.Count(maps, "\n"), len(files), len(threads), children, bytes(0), bytes(1), maps}
}

// TestAttachPython: an interpreter with threads, of which some begin and end, and children.
func TestAttachPython(t *testing.T) {
	lane.Parallel(t)
	const program = "/usr/bin/python3"
	if _, err := os.Stat(program); err != nil {
		t.Skip(err)
	}
	a := startAttached(t, program, "-c", `
import os, sys, threading, time
def work():
    x = 1
    while True:
        x = hash((x, "a" + str(x)))
def births():
    while True:
        t = threading.Thread(target=time.sleep, args=(0.001,))
        t.start()
        t.join()
        if not (child := os.fork()):
            os._exit(3)
        if os.waitpid(child, 0)[1] != 3 << 8:
            os.abort()
for f in work, work, births:
    threading.Thread(target=f, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        compile("1", "name", "eval")
    print("done", flush=True)
`)
	p := &cycled{pid: a.c.Process.Pid, function: "Py_CompileStringObject", do: func(n int) {
		fmt.Fprintln(a.to, n)
		a.expect("done")
	}}
	p.cycle(t, lane.Of(2, cyclesOf(100)))
	a.finish()
}

// TestAttachAnotherUser: who may not open files of ours makes his own, and is sent the table.
func TestAttachAnotherUser(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot start a program of another user")
	dir := openDir(t)
	c := exec.Command(copyFile(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), filepath.Join(dir, "program")), "2")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	a := converseAttached(t, c)
	state, before, table := a.state(), a.quiet(), filepath.Join(t.TempDir(), "table")
	if err := os.Chmod(filepath.Dir(table), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := a.hotspots("attach", "-o", table); r.status != 0 {
		t.Fatalf("attach: status %d: %s", r.status, r.stderr)
	}
	a.goOn()
	time.Sleep(20 * time.Millisecond)
	a.compare(before, a.quiet(), nil, readReport(t, table))
	a.detach()
	if now := a.state(); now != state {
		t.Errorf("something is left: %s", difference(state, now))
	}
	a.goOn()
	a.end()
}

// TestAttachFor: for a time, with a report at the end.
func TestAttachFor(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "2")
	r := a.hotspots("attach", "--for", "200ms", "-o", filepath.Join(t.TempDir(), "table.dynprof"))
	if r.status != 0 || !strings.Contains(r.stdout, "tiny") || !strings.Contains(r.stderr, "is as it was") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	a.end()
}

// TestAttachStruck: threads are in handlers of signals that have struck them anywhere, also on
// stacks of their own, and go on where they were.
func TestAttachStruck(t *testing.T) {
	lane.Parallel(t)
	cycles := 5
	if lane.Long {
		cycles = 30
	}
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O2"}, "attachstruck.c"))
	for range cycles {
		os.Remove(a.attach())
		a.detach()
	}
	fmt.Fprintln(a.to)
	a.expect("wrong 0")
	a.ends()
}
