package symname

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDisplay(t *testing.T) {
	long := "_Z" + strings.Repeat("N", maxMangled)
	for _, row := range []struct {
		raw, want, mangled string
	}{
		{"main", "main", "main"},
		{"_ZN4demo3addEii", "demo::add(int, int)", "_ZN4demo3addEii"},
		{"_ZN4demo3addEii.isra.0", "demo::add(int, int) [clone .isra.0]", "_ZN4demo3addEii.isra.0"},
		{"_ZN3foo3bar17h05af221e174051e9E", "foo::bar", "_ZN3foo3bar17h05af221e174051e9E"},
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo", "_RNvCs1234_7mycrate3foo"},
		{"_D4main3addFiiZi", "_D4main3addFiiZi", "_D4main3addFiiZi"}, // D and Swift: docs/names.md
		{"$s4main3addyS2i_SitF", "$s4main3addyS2i_SitF", "$s4main3addyS2i_SitF"},
		{"_Znot mangled", "_Znot mangled", "_Znot mangled"},
		{"", "libx.so.1+0x1f40", "libx.so.1+0x1f40"},
		{"a\x1b[31mb\n\x00", "a\uFFFD[31mb\uFFFD\uFFFD", "a\uFFFD[31mb\uFFFD\uFFFD"},
		{"bad\xff\xfeutf8", "bad\uFFFD\uFFFDutf8", "bad\uFFFD\uFFFDutf8"},
		{"ab\u202ecd\u2028é", "ab\uFFFDcd\uFFFDé", "ab\uFFFDcd\uFFFDé"},
		{long, long, long},
	} {
		t.Run(row.raw[:min(len(row.raw), 30)], func(t *testing.T) {
			if got := Display(row.raw, "/usr/lib/libx.so.1", 0x1f40, true); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if got := Display(row.raw, "/usr/lib/libx.so.1", 0x1f40, false); got != row.mangled {
				t.Errorf("mangled: got %q, want %q", got, row.mangled)
			}
		})
	}
	if got := Display("", "", 16, true); got != "?+0x10" {
		t.Errorf("no object: %q", got)
	}
}

// Each S_I…E doubles the length: 40 of them stand for 2^40 characters.
func TestNameBomb(t *testing.T) {
	name := "_Z1f1AIiiE"
	for i := range 40 {
		sub := "S" + strings.ToUpper(fmt.Sprintf("%c", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i%36])) + "_"
		if i >= 36 {
			sub = "S1" + string("0123"[i-36]) + "_"
		}
		name += "S_I" + sub + sub + "E"
	}
	if got := Display(name, "", 0, true); got == name || len(got) > 1<<maxDemangled {
		t.Errorf("%d characters: %.100s", len(got), got)
	}
}

func TestNames(t *testing.T) {
	read := func(name string) ([]byte, error) {
		if name != "list" {
			return nil, fs.ErrNotExist
		}
		return []byte("# mine\n\nfoo(int)\r\n  bar\n"), nil
	}
	for _, row := range []struct {
		arg, name string
		want      bool
	}{
		{"^foo", "foo(int)", true}, {"oo", "foo(int)", true}, {"^oo", "foo(int)", false},
		{"@list", "foo(int)", true}, {"@list", "bar", true}, {"@list", "fo", false}, {"@list", "# mine", false},
	} {
		t.Run(row.arg+" "+row.name, func(t *testing.T) {
			n, err := ParseNames(row.arg, read)
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Match(row.name); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
	for _, bad := range []string{"(", "@nowhere"} {
		if _, err := ParseNames(bad, read); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestGlobs(t *testing.T) {
	read := func(string) ([]byte, error) { return []byte("f(int, long)\n"), nil }
	for _, row := range []struct {
		arg, name string
		want      bool
	}{
		{"lua_*", "lua_type", true}, {"lua_*", "my_lua_type", false}, {"main, lua?_*", "luaV_execute", true}, {"main,x", "main", true},
		{"std::*", "std::vector<int>::push_back(int)", true}, {"a.b", "axb", false}, {"a(*)", "a(int)", true},
		{"@list", "f(int, long)", true}, {"@list", "f", false},
	} {
		if n, err := ParseGlobs(row.arg, read); err != nil || n.Match(row.name) != row.want {
			t.Errorf("%s %s: not %t, %v", row.arg, row.name, row.want, err)
		}
	}
	for _, bad := range []string{"", " , "} {
		if _, err := ParseGlobs(bad, read); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestObjects(t *testing.T) {
	for _, row := range []struct {
		arg, path string
		main      bool
		want      bool
	}{
		{"all", "/usr/lib/libc.so.6", false, true},
		{"main", "/usr/lib/libc.so.6", false, false},
		{"main", "/usr/bin/x", true, true},
		{"libc.so*", "/usr/lib/libc.so.6", false, true},
		{"lib*", "/usr/lib/sub/x", false, false},
		{"/usr/lib/lib*", "/usr/lib/libc.so.6", false, true},
		{"/usr/*", "/usr/lib/libc.so.6", false, false},
		{"main, libm*", "/lib/libm.so.6", false, true},
	} {
		t.Run(row.arg+" "+row.path, func(t *testing.T) {
			o, err := ParseObjects(row.arg)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Match(row.path, row.main); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
	for _, bad := range []string{"", ",", "a[", "x,[-]"} {
		if _, err := ParseObjects(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func FuzzDisplay(f *testing.F) {
	for _, seed := range []string{"main", "_ZN4demo3addEii", "_RNvCs1234_7mycrate3foo", "_ZNSt6vectorIiSaIiEE9push_backEOi", "a\x1b\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, demangled := range []bool{true, false} {
			got := Display(raw, "/x", 1, demangled)
			if got == "" || !utf8.ValidString(got) || Clean(got) != got {
				t.Errorf("%q shown as %q", raw, got)
			}
		}
	})
}
