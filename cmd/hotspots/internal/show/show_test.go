package show

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"lua_type", "lua_type", 0}, {"lua_tpye", "lua_type", 1}, {"lua_typ", "lua_type", 1},
		{"lua_type", "lua_tipe", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abcdef", "x", 4},
	} {
		if got := distance(row.a, row.b, 3); got != row.want {
			t.Errorf("%q, %q: %d", row.a, row.b, got)
		}
	}
}

func TestSplitAddress(t *testing.T) {
	for name, want := range map[string]struct {
		object  string
		address uint64
	}{
		"lua5.4+0x8870": {"lua5.4", 0x8870}, "0x8870": {"", 0x8870}, "lib+0x1.so+0x20": {"lib+0x1.so", 0x20},
		"main": {"", none}, "0x": {"", none}, "f0x10": {"", none}, "a+0xzz": {"", none}, "a+0x11112222333344445": {"", none}, "": {"", none},
	} {
		if object, address := splitAddress(name); object != want.object || address != want.address {
			t.Errorf("%q: %q, %#x", name, object, address)
		}
	}
}

// TestNamed: a function is found by each of its names, and by an address in it.
func TestNamed(t *testing.T) {
	path := tabletest.Demo(t, filepath.Join(t.TempDir(), "a"), tabletest.Spec()).Path
	tab := tabletest.Open(t, path)
	for name, want := range map[string][]string{
		"demo::add(int, int)": {"demo::add(int, int)"}, "_ZN4demo4plusEii": {"demo::add(int, int)"}, "demo::plus(int, int)": {"demo::add(int, int)"}, "0x1160": {"demo::add(int, int)"},
		"demo+0x1170": {"demo+0x1170"}, "demo::add": {"demo::add(int, int)"}, "demo+0x1161": {"demo::add(int, int)"}, "0x1162": {"demo::add(int, int)"}, "0x555555555162": {"demo::add(int, int)"}, "0x7ffff7002000": {"foo::bar"}, "libdemo.so.1+0x2000": {"foo::bar"}, "tiny": {"tiny"},
	} {
		v, err := Find(tab, name, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var names []string
		for _, f := range v.Functions {
			names = append(names, f.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %q", name, names)
		}
	}
	for name, says := range map[string]string{"mian": "did you mean main?", "demo::dad": "did you mean demo::add(int, int)?", "demo::ad(int, int)": "did you mean demo::add(int, int)?", "nothing": "no function of that name", "0x1": "no known function has that address", "demo+0x2000": "no known function has that address", "0x7ffff7002100": "no known function", "": "no function"} {
		if _, err := Find(tab, name, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestMany: more functions of one name than are shown are an error that tells how to name one.
func TestMany(t *testing.T) {
	spec := tabletest.Synthetic(mostNamed + 1)
	for i := range spec.Functions {
		spec.Functions[i].Name = "same"
	}
	tab := tabletest.Open(t, tabletest.Create(t, "a", spec).Path)
	if _, err := Find(tab, "same", false); err == nil || !strings.Contains(err.Error(), "51 functions have that name: show one by its address, such as demo+0x1000") {
		t.Error(err)
	}
	if v, err := Find(tab, "demo+0x1020", false); err != nil || len(v.Functions) != 1 {
		t.Error(err)
	}
}

// TestWhy: every reason is said in words.
func TestWhy(t *testing.T) {
	for _, r := range ledger.Reasons() {
		if !strings.HasPrefix(whyNot(r), r.String()+": ") {
			t.Errorf("%v: %s", r, whyNot(r))
		}
	}
	if got := whyNot(^ledger.Reason(0)); got != "reason-255" {
		t.Error(got)
	}
}

// FuzzShow: whatever is in a table, JSON is valid and text has no control characters.
func FuzzShow(f *testing.F) {
	live := tabletest.Demo(f, filepath.Join(f.TempDir(), "a.dynprof"), tabletest.Spec())
	seed, err := os.ReadFile(live.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(bytes.ReplaceAll(seed, []byte("demo"), []byte("\x1b[\xff\n")))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, name := range []string{"main", "0x1160", "demo+0x1170", "tiny", "libdemo.so.1+0x2001"} {
			v, err := Find(tab, name, false)
			if err != nil {
				continue
			}
			var text, out bytes.Buffer
			if v.Text(&text, report.Style{}, 0, 0) != nil || v.JSON(&out) != nil || !json.Valid(out.Bytes()) {
				t.Errorf("%s\n%s", out.Bytes(), text.Bytes())
			}
			for _, c := range text.String() {
				if unicode.IsControl(c) && c != '\n' {
					t.Fatalf("control character in %q", text.String())
				}
			}
		}
	})
}
