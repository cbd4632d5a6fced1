package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// example is a plug-in that make examples builds, if its compiler is there.
func example(t *testing.T, name, from string) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(build(t, "hotspots")), "examples", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%v: make examples builds it where there is %s", err, from)
	}
	return path
}

// translated runs c with a translator, and returns its events, too.
func translated(t *testing.T, c command, translator string, more ...string) (result, []event) {
	t.Helper()
	r, table := countedAt(t, c, append([]string{"--translator", translator}, more...)...)
	var list struct{ Events []event }
	out := run(t, cmd(build(t, "hotspots"), "events", "--format", "json", table))
	if err := json.Unmarshal([]byte(out.stdout), &list); err != nil {
		t.Fatalf("%v: %s%s", err, out.stdout, out.stderr)
	}
	return r, list.Events
}

// redirected are the objects whose functions were redirected, once for each event.
func redirected(events []event) []string {
	var objects []string
	for _, e := range events {
		if e.Outcome == "redirected" {
			objects = append(objects, filepath.Base(e.Object))
		}
	}
	return objects
}

// TestExampleAVX2: par2 writes the same recovery data, and repairs with it, when
// its multiplication is another.
func TestExampleAVX2(t *testing.T) {
	lane.Parallel(t)
	par2 := need(t, "par2")
	so := example(t, "avx2.so", "gcc")
	if !slices.Contains(strings.Fields(read(t, "/proc/cpuinfo")), "avx2") {
		t.Skip("this processor has no AVX2")
	}
	data := make([]byte, 1<<20)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(data); i++ {
		data[i] = byte(r.Uint32())
	}
	t.Run("blocks", func(t *testing.T) { leavesShortLoops(t, par2, so, data) })
	for size, n := range map[string]int{"4": 2000, "60": 30001, "4132": len(data)} { // bytes in a block: none by AVX2, and with a rest
		at := func(dir string, data []byte) string {
			path := filepath.Join(dir, "data")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		without, with := t.TempDir(), t.TempDir()
		create := func(dir string) command {
			c := cmd(par2, "create", "-q", "-q", "-s"+size, "-c25", "data.par2", at(dir, data[:n]))
			c.dir, c.env = dir, []string{"OMP_WAIT_POLICY=passive"}
			return c
		}
		a := run(t, create(without))
		b, events := translated(t, create(with), so)
		// The translator has a thread of its own: the program may be over before it has its turn.
		for range 50 {
			if redirected(events) != nil {
				break
			}
			with = t.TempDir()
			b, events = translated(t, create(with), so)
		}
		same(t, a, b)
		if got := redirected(events); a.status != 0 || !slices.Equal(got, []string{"par2"}) {
			t.Fatalf("blocks of %s bytes: status %d, redirected functions of %v: %s", size, a.status, got, a.stderr)
		}
		if files := filesIn(t, without); len(files) < 3 || !maps.Equal(files, filesIn(t, with)) {
			t.Errorf("blocks of %s bytes: other files: %v", size, slices.Collect(maps.Keys(files)))
		}
		damaged := slices.Clone(data[:n])
		damaged[n/2]++
		c := cmd(par2, "repair", "-q", "-q", "data.par2", at(with, damaged))
		c.dir, c.env = with, []string{"OMP_WAIT_POLICY=passive"}
		if r, _ := translated(t, c, so); r.status != 0 || read(t, filepath.Join(with, "data")) != string(data[:n]) {
			t.Errorf("blocks of %s bytes are not repaired: status %d, %s", size, r.status, r.stderr)
		}
	}
}

// filesIn are the texts of the files in dir by their names.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range entries {
		texts[e.Name()] = read(t, filepath.Join(dir, e.Name()))
	}
	return texts
}

