package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// plugin builds testdata/plugin.c.
func plugin(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "plugin.so")
	args := []string{"-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-I../libdynprof", "-o", out, "testdata/plugin.c"}
	if msg, err := exec.Command(need(t, "gcc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	return out
}

// TestPlugin: a translator in a file of its own translates the functions of a
// program that knows nothing of it; the events say so.
func TestPlugin(t *testing.T) {
	lane.Parallel(t)
	so := plugin(t)
	for _, flags := range [][]string{{"-O2"}, {"-O2", "-no-pie"}, {"-O2", "-fcf-protection=full"}} {
		p := compile(t, need(t, "gcc"), flags, "leaves.c")
		without := run(t, cmd(p))
		for _, mode := range []string{"sync", "async"} {
			table := filepath.Join(t.TempDir(), "table")
			c := cmd(build(t, "hotspots"), "run", "-o", table, "--summary", "0", "--translator", so, "--", p)
			c.env = []string{"PLUGIN=" + mode}
			r := run(t, c)
			for _, name := range []string{"leaf_3", "leaf_5", "leaf_9"} {
				if !strings.Contains(r.stderr, name+" translated: 0\n") {
					t.Errorf("%v %s: %s is not translated: %s", flags, mode, name, r.stderr)
				}
				if n := readReport(t, table).calls(t, name); n != 1000 {
					t.Errorf("%d calls of %s", n, name)
				}
			}
			if r.stdout != without.stdout || r.status != 0 {
				t.Errorf("status %d: %s", r.status, r.stdout)
			}
			list := eventList(t, table)
			if len(list.Events) < 3 || list.Failures != 0 {
				t.Errorf("%d events, %d failures", len(list.Events), list.Failures)
			}
			for _, e := range list.Events {
				if strings.HasPrefix(e.Name, "leaf_") != (e.Outcome == "redirected") {
					t.Errorf("%s: %s", e.Name, e.Outcome)
				}
			}
			follow := run(t, cmd(build(t, "hotspots"), "events", "--follow", table))
			if strings.Count(follow.stdout, "redirected") != 3 || follow.status != 0 {
				t.Errorf("events --follow: %s%s", follow.stdout, follow.stderr)
			}
		}
	}
}

// TestPluginNot: a plug-in that cannot be used is said, and the program runs.
func TestPluginNot(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "leaves.c")
	without := run(t, cmd(p))
	good := plugin(t)
	changed := func(change func([]byte) []byte) string {
		path := filepath.Join(t.TempDir(), "plugin.so")
		if err := os.WriteFile(path, change([]byte(read(t, good))), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const class, machine = 4, 18 // offsets in the ELF header
	for _, row := range []struct{ path, how, says string }{
		{changed(func(b []byte) []byte { b[machine] = 183; return b }), "", "dynprof: the translator cannot be loaded: it is for another architecture: "},
		{changed(func(b []byte) []byte { b[class] = 1; return b }), "", "dynprof: the translator cannot be loaded: "},
		{changed(func(b []byte) []byte { return b[:len(b)/4] }), "", "dynprof: the translator cannot be loaded: it is cut short: "},
		{changed(func(b []byte) []byte { return b[:100] }), "", "dynprof: the translator cannot be loaded: it is cut short: "},
		{changed(func([]byte) []byte { return []byte("text\n") }), "", "dynprof: the translator cannot be loaded: "},
		{changed(func([]byte) []byte { return nil }), "", "dynprof: the translator cannot be loaded: "},
		{t.TempDir(), "", "dynprof: the translator cannot be loaded: "},
		{p, "", "dynprof: the translator cannot be loaded: "},
		{"/lib/x86_64-linux-gnu/libm.so.6", "", "dynprof: the translator has no dynprof_plugin_init: "},
		{good, "fails", "dynprof: the translator did not start: "},
	} {
		c := cmd(p)
		c.env = []string{"PLUGIN=" + row.how}
		r, table := countedAt(t, c, "--translator", row.path)
		if n := eventList(t, table).Failures; n != 1 {
			t.Errorf("%s: %d failures", row.path, n)
		}
		if r.stdout != without.stdout || r.status != 0 || !strings.HasPrefix(r.stderr, row.says) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s", row.path, r.status, r.stdout, r.stderr)
		}
	}
	c := cmd(build(t, "hotspots"), "run", "-o", filepath.Join(t.TempDir(), "t"), "--summary", "0", "--translator", good, "--", p)
	c.env = []string{"PLUGIN=twice"}
	if r := run(t, c); r.stdout != without.stdout || r.status != 0 || strings.Contains(r.stderr, "start") {
		t.Errorf("twice: status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	c = cmd(p)
	c.env = []string{"PLUGIN=unloads"}
	if r, _ := countedAt(t, c, "--translator", good); r.stdout != without.stdout || r.status != 0 ||
		strings.Count(r.stderr, "translated: 0\n") != strings.Count(r.stderr, "\n") || r.stderr == "" {
		t.Errorf("unloads: status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	c = cmd(build(t, "hotspots"), "run", "--translator", "/nowhere.so", "--", p)
	if r := run(t, c); r.status != 125 || !strings.Contains(r.stderr, "--translator") {
		t.Errorf("nowhere: status %d, %s%s", r.status, r.stdout, r.stderr)
	}
}
