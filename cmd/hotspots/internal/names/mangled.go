package names

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/table"
)

// demangler is a program that turns names, a line each, into what they stand for. No kept
// library for Go knows these languages.
type demangler struct {
	language string
	commands [][]string // the first that is installed is asked
	from     string     // what has it
	knows    func(name string) bool
}

var demanglers = []demangler{
	{"D", [][]string{{"c++filt", "-s", "dlang"}}, "binutils", func(name string) bool {
		return name == "_Dmain" || len(name) > 2 && name[:2] == "_D" && '1' <= name[2] && name[2] <= '9'
	}},
	{"Swift", [][]string{{"swift-demangle", "-compact"}, {"swift", "demangle", "-compact"}}, "Swift's tools", func(name string) bool {
		return slices.ContainsFunc([]string{"$s", "_$s", "$S", "_$S", "_T0"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}},
}

// What is asked of a demangler, which may be led into growing without end.
const (
	mostMangled     = 16 << 10  // bytes of a name
	mostDemangled   = 256 << 20 // bytes of all answers
	manglePatience  = 10 * time.Second
	mangledAlphabet = "_$." // beside letters and digits
)

// demangle names functions of D and Swift as their sources do. The name in the file becomes an
// alias.
func (n *Namer) demangle(t *table.Table) {
	for i := range demanglers {
		d := &demanglers[i]
		var ask []string
		for k := range t.Functions {
			name := t.Functions[k].Name
			if base, _, _ := strings.Cut(name, "."); d.knows(base) && len(name) <= mostMangled && isMangled(base) {
				if _, known := n.demangled[base]; !known {
					ask = append(ask, base)
				}
			}
		}
		if slices.Sort(ask); len(ask) > 0 {
			n.ask(d, slices.Compact(ask))
		}
	}
	for k := range t.Functions {
		f := &t.Functions[k]
		base, clone, isClone := strings.Cut(f.Name, ".")
		if shown := n.demangled[base]; shown != "" && shown != base {
			if isClone {
				shown += " [clone ." + clone + "]"
			}
			f.Name, f.Aliases = shown, append([]string{f.Name}, f.Aliases...)
		}
	}
}

// isMangled reports whether a name is a word of a demangler's input.
func isMangled(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r < 0x80 && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(mangledAlphabet, r)) || r == '\uFFFD'
	})
}

// ask notes what a demangler makes of names: nothing, if it cannot be had.
func (n *Namer) ask(d *demangler, names []string) {
	if n.demangled == nil {
		n.demangled = map[string]string{}
	}
	for _, name := range names {
		n.demangled[name] = ""
	}
	for _, command := range d.commands {
		path, err := exec.LookPath(command[0])
		if err != nil {
			continue
		}
		answers, err := filter(path, command[1:], names)
		if err != nil {
			n.say("%s names stay as they are: %s: %v", d.language, command[0], err)
			return
		}
		for i, name := range names {
			n.demangled[name] = answers[i]
		}
		return
	}
	n.say("%s names are shown as in the file: %s is not on this machine (%s)", d.language, d.commands[0][0], d.from)
}

// filter has a program turn lines into as many others. Its environment is an empty one: what
// is preloaded into us is not into it.
func filter(path string, args, in []string) (out []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), manglePatience)
	defer cancel()
	c := exec.CommandContext(ctx, path, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	c.Stdin = strings.NewReader(strings.Join(in, "\n") + "\n")
	answers, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(io.LimitReader(answers, mostDemangled))
	for range in {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	cancel() // what else it says is of no use
	c.Wait()
	if len(out) < len(in) {
		return nil, fmt.Errorf("%d answers to %d names", len(out), len(in))
	}
	return out, nil
}
