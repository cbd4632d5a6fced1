package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

func pluginOf(t *testing.T, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), source+".so")
	args := []string{"-O2", "-shared", "-fPIC", "-fexceptions", "-Wall", "-Werror", "-I../libdynprof", "-o", out, "testdata/" + source}
	if msg, err := exec.Command(need(t, "gcc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	return out
}

// clobbering builds testdata/clobber.c, which redirects every function to code that
// changes all registers that the ABI lets it.
func clobbering(t *testing.T) string { return pluginOf(t, "clobber.c") }

// TestKeeps: ordinary C code takes the place of functions of which the callers
// know which registers they leave alone.
func TestKeeps(t *testing.T) {
	t.Parallel()
	so := pluginOf(t, "keepsplugin.c")
	for i, build := range lane.Some([]string{"gcc -O2", "gcc -O3", "gcc -O2 -flto", "gcc -Os", "gcc -O3 -march=native", "gcc -O2 -no-pie", "clang -O2 -mllvm -enable-ipra"}, 0, 6) {
		words := strings.Fields(build)
		for _, source := range []string{"keeps.c", "keeps.cc"} {
			compiler := need(t, words[0])
			if source == "keeps.cc" {
				compiler = need(t, strings.NewReplacer("gcc", "g++", "clang", "clang++").Replace(words[0]))
			}
			p := compile(t, compiler, append(words[1:], "-pthread"), source)
			for _, args := range [][]string{nil, {"ticks"}} {
				if i > 0 && args != nil {
					continue
				}
				c := cmd(append([]string{p}, args...)...)
				without := run(t, c)
				ways := variants
				if i > 0 && !lane.Long { // the compiler is what differs
					ways = ways[len(ways)-1:]
				}
				for _, flags := range ways {
					with, _ := counted(t, c, append(flags, "--translator", so)...)
					if t.Run(strings.Join(append(append(words, source), append(args, flags...)...), " "), func(t *testing.T) { same(t, without, with) }); t.Failed() {
						return
					}
				}
			}
		}
	}
}

// TestKeepsNoCPUID: redirects in a program that has forbidden itself to ask the CPU which vectors it
// has (ARCH_SET_CPUID). A question of ours would be its end.
func TestKeepsNoCPUID(t *testing.T) {
	t.Parallel()
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "textchangelib.c")
	c := cmd(compile(t, gcc, []string{"-O2"}, "nocpuidneeded.c"), library)
	without := run(t, c)
	if strings.HasPrefix(without.stdout, "cannot") {
		t.Skip("this CPU cannot refuse to tell what it is")
	}
	with, _ := counted(t, c, "--translator", pluginOf(t, "nocpuidplugin.c"))
	if with.stdout != without.stdout || with.status != without.status || !strings.Contains(with.stderr, "redirected: 0\ninstead: 1901\n") {
		t.Errorf("%+v, not %+v", with, without)
	}
}

// TestKeepsRaw: what DYNPROF_RAW asks for is a jump, and this program has need of
// more.
func TestKeepsRaw(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2", "-pthread"}, "keeps.c")
	c := cmd(build(t, "hotspots"), "run", "-o", filepath.Join(t.TempDir(), "table"), "--summary", "0", "--translator", pluginOf(t, "keepsplugin.c"), "--", "timeout", "5", p)
	c.env = []string{"KEEPS=raw", "DYNPROF_FOLLOW_EXEC=1"}
	if r := run(t, c); r.stdout == run(t, cmd(p)).stdout {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestKeepsPrograms: every function of real programs is called by way of code that
// changes all registers that are the callee's.
func TestKeepsPrograms(t *testing.T) {
	t.Parallel()
	so := clobbering(t)
	for name, c := range map[string]command{
		"lua":     cmd("lua5.4", "-e", `local t={} for i=1,3000 do t[i]=i*1.5 ..("x"):rep(i%7) end table.sort(t) print(#table.concat(t), ("%g"):format(math.sin(2)), pcall(error,"x"))`),
		"sqlite":  cmd("sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i+1 from n where i<3000) select count(*), sum(i/3.0), min('x'||i), group_concat(i%7) from n; select json_object('a',1,'b',json_array(1,2)), printf('%.3f',2.5);"),
		"xz":      cmd("sh", "-c", "exec xz -c -T1 < /etc/services | sha256sum"),
		"openssl": cmd("openssl", "enc", "-camellia-128-cbc", "-K", "00112233445566778899aabbccddeeff", "-iv", "00112233445566778899aabbccddeeff", "-in", "/etc/services"),
		"dgst":    cmd("openssl", "dgst", "-sha512", "/etc/services"),
		"perl":    cmd("perl", "-e", `my %h; $h{$_%97}.=chr(65+$_%26) for 1..20000; print join(",",map{length $h{$_}} sort keys %h),"\n"; printf "%.6f %s\n", sin(1), "abc"=~/(b.)/`),
	} {
		t.Run(name, func(t *testing.T) {
			need(t, c.args[0])
			without := run(t, c)
			with, _ := counted(t, c, "--translator", so)
			if without.stdout != with.stdout || without.status != with.status {
				t.Errorf("status %d, not %d: %.300s", with.status, without.status, with.stderr)
			}
		})
	}
}
