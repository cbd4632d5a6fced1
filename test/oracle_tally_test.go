package test

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
)

// untallied are the functions of programs that count themselves (tally.h)
// which do not.
func untallied(own ...string) map[string]string {
	all := maps.Clone(crt)
	for _, name := range append(own, "main", "tally_map", "tally_print") {
		all[name] = "keeps no tally"
	}
	return all
}

// tallies reads the lines "calls NAME NUMBER" that a program prints.
func tallies(t *testing.T, out string, symbols *symbolTable) truth {
	t.Helper()
	at := map[string]uint64{}
	for addr, names := range symbols.functions {
		for _, name := range names {
			at[name] = addr
		}
	}
	counts := truth{}
	for _, line := range strings.Split(out, "\n") {
		var name string
		var n uint64
		if k, _ := fmt.Sscanf(line, "calls %s %d", &name, &n); k != 2 {
			continue
		}
		addr, ok := at[name]
		if !ok {
			t.Errorf("the program says that %s was called %d times; there is no such function", name, n)
		}
		counts[addr] += n
	}
	return counts
}

// withoutTallies is the output without those lines, which may differ from run
// to run.
func (r result) withoutTallies() result {
	var keep []string
	for _, line := range strings.Split(r.stdout, "\n") {
		if !strings.HasPrefix(line, "calls ") {
			keep = append(keep, line)
		}
	}
	r.stdout = strings.Join(keep, "\n")
	return r
}

// twoCores skips a test of threads that would prove nothing on one core.
func twoCores(t *testing.T) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("one core: threads never run at the same time")
	}
}
