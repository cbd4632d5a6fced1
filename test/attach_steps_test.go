//go:build long

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// refusal is what is said of a program that executes another at every moment, or has ended.
var refusal = regexp.MustCompile("there is no process |has ended|is not attached to|each time in [0-9]+ tries")

// attachedAll runs a program, has it attached to and detached from all the time until it has ended, and
// returns what it did, and how often it was attached to. Who refuses says so in a line.
func attachedAll(t *testing.T, args ...string) (with result, attached int) {
	t.Helper()
	var out, errout strings.Builder
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr = &out, &errout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	defer time.AfterFunc(patience, func() { t.Errorf("%v hangs", args); c.Process.Kill() }).Stop()
	pid, dir := fmt.Sprint(c.Process.Pid), t.TempDir()
	hotspots := func(what string, flags ...string) bool {
		r := run(t, cmd(append(append([]string{build(t, "hotspots"), what}, flags...), pid)...))
		if r.status > 1 || strings.Count(r.stderr, "\n") > 2 {
			t.Errorf("%s: status %d: %s", what, r.status, r.stderr)
		}
		if r.status != 0 && !refusal.MatchString(r.stderr) {
			t.Errorf("%s is refused, and not tried again: %s", what, r.stderr)
		}
		return r.status == 0
	}
	for n := 0; ; n++ {
		select {
		case <-ended:
			return result{out.String(), errout.String(), c.ProcessState.ExitCode()}, attached
		default:
		}
		table := filepath.Join(dir, fmt.Sprint(n))
		if hotspots("attach", "-o", table) {
			attached++
		}
		hotspots("detach")
		os.Remove(table)
	}
}

// TestAttachExecs: who executes himself all the time does what he does without us, and who ends.
func TestAttachExecs(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O1"}, {"-O1", "-static"}} {
		p := compile(t, need(t, "gcc"), flags, "attachsteps.c")
		for _, args := range [][]string{{"30", "1"}, {"30", "1", "thread"}, {"0", "1"}, {"0", "1"}} {
			args = append([]string{p}, args...)
			with, attached := attachedAll(t, args...)
			same(t, run(t, cmd(args...)), with)
			t.Logf("%v: attached to %d times", args[1:], attached)
		}
	}
}

// TestAttachBlocksPrograms: interpreters that compute the same thing again and again say the same
// each time, while their blocks are counted and when they are not.
func TestAttachBlocksPrograms(t *testing.T) {
	lane.Parallel(t)
	for _, args := range [][]string{
		{"/usr/bin/python3.11", "-S", "-c", "import re\ndef fib(n): return n if n < 2 else fib(n-1)+fib(n-2)\nwhile True: print(fib(16), sum(map(int, sorted(str(i*7919%10007) for i in range(900)))), len(re.findall('[a-f]+[0-9]', ''.join(hex(n) for n in range(900)))), flush=True)"},
		{"busybox", "awk", "BEGIN { while (1) { n = h = 0; s = \"\"; for (i = 0; i < 20000; i++) { n = (n * 31 + i) % 10007; if (n % 3) s = s substr(n, 1, 1); if (length(s) > 40) { h = h length(s); s = \"\"; if (length(h) > 60) h = n } } print n, h; fflush() } }"},
		{"busybox", "sh", "-c", "while :; do i=0; n=0; while [ $i -lt 5000 ]; do n=$(((n * 31 + i) % 10007)); case $n in *7) i=$((i+2));; *) i=$((i+1));; esac; done; echo $n; done"},
		{"perl", "-e", "$| = 1; while (1) { my %h; for my $i (1..5000) { my $s = sprintf('%x', $i * 2654435761 % 4294967296); $h{substr($s, 0, 2)} .= chop $s; } print join(',', map { length $h{$_} } sort keys %h), \"\\n\" }"},
	} {
		t.Run(filepath.Base(args[0])+" "+args[1], func(t *testing.T) {
			args[0] = need(t, args[0])
			c := exec.Command(args[0], args[1:]...)
			c.Stderr = os.Stderr
			a := &attached{t: t, c: c}
			a.to, a.from = converse(t, c)
			t.Cleanup(func() { c.Process.Kill(); c.Wait() })
			want, before := a.line(), a.mappings()
			var lines, wrong atomic.Int64
			go func() { // or the program would wait
				for {
					s, err := a.from.ReadString('\n')
					if err != nil {
						return
					}
					if lines.Add(1); s != want+"\n" {
						wrong.Add(1)
					}
				}
			}()
			says := func(more int64) {
				first := lines.Load()
				until(t, func() bool { return lines.Load() >= first+more }, "it says nothing")
			}
			for range cyclesOf(4) {
				for _, flags := range [][]string{{"--blocks"}, {"--blocks", "--edges"}} {
					table := a.attach(flags...)
					until(t, func() bool { return readReport(t, table).TotalCalls > 0 }, "nothing is counted")
					says(3)
					a.detach()
					os.Remove(table)
					says(3)
				}
			}
			if n := wrong.Load(); n > 0 {
				t.Errorf("%d of %d times it says something else", n, lines.Load())
			}
			if now := a.mappings(); len(now) > len(before)+2 { // it may map memory
				t.Errorf("mappings: %d, before %d", len(now), len(before))
			}
		})
	}
}

// TestAttachThenGdb: a debugger finds a program that was attached to and detached from as it was.
func TestAttachThenGdb(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1", "-g"}, "attached.c"), "1")
	session := func() string {
		out := gdb(t, "disassemble /r leaf\nbreak leaf\ncontinue\nbt 1\nstepi\nstepi\ndelete\ndetach\n", "-p", a.pid())
		_, out, _ = strings.Cut(out, "Dump of") // before it is where the program is
		return regexp.MustCompile(`(Thread |entry=)\d+`).ReplaceAllString(out, "$1")
	}
	before := session()
	os.Remove(a.attach())
	a.detach()
	after := session()
	if !strings.Contains(before, "Breakpoint 1, leaf") || after != before {
		t.Errorf("gdb says something else: %s", difference(before, after))
	}
	a.quiet()
	a.goOn()
	fmt.Fprintln(a.to, "end")
	a.line() // gdb's stops are seen by who waits for something
	a.ends()
}
