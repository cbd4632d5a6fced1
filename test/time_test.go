package test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// timed is the JSON of a report with CPU time (docs/json.md).
type timed struct {
	Program string
	Time    *struct {
		Total     float64 `json:"total_ns"`
		Samples   float64
		Period    float64 `json:"period_ns"`
		Kernel    bool
		Guessed   float64 `json:"guessed_ns"`
		Elsewhere float64
		Lost      uint64
		Ended     bool
	}
	Functions []struct {
		Object, Name, Tactic string
		Calls                uint64
		Self                 *float64 `json:"self_ns"`
		Low                  float64  `json:"self_ns_low"`
		High                 float64  `json:"self_ns_high"`
	}
}

// timesOf reads a table's times; nil if none were sampled.
func timesOf(t *testing.T, table string) *timed {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "report", "--format", "json", table))
	var all timed
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || r.stderr != "" || r.status != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	if all.Time == nil {
		return nil
	}
	return &all
}

// self is the CPU time of the functions of these names, ns.
func (r *timed) self(names ...string) (sum float64) {
	for _, f := range r.Functions {
		if f.Self != nil && slices.Contains(names, f.Name) {
			sum += *f.Self
		}
	}
	return sum
}

// frequency is high: more samples of the same time.
const frequency = "--time=5000"

// sampled runs a command with --time. Where the kernel lets nobody sample the test is skipped.
func sampled(t *testing.T, c command, flags ...string) (result, string) {
	t.Helper()
	r, table := countedAt(t, c, append([]string{frequency}, flags...)...)
	skipRefused(t, r)
	return r, table
}

// skipRefused skips the test if nothing was sampled where that may be: in a sandbox, and for
// those who are not root.
func skipRefused(t *testing.T, r result) {
	t.Helper()
	if strings.Contains(r.stderr, "no CPU time is sampled: ") && (os.Getuid() != 0 || strings.Contains(read(t, "/proc/self/status"), "\nSeccomp:\t2")) {
		t.Skip(r.stderr)
	}
}

// deviations is how many standard deviations a share of n samples may be from what it is to
// be: further away it is in one of 10^10 runs. To that comes what is no matter of chance: the
// loops around the chains of multiplications, and a hypervisor that stops the machine, which
// time goes by for as one sample.
const deviations, systematic = 6.5, 0.03

// nearly fails unless of n samples that share is one that is expected, or of two measurements,
// if others are how many the second is made of.
func nearly(t *testing.T, what string, got, want, n, others float64) {
	t.Helper()
	variance := want * (1 - want) / n
	if others > 0 {
		variance += want * (1 - want) / others
	}
	if d := math.Abs(got - want); d > deviations*math.Sqrt(variance)+systematic {
		t.Errorf("%s: a share of %.3f of %.0f samples, want %.3f", what, got, n, want)
	}
}

// shares checks those of functions, by their weights, of the time of all of them.
func (r *timed) shares(t *testing.T, weights map[string]float64) {
	t.Helper()
	if r == nil {
		t.Fatal("no CPU time")
	}
	var all, sum float64
	for names, w := range weights {
		all += r.self(strings.Split(names, "+")...)
		sum += w
	}
	n := all / r.Time.Period
	if n < 100 || r.Time.Lost > 0 {
		t.Errorf("%.0f samples, %d were lost", n, r.Time.Lost)
	}
	for names, w := range weights {
		nearly(t, names, r.self(strings.Split(names, "+")...)/all, w/sum, n, 0)
	}
}

// unit is what a share of time.c is made of: some 30 ms.
const unit = "30000000"

// inTurn are the weights of what time.c does.
var inTurn = map[string]float64{"whole": 3, "jumped": 2, "large": 2, "often+calls_often": 1}

