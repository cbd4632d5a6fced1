// Command checkobj checks the object of the library's resident part, which runs on
// the target's threads in the middle of its functions: that it needs nothing of
// anybody, touches no vector, x87 or mask register but where that is its purpose, and
// can lie anywhere, its data, too, without a loader that fills in addresses. And the
// files that it is made of: that no two need each other, on whatever way, and none
// needs one of a later folder. It fails with one line for each point that does not hold.
//
//	go run ./internal/checkobj [-interface FILE] [-vectors FUNCTION,...] [-order FOLDER,...] [-one FILE,...] OBJECT PART.o...
//
// With - for the object only the parts are looked at.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// rules are what must hold besides what always must.
type rules struct {
	interfaces []string // the symbols that others may use, and that are there
	vectors    []string // functions that may touch all registers
	order      []string // folders: who may need whom
	one        []string // files that are parts of one thing
}

func main() {
	list := flag.String("interface", "", "file with the symbols that others use")
	vectors := flag.String("vectors", "", "functions that may touch all registers, separated by commas")
	order := flag.String("order", "", "folders of the parts, separated by commas: each may need those before it")
	one := flag.String("one", "", "parts, separated by commas, that may need each other")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	r := rules{vectors: words(*vectors), order: words(*order), one: words(*one)}
	problems, err := r.readInterface(*list)
	if err == nil {
		var more []string
		more, err = r.check(flag.Arg(0), flag.Args()[1:])
		problems = append(problems, more...)
	}
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "checkobj:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	if flag.Arg(0) == noObject {
		fmt.Printf("checkobj: %d files need each other one way\n", flag.NArg()-1)
		return
	}
	fmt.Printf("checkobj: %s needs nobody, touches general registers only, and can lie anywhere; its %d files need each other one way\n", flag.Arg(0), flag.NArg()-1)
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// readInterface reads a file for objcopy --keep-global-symbols: names, and comments
// behind a #.
func (r *rules) readInterface(path string) (problems []string, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if slices.Contains(r.interfaces, name) {
			problems = append(problems, fmt.Sprintf("%s has %s twice", path, name))
		}
		r.interfaces = append(r.interfaces, name)
	}
	return problems, err
}

const noObject = "-"

// check returns what is wrong with the object and with its parts.
func (r *rules) check(object string, parts []string) (problems []string, err error) {
	if object != noObject {
		if problems, err = r.whole(object); err != nil {
			return nil, err
		}
	}
	more, err := r.graph(parts)
	if err != nil {
		return nil, err
	}
	problems = append(problems, more...)
	slices.Sort(problems)
	return slices.Compact(problems), nil
}
