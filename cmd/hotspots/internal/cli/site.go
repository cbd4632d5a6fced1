package cli

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/x86"
)

// sitePrefix is what allocation sites begin with: blocks that are asked for by what is behind it.
const sitePrefix = "malloc@"

// isSite reports whether a user names one.
func isSite(what string) bool {
	_, place := namedRegion(what)
	return strings.HasPrefix(place, sitePrefix)
}

// mostPieces is how much code a site may have.
const mostPieces = 64

// piece is code of an object: a call is of it that returns behind its first byte, and no further
// than behind its last.
type piece struct{ low, size uint64 }

// siteOf is an allocation site as the library reads it: *NAMES+OFFSET:BYTES,OFFSET:BYTES. A user
// names a FUNCTION, FILE:LINE or 0xADDRESS, the last behind +, each of an object, or of the program,
// or a whole object.
func siteOf(what, program string) (text, remark string, err error) {
	o, err := openPart(what, program)
	if err != nil {
		return "", "", err
	}
	defer o.Close()
	f, path, where := o.File, o.path, o.where
	var pieces []piece
	file, line, isLine := strings.Cut(where, ":")
	n, err := strconv.ParseUint(line, 10, 31)
	switch {
	case where == "":
		pieces, err = allCode(f), nil
	case strings.HasPrefix(where, "0x"):
		pieces, err = callAt(f, where)
	case isLine && err == nil:
		pieces, err = ofLine(f, file, int(n))
	default:
		pieces, err = ofFunction(f, where)
	}
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", path, err)
	}
	if len(pieces) > mostPieces {
		return "", "", fmt.Errorf("%s: %s has %d pieces of code; there may be %d", path, where, len(pieces), mostPieces)
	}
	list := make([]string, len(pieces))
	for i, p := range pieces {
		list[i] = fmt.Sprintf("%x:%x", p.low, p.size)
	}
	if where != "" && !slices.ContainsFunc(pieces, func(p piece) bool { return hasCall(f, p) }) {
		remark = "there is no call, so no block is asked for there"
	}
	return "*" + o.names + "+" + strings.Join(list, ","), remark, nil
}

// part is what a user names of an object, or of the program: where, without the object's name. names:
// by which the library knows it; empty: it is the executable.
type part struct {
	*elf.File
	path, names, where string
}

func openPart(what, program string) (p part, err error) {
	library := ""
	p.path, p.where = program, what
	if i := objectEnd(what); i > 0 {
		if name := what[:i]; !isProgram(name, program) {
			p.path, library = name, name
		}
		p.where = strings.TrimPrefix(what[i:], ":")
		p.where = strings.TrimPrefix(p.where, "+")
	}
	if p.File, err = openObject(p.path); err == nil && library != "" {
		p.names = namesOf(p.File, library)
	}
	return p, err
}

// hasCall reports whether a call returns into a piece of code, as the library has it.
func hasCall(f *elf.File, p piece) bool {
	if p.size > x86.MaxLen+1 {
		code := codeAt(f, p.low, p.size)
		for at := 0; at < len(code); {
			n, is := callLen(code[at:])
			if is {
				return true
			}
			at += max(n, 1)
		}
		return false
	}
	for end := p.low + 1; end <= p.low+p.size; end++ { // where instructions begin is not known
		for n := uint64(2); n <= min(x86.MaxLen, end); n++ {
			if len, is := callLen(codeAt(f, end-n, n)); is && uint64(len) == n {
				return true
			}
		}
	}
	return false
}

// callLen is how long an instruction is, and whether it is a call; 0: it is none.
func callLen(code []byte) (n int, is bool) {
	var in x86.Inst
	if len(code) == 0 || x86.Decode(code, &in) != nil {
		return 0, false
	}
	return int(in.Len), in.Kind == x86.Call || in.Kind == x86.CallInd
}

// codeAt are bytes of an object's code, up to so many.
func codeAt(f *elf.File, at, most uint64) []byte {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || at < p.Vaddr || at-p.Vaddr >= p.Filesz {
			continue
		}
		code := make([]byte, min(most, p.Filesz-(at-p.Vaddr)))
		n, _ := p.ReadAt(code, int64(at-p.Vaddr))
		return code[:n]
	}
	return nil
}

// allCode is all that an object has.
func allCode(f *elf.File) (all []piece) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			all = append(all, piece{p.Vaddr, p.Memsz})
		}
	}
	return all
}