// leavesShortLoops: where blocks are counted the routine is replaced only if its loop is long,
// and what is written is the same. Counts read while the program runs are a little off, so how
// often the loop goes round is not compared.
func leavesShortLoops(t *testing.T, par2, so string, data []byte) {
	for size, row := range map[string]struct {
		n        int
		replaced bool
	}{"60": {30000, false}, "4132": {len(data), true}} { // bytes in a block: 15 rounds, and 1033
		create := func(counted bool) (map[string]string, string, bool) {
			dir := t.TempDir()
			path := filepath.Join(dir, "data")
			if err := os.WriteFile(path, data[:row.n], 0o600); err != nil {
				t.Fatal(err)
			}
			c := cmd(par2, "create", "-q", "-q", "-t1", "-s"+size, "-c25", "data.par2", path)
			c.dir, c.env = dir, []string{"OMP_WAIT_POLICY=passive", "AVX2_SHOW=1"}
			var r result
			var replaced bool
			if counted {
				var events []event
				r, events = translated(t, c, so, "--blocks")
				replaced = redirected(events) != nil
			} else {
				r = run(t, c)
			}
			if r.status != 0 {
				t.Fatalf("%+v", r)
			}
			return filesIn(t, dir), r.stderr, replaced
		}
		want, _, _ := create(false)
		told := map[bool]string{false: ": it stays as it is", true: ": it is replaced"}[row.replaced]
		for try := 0; ; try++ { // the program may be over before its translator has its turn
			got, text, replaced := create(true)
			if !maps.Equal(got, want) {
				t.Fatalf("blocks of %s bytes: other files: %v, want %v", size, slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
			}
			if strings.Contains(text, told) && replaced == row.replaced {
				break
			}
			if strings.Contains(text, "goes round") && !strings.Contains(text, told) || replaced && !row.replaced || try == 50 {
				t.Fatalf("blocks of %s bytes: replaced %v: %s", size, replaced, text)
			}
		}
	}
}

// packetFilters have all kinds of instructions; the last one, with a loop, is not
// compiled.
var packetFilters = []string{
	"ip", "arp", "ip6", "tcp", "udp port 53", "port 80 or port 443", "host 10.1.0.7", "net 10.2.0.0/16 and not tcp",
	"tcp[13] & 2 != 0", "ip[2:2] % 7 = 3", "ip[8] * 3 + ip[9] > 300", "ip[8] / 3 = ip[9] >> 2", "ip[8] << 3 < ip[4:2]",
	"ip[6:2] & 0x1fff = 0", "tcp[((tcp[12] & 0xf0) >> 2):2] = 0x4745", "tcp[tcp[0] & 15] | 3 = 7", "ether[0] & 1 = 1", "len > 100",
	"len - ip[2:2] < 20", "greater 90 and less 100", "-ip[8] > 0xffffff80", "ip[ip[0] & 15:4] ^ 5 != 0", "ip[200] = 0", "icmp or (ip6 and ip6[6] = 6)",
	"portrange 1000-30000", "vlan or mpls", "ip6 protochain 6",
}

// TestExampleSpecialise: tcpdump finds the same packets when its filter is
// compiled.
func TestExampleSpecialise(t *testing.T) {
	lane.Parallel(t)
	tcpdump := need(t, "tcpdump")
	so := example(t, "specialise.so", "libtcc-dev")
	packets := filepath.Join(t.TempDir(), "packets")
	if err := os.WriteFile(packets, []byte(run(t, cmd(example(t, "packets", "gcc"), "8000")).stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, args ...string) {
		t.Parallel()
		c := cmd(append([]string{tcpdump, "-r", packets, "-w", "-"}, args...)...)
		without := run(t, c)
		c.env = []string{"SPECIALISE_SYNCHRONOUS=1"}
		with, events := translated(t, c, so)
		same(t, without, with)
		got := redirected(events)
		if loops := slices.Contains(args, "ip6 protochain 6"); (len(got) == 2) == loops || without.status != 0 {
			t.Errorf("%v: redirected in %v, status %d: %s", args, got, without.status, without.stderr)
		}
	}
	for i, f := range lane.Thin(packetFilters, 8) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { check(t, f) })
	}
	var hosts, more []string
	for i := range 60 {
		hosts = append(hosts, fmt.Sprintf("host 10.%d.0.%d", i%3, i*4))
		more = append(more, fmt.Sprintf("(src net 10.%d.0.0/24 and dst port %d)", i%4, i*1000))
	}
	for _, f := range lane.Some([][]string{hosts, more}, 1) {
		t.Run("long", func(t *testing.T) { check(t, strings.Join(f, " or ")) })
		t.Run("as it is", func(t *testing.T) { check(t, "-O", strings.Join(f, " or ")) }) // with many jumps
	}
}

