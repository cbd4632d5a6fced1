package symname

import (
	"bufio"
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Names chooses functions by displayed name.
type Names struct {
	re    *regexp.Regexp  // matches anywhere in the name
	exact map[string]bool // whole names
}

// ParseNames reads the argument of --only or --skip: a regular expression
// (RE2 syntax), or @FILE, a file with one whole name a line; empty lines and
// lines that start with # are left out. readFile is os.ReadFile.
func ParseNames(arg string, readFile func(string) ([]byte, error)) (*Names, error) {
	file, isFile := strings.CutPrefix(arg, "@")
	if !isFile {
		re, err := regexp.Compile(arg)
		if err != nil {
			return nil, fmt.Errorf("not a regular expression: %w", err)
		}
		return &Names{re: re}, nil
	}
	return readNames(file, readFile)
}

// ParseGlobs reads the argument of --blocks: globs, separated by commas, one of which
// matches a whole name: * stands for any text and ? for one character; or @FILE, as for
// ParseNames. readFile is os.ReadFile.
func ParseGlobs(arg string, readFile func(string) ([]byte, error)) (*Names, error) {
	if file, isFile := strings.CutPrefix(arg, "@"); isFile {
		return readNames(file, readFile)
	}
	var all []string
	for glob := range strings.SplitSeq(arg, ",") {
		if glob = strings.TrimSpace(glob); glob != "" {
			all = append(all, ofGlob(glob))
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no function named in %q: write all, or globs like 'parse_*'", arg)
	}
	return &Names{re: regexp.MustCompile("(?s)^(?:" + strings.Join(all, "|") + ")$")}, nil
}

// ofGlob is the source of a regular expression that matches what Glob does.
func ofGlob(glob string) string {
	return strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(Clean(glob)))
}

// readNames reads a file of whole names.
func readNames(file string, readFile func(string) ([]byte, error)) (*Names, error) {
	b, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the list of names: %w", err)
	}
	n := &Names{exact: map[string]bool{}}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			n.exact[line] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read the list of names %s: %w", file, err)
	}
	return n, nil
}

// Match reports whether n chooses the displayed name.
func (n *Names) Match(name string) bool {
	if n.re != nil {
		return n.re.MatchString(name)
	}
	return n.exact[name]
}

// Objects chooses objects by path.
type Objects struct {
	all, main bool
	globs     []string
}

// ParseObjects reads the argument of --objects: a comma-separated list of
// "all", "main" and globs (path.Match syntax). A glob without a slash matches
// the base name.
func ParseObjects(arg string) (*Objects, error) {
	o := &Objects{}
	for g := range strings.SplitSeq(arg, ",") {
		switch g = strings.TrimSpace(g); g {
		case "":
		case "all":
			o.all = true
		case "main":
			o.main = true
		default:
			if _, err := path.Match(g, ""); err != nil {
				return nil, fmt.Errorf("not a glob: %q", g)
			}
			o.globs = append(o.globs, g)
		}
	}
	if !o.all && !o.main && len(o.globs) == 0 {
		return nil, fmt.Errorf("no object named in %q: write all, main or globs", arg)
	}
	return o, nil
}

// Match reports whether o chooses the object at objectPath; isMain says that
// it is the executable.
func (o *Objects) Match(objectPath string, isMain bool) bool {
	if o.all || o.main && isMain {
		return true
	}
	for _, g := range o.globs {
		name := objectPath
		if !strings.Contains(g, "/") {
			name = filepath.Base(objectPath)
		}
		if ok, _ := path.Match(g, name); ok {
			return true
		}
	}
	return false
}
