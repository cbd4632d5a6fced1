package cli

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// chosenRegions is what --region names, as the library reads it (libdynprof/resident/table/
// regions.h): NAME=OBJECT+OFFSET:BYTES, NAME=@ADDRESS:BYTES, NAME=OBJECT, NAME=^,
// NAME=*OBJECT+OFFSET:BYTES,....
func chosenRegions(all []string, program string) (string, error) {
	var list []string
	for _, what := range all {
		name, place := namedRegion(what)
		text, err := regionOf(place, program)
		if err != nil {
			return "", fmt.Errorf("--region %s: %w", what, err)
		}
		if strings.ContainsAny(name+text, ";=\n") {
			return "", fmt.Errorf("--region %s: there may be neither ; nor = in it", what)
		}
		list = append(list, name+"="+text)
	}
	return strings.Join(list, ";"), nil
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

// heapRegion is what the heap is named by.
const heapRegion = "heap"

// regionOf is the place of what a user names.
func regionOf(what, program string) (string, error) {
	if site, is := strings.CutPrefix(what, sitePrefix); is {
		return siteOf(site, program)
	}
	switch address, bytes, is := strings.Cut(what, "+"); {
	case is && strings.HasPrefix(address, "0x"):
		at, err := strconv.ParseUint(address, 0, 47)
		if err != nil {
			return "", err
		}
		n, err := strconv.ParseUint(bytes, 0, 47)
		if err != nil || n == 0 {
			return "", fmt.Errorf("%s is no number of bytes", bytes)
		}
		return fmt.Sprintf("@%x:%x", at, n), nil
	case what == mainObject:
		return "", nil
	case what == heapRegion:
		return "^", nil
	}
	path, variable, is := strings.Cut(what, ":")
	switch {
	case is && path != mainObject:
		return ofVariable(path, variable, filepath.Base(path))
	case is:
		return ofVariable(program, variable, "")
	case strings.Contains(what, ".so"):
		return filepath.Base(what), nil
	}
	return ofVariable(program, what, "")
}

// ofVariable is the place of a variable of an object. The library knows it by the name by which
// the dynamic linker has it: DT_SONAME, mostly, or that of the file.
func ofVariable(path, variable, object string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if soname, _ := f.DynString(elf.DT_SONAME); len(soname) > 0 && object != "" {
		object = soname[0]
	}
	symbols, _ := f.Symbols() // it may have none
	dynamic, _ := f.DynamicSymbols()
	for _, s := range append(symbols, dynamic...) {
		if s.Name == variable && elf.ST_TYPE(s.Info) == elf.STT_OBJECT && s.Section != elf.SHN_UNDEF && s.Size > 0 {
			return fmt.Sprintf("%s+%x:%x", object, s.Value, s.Size), nil
		}
	}
	return "", fmt.Errorf("%s has no variable %s: it is stripped, or the variable is of another object (PATH:VARIABLE), on the stack, or a thread's own", path, variable)
}