// TestTime: the time of functions is as it is made to be, however they are counted, in threads
// and in forked processes, of libraries that come later, and of code of no file.
func TestTime(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O2"}, "time.c")
	library := compile(t, gcc, []string{"-O2", "-shared", "-fPIC"}, "timelib.c")
	late := map[string]float64{"whole": 3, "jumped": 2, "late": 2}
	type way struct {
		name, how string
		flags     []string
		weights   map[string]float64
	}
	for _, row := range lane.Some([]way{
		{"jumps and moved bodies", "turn", nil, inTurn},
		{"a planner", "turn", []string{"--cache=false"}, inTurn},
		{"copies", "turn", []string{"--blocks"}, inTurn},
		{"copies with callees", "turn", []string{"--blocks", "--edges"}, inTurn},
		{"call sites", "turn", []string{"--edges"}, inTurn},
		{"with lock", "turn", []string{"--lock"}, map[string]float64{"whole": 3, "jumped": 2, "large": 2}}, // a locked count of the fourth takes as long as what it counts, on some CPUs
		{"with an agent", "turn", []string{"--control"}, inTurn},
		{"threads", "threads", nil, inTurn},
		{"forks", "forks", nil, inTurn},
		{"forks with copies", "forks", []string{"--blocks"}, inTurn},
		{"a late library", "late", nil, late},
		{"a late library and a planner", "late", []string{"--cache=false"}, late},
		{"code of no file", "made", nil, map[string]float64{"whole": 3, "jumped": 2, "[no function]": 2}},
		{"nothing of it selected", "turn", []string{"--objects", "ld-linux*"}, inTurn},
	}, 0, 2, 6, 7, 8, 10, 12, 13) {
		t.Run(row.name, func(t *testing.T) {
			c := cmd(program, row.how, unit, library)
			without := run(t, c)
			r, table := sampled(t, c, row.flags...)
			if row.how == "threads" || row.how == "forks" { // who is last says what
				without.stdout, r.stdout = "", ""
			}
			same(t, without, r)
			times := timesOf(t, table)
			times.shares(t, row.weights)
			if !times.Time.Ended {
				t.Error("it is not said to have ended")
			}
			tactics := map[string]string{}
			for _, f := range times.Functions {
				tactics[f.Name] = f.Tactic
			}
			if row.name == "jumps and moved bodies" && setting("TEST_BLOCKS") == "" && (tactics["whole"] != "whole-body" || tactics["jumped"] != "jump") {
				t.Errorf("this is no test of tactics: %v", tactics)
			}
		})
	}
}

// TestTimeIntervals: each function has an interval around its time, and all of it is the total.
func TestTimeIntervals(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "time.c")
	_, table := sampled(t, cmd(program, "turn", unit))
	times := timesOf(t, table)
	if times == nil {
		t.Fatal("no CPU time")
	}
	sum := 0.0
	for _, f := range times.Functions {
		if f.Self == nil || *f.Self < f.Low || *f.Self > f.High || f.High > times.Time.Total || f.High == f.Low {
			t.Fatalf("%+v of %v", f, times.Time.Total)
		}
		sum += *f.Self
	}
	if sum != times.Time.Total || sum != times.Time.Samples*times.Time.Period {
		t.Errorf("the sum is %.0f, the total %.0f of %.0f samples", sum, times.Time.Total, times.Time.Samples)
	}
	if setting("TEST_BLOCKS") != "" {
		return // there are more columns
	}
	text := run(t, cmd(build(t, "hotspots"), "report", table)).stdout
	line := regexp.MustCompile(`(?m)^ *[\d.]+ [mu]?s +[\d.]+±[\d.]+% +[\d.]+ [mun]?s +16 +[\d.]+% +program +whole$`)
	if !line.MatchString(text) || !strings.Contains(text, " of CPU time in ") && !strings.Contains(text, " of CPU time outside of the kernel in ") {
		t.Error(text)
	}
	if strings.Index(text, " whole\n") > strings.Index(text, " jumped\n") {
		t.Errorf("not in the order of time:\n%s", text)
	}
}

// TestTimeEvict: instructions that gave way to another function's island count for their own.
func TestTimeEvict(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-fPIE", "-pie"}, "timeevict.c", "evict.S")
	_, table := sampled(t, cmd(program, "10000000"))
	times := timesOf(t, table)
	if times == nil {
		t.Fatal("no CPU time")
	}
	for _, f := range times.Functions {
		if f.Name == "evict_loop" && f.Tactic != "evict" && setting("TEST_BLOCKS") == "" {
			t.Errorf("evict_loop is counted by %s: the fixture shows nothing", f.Tactic)
		}
	}
	walls := times.self("evict_wall_before", "evict_wall_behind", "evict_leaf")
	if loop := times.self("evict_loop"); loop > times.Time.Guessed || walls < times.Time.Total/2 {
		t.Errorf("%.0f ns of %.0f, %.0f of them guessed", loop, walls, times.Time.Guessed)
	}
	t.Logf("%.0f ns of %.0f, %.0f guessed, %.0f in the function that evicts", walls, times.Time.Total, times.Time.Guessed, times.self("evict_loop"))
}

