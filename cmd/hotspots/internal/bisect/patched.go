package bisect

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/textfile"
)

// object is an ELF file of which a run patched functions.
type object struct {
	layout.Object
	counted []layout.Function // by address
	chosen  map[uint64]bool   // addresses that the selection allowed
	shared  bool              // all threads shared the counters
	blocks  bool              // blocks were counted
}

// name is how --only and --skip know f.
func (o *object) name(f *layout.Function) string {
	return symname.Display(f.Name, o.Path, f.Address, true)
}

// readTables lists what a run patched, from its count tables: one, or several
// where exec was followed. A file that several programs loaded is one object.
func readTables(dir string) ([]*object, error) {
	files, err := filepath.Glob(filepath.Join(escapeGlob(dir), tablesName, "*"+tabledir.Ext))
	if err != nil {
		return nil, err
	}
	var all []*object
	known := map[string]*object{}
	for _, file := range files {
		t, err := table.Open(file)
		if errors.Is(err, layout.ErrBuilding) {
			continue // the process ended before anything was patched, or while it was
		}
		if err != nil {
			return nil, err
		}
		all = appendObjects(all, known, t)
		t.Close()
	}
	slices.SortStableFunc(all, func(a, b *object) int {
		return cmp.Compare(b.Flags&layout.ObjMain, a.Flags&layout.ObjMain) // the executable first
	})
	return all, nil
}

func appendObjects(all []*object, known map[string]*object, t *table.Table) []*object {
	here := make([]*object, len(t.Objects))
	for i := range t.Functions {
		f := &t.Functions[i]
		if f.Reason.Excluded() || f.Reason == ledger.ReasonNotSelected {
			continue
		}
		o := here[f.Object]
		if o == nil {
			e := t.Objects[f.Object]
			if known[e.Path] != nil {
				continue // of a program before
			}
			o = &object{Object: e, chosen: map[uint64]bool{}, shared: t.Flags&layout.FlagShared != 0, blocks: t.HasBlocks()}
			here[f.Object] = o
		}
		o.chosen[f.Address] = true
		if f.Counted() {
			o.counted = append(o.counted, *f)
		}
	}
	for _, o := range here {
		if o != nil && len(o.counted) > 0 {
			known[o.Path] = o
			all = append(all, o)
		}
	}
	return all
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func paths(objects []*object) (all []string) {
	for _, o := range objects {
		all = append(all, o.Path)
	}
	return all
}

// namesOf lists the names of all functions, each once, by object and address.
// Functions that show the same name can only be patched together.
func namesOf(objects []*object) []string {
	all, seen := []string{}, map[string]bool{}
	for _, o := range objects {
		for i := range o.counted {
			if name := o.name(&o.counted[i]); !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	return all
}

func subset[T any](all []T, set []int) []T {
	some := make([]T, 0, len(set))
	for _, i := range set {
		some = append(some, all[i])
	}
	return some
}

func identity(n int) []int { return withPrefix(n, nil) }

// without returns what is in all and not in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
}

// command is hotspots run or bisect of the same with names left out.
func (s *session) command(verb string, names []string) string {
	words := append([]string{"hotspots", verb}, s.On.Flags()...)
	if at := slices.Index(words, "--"+setting.All[setting.Blocks].Flag); at >= 0 && s.BlocksOf != "" {
		words[at] += "=" + s.BlocksOf
	}
	flags := [][2]string{{"--objects", s.Objects}, {"--only", s.Only}, {"--skip", skipPattern(s.Skip, names)}}
	if verb == "bisect" {
		flags = append(flags, [2]string{"--check", s.Check})
	}
	for _, f := range flags {
		if f[1] != "" {
			words = append(words, f[0], f[1])
		}
	}
	words = append(append(words, "--"), s.Command...)
	for i, w := range words {
		words[i] = quote(w)
	}
	return symname.Clean(strings.Join(words, " "))
}

// skipPattern is --skip for names besides what it was.
func skipPattern(was string, names []string) string {
	pattern := ""
	if file, ok := strings.CutPrefix(was, "@"); ok {
		names = slices.Concat(listed(file), names)
	} else if was != "" {
		pattern = was + "|"
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = regexp.QuoteMeta(n)
	}
	if len(quoted) == 1 {
		return pattern + "^" + quoted[0] + "$"
	}
	return pattern + "^(" + strings.Join(quoted, "|") + ")$"
}

// listed reads the names of a file, as symname.ParseNames does.
func listed(file string) (names []string) {
	b, _ := textfile.Read(file) // it could be read when all began
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	return names
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote makes one word of a shell command.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// written is the size of the larger output.
func (o *outcome) written() (size int64) {
	for _, name := range []string{stdoutName, stderrName} {
		if fi, err := os.Stat(filepath.Join(o.dir, name)); err == nil {
			size = max(size, fi.Size())
		}
	}
	return size
}
