package main

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// whole returns what is wrong with the object.
func (r *rules) whole(path string) (problems []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	defined, needed, err := symbols(f, path)
	if err != nil {
		return nil, err
	}
	for _, name := range needed {
		problems = append(problems, fmt.Sprintf("%s needs %s of others", path, name))
	}
	for _, name := range r.interfaces {
		if !slices.Contains(defined, name) {
			problems = append(problems, fmt.Sprintf("%s has no %s, which the interface names", path, name))
		}
	}
	problems = append(problems, fixed(f, path)...)
	found, err := r.registers(path)
	return append(problems, found...), err
}

// symbols are the global ones that a file defines, and those that it needs.
func symbols(f *elf.File, path string) (defined, needed []string, err error) {
	list, err := f.Symbols()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range list {
		switch {
		case s.Name == "" || elf.ST_BIND(s.Info) == elf.STB_LOCAL:
		case s.Section == elf.SHN_UNDEF:
			needed = append(needed, s.Name)
		default:
			defined = append(defined, s.Name)
		}
	}
	return defined, needed, nil
}

// wherever are the relocations of what can lie anywhere, without a table of
// addresses that somebody would have to fill.
var wherever = []elf.R_X86_64{elf.R_X86_64_PC32, elf.R_X86_64_PLT32, elf.R_X86_64_PC64}

// fixed reports the other relocations, in code and in data that is loaded.
func fixed(f *elf.File, path string) (problems []string) {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || int(s.Info) >= len(f.Sections) || f.Sections[s.Info].Flags&elf.SHF_ALLOC == 0 {
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

// registers reports the functions that touch others than the general registers, and
// those that may, and do not.
func (r *rules) registers(path string) (problems []string, err error) {
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", path).Output()
	if err != nil {
		return nil, fmt.Errorf("objdump %s: %w", path, err)
	}
	name, told, met := "", "", map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if m := function.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if vector.MatchString(line) && told != name {
			told, met[name] = name, true
			if !slices.Contains(r.vectors, name) {
				problems = append(problems, fmt.Sprintf("%s: %s touches a vector register: %s", path, name, strings.Join(strings.Fields(line)[1:], " ")))
			}
		}
	}
	for _, v := range r.vectors {
		if !met[v] {
			problems = append(problems, fmt.Sprintf("%s: %s touches no vector register: take it off the list", path, v))
		}
	}
	return problems, nil
}
