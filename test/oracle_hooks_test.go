package test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// hooked are flags for programs whose functions call testdata/hooks.c at their
// entry. gcc would put the hooks of inlined functions into their callers and
// those of clones under the original's address, so it makes neither; the
// attribute always_inline goes for the same reason.
var hooked = map[string][]string{
	"gcc": {"-finstrument-functions", "-fno-inline", "-fno-optimize-sibling-calls",
		"-fno-ipa-cp", "-fno-ipa-sra", "-fno-partial-inlining",
		"-D__always_inline__=__noinline__", "-Dalways_inline=noinline"},
	"clang": {"-finstrument-functions-after-inlining", "-fno-optimize-sibling-calls"},
}

// noHooks are the functions of a hooked program that carry no hooks.
func noHooks(own []string) map[string]string {
	all := maps.Clone(crt)
	for _, name := range []string{"__cyg_profile_func_enter", "__cyg_profile_func_exit", "hooks_open", "hooks_bias"} {
		all[name] = "the hooks themselves"
	}
	for _, name := range own {
		all[name] = "the compiler gives it no hooks"
	}
	return all
}

// countedWithHooks runs c, a hooked program, counted, and returns what its
// hooks say, too.
func countedWithHooks(t *testing.T, c command, flags ...string) (result, *report, truth) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hooks")
	c.env = []string{"HOOKS=" + path}
	got, r := counted(t, c, flags...)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := parseHooks(b)
	if err != nil {
		t.Fatal(err)
	}
	return got, r, want
}

// parseHooks reads what testdata/hooks.c wrote: struct hooks.
func parseHooks(b []byte) (truth, error) {
	const head, slot = 16, 16
	if len(b) < head || (len(b)-head)%slot != 0 {
		return nil, fmt.Errorf("hooks: a file of %d bytes", len(b))
	}
	le := binary.LittleEndian
	bias, lost := le.Uint64(b), le.Uint64(b[8:])
	if lost != 0 {
		return nil, fmt.Errorf("hooks: no room for %d calls", lost)
	}
	counts := truth{}
	for b = b[head:]; len(b) > 0; b = b[slot:] {
		if f := le.Uint64(b); f != 0 {
			counts[f-bias] = le.Uint64(b[8:])
		}
	}
	return counts, nil
}
