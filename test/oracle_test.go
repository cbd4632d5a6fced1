package test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// truth is what an independent counter says: calls by link-time address.
type truth map[uint64]uint64

// comparison holds the report of a program against an oracle, for every
// function of one object. Whatever it leaves out is named.
type comparison struct {
	// object is the executable if it is empty.
	object string
	// exempt: functions whose calls are not compared if they exist, and why.
	exempt map[string]string
	// unseen: calls that the oracle cannot see, which come on top of its own.
	unseen map[string]uint64
	// uncounted: functions that the library may leave uncounted, and its
	// reason. Besides, any that is tooShort.
	uncounted map[string]string
}

// crt are the functions of the C runtime (crtbegin.o), which no compiler flag
// reaches.
var crt = map[string]string{
	"deregister_tm_clones":  "C runtime",
	"register_tm_clones":    "C runtime",
	"__do_global_dtors_aux": "C runtime",
	"frame_dummy":           "C runtime",
}

// exact fails unless the report has exactly the oracle's counts and exactly
// the functions of the program's symbol table.
func (c comparison) exact(t *testing.T, r *report, want truth, symbols *symbolTable) {
	t.Helper()
	var wrong, left []string
	differ := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	compared, calls := 0, uint64(0)
	seen := map[uint64]bool{}
	for _, f := range r.of(c.object) {
		addr := f.at()
		names := symbols.functions[addr]
		seen[addr] = true
		if len(names) == 0 {
			differ("%s at %s is no function of the symbol table", f.Name, f.Address)
			continue
		}
		if f.Tactic == "none" {
			if reason, _ := pick(c.uncounted, names); f.Reason != reason && !(f.Reason == "too-short" && symbols.tooShort(addr)) {
				differ("%s (%d bytes): not counted, %s", names[0], f.Size, f.Reason)
			}
			left = append(left, names[0]+" ("+f.Reason+")")
			continue
		}
		if why, ok := pick(c.exempt, names); ok {
			left = append(left, names[0]+" ("+why+")")
			continue
		}
		more, _ := pick(c.unseen, names)
		n := want[addr] + more
		if f.Calls != n {
			differ("%s: %d calls, the oracle says %d (%+d; %s, %d bytes)", names[0], f.Calls, n, int64(f.Calls-n), f.Tactic, f.Size)
		}
		compared++
		calls += n
	}
	for addr, names := range symbols.functions {
		if _, ok := pick(c.exempt, names); !ok && !seen[addr] && !symbols.excluded(addr) {
			differ("%s at %#x is missing from the report", names[0], addr)
		}
	}
	for addr, n := range want {
		if !seen[addr] && symbols.functions[addr] == nil {
			differ("the oracle sees %d calls of %#x, which is not in the report", n, addr)
		}
	}
	for name := range c.uncounted {
		if !symbols.has(name) {
			differ("%s, which the test names, does not exist", name)
		}
	}
	for name := range c.unseen {
		if !symbols.has(name) {
			differ("%s, which the test names, does not exist", name)
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		t.Errorf("%d differences:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 40)], "\n"))
	}
	if compared == 0 || calls == 0 {
		t.Errorf("%d functions with %d calls compared: nothing was tested", compared, calls)
	}
	t.Logf("%d functions, %d calls compared; left out: %v", compared, calls, left)
}

// pick returns the entry for one of the names. clang numbers functions that it
// makes: name.17 goes by name.
func pick[V any](m map[string]V, names []string) (v V, ok bool) {
	for _, name := range names {
		for _, name := range []string{name, numbered.ReplaceAllString(name, "")} {
			if v, ok := m[name]; ok {
				return v, true
			}
		}
	}
	return v, false
}

var numbered = regexp.MustCompile(`\.\d+$`)

// of returns the functions of an object, of the executable if it is empty.
func (r *report) of(object string) []function {
	if object == "" {
		object = r.Program
	}
	var own []function
	for _, f := range r.Functions {
		if f.Object == object {
			own = append(own, f)
		}
	}
	return own
}

// at is the function's link-time address.
func (f *function) at() (addr uint64) {
	if _, err := fmt.Sscanf(f.Address, "0x%x", &addr); err != nil {
		panic("BUG: address " + f.Address)
	}
	return addr
}

// symbolTable is what .symtab says, read independently of the library.
type symbolTable struct {
	entry     uint64
	functions map[uint64][]string // names by address
	sizes     map[uint64]uint64
	reserved  []*elf.Section // .init, .fini and linkage tables
	text      *elf.Section
	code      []byte // of text
}

func readSymbols(t testing.TB, program string) *symbolTable {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.Symbols()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	s := &symbolTable{entry: f.Entry, functions: map[uint64][]string{}, sizes: map[uint64]uint64{}}
	for _, sec := range f.Sections {
		if sec.Name == ".init" || sec.Name == ".fini" || strings.HasPrefix(sec.Name, ".plt") || sec.Name == ".iplt" {
			s.reserved = append(s.reserved, sec)
		}
	}
	s.text = f.Section(".text")
	if s.code, err = s.text.Data(); err != nil {
		t.Fatal(err)
	}
	const sttGNUIFunc = elf.STT_LOOS
	for _, sym := range list {
		kind := elf.ST_TYPE(sym.Info)
		if (kind == elf.STT_FUNC || kind == sttGNUIFunc) && sym.Section != elf.SHN_UNDEF {
			s.functions[sym.Value] = append(s.functions[sym.Value], sym.Name)
			s.sizes[sym.Value] = max(s.sizes[sym.Value], sym.Size)
		}
	}
	return s
}

func (s *symbolTable) has(name string) bool {
	for _, names := range s.functions {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// excluded reports whether addr is one of those that are no functions by
// definition: the program's start, _init, _fini, linkage tables, cold parts.
func (s *symbolTable) excluded(addr uint64) bool {
	for _, sec := range s.reserved {
		if addr-sec.Addr < sec.Size {
			return true
		}
	}
	return addr == s.entry || s.coldPartOf(addr) != ""
}

// tooShort reports whether there is no room for a jump of five bytes at the
// entry, or behind its endbr64, before the next function.
func (s *symbolTable) tooShort(addr uint64) bool {
	window := addr
	if code := s.code[addr-s.text.Addr:]; bytes.HasPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) {
		window += 4
	}
	for next := addr + 1; next < window+5; next++ {
		if s.functions[next] != nil {
			return true
		}
	}
	return false
}

// coldPartOf names the function whose cold part starts at addr.
func (s *symbolTable) coldPartOf(addr uint64) string {
	for _, name := range s.functions[addr] {
		if of, cold := strings.CutSuffix(name, ".cold"); cold {
			return of
		}
	}
	return ""
}

// body reports whether pc lies in the function at addr or in its cold part.
func (s *symbolTable) body(pc, addr uint64) bool {
	if pc-addr < s.sizes[addr] {
		return true
	}
	for at, size := range s.sizes {
		if pc-at < size && slices.Contains(s.functions[addr], s.coldPartOf(at)) {
			return true
		}
	}
	return false
}

// isCall reports whether the instruction at pc is a call: e8, or ff with 2 in
// the reg field of its ModRM, behind prefixes (SDM volume 2, CALL).
func (s *symbolTable) isCall(pc uint64) bool {
	if pc-s.text.Addr >= s.text.Size {
		return false
	}
	code := s.code[pc-s.text.Addr:]
	for len(code) > 2 && (slices.Contains([]byte{0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x3e, 0x64, 0x65}, code[0]) || code[0]&0xf0 == 0x40) {
		code = code[1:]
	}
	return code[0] == 0xe8 || len(code) > 1 && code[0] == 0xff && code[1]>>3&7 == 2
}

// needFile skips a test without files, and says who installs them.
func needFile(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("no %s on this machine (%s)", path, installs(path))
		}
	}
}
