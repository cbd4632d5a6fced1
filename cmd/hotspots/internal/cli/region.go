package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// choice is what --region names: text, as the library reads it (libdynprof/resident/table/chosen.h),
// thresholds of functions whose calls are waited for, and what there is to be said of it.
type choice struct {
	text                string
	thresholds, remarks []string
}

func chosenRegions(all []string, program string) (c choice, err error) {
	var list []string
	for i, what := range all {
		name, place := namedRegion(what)
		call, place := calledFirst(place)
		text, remark, err := regionOf(place, program)
		if err == nil && call != "" {
			text, err = c.await(call, text, program, i)
		}
		if err != nil {
			return choice{}, fmt.Errorf("--region %s: %w", what, err)
		}
		if strings.ContainsAny(name+text, ";=\n") {
			return choice{}, fmt.Errorf("--region %s: there may be neither ; nor = in it", what)
		}
		if remark != "" {
			c.remarks = append(c.remarks, "--region "+what+": "+remark)
		}
		list = append(list, name+"="+text)
	}
	if len(list) > 0 {
		list = append([]string{fileOf(program)}, list...)
	}
	c.text = strings.Join(list, ";")
	return c, nil
}

// sayUnbegun says which of those that a user has named never were: of a function that was not
// called, a library that was not loaded, a file that was not mapped, or what the start has told.
func (a *app) sayUnbegun(all []string, rings []*regions.Ring) {
	rings = slices.DeleteFunc(rings, func(r *regions.Ring) bool { return !r.Had() })
	var list []string
	for _, what := range all {
		name, _ := namedRegion(what)
		if len(rings) > 0 && !slices.ContainsFunc(rings, func(r *regions.Ring) bool { return r.Names(name) }) {
			list = append(list, what)
		}
	}
	if len(list) > 0 {
		a.say("--region %s: never began, so nothing was recorded of it", strings.Join(list, ", "))
	}
}

// calledFirst is the function of @FUNCTION:WHAT, and WHAT; without one it is empty. A colon behind the
// name of an object, and two, as in C++, end none.
func calledFirst(place string) (call, what string) {
	rest, is := strings.CutPrefix(place, "@")
	if !is {
		return "", place
	}
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] != ':':
		case strings.HasPrefix(rest[i:], "::"):
			i++
		case objectEnd(rest[:i+1]) != i:
			return rest[:i], rest[i+1:]
		}
	}
	if what, is := strings.CutPrefix(rest, mainObject+":"); is && !strings.HasPrefix(what, ":") { // a function, too
		return mainObject + ":" + mainObject, what
	}
	return "", place
}

const (
	mostAwaited = 64 // as in libdynprof/resident/table/awaited.h
	mostCalls   = 32 // and in awaited.c
)

// await is a region, the i'th, that begins when a function is called first.
func (c *choice) await(call, text, program string, i int) (string, error) {
	if strings.HasPrefix(text, "*") || strings.HasPrefix(text, "<") {
		return "", errors.New("what a function begins is memory that is there, and malloc@ and file: are not")
	}
	if i >= mostAwaited {
		return "", fmt.Errorf("it has to be one of the first %d", mostAwaited)
	}
	o, err := openPart(call, program)
	if err != nil {
		return "", err
	}
	defer o.Close()
	is := func(s *elf.Symbol) bool {
		return isNamed(s.Name, o.where) && !strings.Contains(s.Name, ".cold") // which nobody calls
	}
	var all []elf.Symbol
	if strings.HasPrefix(o.where, "0x") {
		at, err := strconv.ParseUint(o.where, 0, 47)
		if err != nil {
			return "", fmt.Errorf("%s is no address", o.where)
		}
		is = func(s *elf.Symbol) bool { return s.Value == at }
		all = append(all, elf.Symbol{Value: at, Size: 1}) // it may have no name
	}
	var entries []string
	for _, s := range append(all, functions(o.File, is)...) {
		entries = append(entries, fmt.Sprintf("%x:%x", s.Value, s.Size))
		c.thresholds = append(c.thresholds, threshold(symname.Display(s.Name, "*", s.Value, true)))
	}
	switch {
	case len(entries) == 0:
		return "", fmt.Errorf("%s: %w", o.path, noFunction(o.where))
	case len(entries) > mostCalls:
		return "", fmt.Errorf("%s: there are %d functions %s; there may be %d", o.path, len(entries), o.where, mostCalls)
	case strings.Contains(o.names, "&"):
		return "", fmt.Errorf("%s: there may be no & in it", o.path)
	}
	return "&" + o.names + "+" + strings.Join(entries, ",") + "&" + text, nil
}

// threshold is one call of the functions of a displayed name.
func threshold(displayed string) string { return strings.ReplaceAll(displayed, ";", "?") + "=1" }

// fileOf says which file the executable is: places of it are of no other that the program goes on as.
func fileOf(program string) string {
	var st syscall.Stat_t
	if syscall.Stat(program, &st) != nil {
		return "!0:0"
	}
	return fmt.Sprintf("!%x:%x", st.Ino, st.Dev)
}

// namedRegion is the name of what a user names, NAME=WHAT or WHAT, and where it is.
func namedRegion(what string) (name, place string) {
	if name, place, is := strings.Cut(what, "="); is {
		return name, place
	}
	return what, what
}

