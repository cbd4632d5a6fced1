package main

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What a program finds under valgrind beside its own: variables, and a signal that
// valgrind keeps for itself.
var (
	valgrindVariables = []string{"LD_LIBRARY_PATH=/usr/lib/debug", "GLIBCPP_FORCE_NEW=1", "GLIBCXX_FORCE_NEW=1"}
	valgrindSignals   = []string{"env", "--ignore-signal=64"}
)

// readCallgrind returns the arrivals at entries that dynprof counts, so that
// both can be compared function by function. Callgrind tells the address that
// was called; from a function's own body a jump there is a loop and no call
// (test/oracle_callgrind_test.go has more on what it calls a call).
func readCallgrind(_ *machine, r *run) (counts, error) {
	f, err := os.Open(filepath.Join(r.dir, "callgrind"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &sites{}
	defer s.close()
	c, real := counts{}, map[string]string{}
	err = eachCall(f, func(call callgrindCall) {
		at := place{resolved(real, call.object), call.target}
		name, ok := "", false
		if r.table != nil {
			name, ok = r.table.names[at]
		} else {
			name, _, _ = strings.Cut(call.function, "'") // 'N is the level of recursion
			ok = true
		}
		if !ok {
			return
		}
		if r.table != nil && call.caller == call.object && call.site-call.target < r.table.entries[at] && !s.isCall(at.object, call.site) {
			return
		}
		c[name] += call.calls
	})
	return c, err
}

// resolved is the path of an object as dynprof's table has it.
func resolved(known map[string]string, path string) string {
	if p, ok := known[path]; ok {
		return p
	}
	p, err := filepath.EvalSymlinks(path)
	if err != nil {
		p = path
	}
	known[path] = p
	return p
}

// callgrindCall is a line calls= with what it refers to. Addresses are
// link-time ones.
type callgrindCall struct {
	object, caller, function string
	site, target, calls      uint64
}

// eachCall reads the calls of a profile with uncompressed names and positions
// (Valgrind manual, "Callgrind Format Specification").
func eachCall(f *os.File, use func(callgrindCall)) error {
	var object, callee, function string
	var call callgrindCall
	atSite := false
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if atSite {
			atSite = false
			if _, err := fmt.Sscanf(line, "0x%x", &call.site); err != nil {
				return fmt.Errorf("callgrind: %q: %w", line, err)
			}
			use(call)
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "ob":
			object = value
		case "cob":
			callee = value
		case "cfn":
			function = value
		case "calls":
			call = callgrindCall{object: callee, caller: object, function: function}
			if callee == "" {
				call.object = object
			}
			if _, err := fmt.Sscanf(value, "%d 0x%x", &call.calls, &call.target); err != nil {
				return fmt.Errorf("callgrind: %q: %w", line, err)
			}
			callee, atSite = "", true
		}
	}
	return lines.Err()
}

// sites tells calls from jumps.
type sites struct {
	files map[string]*elf.File
}

func (s *sites) isCall(object string, at uint64) bool {
	f := s.open(object)
	if f == nil {
		return true
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || at-p.Vaddr >= p.Filesz {
			continue
		}
		var b [4]byte
		n, _ := p.ReadAt(b[:], int64(at-p.Vaddr))
		return isCall(b[:n])
	}
	return true
}

// isCall looks at an instruction behind its prefixes: e8, or ff with /2.
func isCall(b []byte) bool {
	for len(b) > 0 && (b[0]&0xf0 == 0x40 || strings.IndexByte("\x66\x67\xf2\xf3\x2e\x3e", b[0]) >= 0) {
		b = b[1:]
	}
	return len(b) > 0 && b[0] == 0xe8 || len(b) > 1 && b[0] == 0xff && b[1]>>3&7 == 2
}

func (s *sites) open(object string) *elf.File {
	if f, ok := s.files[object]; ok {
		return f
	}
	if s.files == nil {
		s.files = map[string]*elf.File{}
	}
	f, _ := elf.Open(object)
	s.files[object] = f
	return f
}

func (s *sites) close() {
	for _, f := range s.files {
		if f != nil {
			f.Close()
		}
	}
}
