package survey

import (
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestSetsGS: what sets the GS base is found among code of any kind; what looks
// like it is not.
func TestSetsGS(t *testing.T) {
	for code, want := range map[string]bool{
		"f3480faed8": true, "f3490faedf": true, "f30faedb": true, // wrgsbase
		"f3480faed0": false, "f3480faec8": false, "0faed8": false, "480faedd": false, // wrfsbase, rdgsbase, ldmxcsr
		"b89e000000bf011000000f05":     true,  // arch_prctl(ARCH_SET_GS)
		"bf0110000031d2b89e0000000f05": true,  // other order
		"b89e000000bf021000000f05":     false, // ARCH_SET_FS
		"b809000000bf011000000f05":     false, // mmap
	} {
		b, err := hex.DecodeString(strings.Repeat("90", 64) + code + strings.Repeat("90", 16))
		if err != nil {
			t.Fatal(err)
		}
		if got := SetsGS([]stubgen.Segment{{Code: b}}); got != want {
			t.Errorf("%s: %t, want %t", code, got, want)
		}
	}
}

// TestSetsGSNowhere: a library that is falsely said to set it would be counted
// with lock, or end the counting.
func TestSetsGSNowhere(t *testing.T) {
	files, err := filepath.Glob("/usr/lib/x86_64-linux-gnu/lib[a-m]*.so.*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	seen := 0
	for _, path := range files[:min(len(files), 150)] {
		seen++
		if SetsGS(fixture.Load(t, path).Text) {
			t.Errorf("%s is said to set the GS base", path)
		}
	}
	if seen < 20 {
		t.Errorf("%d libraries, too few to tell", seen)
	}
}
