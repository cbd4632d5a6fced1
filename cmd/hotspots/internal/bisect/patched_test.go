package bisect

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// What globs makes of a path matches that path and no neighbour.
func TestGlobsAreExact(t *testing.T) {
	all := []string{"/usr/lib/libc.so.6", "/opt/a[1]/lib*.so", "/opt/a1/libx.so", `/opt/back\slash`, "/opt/what?", "/opt/whatx", "/opt/one,two", "/opt/one"}
	for i, path := range all {
		objects, err := symname.ParseObjects(globs([]string{path}))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for j, other := range all {
			if got := objects.Match(other, false); got != (i == j) {
				t.Errorf("%s: %s chosen: %v", globs([]string{path}), other, got)
			}
		}
	}
}

func TestSkipPattern(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("# mine\nold(int)\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		was   string
		names []string
		want  string
	}{
		{"", []string{"main"}, "^main$"},
		{"", []string{"a::b(int)"}, `^a::b\(int\)$`},
		{"", []string{"a", "b"}, "^(a|b)$"},
		{"^std::", []string{"a"}, "^std::|^a$"},
		{"@" + list, []string{"a+0x1"}, `^(old\(int\)|a\+0x1)$`},
	} {
		got := skipPattern(row.was, row.names)
		if got != row.want {
			t.Errorf("%s and %v: %s, want %s", row.was, row.names, got, row.want)
		}
		re := regexp.MustCompile(got)
		for _, n := range row.names {
			if !re.MatchString(n) || re.MatchString(n+"x") {
				t.Errorf("%s does not match %s alone", got, n)
			}
		}
	}
}

func TestQuoteForShell(t *testing.T) {
	for _, word := range []string{"plain", "--only", "", "it's", "$HOME `x` \"y\" \\", "*", "a b", "~", "tail\n."} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is %s: %q, %v", word, quote(word), out, err)
		}
	}
}

func TestNamesOfAreUnique(t *testing.T) {
	o := &object{Object: layout.Object{Path: "/bin/x"}, counted: []layout.Function{{Address: 16}, {Address: 32, Name: "_Z1fv"}, {Address: 48, Name: "_Z1fv"}, {Address: 64, Name: "g"}}}
	lib := &object{Object: layout.Object{Path: "/lib/y"}, counted: []layout.Function{{Address: 16}, {Address: 20, Name: "g"}}}
	want := []string{"x+0x10", "f()", "g", "y+0x10"}
	if got := namesOf([]*object{o, lib}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := without(want, []string{"g"}); !slices.Equal(got, []string{"x+0x10", "f()", "y+0x10"}) || len(want) != 4 || want[3] != "y+0x10" {
		t.Errorf("%q of %q", got, want)
	}
}

func TestDisassemble(t *testing.T) {
	// push %r15; jmp +0; an invalid byte; mov $1,%eax, of which 1 byte is asked for
	code := []byte{0x41, 0x57, 0xeb, 0x00, 0x06, 0xb8, 1, 0, 0, 0}
	var got []string
	for _, i := range disassemble(code, 6, 0x1000) {
		got = append(got, i.Address.String()+" "+i.Bytes+" "+i.Text)
	}
	want := []string{"0x1000 4157 push %r15", "0x1002 eb00 jmp 0x1004", "0x1004 06 .byte 0x06", "0x1005 b801000000 mov $0x1,%eax"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// What cannot be planned again is still named, with the reason.
func TestExplainWithoutFile(t *testing.T) {
	o := &object{Object: layout.Object{Path: "/no/such/file"}, counted: []layout.Function{{Address: 16, Name: "f", Size: 5}}}
	all := o.explain()
	if len(all) != 1 || all[0].Name != "f" || all[0].Address != report.Address(16) || !strings.Contains(all[0].Note, "no such file") {
		t.Errorf("%+v", all)
	}
}
