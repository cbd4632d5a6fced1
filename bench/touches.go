package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// Which memory programs touch, and what it costs to look for accesses to regions, beside the tools that see each access.

// touchAims are the programs that have an aim with touched memory, which is touchAtMost.
var touchAims = []string{"wc", "lua", "sqlite", "xz", "perl", "cc1", "python", "x264"}

const touchAtMost = 3

// noRegionAtMost is for accesses that could be recorded, and are none to a region.
const noRegionAtMost = 2

func hasTouches(w *workload) bool { return slices.Contains(touchAims, w.name) }

// The command's own time is in these.
var (
	pages = touchTool("dynprof-pages", "hotspots run --heat=pages, hotspots included: which pages are touched, and when", "--heat=pages")
	lines = touchTool("dynprof-lines", "the same of lines of 64 bytes, --heat=lines", "--heat=lines")
)

// noRegion is where accesses to regions would be recorded.
var noRegion = touchTool("dynprof-regions", "hotspots run --regions, hotspots included: there is no region", "--regions")

func touchTool(name, about, flag string) *tool {
	return &tool{
		name: name, about: about, wants: hasTouches,
		command: func(m *machine, c *command) {
			program := c.args[0]
			c.env = append(c.env, "XDG_CACHE_HOME="+m.plans())
			c.args = append([]string{m.hotspots, "run", flag, "--summary", "0", "--library", m.library, "-o", filepath.Join(c.dir, "table"), "--"}, c.args...)
			m.keepTouchPlans(flag+" "+program, c)
		},
		read: dynprof.read,
	}
}

// keepTouchPlans has plans of a program kept for later runs, once: hotspots cache warm makes none
// with touches. What has just been written is kept the second time.
func (m *machine) keepTouchPlans(what string, of *command) {
	m.once("touches of "+what, func() error {
		for range 3 {
			c := exec.CommandContext(m.ctx, of.args[0], of.args[1:]...)
			c.Dir, c.Env = of.dir, append(os.Environ(), of.env...)
			if out, err := c.CombinedOutput(); err != nil {
				fmt.Printf("%s\n%s", err, out)
			}
		}
		return nil
	})
}

// What valgrind takes for nothing, for a simulation of caches, and to tell each access.
var (
	nullgrind  = valgrindTool("nullgrind", "valgrind --tool=none", medium, 3, "--tool=none")
	cachegrind = valgrindTool("cachegrind", "valgrind --tool=cachegrind", slow, 2, "--tool=cachegrind", "--cachegrind-out-file=/dev/null")
	lackey     = valgrindTool("lackey", "valgrind --tool=lackey --trace-mem=yes, its text thrown away", slowest, 1, "--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null")
)

func valgrindTool(name, about string, p pace, most int, args ...string) *tool {
	return &tool{
		name: name, about: about, pace: p, most: most, wants: hasTouches,
		missing: func() error { return needs("valgrind") },
		command: func(_ *machine, c *command) {
			c.args = slices.Concat([]string{"valgrind", "-q"}, args, c.args)
		},
	}
}

var touchTools = []*tool{pages, lines, noRegion, nullgrind, cachegrind, lackey}

// touchText is the table of them.
func touchText(f *figures) string {
	var names []string
	for _, t := range touchTools {
		names = append(names, t.name)
	}
	return perTool(f, names, func(r *result) string {
		if r.Short {
			return "too short"
		}
		return r.Ratio.String()
	})
}

// wcWorkload counts the words of a file of 200 KB, again and again.
var wcWorkload = &workload{
	name: "wc", about: "Debian's wc, 270 MB in files of 200 KB", size: 1350, small: 135, alone: true, needs: []string{"/usr/bin/wc"},
	prepare: installed("/usr/bin/wc"),
	args: func(m *machine, size int) ([]string, error) {
		const bytes = 200_000
		file, err := m.input("words", func() []byte { return text(bytes) })
		return slices.Concat([]string{os.DevNull}, slices.Repeat([]string{file}, size)), err
	},
}

var perlWorkload = &workload{
	name: "perl", about: "Debian's perl, hashes, strings, regular expressions", size: 2000, small: 40, alone: true, needs: []string{"/usr/bin/perl"},
	prepare: installed("/usr/bin/perl"),
	args: func(m *machine, size int) ([]string, error) {
		return []string{filepath.Join(m.sources, "bench.pl"), strconv.Itoa(size)}, nil
	},
}
