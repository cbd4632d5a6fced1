package elfscan

import (
	"encoding/hex"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
)

// TestParts hides the symbols of files and compares what the FDEs alone tell
// of cold parts with the truth, which is in the names. No function that could
// be counted may be taken for a part. Parts that start as a function does,
// with nothing pushed, are missed: the log has the figures.
func TestParts(t *testing.T) {
	check := func(name string, get func(*testing.T) (full, naked *Object)) {
		t.Run(name, func(t *testing.T) {
			full, naked := get(t)
			found, missed, functions := compareParts(t, full, naked)
			t.Logf("%d functions; of %d parts %d found, %d missed", functions, found+missed, found, missed)
			if functions == 0 || found < missed {
				t.Error("too few")
			}
		})
	}
	for _, name := range []string{"c", "c static", "c clang", "c O0", "c++", "c++ static", "c++ clang"} {
		check(name, func(t *testing.T) (full, naked *Object) {
			m := fixture(t, name)
			return m.scan(t), stripped(t, m).scan(t)
		})
	}
	for _, path := range unstrippedFiles {
		check(path, func(t *testing.T) (full, naked *Object) {
			m := realImage(t, path)
			return m.scan(t), symtabless(t, m).scan(t)
		})
	}
	for _, path := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"} {
		check(path, func(t *testing.T) (full, naked *Object) {
			naked = realImage(t, path).scan(t)
			return debugSymbols(t, naked), naked
		})
	}
}

// unstrippedFiles are programs that come with .symtab.
var unstrippedFiles = []string{
	"/usr/bin/node",
	"/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
	"/usr/lib/jvm/temurin-25-jdk-amd64/lib/server/libjvm.so",
	"/usr/lib/x86_64-linux-gnu/libasan.so.8.0.0",
}

// compareParts counts the parts that naked, without symbols, shows of full.
func compareParts(t *testing.T, full, naked *Object) (found, missed, functions int) {
	t.Helper()
	for i := range naked.Functions {
		fn := &naked.Functions[i]
		truth := findFunction(full.Functions, fn.Addr)
		if truth == nil || truth.Name == "" || !fn.HasFDE {
			continue
		}
		part := fn.Excluded == ledger.ReasonColdPart
		switch {
		case isCold(truth.Name) && part:
			found++
		case isCold(truth.Name):
			missed++
		case part && !truth.Excluded.Excluded():
			t.Errorf("%s at %#x is taken for a part", truth.Name, fn.Addr)
		default:
			functions++
		}
	}
	return found, missed, functions
}

// debugSymbols scans the file of separate debugging symbols of o (Debian:
// libc6-dbg), which has the .symtab but nothing of the text.
func debugSymbols(t *testing.T, o *Object) *Object {
	t.Helper()
	id := hex.EncodeToString(o.BuildID)
	m := realImage(t, filepath.Join("/usr/lib/debug/.build-id", id[:2], id[2:]+".debug"))
	f, err := open(m.r, m.size)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range o.Segments {
		f.text = append(f.text, span{s.Addr, s.Addr + s.MemSize})
	}
	f.setText()
	return &Object{Functions: merge(f.textLow, f.symbolTables(nil), nil)}
}

// TestLoaderTrampolines demands that all trampolines of the stripped dynamic
// linker are found, also those whose FDE does not start at their entry.
func TestLoaderTrampolines(t *testing.T) {
	o := realImage(t, "/lib64/ld-linux-x86-64.so.2").scan(t)
	n := 0
	for _, truth := range debugSymbols(t, o).Functions {
		if truth.Excluded != ledger.ReasonTrampoline {
			continue
		}
		n++
		covered := false
		for _, fn := range o.Functions {
			if fn.Addr <= truth.Addr && truth.Addr < fn.Addr+fn.Size {
				covered = fn.Excluded == ledger.ReasonTrampoline
			}
		}
		if !covered {
			t.Errorf("%s at %#x is not excluded", truth.Name, truth.Addr)
		}
	}
	if n < 5 {
		t.Errorf("the dynamic linker has only %d trampolines", n)
	}
	trampolines := 0
	for _, fn := range o.Functions {
		if fn.Excluded == ledger.ReasonTrampoline {
			trampolines++
		}
	}
	if trampolines > n {
		t.Errorf("%d entries are excluded for %d trampolines", trampolines, n)
	}
}

// TestNames checks what names alone tell.
func TestNames(t *testing.T) {
	for name, want := range map[string]ledger.Reason{
		"":                           ledger.ReasonNone, // @@VERSION without its version
		"foo":                        ledger.ReasonNone,
		"foo.cold":                   ledger.ReasonColdPart,
		"foo.cold.12":                ledger.ReasonColdPart,
		"_Z3foov.cold":               ledger.ReasonColdPart,
		"foo.constprop.0.cold":       ledger.ReasonColdPart,
		"foo.cold.":                  ledger.ReasonNone,
		"foo.cold.x1":                ledger.ReasonNone,
		"foo.part.0":                 ledger.ReasonNone,
		"scold":                      ledger.ReasonNone,
		"12":                         ledger.ReasonNone,
		"__restore_rt":               ledger.ReasonSignalReturn,
		"_dl_runtime_resolve_xsavec": ledger.ReasonTrampoline,
		"_dl_runtime_profile_avx":    ledger.ReasonTrampoline,
		"_dl_tlsdesc_dynamic":        ledger.ReasonTrampoline,
		"_dl_runtimes":               ledger.ReasonNone,
	} {
		if got := reasonOfName(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestRealFigures logs what real files hold.
func TestRealFigures(t *testing.T) {
	eachReal(t, func(t *testing.T, m image) {
		o := m.scan(t)
		reasons, sources := map[ledger.Reason]int{}, map[ledger.Source]int{}
		for _, fn := range o.Functions {
			reasons[fn.Excluded]++
			sources[fn.Source]++
		}
		if reasons[ledger.ReasonNone] < 100 {
			t.Errorf("only %d functions", reasons[ledger.ReasonNone])
		}
		if o.Interp != "" && reasons[ledger.ReasonStart] != 1 {
			t.Errorf("%d entry points", reasons[ledger.ReasonStart])
		}
		t.Logf("%d entries, %d functions; sources %v, reasons %v", len(o.Functions), reasons[ledger.ReasonNone], sources, reasons)
	})
}