// TestTimeExec: what goes on as another program has a table and times of its own; what is
// executed and not counted is told of; with --follow-exec each has its own.
func TestTimeExec(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "time.c")
	dir := t.TempDir()
	tables := func(how string, flags ...string) []string {
		t.Helper()
		sub := filepath.Join(dir, how+strings.Join(flags, ""))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		args := append([]string{build(t, "hotspots"), "run", frequency, "-o", filepath.Join(sub, "%p.dynprof")}, flags...)
		r := run(t, cmd(append(args, "--", program, how, unit)...))
		if skipRefused(t, r); r.status != 7 {
			t.Fatalf("%+v", r)
		}
		all, err := filepath.Glob(sub + "/*.dynprof")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	alone := map[string]float64{"jumped": 1, "whole+large+often+calls_often": 0}
	n := 0
	for _, table := range tables("exec") {
		times := timesOf(t, table)
		if times != nil && times.self("whole") == 0 {
			times.shares(t, alone)
			n++
		} else {
			times.shares(t, inTurn)
			n += 10
		}
	}
	if n != 11 {
		t.Errorf("%d: one table of each was to be", n)
	}
	all := tables("child")
	if len(all) != 1 {
		t.Fatalf("%q", all)
	}
	text := run(t, cmd(build(t, "hotspots"), "report", all[0])).stdout
	if !strings.Contains(text, " more in programs that it executed") {
		t.Error(text)
	}
	if all = tables("child", "--follow-exec"); len(all) != 2 {
		t.Fatalf("%q", all)
	}
	for _, table := range all {
		timesOf(t, table).shares(t, inTurn)
	}
}

// TestTimeUncounted: functions of objects that are not counted have lines of their own.
func TestTimeUncounted(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "time.c")
	_, table := sampled(t, cmd(program, "libc", "100000000"))
	times := timesOf(t, table)
	if times == nil {
		t.Fatal("no CPU time")
	}
	found := 0.0
	for _, f := range times.Functions {
		if strings.HasPrefix(filepath.Base(f.Object), "libc.so") && f.Calls == 0 && f.Self != nil {
			found += *f.Self
		}
	}
	if found == 0 {
		t.Errorf("nothing of libc in %+v", times)
	}
	if !strings.Contains(run(t, cmd(build(t, "hotspots"), "report", "--by", "object", table)).stdout, "/libc.so.6") {
		t.Error("no line of the object libc")
	}
}

// TestTimeRefused: where perf_event_open is refused, or who calls it is killed, a line says how
// to allow it, and all else is as without --time.
func TestTimeRefused(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program, refuses := compile(t, gcc, []string{"-O2"}, "time.c"), compile(t, gcc, nil, "refuses.c")
	c := cmd(program, "turn", "100000")
	without := run(t, c)
	for name, errno := range map[string]int{"EPERM": 1, "EACCES": 13, "ENOSYS": 38, "EMFILE": 24, "killed": 0} {
		table := filepath.Join(t.TempDir(), "table")
		r := run(t, cmd(append([]string{refuses, fmt.Sprint(errno), build(t, "hotspots"), "run", "--time", "--summary=0", "-o", table, "--"}, c.args...)...))
		if strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "hotspots: no CPU time is sampled: perf_event_open: ") {
			t.Errorf("%s: %q", name, r.stderr)
		}
		r.stderr = ""
		same(t, without, r)
		if times := timesOf(t, table); times != nil {
			t.Errorf("%s: there are times", name)
		}
		if n := readReport(t, table).calls(t, "whole"); n != 16 {
			t.Errorf("%s: %d calls", name, n)
		}
		if _, err := os.Stat(table + ".time"); err == nil {
			t.Errorf("%s: there is a file", name)
		}
	}
}

