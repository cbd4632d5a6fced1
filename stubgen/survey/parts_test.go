package survey

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestPartsOfStrippedFiles strips programs that have symbols and compares what
// is taken for a cold part with what the symbols said.
func TestPartsOfStrippedFiles(t *testing.T) {
	files := map[string]string{"fixture": compileParts(t)}
	for _, path := range []string{"/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", "/usr/bin/node"} {
		if _, err := os.Stat(path); err == nil {
			files[filepath.Base(path)] = path
		}
	}
	for name, path := range files {
		t.Run(name, func(t *testing.T) {
			truth := fixture.Load(t, path)
			stripped := filepath.Join(t.TempDir(), "stripped")
			if out, err := exec.Command("strip", "-o", stripped, path).CombinedOutput(); err != nil {
				t.Fatalf("strip: %v\n%s", err, out)
			}
			o := fixture.Load(t, stripped)
			s := New(o, 0)
			parts := map[uint64]bool{}
			for i := range truth.Functions {
				if f := &truth.Functions[i]; f.Excluded != ledger.ReasonNone {
					parts[f.Addr] = true
				}
			}
			byFrame, byJumps, missed := 0, 0, 0
			for i := range o.Functions {
				f := &o.Functions[i]
				taken := s.NoEntry(i) == ledger.ReasonColdPart
				switch {
				case taken && !parts[f.Addr]:
					t.Errorf("function at %#x is taken for a part", f.Addr)
				case taken && f.Excluded == ledger.ReasonNone:
					byJumps++
				case taken:
					byFrame++
				case parts[f.Addr] && f.Excluded == ledger.ReasonNone:
					missed++
				}
			}
			t.Logf("%d parts told by their FDE, %d by their jumps, %d not", byFrame, byJumps, missed)
			if name == "fixture" && (byJumps == 0 || missed > 0) {
				t.Errorf("%d parts told by their jumps, %d missed", byJumps, missed)
			}
		})
	}
}

// compileParts makes a program whose cold parts begin before and behind a
// push.
func compileParts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "parts.c"), filepath.Join(dir, "parts")
	const code = `
#include <stdio.h>
#include <stdlib.h>
__attribute__((cold, noinline)) int report(const char *s) { return puts(s); }
#define FAMILY(n) \
	__attribute__((noinline)) long early##n(long *p) { \
		if (__builtin_expect(!p, 0)) return -(long)report("early") * n; \
		return *p * n; } \
	__attribute__((noinline)) long late##n(long *p) { \
		long v = early##n(p); \
		if (__builtin_expect(v < 0, 0)) { report("late"); exit(n); } \
		return v + early##n(p + 1); }
FAMILY(3) FAMILY(5) FAMILY(7)
int main(int argc, char **argv) {
	long v[2] = {argc, argc + 1};
	(void)argv;
	return late3(v) + late5(v) + late7(v) == 0;
}`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command("gcc", "-O2", "-freorder-blocks-and-partition", "-o", out, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, msg)
	}
	return out
}
