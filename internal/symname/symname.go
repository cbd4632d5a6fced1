// Package symname turns names of ELF symbols into what is shown: demangled,
// safe to print on a terminal, never empty. It also has the matchers of
// --only, --skip and --objects, which choose by the names shown.
package symname

import (
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ianlancetaylor/demangle"
)

// A longer name is shown mangled; a longer result is cut. Templates nest, so
// that 100 bytes can stand for gigabytes.
const (
	maxMangled    = 16 << 10
	maxDemangled  = 14 // as a power of 2
	replacement   = '\uFFFD'
	unnamedObject = "?"
)

// Display is the name shown for the function at ELF virtual address addr of
// the object at objectPath. raw is the name in the ELF file; if it is empty
// the result is object+0xaddress. demangled is for C++ and Rust names; others
// stay as they are.
func Display(raw, objectPath string, addr uint64, demangled bool) string {
	name := raw
	if demangled {
		name = demangleName(raw)
	}
	if name = Clean(name); name != "" {
		return name
	}
	base := Clean(filepath.Base(objectPath))
	if objectPath == "" {
		base = unnamedObject
	}
	return base + "+0x" + strconv.FormatUint(addr, 16)
}

// demangleName returns raw where it is not mangled. The recover is for names
// that the demangler does not expect.
func demangleName(raw string) (name string) {
	if !strings.HasPrefix(raw, "_Z") && !strings.HasPrefix(raw, "_R") || len(raw) > maxMangled {
		return raw
	}
	defer func() {
		if recover() != nil {
			name = raw
		}
	}()
	return demangle.Filter(raw, demangle.MaxLength(maxDemangled))
}

// Clean replaces what must not reach a terminal, a label or a JSON string:
// control characters, invisible and direction-changing ones, and bytes that
// are not UTF-8.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return replacement
		}
		return r
	}, s)
}

// Frame is a displayed name as a frame of a collapsed stack, where a semicolon ends one.
func Frame(name string) string { return strings.ReplaceAll(name, ";", ":") }

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
