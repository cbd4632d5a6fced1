package emit

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
)

// TestKeepNumbers: the numbers are those of libdynprof/resident/stubs/keeper.h.
func TestKeepNumbers(t *testing.T) {
	source, err := os.ReadFile("../../libdynprof/resident/stubs/keeper.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"RAX": keepRAX, "RDX": keepRDX, "XMM0": keepXMM0, "XMM1": keepXMM1, "XMM2_7": keepXMM2to7, "XMM8_15": keepXMM8to15, "WIDE": keepWide,
		"STACK_UNKNOWN": keepStackUnknown, "CUSTOM": keepCustom, "SIZE": KeepSize,
	} {
		m := regexp.MustCompile(`#define DP_KEEP_` + name + ` (\w+)`).FindSubmatch(source)
		var got int
		if m != nil {
			fmt.Sscan(string(m[1]), &got)
		}
		if got != want {
			t.Errorf("DP_KEEP_%s is %d, not %d", name, got, want)
		}
	}
	all := Keep{Registers: x86.CallerSaved, Stack: 3}
	if what := all.what(); what != 0x37f {
		t.Errorf("all of them are %#x", what)
	}
}