// TestTimeUser: who is not root may sample his programs outside of the kernel, where
// kernel.perf_event_paranoid is 2; where it is more he is told so.
func TestTimeUser(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot be another user")
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "time.c")
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		t.Skip(err)
	}
	paranoid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	copyFile(t, program, dir+"/program")
	c := nobody(t, dir, copyFile(t, build(t, "hotspots"), dir+"/hotspots"), "run", frequency, "-o", dir+"/table", "--summary=0", "--", dir+"/program", "turn", unit)
	r := run(t, c)
	if r.status != 7 {
		t.Fatalf("%+v", r)
	}
	if paranoid > 2 {
		if !strings.Contains(r.stderr, "sysctl kernel.perf_event_paranoid=2") {
			t.Errorf("%+v", r)
		}
		return
	}
	if skipRefused(t, r); r.stderr != "" {
		t.Errorf("%+v", r)
	}
	times := timesOf(t, dir+"/table")
	times.shares(t, inTurn)
	if times.Time.Kernel != (paranoid < 2) || times.Time.Kernel != (times.self("[kernel]") > 0) {
		t.Errorf("paranoid %d, and %+v", paranoid, *times.Time)
	}
}

// TestTimePerf: the shares are those that perf record finds in the same program without the
// library, but for what chance makes of either.
func TestTimePerf(t *testing.T) {
	lane.Parallel(t)
	perf := need(t, "perf")
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "time.c")
	data := filepath.Join(t.TempDir(), "perf.data")
	if out, err := exec.Command(perf, "record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-o", data, program, "turn", unit).CombinedOutput(); !strings.Contains(fmt.Sprint(err), "status 7") && err != nil {
		t.Skipf("perf cannot record on this machine: %v %s", err, out)
	}
	out, err := exec.Command(perf, "script", "-i", data, "-F", "ip,sym").Output()
	if err != nil {
		t.Fatal(err)
	}
	found, others := map[string]float64{}, 0.0
	for line := range strings.Lines(string(out)) {
		_, symbol, _ := strings.Cut(strings.TrimSpace(line), " ")
		for names := range inTurn {
			if slices.Contains(strings.Split(names, "+"), symbol) {
				found[names]++
				others++
			}
		}
	}
	if others < 100 {
		t.Fatalf("perf has %.0f samples: %.500s", others, out)
	}
	_, table := sampled(t, cmd(program, "turn", unit))
	times := timesOf(t, table)
	if times == nil {
		t.Fatal("no CPU time")
	}
	all := 0.0
	for names := range inTurn {
		all += times.self(strings.Split(names, "+")...)
	}
	for names := range inTurn {
		nearly(t, names, times.self(strings.Split(names, "+")...)/all, found[names]/others, all/times.Time.Period, others)
	}
	t.Logf("%.0f samples of perf, %.0f of ours: %v", others, all/times.Time.Period, found)
}

// TestTimeExport: pprof and callgrind_annotate read the times, all of them.
func TestTimeExport(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "time.c")
	for _, flags := range [][]string{nil, {"--blocks"}} {
		_, table := sampled(t, cmd(program, "turn", unit), flags...)
		times := timesOf(t, table)
		if times == nil {
			t.Fatal("no CPU time")
		}
		if r := run(t, cmd(build(t, "hotspots"), "export", table, "--format", "pprof", "-o", table+".pb.gz")); r != (result{}) {
			t.Fatalf("%+v", r)
		}
		out := pprof(t, table, "-top", "-unit=ns")
		if !strings.Contains(out, "Type: cpu\n") || !strings.Contains(out, fmt.Sprintf("of %.0fns total", times.Time.Total)) {
			t.Errorf("%v, %.0f ns: %s", flags, times.Time.Total, out)
		}
		if row := regexp.MustCompile(`(?m)^ *(\d+)ns .* whole$`).FindStringSubmatch(out); row == nil || row[1] != fmt.Sprintf("%.0f", times.self("whole")) {
			t.Errorf("%v: %q of %s", flags, row, out)
		}
		out = run(t, cmd(need(t, "callgrind_annotate"), exportOf(t, "callgrind", table))).stdout
		if !regexp.MustCompile(`(?m)^.*\b` + thousands(uint64(times.Time.Total)) + ` \(100.0%\) +PROGRAM TOTALS`).MatchString(out) {
			t.Errorf("%v, %.0f ns: %s", flags, times.Time.Total, out)
		}
	}
}
