package objcode

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestVariables: data that symbols name, by address, also a file's own; no functions, none of
// others.
func TestVariables(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc on this machine (make deps installs it)")
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "v.c"), filepath.Join(dir, "v.so")
	const text = `
extern int elsewhere;
static int own[3] = {1, 2, 3};
int shared[100];
int *f(void) { return own + shared[1] + elsewhere; }
extern int same __attribute__((alias("shared")));
`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		flag string
		want map[string]uint64
	}{
		{"-g0", map[string]uint64{"own": 12, "shared": 400}},
		{"-s", map[string]uint64{"shared": 400}},
	} {
		if out, err := exec.Command(gcc, "-shared", "-fPIC", "-O1", row.flag, "-Wl,--build-id=none", "-o", path, source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		list, err := Variables(&layout.Object{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		got, last := map[string]uint64{}, uint64(0)
		for _, v := range list {
			if v.Addr <= last {
				t.Errorf("%s: %#x is not behind %#x", v.Name, v.Addr, last)
			}
			last = v.Addr
			got[v.Name] = v.Size
		}
		if name := "same"; got[name] > 0 { // one of two names of an address
			got["shared"] = got[name]
			delete(got, name)
		}
		for name, size := range row.want {
			if got[name] != size {
				t.Errorf("%s %s: %d bytes, not %d: %v", row.flag, name, got[name], size, got)
			}
		}
		for _, name := range []string{"f", "elsewhere"} {
			if got[name] > 0 {
				t.Errorf("%s is a variable: %v", name, got)
			}
		}
		if row.flag == "-s" && got["own"] > 0 {
			t.Errorf("%v", got)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) / 64 { // whatever is damaged, it is no crash
		hurt := append([]byte(nil), b...)
		for i := range 8 {
			hurt[64*n+i] = 0xff
		}
		if err := os.WriteFile(path, hurt, 0o600); err != nil {
			t.Fatal(err)
		}
		Variables(&layout.Object{Path: path})
	}
	if _, err := Variables(&layout.Object{Path: path, BuildID: "00"}); err == nil {
		t.Error("another file")
	}
}