// objectEnd is where the name of an object ends in what a user names; 0: there is none.
func objectEnd(what string) int {
	if i := strings.Index(what, "+0x"); i >= 0 {
		return i
	}
	for i := 1; i <= len(what); i++ {
		if name := what[:i]; (i == len(what) || what[i] == ':') && (name == mainObject || strings.Contains(name, ".so") || strings.HasPrefix(name, "/") && i < len(what)) {
			return i
		}
	}
	return 0
}

// openObject opens a file, or, of a name without a directory, a library of the system.
func openObject(path string) (*elf.File, error) {
	f, err := elf.Open(path)
	if err == nil || !errors.Is(err, os.ErrNotExist) || strings.Contains(path, "/") {
		return f, err
	}
	for _, dir := range []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/local/lib", "/lib", "/usr/lib"} {
		if f, err := elf.Open(filepath.Join(dir, path)); err == nil {
			return f, nil
		}
	}
	return nil, err
}

// ofFunction is the code of a function, with the parts that compilers have made of it.
func ofFunction(f *elf.File, name string) (all []piece, err error) {
	for _, s := range functions(f, func(s *elf.Symbol) bool { return isNamed(s.Name, name) }) {
		all = append(all, piece{s.Value, s.Size})
	}
	if len(all) == 0 {
		return nil, noFunction(name)
	}
	return all, nil
}

func noFunction(name string) error {
	return fmt.Errorf("there is no function %s: the file is stripped, or the function is of another object, or in its callers", name)
}

// functions are those that a file has symbols of, each once.
func functions(f *elf.File, is func(*elf.Symbol) bool) (all []elf.Symbol) {
	symbols, _ := f.Symbols() // it may have none
	dynamic, _ := f.DynamicSymbols()
	have := map[piece]bool{}
	for _, s := range append(symbols, dynamic...) {
		p := piece{s.Value, s.Size}
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || s.Size == 0 || have[p] || !is(&s) {
			continue
		}
		have[p] = true
		all = append(all, s)
	}
	return all
}

// isNamed reports whether a symbol is what a user names, mangled or not, with arguments or without.
func isNamed(symbol, name string) bool {
	base, part, is := strings.Cut(symbol, ".")
	if is && base != "" {
		switch kind, _, _ := strings.Cut(part, "."); kind {
		case "cold", "part", "isra", "constprop", "llvm", "lto_priv":
			symbol = base
		}
	}
	if symbol == name {
		return true
	}
	if !strings.HasPrefix(symbol, "_Z") && !strings.HasPrefix(symbol, "_R") {
		return false
	}
	shown := symname.Display(symbol, "", 0, true)
	plain, _, _ := strings.Cut(shown, "(")
	return shown == name || plain == name
}

// callAt is a call at an address, or one that returns there.
func callAt(f *elf.File, where string) ([]piece, error) {
	at, err := strconv.ParseUint(where, 0, 47)
	if err != nil || at == 0 {
		return nil, fmt.Errorf("%s is no address", where)
	}
	code := codeAt(f, at, x86.MaxLen)
	if len(code) == 0 {
		return nil, fmt.Errorf("there is no code at %s", where)
	}
	if n, is := callLen(code); is {
		return []piece{{at - 1, uint64(n) + 1}}, nil
	}
	return []piece{{at - 1, 1}}, nil
}

// ofLine is the code of a line of a source file, whose path ends like that.
func ofLine(f *elf.File, file string, line int) (all []piece, err error) {
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	for units := d.Reader(); ; units.SkipChildren() {
		unit, err := units.Next()
		if err != nil || unit == nil {
			break
		}
		rows, err := d.LineReader(unit)
		if err != nil || rows == nil {
			continue
		}
		all = appendLine(all, rows, file, line)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no code of %s:%d: is it compiled with -g, and is that in the file itself?", file, line)
	}
	return all, nil
}

func appendLine(all []piece, rows *dwarf.LineReader, file string, line int) []piece {
	var row dwarf.LineEntry
	from, inside := uint64(0), false
	for {
		if rows.Next(&row) != nil { // its end, or what is no line table
			return all
		}
		is := !row.EndSequence && row.File != nil && row.Line == line && ("/"+row.File.Name == "/"+file || strings.HasSuffix(row.File.Name, "/"+file))
		if inside && !is && row.Address > from {
			all = append(all, piece{from, row.Address - from})
		}
		if is && !inside {
			from = row.Address
		}
		inside = is
	}
}
