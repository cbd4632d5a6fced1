package test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// succeed runs a program that must succeed.
func succeed(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(need(t, args[0]), args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// ownNames are the functions of builds.c that are called.
var ownNames = []string{"bye", "changed", "dropped", "hello", "leaf", "main", "scaled", "twin_a", "twin_b"}

// shownNames are the names of the functions that were called, in the order of the alphabet.
func shownNames(t *testing.T, c command) (names []string, stderr string) {
	t.Helper()
	c.args = append(c.args, "--format", "json")
	out := run(t, c)
	var r report
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || out.status != 0 {
		t.Fatalf("%v: %+v", err, out)
	}
	for _, f := range r.Functions {
		if f.Calls > 0 {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names, out.stderr
}

// TestNames: a stripped program has its names from a separate file by its link, with a build
// ID or a check sum, and from .gnu_debugdata; and not from what is of another program.
func TestNames(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, row := range []struct {
		name  string
		flags []string
		make  func(t *testing.T, program, stripped string)
		named bool
	}{
		{"link", []string{"-Wl,--build-id"}, linked, true},
		{"link without build ID", []string{"-Wl,--build-id=none"}, linked, true},
		{"another file", []string{"-Wl,--build-id=none"}, func(t *testing.T, program, stripped string) {
			linked(t, program, stripped)
			f, err := os.OpenFile(program+".debug", os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write([]byte{0})
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}, false},
		{"another build", []string{"-Wl,--build-id"}, func(t *testing.T, program, stripped string) {
			linked(t, program, stripped)
			succeed(t, "objcopy", "--only-keep-debug", compile(t, gcc, []string{"-O2", "-DLATER", "-Wl,--build-id"}, "builds.c"), program+".debug")
		}, false},
		{"debugdata", []string{"-Wl,--build-id"}, func(t *testing.T, program, stripped string) {
			debugdata(t, program, stripped, func(packed string) { succeed(t, "xz", packed) })
		}, true},
		{"damaged debugdata", []string{"-Wl,--build-id"}, func(t *testing.T, program, stripped string) {
			debugdata(t, program, stripped, func(packed string) {
				if err := os.WriteFile(packed+".xz", []byte("\xfd7zXZ\x00no such thing"), 0o600); err != nil {
					t.Fatal(err)
				}
			})
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			program := compile(t, gcc, append([]string{"-O2", "-fno-ipa-icf"}, row.flags...), "builds.c")
			stripped, table := program+"-stripped", program+".dynprof"
			succeed(t, "strip", "-o", stripped, program)
			row.make(t, program, stripped)
			countedTo(t, stripped, table)
			names, stderr := shownNames(t, cmd(build(t, "hotspots"), "report", table))
			if slices.Equal(names, ownNames) != row.named || strings.Count(stderr, "\n") > 1 || row.named && stderr != "" {
				t.Errorf("%q, %s", names, stderr)
			}
			if damaged := strings.Contains(row.name, "damaged"); damaged != strings.Contains(stderr, ".gnu_debugdata: damaged xz data") {
				t.Error(stderr)
			}
		})
	}
}

// TestNamesLines: source lines of a stripped program's functions come from its separate file.
func TestNamesLines(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2", "-g", "-fno-ipa-icf", "-Wl,--build-id", "-rdynamic"}, "builds.c")
	stripped, table := program+"-stripped", program+".dynprof"
	succeed(t, "strip", "-o", stripped, program)
	countedTo(t, stripped, table)
	report := func(args ...string) result {
		return run(t, cmd(append([]string{build(t, "hotspots"), "report", "--lines", table}, args...)...))
	}
	if r := report(); r.status != 0 || strings.Contains(r.stdout, "builds.c") || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	near := 0
	for address, name := range namesOf(t, table) {
		r := run(t, cmd(build(t, "hotspots"), "show", address, table))
		if r.status != 0 || strings.Contains(r.stdout, "\n  nearest ") && !strings.Contains(name, "+0x") {
			t.Errorf("%s: %+v", name, r)
		}
		near += strings.Count(r.stdout, "\n  nearest      main+0x")
	}
	if near < len(ownNames)/2 { // what of them was not inlined, behind main
		t.Errorf("%d are told to be behind main", near)
	}
	linked(t, program, stripped)
	line := 0
	for i, text := range strings.Split(read(t, "testdata/builds.c"), "\n") {
		if strings.Contains(text, " leaf(int n) {") {
			line = i + 1
		}
	}
	want := fmt.Sprintf("  leaf  builds.c:%d", line)
	if r := report(); r.status != 0 || !strings.Contains(r.stdout, want) || r.stderr != "" {
		t.Errorf("%q: %+v", want, r)
	}
	if r := report("--format", "csv"); r.status != 0 || !strings.Contains(r.stdout, fmt.Sprintf("/testdata/builds.c,%d,", line)) {
		t.Errorf("%+v", r)
	}
	if r := report("--by", "object"); r.status != 2 {
		t.Errorf("%+v", r)
	}
}

// linked has a stripped program name a file of debug information beside it.
func linked(t *testing.T, program, stripped string) {
	t.Helper()
	succeed(t, "objcopy", "--only-keep-debug", program, program+".debug")
	succeed(t, "objcopy", "--add-gnu-debuglink="+program+".debug", stripped)
}

// debugdata gives a stripped program a section with its symbols, packed.
func debugdata(t *testing.T, program, stripped string, pack func(path string)) {
	t.Helper()
	symbols := program + ".symbols"
	succeed(t, "objcopy", "--only-keep-debug", program, symbols)
	pack(symbols)
	succeed(t, "objcopy", "--add-section", ".gnu_debugdata="+symbols+".xz", stripped)
}

// TestNamesLearn: of a stripped build of changed source those functions have names that were
// not changed, by what another build has taught; and those that a file gives by address.
func TestNamesLearn(t *testing.T) {
	lane.Parallel(t)
	dir := twoBuilds(t)
	hotspots, learnt := build(t, "hotspots"), filepath.Join(t.TempDir(), "names")
	gcc := need(t, "gcc")
	named := compile(t, gcc, []string{"-O2", "-g", "-fno-ipa-icf"}, "builds.c")
	if r := run(t, cmd(hotspots, "names", "learn", named, "-o", learnt)); r.status != 0 || !strings.Contains(r.stderr, " names\n") {
		t.Fatalf("%+v", r)
	}
	if got, stderr := shownNames(t, cmd(hotspots, "report", "--names", learnt, dir+"/old/stripped.dynprof")); !slices.Equal(got, ownNames) || stderr != "" {
		t.Errorf("%q, %s", got, stderr)
	}
	later := dir + "/new/stripped.dynprof"
	names, stderr := shownNames(t, cmd(hotspots, "report", "--names", learnt, later))
	truth := namesOf(t, dir+"/new/named.dynprof")
	for _, name := range []string{"bye", "hello", "leaf", "twin_a", "twin_b"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not in %q, %s", name, names, stderr)
		}
	}
	for address, name := range namesBy(t, hotspots, "report", "--names", learnt, later) {
		if !strings.Contains(name, "+0x") && truth[address] != name {
			t.Errorf("%s at %s is %s", name, address, truth[address])
		}
	}
	address := ""
	for at, name := range truth {
		if name == "changed" {
			address = at
		}
	}
	own := write(t, filepath.Join(t.TempDir(), "own"), "stripped+"+address+" the one\n0x1 nobody\n", 0o600)
	if names, stderr := shownNames(t, cmd(hotspots, "report", "--names", learnt, "--names", own, later)); !slices.Contains(names, "the one") || stderr != "" {
		t.Errorf("%q, %s", names, stderr)
	}
	if r := run(t, cmd(hotspots, "show", "the one", "--names", own, later)); r.status != 0 || !strings.HasPrefix(r.stdout, "the one of ") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{
		{"report", "--names", "/no/such", later}, {"report", "--names", named, later}, {"names", "learn", dir + "/old/stripped"}, {"names", "learn", learnt}, {"names", "learn", dir},
	} {
		if r := run(t, cmd(append([]string{hotspots}, args...)...)); r.status != 1 || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// namesBy are the names that a report shows, by address.
func namesBy(t *testing.T, args ...string) map[string]string {
	t.Helper()
	var r report
	out := run(t, cmd(append(args, "--format", "json")...))
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	names := map[string]string{}
	for _, f := range r.Functions {
		names[f.Address] = f.Name
	}
	return names
}

// TestNamesDebuginfod: Debian's server gives the names, once; only if it is asked for, and
// never at the end of a run.
func TestNamesDebuginfod(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	program := compile(t, need(t, "gcc"), []string{"-O2", "-g", "-fno-ipa-icf", "-Wl,--build-id"}, "builds.c")
	stripped, table := filepath.Join(dir, "app"), filepath.Join(dir, "app.dynprof")
	succeed(t, "strip", "-o", stripped, program)
	url := serveDebug(t, filepath.Dir(program), program)
	env := []string{"DEBUGINFOD_URLS=" + url, "DEBUGINFOD_CACHE_PATH=", "XDG_CACHE_HOME=" + dir}
	c := cmd(build(t, "hotspots"), "run", "--summary", "3", "-o", table, "--", stripped, "100")
	c.env = env
	if r := run(t, c); r.status != 0 || strings.Contains(r.stderr, "leaf") || strings.Contains(r.stderr, url) {
		t.Fatalf("%+v", r)
	}
	for _, row := range []struct {
		env   []string
		named bool
		said  string
	}{{nil, false, ""}, {[]string{"DEBUGINFOD_URLS=file:///x"}, false, "hotspots: nobody is asked for names: "}, {env, true, "hotspots: asking " + url}, {env, true, ""}} {
		c := cmd(build(t, "hotspots"), "report", table)
		c.env = row.env
		names, stderr := shownNames(t, c)
		if slices.Equal(names, ownNames) != row.named || !strings.HasPrefix(stderr, row.said) || row.said == "" && stderr != "" {
			t.Errorf("%v: %q, %s", row.env, names, stderr)
		}
	}
}

// serveDebug starts Debian's debuginfod on the files of a directory, and waits until it has
// found those of a program. Somebody else may get the port first: then it ends, and gets
// another one.
func serveDebug(t *testing.T, dir, program string) (url string) {
	t.Helper()
	path, id := need(t, "debuginfod"), buildIDOf(t, program)
	said := ""
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		url = fmt.Sprintf("http://127.0.0.1:%d", port)
		var out bytes.Buffer
		server := exec.Command(path, "-d", ":memory:", "-p", fmt.Sprint(port), "-c", "2", "-F", dir)
		server.Stdout, server.Stderr = &out, &out
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { server.Wait(); close(ended) }()
		t.Cleanup(func() { server.Process.Kill(); <-ended })
		if serves(t, url+"/buildid/"+id+"/debuginfo", ended) {
			return url
		}
		server.Process.Kill()
		<-ended
		said = out.String()
	}
	t.Fatalf("debuginfod does not serve %s:\n%s", id, said)
	return ""
}

// serves waits until a server has what is asked for; false if it ends, or never has it.
func serves(t *testing.T, url string, ended <-chan struct{}) bool {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		answer, err := http.Get(url)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

func buildIDOf(t *testing.T, path string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Section(".note.gnu.build-id").Data()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", b[16:])
}
