package names

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// mangled are functions of a table by these names.
func mangled(names ...string) *table.Table {
	t := &table.Table{Objects: []layout.Object{{Path: "/bin/p", Flags: layout.ObjMain}}}
	for i, name := range names {
		t.Functions = append(t.Functions, layout.Function{Address: uint64(i), Name: name})
	}
	return t
}

func shown(t *table.Table) (all []string) {
	for i := range t.Functions {
		all = append(all, t.Functions[i].Name)
	}
	return all
}

// TestMangledD: what binutils makes of D's names, and other names as they are.
func TestMangledD(t *testing.T) {
	tab := mangled("_Dmain", "_D4test3fooFiZi", "_D4test3fooFiZi.cold", "main", "_Down", "_D9", "_Z1fv", "_D4test\x00", "_D4te st", "_D"+strings.Repeat("1a", mostMangled))
	var said []string
	n := &Namer{Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	for range 2 { // again, as of a program that goes on
		n.Name(tab)
	}
	if got, want := shown(tab)[:9], []string{"D main", "test.foo(int)", "test.foo(int) [clone .cold]", "main", "_Down", "_D9", "_Z1fv", "_D4test\x00", "_D4te st"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if !slices.Equal(tab.Functions[2].Aliases, []string{"_D4test3fooFiZi.cold"}) || tab.Functions[3].Aliases != nil {
		t.Errorf("%q", tab.Functions[2].Aliases)
	}
	if len(said) > 0 {
		t.Errorf("%q", said)
	}
	tab = mangled("_Dmain")
	(&Namer{Mangled: true}).Name(tab)
	if got := shown(tab); got[0] != "_Dmain" {
		t.Errorf("with --no-demangle: %q", got)
	}
}

// TestMangledSwift: the demangler is asked once for each name, and what it does wrong is told.
// It is a stand-in, as Debian 12 has no Swift.
func TestMangledSwift(t *testing.T) {
	for name, row := range map[string]struct {
		does string
		want []string
		says string
	}{
		"answers":  {"sed 's/^$s4main1fyyF$/main.f() -> ()/'", []string{"main.f() -> ()", "$s4other", "f"}, ""},
		"few":      {"sed -n 1p", []string{"$s4main1fyyF", "$s4other", "f"}, "Swift names stay as they are: swift-demangle: 1 answers to 2 names"},
		"fails":    {"exit 1", []string{"$s4main1fyyF", "$s4other", "f"}, "Swift names stay as they are: swift-demangle: 0 answers to 2 names"},
		"too many": {"yes", []string{"y", "y", "f"}, ""},
		"none":     {"", []string{"$s4main1fyyF", "$s4other", "f"}, "Swift names are shown as in the file: swift-demangle is not on this machine (Swift's tools)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if row.does != "" {
				script := "#!/bin/sh\n[ -z \"$LD_PRELOAD\" ] || exit 1\n" + row.does + "\n"
				if err := os.WriteFile(filepath.Join(dir, "swift-demangle"), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			if row.does != "" {
				t.Setenv("PATH", dir+":/usr/bin:/bin")
			}
			tab := mangled("$s4main1fyyF", "$s4other", "f")
			var said []string
			n := &Namer{Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
			n.Name(tab)
			if got := shown(tab); !slices.Equal(got, row.want) || strings.Join(said, "\n") != row.says {
				t.Errorf("%q %q", got, said)
			}
		})
	}
}
