package lines

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
)

const shared = `
struct point { int x, y, z; double weight; struct point *next; const char *name; long numbers[16]; };
struct box { struct point least, most; struct box *inside[8]; unsigned long flags; };
static inline int numbers(struct point *p) { int s = 0; for (int i = 0; i < 16; i++) s += p->numbers[i] * p->x; return s; }
static inline int volume(struct box *b) { return (b->most.x - b->least.x) * (b->most.y - b->least.y) + numbers(&b->most); }
`

// TestInlinedElsewhere: names of what was inlined are found in other units of the file, where
// link-time optimisation or dwz has them, and in a file that two programs share.
func TestInlinedElsewhere(t *testing.T) {
	for name, row := range map[string]struct {
		flags string
		after []string
	}{
		"whole":                  {"-g", nil},
		"link-time optimisation": {"-g -flto", nil},
		"its units, DWARF 4":     {"-gdwarf-4 -flto", nil},
		"one unit for several":   {"-g", []string{"dwz", "one"}},
		"a file for several":     {"-g", []string{"dwz", "-m", "both", "one", "two"}},
		"that, DWARF 4":          {"-gdwarf-4", []string{"dwz", "-m", "both", "one", "two"}},
		"that, as of DWARF 5":    {"-g", []string{"dwz", "--dwarf-5", "-m", "both", "one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write := func(name, text string) {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("shared.h", shared)
			all := "#include \"shared.h\"\n"
			build := append([]string{"gcc", "-O2", "-o", "one"}, strings.Fields(row.flags)...)
			for i := range 3 {
				file := fmt.Sprintf("%d.c", i)
				write(file, fmt.Sprintf("#include \"shared.h\"\n__attribute__((noipa)) int user%d(struct box *b) { return volume(b) + %[1]d; }\n", i))
				all += fmt.Sprintf("int user%d(struct box *);\n", i)
				build = append(build, file)
			}
			write("main.c", all+"static struct box b;\nint main(int n, char **v) { (void)v; b.most.x = n; return user0(&b) + user1(&b) + user2(&b); }\n")
			command(t, append(build, "main.c")...)
			if row.after != nil {
				command(t, "cp", "one", "two")
				command(t, row.after...)
			}
			o := object(t, "one")
			find := &debugfile.Finder{Root: t.TempDir()}
			f, err := Open(o, find)
			if err != nil {
				t.Fatal(err)
			}
			at := entries(t, "one")
			known, err := f.Functions(slices.Collect(maps.Values(at)))
			if err != nil {
				t.Fatal(err)
			}
			for _, user := range []string{"user0", "user1", "user2"} {
				if one := known[at[user]]; !slices.Equal(one.Inlined, []string{"volume", "numbers"}) || filepath.Base(one.File) != strings.TrimPrefix(user, "user")+".c" || one.Line != 2 {
					t.Errorf("%s: %+v", user, one)
				}
			}
			damaged(f, slices.Collect(maps.Values(at)))
			if f.shared == nil {
				return
			}
			if err := os.Rename("both", "elsewhere"); err != nil {
				t.Fatal(err)
			}
			if f, err = Open(o, find); err != nil {
				t.Fatal(err)
			}
			if known, err = f.Functions([]uint64{at["user0"]}); err == nil || !strings.Contains(err.Error(), "both, which is not there") || known[at["user0"]].Line != 2 {
				t.Errorf("without the file that is shared: %+v, %v", known, err)
			}
		})
	}
}
