// Package selection compares what a user chose by names - objects, functions,
// thresholds - with what the program had, so that a typo is not silent.
package selection

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Selection is what the flags of hotspots run say; empty ones choose nothing.
type Selection struct {
	Objects    string // of --objects
	Only, Skip string // of --only and --skip
	Blocks     string // of --blocks
	Thresholds []string
}

// Empty reports whether nothing is chosen by a name.
func (s *Selection) Empty() bool {
	return len(s.globs()) == 0 && s.Only == "" && s.Skip == "" && s.Blocks == "" && len(s.rules()) == 0
}

// Ledger is what a program had: the objects of its tables, and their functions.
type Ledger struct {
	Objects   []layout.Object
	Functions []Function
}

// Function is a function as it is shown, and the other names that it has.
type Function struct {
	Name    string
	Aliases []string
}

// Add adds what a table has.
func (l *Ledger) Add(objects []layout.Object, functions []layout.Function) {
	l.Objects = append(l.Objects, objects...)
	for i := range functions {
		f := &functions[i]
		if f.Reason.Excluded() {
			continue
		}
		path := objects[f.Object].Path
		one := Function{Name: symname.Display(f.Name, path, f.Address, true)}
		for _, a := range f.Aliases {
			one.Aliases = append(one.Aliases, symname.Display(a, path, f.Address, true))
		}
		l.Functions = append(l.Functions, one)
	}
}

// Unmatched says, a line each, what the user chose that the program had nothing of.
// readFile is os.ReadFile.
func (s *Selection) Unmatched(l *Ledger, readFile func(string) ([]byte, error)) (lines []string) {
	for _, glob := range s.globs() {
		if line := l.object(glob); line != "" {
			lines = append(lines, line)
		}
	}
	for _, names := range []struct{ flag, value string }{{"--only", s.Only}, {"--skip", s.Skip}} {
		if names.value != "" {
			lines = append(lines, l.names(names.flag, names.value, readFile)...)
		}
	}
	lines = append(lines, l.blocks(s.Blocks, readFile)...)
	for _, rule := range s.rules() {
		one, err := symname.ParseThresholds(rule + "=1")
		if err == nil && !l.has(func(name string) bool { return one.Of(name) == 1 }) {
			lines = append(lines, l.nothing("--threshold "+rule, rule))
		}
	}
	return lines
}

// globs are those of Objects that may match nothing.
func (s *Selection) globs() (globs []string) {
	for g := range strings.SplitSeq(s.Objects, ",") {
		if g = strings.TrimSpace(g); g != "" && g != "all" && g != "main" {
			globs = append(globs, g)
		}
	}
	return globs
}

// rules are the globs of Thresholds.
func (s *Selection) rules() (globs []string) {
	for _, all := range s.Thresholds {
		for one := range strings.SplitSeq(all, ";") {
			if at := strings.LastIndexByte(one, '='); at > 0 {
				globs = append(globs, one[:at])
			}
		}
	}
	return globs
}

func (l *Ledger) object(glob string) string {
	o, err := symname.ParseObjects(glob)
	if err != nil {
		return ""
	}
	names := make([]string, len(l.Objects))
	for i := range l.Objects {
		path := l.Objects[i].Path
		if o.Match(path, false) {
			return ""
		}
		if names[i] = path; !strings.Contains(glob, "/") {
			names[i] = filepath.Base(path)
		}
	}
	return fmt.Sprintf("--objects %s: the program has no object of that name%s", glob, didYouMean(glob, names))
}

// shownNames is how many names of a list are said.
const shownNames = 3

// names looks for what --only or --skip names.
func (l *Ledger) names(flag, value string, readFile func(string) ([]byte, error)) []string {
	file, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return l.missing(flag, alternatives(value), func(part string) (what, name string, has bool) {
			re, err := regexp.Compile(part)
			return flag + " " + part, plain(part), err != nil || l.has(re.MatchString)
		})
	}
	b, err := readFile(file)
	if err != nil {
		return nil
	}
	known := map[string]bool{}
	for i := range l.Functions {
		known[l.Functions[i].Name] = true
	}
	return l.missing(flag+" "+value, strings.Split(string(b), "\n"), func(line string) (what, name string, has bool) {
		name = strings.TrimSpace(line)
		return flag + " " + value + ": " + name, name, name == "" || name[0] == '#' || known[name]
	})
}

// missing says which of the names of a list no function has, the first few. look says how one
// is told of, its name, and whether it is there.
func (l *Ledger) missing(list string, names []string, look func(string) (what, name string, has bool)) (lines []string) {
	more := 0
	for _, one := range names {
		switch what, name, has := look(one); {
		case has:
		case len(lines) == shownNames:
			more++
		default:
			lines = append(lines, l.nothing(what, name))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%s: and %d more names that no function has", list, more))
	}
	return lines
}

// blocks looks for what --blocks names.
func (l *Ledger) blocks(value string, readFile func(string) ([]byte, error)) []string {
	const flag = "--blocks"
	if strings.HasPrefix(value, "@") {
		return l.names(flag, value, readFile)
	}
	return l.missing(flag, strings.Split(value, ","), func(glob string) (what, name string, has bool) {
		glob = strings.TrimSpace(glob)
		n, err := symname.ParseGlobs(glob, readFile)
		return flag + "=" + glob, glob, err != nil || l.has(n.Match)
	})
}

// has reports whether a function's name matches.
func (l *Ledger) has(match func(string) bool) bool {
	for i := range l.Functions {
		if match(l.Functions[i].Name) {
			return true
		}
	}
	return false
}

// nothing says that no function has such a name, and which may be meant.
func (l *Ledger) nothing(what, name string) string {
	if len(l.Functions) == 0 {
		return what + ": no function was looked at"
	}
	names := make([]string, 0, len(l.Functions))
	for i := range l.Functions {
		f := &l.Functions[i]
		for _, alias := range f.Aliases {
			if alias == name {
				return fmt.Sprintf("%s: that function is shown as %s", what, f.Name)
			}
		}
		names = append(names, f.Name)
	}
	return what + ": no function that may be counted has such a name" + didYouMean(name, names)
}

// alternatives are the parts of a regular expression that are there to match a name each.
func alternatives(re string) []string {
	if strings.ContainsAny(re, `()[]\`) {
		return []string{re}
	}
	return strings.Split(re, "|")
}

// plain is the text that a simple regular expression looks for.
func plain(re string) string {
	return strings.Trim(strings.NewReplacer(`\`, "", ".*", "").Replace(re), "^$")
}