// TestExampleSpecialiseGuard: another filter at the same place is not taken for
// the one that is compiled.
func TestExampleSpecialiseGuard(t *testing.T) {
	lane.Parallel(t)
	so := example(t, "specialise.so", "libtcc-dev")
	need(t, "tcpdump") // for libpcap
	p := filepath.Join(t.TempDir(), "program")
	args := []string{"-O2", "-Wall", "-Werror", "-o", p, "testdata/packetfilter.c", "-l:libpcap.so.0.8"}
	if msg, err := exec.Command(need(t, "gcc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	without := run(t, cmd(p))
	if without.status != 0 {
		t.Fatalf("status %d", without.status)
	}
	for _, env := range [][]string{nil, {"SPECIALISE_SYNCHRONOUS=1"}} {
		c := cmd(p)
		c.env = env
		with, events := translated(t, c, so)
		same(t, without, with)
		if got := redirected(events); env != nil && len(got) != 2 {
			t.Errorf("%v redirected", got)
		}
	}
}

// TestExampleGo: a translator that brings a Go runtime along moves functions of
// a small program, and a large one does the same with it.
func TestExampleGo(t *testing.T) {
	lane.Parallel(t)
	so := example(t, "go.so", "go")
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "leaves.c")
	without := run(t, cmd(p))
	c := cmd(p)
	c.env = []string{"GO_TRANSLATOR_VERBOSE=1"}
	with, events := translated(t, c, so, "--threshold", "100")
	if with.stdout != without.stdout || with.status != 0 {
		t.Errorf("status %d: %s", with.status, with.stdout)
	}
	for _, name := range []string{"leaf_3", "leaf_5", "leaf_9"} {
		if want := "go translator: " + name + ", 12 bytes, 100 calls: translated\n"; !strings.Contains(with.stderr, want) {
			t.Errorf("no %q in %s", want, with.stderr)
		}
	}
	if got := redirected(events); len(got) != 3 {
		t.Errorf("%v redirected", got)
	}
	large := cmd(need(t, "perl"), "-e", `my %n; for my $i (1..60000) { $n{$i % 997} .= chr(65 + $i % 26) } print map { "$_ $n{$_}\n" } sort keys %n; `+
		`system("echo a child"); my $p = fork; exit 3 if !$p; waitpid $p, 0; print $? >> 8, "\n"`)
	with, events = translated(t, large, so, "--threshold", "100")
	same(t, run(t, large), with)
	if len(redirected(events)) == 0 {
		t.Error("nothing of perl is redirected")
	}
}

// TestExampleRust: a translator in Rust is told, and arms again.
func TestExampleRust(t *testing.T) {
	lane.Parallel(t)
	so := example(t, "rust.so", "rustc")
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "leaves.c")
	without := run(t, cmd(p))
	with, events := translated(t, cmd(p), so, "--threshold", "leaf_?=100")
	if with.stdout != without.stdout || with.status != 0 || !strings.Contains(with.stderr, "100 calls of leaf_3\n") {
		t.Errorf("status %d: %s%s", with.status, with.stdout, with.stderr)
	}
	again := 0
	for _, e := range events {
		if e.Name == "leaf_3" && e.Calls == 1000 {
			again++
		}
	}
	if again != 1 {
		t.Errorf("%d events at 1000 calls: %v", again, events)
	}
}

// TestPluginCPP: dynprof.h in C++, where warnings are errors.
func TestPluginCPP(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "leaves.c")
	without := run(t, cmd(p))
	for _, standard := range []string{"c++11", "c++20"} {
		so := compile(t, need(t, "g++"), []string{"-O2", "-shared", "-fPIC", "-std=" + standard, "-Wall", "-Wextra", "-Werror", "-I../libdynprof"}, "pluginpp.cc")
		with, events := translated(t, cmd(p), so)
		if with.stdout != without.stdout || with.status != 0 || with.stderr != "leaf_5: 0\n" || len(redirected(events)) != 1 {
			t.Errorf("%s: status %d: %s%s, %v", standard, with.status, with.stdout, with.stderr, events)
		}
	}
}
