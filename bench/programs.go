package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Programs of Debian, as they are shipped: stripped.

var luaWorkload = &workload{
	name: "lua", about: "Debian's lua5.4", size: 740, small: 40, needs: []string{"/usr/bin/lua5.4"},
	prepare: installed("/usr/bin/lua5.4"),
	args: func(m *machine, size int) ([]string, error) {
		return []string{filepath.Join(m.sources, "bench.lua"), strconv.Itoa(size)}, nil
	},
}

var sqliteWorkload = &workload{
	name: "sqlite", about: "Debian's sqlite3, in memory", size: 1080, small: 40, needs: []string{"/usr/bin/sqlite3"},
	prepare: installed("/usr/bin/sqlite3"),
	args:    func(*machine, int) ([]string, error) { return []string{"-batch", ":memory:"}, nil },
	stdin: func(m *machine, size int) (string, error) {
		text, err := os.ReadFile(filepath.Join(m.sources, "bench.sql"))
		if err != nil {
			return "", err
		}
		return m.input(fmt.Sprintf("bench-%d.sql", size), func() []byte {
			return []byte(strings.ReplaceAll(string(text), "SIZE", strconv.Itoa(size)))
		})
	},
}

var xzWorkload = &workload{
	name: "xz", about: "Debian's xz, compressing", size: 4000, small: 40, needs: []string{"/usr/bin/xz"},
	prepare: installed("/usr/bin/xz"),
	args:    func(*machine, int) ([]string, error) { return []string{"-6", "-T1", "-c", "-q"}, nil },
	stdin: func(m *machine, size int) (string, error) {
		return m.input(fmt.Sprintf("text-%d", size), func() []byte { return text(size * 1000) })
	},
}

var pythonWorkload = &workload{
	name: "python", about: "Debian's python3.11, stripped", size: 800, small: 40, needs: []string{"/usr/bin/python3.11"},
	prepare: installed("/usr/bin/python3.11"),
	args: func(m *machine, size int) ([]string, error) {
		return []string{"-S", "-E", "-B", filepath.Join(m.sources, "bench.py"), strconv.Itoa(size)}, nil
	},
}

var x264Workload = &workload{
	name: "x264", about: "Debian's x264, encoding a moving picture", size: 150, small: 50, needs: []string{"/usr/bin/x264"},
	prepare: installed("/usr/bin/x264"),
	args: func(m *machine, size int) ([]string, error) {
		size = max(size, 1)
		picture, err := m.input(fmt.Sprintf("picture-%d.yuv", size), func() []byte { return picture(size) })
		return []string{"--quiet", "--no-progress", "--threads", "1", "--preset", "fast", "--asm", "SSE2,SSSE3,SSE4.2",
			"--input-res", "352x288", "--fps", "25", "-o", "out.264", picture}, err
	},
	env: []string{"DYNPROF_OBJECTS=x264,libx264*"}, // not the 130 libraries of its readers of files
}

const cc1 = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1"

var cc1Workload = &workload{
	name: "cc1", about: "gcc's compiler of C, -O2", size: 160, small: 80, needs: []string{cc1},
	prepare: installed(cc1),
	args: func(m *machine, size int) ([]string, error) {
		file, err := m.units("gcc", size)
		return []string{"-quiet", "-fpreprocessed", "-O2", "-w", file, "-o", "out.s"}, err
	},
}

var nodeWorkload = &workload{
	name: "node", about: "Debian's node, a script", size: 4000, alone: true, needs: []string{"/usr/bin/node"},
	prepare: installed("/usr/bin/node"),
	args: func(m *machine, size int) ([]string, error) {
		return []string{"--single-threaded", filepath.Join(m.sources, "bench.js"), strconv.Itoa(size)}, nil
	},
}

var clangWorkload = &workload{
	name: "clang", about: "Debian's clang, -O2, with libLLVM and libclang-cpp", size: 25, alone: true, needs: []string{clangCompiler},
	prepare: installed(clangCompiler),
	args: func(m *machine, size int) ([]string, error) {
		file, err := m.units("clang", size)
		return []string{"-cc1", "-triple", "x86_64-pc-linux-gnu", "-emit-obj", "-O2", "-w", "-x", "cpp-output", file, "-o", "out.o"}, err
	},
}

const clangCompiler = "/usr/lib/llvm-14/bin/clang"

// installed is the preparation of a program that Debian has built.
func installed(path string) func(*machine, *workload) error {
	return func(_ *machine, w *workload) error {
		w.program = path
		return nil
	}
}

// input makes an input file, once.
func (m *machine) input(name string, contents func() []byte) (string, error) {
	path := filepath.Join(m.work, "input", name)
	if needs(path) == nil {
		return path, nil
	}
	return path, os.WriteFile(path, contents(), 0o644)
}

// random numbers that are the same in every run and every version of Go.
type random uint64

func (r *random) below(n int) int {
	*r = *r*6364136223846793005 + 1442695040888963407
	return int(uint64(*r) >> 33 % uint64(n))
}

// text is n bytes of made-up words, some more frequent than others.
func text(n int) []byte {
	r := random(7)
	var words []string
	for range 4000 {
		w := make([]byte, 2+r.below(9))
		for i := range w {
			w[i] = "etaoinshrdlucmfwypvbgkjqxz"[min(r.below(26), r.below(26))]
		}
		words = append(words, string(w))
	}
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = append(b, words[min(r.below(len(words)), r.below(len(words)))]...)
		b = append(b, "    ,.\n"[r.below(7)])
	}
	return b[:n]
}

// picture is a film of so many frames, 352x288 in YUV 4:2:0: shapes that move
// over a noisy ground.
func picture(frames int) []byte {
	const width, height = 352, 288
	r := random(11)
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(r.below(16))
	}
	b := make([]byte, 0, frames*width*height*3/2)
	for f := range frames {
		for y := range height {
			for x := range width {
				v := byte(x/4 + y/3 + 2*f)
				if dx, dy := x-(60+3*f)%width, y-144; dx*dx+dy*dy < 3000 {
					v = byte(200 - dx)
				}
				b = append(b, v+noise[(y*width+x+f*37)&0xffff])
			}
		}
		for i := range width * height / 2 {
			b = append(b, byte(128+(i/88+f)%32))
		}
	}
	return b
}

// units is a C file of so many copies of unit.h, preprocessed for a compiler.
func (m *machine) units(compiler string, n int) (string, error) {
	source, err := m.input(fmt.Sprintf("units-%d.c", n), func() []byte {
		var s strings.Builder
		s.WriteString("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
		for i := range n {
			fmt.Fprintf(&s, "#undef P\n#undef K\n#define P(name) u%d_##name\n#define K %d\n#include \"unit.h\"\n", i, i*37+1)
		}
		return []byte(s.String())
	})
	if err != nil {
		return "", err
	}
	out := source + "." + compiler + ".i"
	if needs(out) == nil {
		return out, nil
	}
	_, err = m.tool(compiler, "-E", "-P", "-I", m.sources, source, "-o", out)
	return out, err
}