// mainObject is what the executable is named by.
const mainObject = "main"

// fileRegion is in front of the path of a file that the program maps.
const fileRegion = "file"

// mostRegion is how many bytes a region may have.
const mostRegion = 64 << 30

// errForms says which forms there are.
var errForms = errors.New("WHAT is VARIABLE, main:VARIABLE, PATH:VARIABLE, main:.SECTION, PATH:.SECTION, main, LIBRARY, heap, stack, file:PATH, 0xADDRESS+BYTES, malloc@FUNCTION, malloc@FILE:LINE, malloc@PATH+0xADDRESS or malloc@PATH, or @FUNCTION:WHAT from when that is called; see docs/regions.md")

// ranges are what has a name of its own, as /proc/PID/maps has it, too.
var ranges = map[string]string{"heap": "^", "[heap]": "^", "stack": "_", "[stack]": "_"}

// regionOf is the place of what a user names.
func regionOf(what, program string) (text, remark string, err error) {
	if site, is := strings.CutPrefix(what, sitePrefix); is {
		return siteOf(site, program)
	}
	if text, is := ranges[what]; is {
		return text, "", nil
	}
	path, variable, isPart := strings.Cut(what, ":")
	switch address, bytes, is := strings.Cut(what, "+"); {
	case is && strings.HasPrefix(address, "0x"):
		text, err = ofAddress(address, bytes)
	case isProgram(what, program):
	case what == "", strings.HasPrefix(what, "@"), strings.HasPrefix(what, "["):
		err = fmt.Errorf("there is no such form: %w", errForms)
	case isPart && path == fileRegion:
		text, err = ofFile(variable)
	case isPart && isProgram(path, program):
		text, err = ofVariable(program, variable, "")
	case isPart:
		text, err = ofVariable(path, variable, path)
	case strings.Contains(what, ".so"), strings.Contains(what, "/"):
		text, err = ofLibrary(what)
	default:
		text, err = ofVariable(program, what, "")
	}
	return text, "", err
}

// isProgram reports whether a user names the executable, as main or by its path.
func isProgram(name, program string) bool {
	if name == mainObject || !strings.Contains(name, "/") {
		return name == mainObject
	}
	return sameFile(name, program)
}

// ofFile is what the program will map of a file, which need not be there yet.
func ofFile(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return "", fmt.Errorf("%s is a directory: nothing can be mapped of it", path)
	}
	const most = 511 // as in libdynprof/resident/table/files.c
	if len(path) > most {
		return "", fmt.Errorf("its path has more than %d bytes", most)
	}
	return "<" + path, nil
}

func ofAddress(address, bytes string) (string, error) {
	const end = 1 << 47
	at, err := strconv.ParseUint(address, 0, 64)
	if err != nil || at >= end {
		return "", fmt.Errorf("%s is no address of a program: these are below 0x800000000000", address)
	}
	n, err := strconv.ParseUint(bytes, 0, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax) || n == 0:
		return "", fmt.Errorf("%s is no number of bytes", bytes)
	case n > mostRegion:
		return "", fmt.Errorf("%s bytes are too many: a region has 64 GB at most", bytes)
	case n > end-at:
		return "", errors.New("it reaches beyond 0x800000000000, where memory of programs ends")
	}
	return fmt.Sprintf("@%x:%x", at, n), nil
}

// namesOf are the names by which the dynamic linker may have a library: that of the file by which it was
// opened, and its DT_SONAME, each with what ends a name.
func namesOf(f *elf.File, path string) string {
	names := []string{filepath.Base(path)}
	if f != nil {
		soname, _ := f.DynString(elf.DT_SONAME)
		names = append(names, soname...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "/") + "/"
}

// ofLibrary is all of a library, whose file need not be there.
func ofLibrary(path string) (string, error) {
	f, err := openObject(path)
	if err == nil {
		defer f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(path, ".so") {
		return "", fmt.Errorf("it is no library: %w; %w", err, errForms)
	}
	return namesOf(f, path), nil
}

// ofVariable is the place of a variable of an object, or of one of its sections, whose name begins
// with a dot. library: its path; empty: it is the executable.
func ofVariable(path, variable, library string) (string, error) {
	f, err := openObject(path)
	if err != nil {
		return "", fmt.Errorf("%w; %w", err, errForms)
	}
	defer f.Close()
	names := ""
	if library != "" {
		names = namesOf(f, library)
	}
	if strings.HasPrefix(variable, ".") {
		s := f.Section(variable)
		if s == nil || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_TLS != 0 || s.Size == 0 {
			return "", fmt.Errorf("%s has no section %s whose memory is its own", path, variable)
		}
		return fmt.Sprintf("%s+%x:%x", names, s.Addr, s.Size), nil
	}
	symbols, _ := f.Symbols() // it may have none
	dynamic, _ := f.DynamicSymbols()
	for _, s := range append(symbols, dynamic...) {
		if s.Name == variable && elf.ST_TYPE(s.Info) == elf.STT_OBJECT && s.Section != elf.SHN_UNDEF && s.Size > 0 {
			return fmt.Sprintf("%s+%x:%x", names, s.Value, s.Size), nil
		}
	}
	return "", fmt.Errorf("%s has no variable %s: it is stripped, or the variable is of another object (PATH:VARIABLE), on the stack, or a thread's own; %w", path, variable, errForms)
}
