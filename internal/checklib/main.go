// Command checklib checks what the build must guarantee of libdynprof.so and
// hotspots, and fails with one line for each point that does not hold.
//
//	go run ./internal/checklib build/libdynprof.so build/hotspots
package main

import (
	"debug/elf"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// maxGlibc is the lowest glibc that the library runs on: 2.GLIBC. README says
// it.
const maxGlibc = 34

// maxData is the most that variables of hotspots may take: under a limit below
// that the program is not run, not even uncounted.
const maxData = 3 << 19 // bytes

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: checklib FILE...")
		os.Exit(2)
	}
	failed := false
	for _, path := range os.Args[1:] {
		is, problems, err := check(path)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, p := range problems {
			fmt.Fprintf(os.Stderr, "checklib: %s: %s\n", path, p)
			failed = true
		}
		if len(problems) == 0 {
			fmt.Printf("checklib: %s: %s\n", path, is)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check returns what the file is, if it has no problems.
func check(path string) (is string, problems []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if f.Type == elf.ET_DYN {
		problems, err = checkLibrary(f)
		return fmt.Sprintf("starts no Go by itself, runs first, needs glibc 2.%d", maxGlibc), problems, err
	}
	return "static, needs no glibc", checkStatic(f), nil
}

func checkStatic(f *elf.File) (problems []string) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			problems = append(problems, fmt.Sprintf("is linked dynamically (%v): build it with CGO_ENABLED=0", p.Type))
		}
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 && p.Memsz > maxData {
			problems = append(problems, fmt.Sprintf("has %d bytes of data, more than %d: under ulimit -d the kernel does not execute it (GOFIPS140=v1.0.0?)", p.Memsz, maxData))
		}
	}
	return problems
}

func checkLibrary(f *elf.File) (problems []string, err error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	goinit := f.Section(".dp_goinit")
	array, err := dynValue(f, elf.DT_INIT_ARRAY)
	if err != nil {
		return problems, err
	}
	size, err := dynValue(f, elf.DT_INIT_ARRAYSZ)
	if err != nil {
		return problems, err
	}
	switch {
	case goinit == nil || goinit.Size == 0:
		bad(".dp_goinit is empty: this Go toolchain keeps its start entry elsewhere (look for go.o's .init_array in the link map)")
	case goinit.Size != 8:
		bad(".dp_goinit holds %d entries, not the one that the twin calls", goinit.Size/8)
	case goinit.Addr >= array && goinit.Addr < array+size:
		bad("DT_INIT_ARRAY holds the Go runtime's start entry: loading the library would start Go in the program")
	}
	if size != 16 {
		bad("DT_INIT_ARRAY has %d entries, not 2 (frame_dummy and the shim)", size/8)
	}
	flags, err := dynValue(f, elf.DT_FLAGS_1)
	if err != nil {
		return problems, err
	}
	if elf.DynFlag1(flags)&elf.DF_1_INITFIRST == 0 {
		bad("not linked with -z initfirst")
	}
	const most = 200
	if n, err := dynValue(f, elf.DT_RELACOUNT); err != nil || n > most {
		bad("the dynamic linker makes %d relocations in each program, more than %d: Go's are the twin's (internal/lazyrela)", n, most)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_STACK && p.Flags&elf.PF_X != 0 {
			bad("asks for an executable stack")
		}
		if p.Type == elf.PT_LOAD && p.Filesz != p.Memsz {
			bad("has %d bytes of variables that are not in the file, and so in anonymous memory: this toolchain keeps them in sections that libdynprof/goinit.ld does not name", p.Memsz-p.Filesz)
		}
	}
	return append(problems, checkSymbols(f)...), nil
}

// checkSymbols looks at what the library exports and which glibc it needs.
func checkSymbols(f *elf.File) (problems []string) {
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return []string{err.Error()}
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && !strings.HasPrefix(s.Name, "dynprof_") {
			problems = append(problems, "exports "+s.Name+", which is not of the public C API")
		}
		if minor, ok := strings.CutPrefix(s.Version, "GLIBC_2."); ok {
			minor, _, _ = strings.Cut(minor, ".")
			if n, err := strconv.Atoi(minor); err != nil || n > maxGlibc {
				problems = append(problems, fmt.Sprintf("%s needs %s, newer than glibc 2.%d", s.Name, s.Version, maxGlibc))
			}
		}
	}
	return problems
}

func dynValue(f *elf.File, tag elf.DynTag) (uint64, error) {
	v, err := f.DynValue(tag)
	if err == nil && len(v) != 1 {
		err = fmt.Errorf("%d entries of %v", len(v), tag)
	}
	if err != nil {
		return 0, err
	}
	return v[0], nil
}
