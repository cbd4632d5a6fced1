//go:build long

package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestRegionsAllocsOthers: other allocators, that are preloaded.
func TestRegionsAllocsOthers(t *testing.T) {
	lane.Parallel(t)
	program := buildAsking(t, "gcc", "-O2")
	for _, library := range []string{"libjemalloc.so.2", "libtcmalloc_minimal.so.4"} {
		path := "/usr/lib/x86_64-linux-gnu/" + library
		needFile(t, path)
		for _, args := range askingWays {
			a, l, _ := runAsking(t, program, []string{"LD_PRELOAD=" + path}, []string{"--region", "malloc@mine"}, args...)
			a.equal(t, &l, library, args)
		}
	}
}
