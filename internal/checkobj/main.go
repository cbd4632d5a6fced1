// Command checkobj checks the object files of the library's resident part, which
// runs on the target's threads in the middle of its functions: that together they
// need nothing of anybody but what is allowed, that no two need each other, on
// whatever way, that they touch no vector, x87 or mask register, and can lie
// anywhere. It fails with one line for each point that does
// not hold.
//
//	go run ./internal/checkobj [-may SYMBOL,...] [-vectors FILE,...] FILE.o...
package main

import (
	"debug/elf"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	may := flag.String("may", "", "symbols that others define, separated by commas")
	vectors := flag.String("vectors", "", "names of files that may touch all registers")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	problems, err := check(flag.Args(), strings.Split(*may, ","), strings.Split(*vectors, ","))
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "checkobj:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	fmt.Printf("checkobj: %d files need nobody else, and each other one way, touch general registers only, and can lie anywhere\n", flag.NArg())
}

// check returns what is wrong with the files as a whole.
func check(paths, may, vectors []string) (problems []string, err error) {
	defined, needed := map[string]string{}, map[string][]string{} // symbols: the file, the files
	for _, path := range paths {
		f, err := elf.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		defer f.Close()
		if err := symbols(f, path, defined, needed); err != nil {
			return nil, err
		}
		problems = append(problems, fixed(f, path)...)
		if !slices.Contains(vectors, filepath.Base(path)) {
			found, err := registers(path)
			if err != nil {
				return nil, err
			}
			problems = append(problems, found...)
		}
	}
	uses := map[string][]string{}
	for name, by := range needed {
		if there := defined[name]; there == "" && !slices.Contains(may, name) {
			problems = append(problems, fmt.Sprintf("%s: needs %s, which no resident file defines", by[0], name))
		} else if there != "" {
			for _, path := range by {
				uses[path] = append(uses[path], there)
			}
		}
	}
	if way := circle(uses); way != nil {
		problems = append(problems, "files need each other: "+strings.Join(way, " -> "))
	}
	for _, name := range may {
		if name != "" && (len(needed[name]) == 0 || defined[name] != "") {
			problems = append(problems, fmt.Sprintf("nothing needs %s of others: take it off the list", name))
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// circle is a way through the graph that ends where it begins; nil if there is none.
func circle(uses map[string][]string) (found []string) {
	done := map[string]bool{}
	var visit func(way []string)
	visit = func(way []string) {
		last := len(way) - 1
		at := way[last]
		if i := slices.Index(way[:last], at); i >= 0 {
			found = way[i:]
		}
		if found != nil || done[at] {
			return
		}
		slices.Sort(uses[at])
		for _, next := range slices.Compact(uses[at]) {
			if visit(append(slices.Clip(way), next)); found != nil {
				return
			}
		}
		done[at] = true
	}
	for _, path := range slices.Sorted(maps.Keys(uses)) {
		visit([]string{path})
	}
	return found
}

func symbols(f *elf.File, path string, defined map[string]string, needed map[string][]string) error {
	list, err := f.Symbols()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range list {
		switch {
		case s.Name == "" || elf.ST_BIND(s.Info) == elf.STB_LOCAL:
		case s.Section == elf.SHN_UNDEF:
			needed[s.Name] = append(needed[s.Name], path)
		default:
			defined[s.Name] = path
		}
	}
	return nil
}

// wherever are the relocations of code that can lie anywhere, without a table of
// addresses that somebody would have to fill.
var wherever = []elf.R_X86_64{elf.R_X86_64_PC32, elf.R_X86_64_PLT32, elf.R_X86_64_PC64}

func fixed(f *elf.File, path string) (problems []string) {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || int(s.Info) >= len(f.Sections) || f.Sections[s.Info].Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return append(problems, fmt.Sprintf("%s: %v", path, err))
		}
		for ; len(data) >= 24; data = data[24:] {
			if kind := elf.R_X86_64(f.ByteOrder.Uint32(data[8:])); !slices.Contains(wherever, kind) {
				problems = append(problems, fmt.Sprintf("%s: %s has a relocation %v", path, f.Sections[s.Info].Name, kind))
			}
		}
	}
	return problems
}

var (
	function = regexp.MustCompile(`^[0-9a-f]+ <(.*)>:`)
	vector   = regexp.MustCompile(`%([xyz]?mm|st|k)[0-9(]|\b(fx?save|fx?rstor|xsave|xrstor|emms|vzero|fn?init)`)
)

// registers reports the functions that touch others than the general registers.
func registers(path string) (problems []string, err error) {
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", path).Output()
	if err != nil {
		return nil, fmt.Errorf("objdump %s: %w", path, err)
	}
	name, told := "", ""
	for line := range strings.Lines(string(out)) {
		if m := function.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if vector.MatchString(line) && told != name {
			told = name
			problems = append(problems, fmt.Sprintf("%s: %s touches a vector register: %s", path, name, strings.Join(strings.Fields(line)[1:], " ")))
		}
	}
	return problems, nil
}
