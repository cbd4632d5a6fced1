//go:build long

package test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// TestRandomCsmith: programs of csmith's, which print a checksum of all their
// variables, do the same under the library.
func TestRandomCsmith(t *testing.T) {
	csmith := need(t, "csmith")
	needFile(t, "/usr/include/csmith/csmith.h")
	randomSeeds(t, 4, func(t *testing.T, seed uint64) uint64 {
		p := &random{seed: seed, dir: t.TempDir()}
		in(t, p.dir, "", csmith, "--seed", fmt.Sprint(uint32(seed)), "--output", "program.c")
		compiler, flags := randomCompiler(rand.New(rand.NewPCG(seed, 0xf1a9)))
		if err := p.build(compiler, append(flags, "-I/usr/include/csmith", filepath.Join(p.dir, "program.c"))...); err != nil {
			t.Error(err)
			return 0
		}
		defer p.keepIfFailed(t)
		return p.checkOutput(t)
	})
}

// checkOutput compares only what the program does. It reports how many runs
// were compared: 0 if the program does not end.
func (p *random) checkOutput(t *testing.T) (compared uint64) {
	t.Helper()
	if !ends(t, p.program, p.dir) {
		return 0
	}
	c := cmd(p.program)
	c.dir = p.dir
	without := run(t, c)
	for _, flags := range p.ways() {
		with, _ := counted(t, c, flags...)
		same(t, without, with)
		compared++
	}
	return compared
}
