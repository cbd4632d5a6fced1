package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Tools that take the program as it is.

var perfRecord = &tool{
	name: "perf", about: "perf record -F 997: samples, no counts", most: 3,
	missing: func() error { return needs("perf") },
	command: func(_ *machine, c *command) {
		c.args = append([]string{"perf", "record", "-q", "--no-buildid-cache", "-F", "997", "-o", filepath.Join(c.dir, "perf.data"), "--"}, c.args...)
	},
}

var callgrind = &tool{
	name: "callgrind", about: "valgrind --tool=callgrind", pace: slow, most: 2,
	missing: func() error { return needs("valgrind") },
	command: func(_ *machine, c *command) {
		c.args = append([]string{"valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=" + filepath.Join(c.dir, "callgrind"),
			"--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"}, c.args...)
	},
	read: readCallgrind,
}

var uftrace = &tool{
	name: "uftrace", about: "uftrace record -P .", pace: slowest, most: 2,
	missing: func() error { return needs("uftrace") },
	wants:   func(w *workload) bool { return w.drive == nil },
	command: func(_ *machine, c *command) {
		c.args = append([]string{"uftrace", "record", "-P", ".", "--no-libcall", "--no-event", "--no-sched", "-d", filepath.Join(c.dir, "uftrace"), "--"}, c.args...)
	},
	read: func(m *machine, r *run) (counts, error) {
		text, err := m.tool("uftrace", "report", "--no-pager", "-d", filepath.Join(r.dir, "uftrace"), "-f", "call", "--demangle=no")
		if err != nil {
			return nil, err
		}
		c := counts{}
		for line := range strings.Lines(text) {
			var n uint64
			var name string
			if k, _ := fmt.Sscan(line, &n, &name); k == 2 { // not the heading
				c[name] += n
			}
		}
		return c, nil
	},
}

// Tools that need the program's source.

func rebuilt(w *workload) bool { return w.source != "" }

var gprof = &tool{
	name: "gprof", about: "gcc -pg (rebuilt)", pace: medium, most: 3,
	missing: func() error { return needs("gprof") },
	wants:   rebuilt,
	program: func(m *machine, w *workload) (string, string, error) {
		program, err := m.compile(w, "gcc", "-gprof", "-pg")
		return w.program, program, err
	},
	read: func(m *machine, r *run) (counts, error) {
		text, err := m.tool("gprof", "-b", "-q", "--no-demangle", "-z", r.program, filepath.Join(r.dir, "gmon.out"))
		if err != nil {
			return nil, err
		}
		return parseGprof(text), nil
	},
}

// parseGprof reads the functions' own lines of a call graph. The calls of a
// function by itself stand apart.
//
//	index % time    self  children    called     name
//	[1]    100.0    0.10    0.00     750+16417500 fib [1]
func parseGprof(text string) counts {
	c := counts{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 6 || words[0][0] != '[' {
			continue
		}
		others, own, _ := strings.Cut(words[4], "+")
		n, err := strconv.ParseUint(others, 10, 64)
		if err != nil {
			continue // was not called
		}
		recursive, _ := strconv.ParseUint(own, 10, 64)
		c[words[5]] += n + recursive
	}
	return c
}

var xray = &tool{
	name: "xray", about: "clang -fxray-instrument, a handler that counts (rebuilt)", pace: medium, most: 3,
	missing: func() error { return clangRuntime("xray") },
	wants:   rebuilt,
	program: func(m *machine, w *workload) (string, string, error) {
		flags := []string{"-fxray-instrument", "-fxray-instruction-threshold=1"}
		handler, err := m.build("xray.o", "clang", "-O2", "-c", filepath.Join(m.sources, "xray.c"))
		if err != nil {
			return "", "", err
		}
		base, err := m.compile(w, "clang", "-clang")
		if err != nil {
			return "", "", err
		}
		program, err := m.compile(w, "clang", "-xray", append(flags, handler)...)
		return base, program, err
	},
	command: func(_ *machine, c *command) {
		c.env = append(c.env, "XRAY_COUNTS="+filepath.Join(c.dir, "xray"))
	},
	read: readXray,
}

// readXray finds the names of the addresses that xray.c tells.
func readXray(m *machine, r *run) (counts, error) {
	text, err := readFile(r, "xray")
	if err != nil {
		return nil, err
	}
	symbols, err := m.tool("nm", r.program)
	if err != nil {
		return nil, err
	}
	names, known := map[uint64]string{}, uint64(0)
	for line := range strings.Lines(symbols) {
		var at uint64
		var kind, name string
		if k, _ := fmt.Sscanf(line, "%x %s %s", &at, &kind, &name); k == 3 && strings.ContainsAny(kind, "tTwW") {
			names[at] = name
			if name == "__xray_function_address" {
				known = at
			}
		}
	}
	c, bias, first := counts{}, uint64(0), true
	for line := range strings.Lines(text) {
		var n, at uint64
		if _, err := fmt.Sscanf(line, "%d %x", &n, &at); err != nil {
			return nil, err
		}
		if first {
			bias, first = at-known, false
		} else {
			c[names[at-bias]] += n
		}
	}
	return c, nil
}

var profileCounters = &tool{
	name: "clang-profile", about: "clang -fprofile-instr-generate (rebuilt)", most: 3,
	missing: func() error {
		if err := needs("llvm-profdata"); err != nil {
			return err
		}
		return clangRuntime("profile")
	},
	wants: rebuilt,
	program: func(m *machine, w *workload) (string, string, error) {
		base, err := m.compile(w, "clang", "-clang")
		if err != nil {
			return "", "", err
		}
		program, err := m.compile(w, "clang", "-profile", "-fprofile-instr-generate")
		return base, program, err
	},
	command: func(_ *machine, c *command) {
		c.env = append(c.env, "LLVM_PROFILE_FILE="+filepath.Join(c.dir, "profile"))
	},
	read: func(m *machine, r *run) (counts, error) {
		merged := filepath.Join(r.dir, "merged")
		if _, err := m.tool("llvm-profdata", "merge", filepath.Join(r.dir, "profile"), "-o", merged); err != nil {
			return nil, err
		}
		text, err := m.tool("llvm-profdata", "show", "--all-functions", merged)
		if err != nil {
			return nil, err
		}
		return parseProfdata(text), nil
	},
}

// parseProfdata reads entries like these; a local function has its file in front.
//
//	leaf:
//	  Hash: 0x0000000000000000
//	  Counters: 1
//	  Function count: 20000000
func parseProfdata(text string) counts {
	c, name := counts{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		var n uint64
		if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") && strings.HasSuffix(line, ":") {
			name = strings.TrimSuffix(strings.TrimSpace(line), ":")
			name = name[strings.LastIndexByte(name, ':')+1:]
		} else if k, _ := fmt.Sscanf(strings.TrimSpace(line), "Function count: %d", &n); k == 1 {
			c[name] += n
		}
	}
	return c
}

// coverage counts blocks and the ways between them, by a spanning tree as ours.
var coverage = &tool{
	name: "gcc-coverage", about: "gcc --coverage (rebuilt)", most: 3,
	missing: func() error { return needs("gcov") },
	wants:   rebuilt,
	program: func(m *machine, w *workload) (string, string, error) {
		program, err := m.compile(w, "gcc", "-coverage", "--coverage")
		return w.program, program, err
	},
	command: func(_ *machine, c *command) {
		c.env = append(c.env, "GCOV_PREFIX="+c.dir)
	},
	read: func(m *machine, r *run) (counts, error) {
		// The counts are where the program was built, below the prefix; gcov looks for the notes beside them.
		all, err := filepath.Glob(filepath.Join(r.dir, filepath.Dir(r.program), filepath.Base(r.program)+"-*.gcda"))
		if err != nil || len(all) != 1 {
			return nil, fmt.Errorf("%d files of counts: %w", len(all), err)
		}
		notes := strings.TrimSuffix(strings.TrimPrefix(all[0], r.dir), "gcda") + "gcno"
		b, err := os.ReadFile(notes)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, notes), b, 0o644)
		}
		if err != nil {
			return nil, err
		}
		text, err := m.tool("gcov", "--json-format", "--stdout", all[0])
		if err != nil {
			return nil, err
		}
		return parseGcov(text)
	},
}

// parseGcov reads what gcov --json-format says of functions.
func parseGcov(text string) (counts, error) {
	var is struct {
		Files []struct {
			Functions []struct {
				Name  string
				Count uint64 `json:"execution_count"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return nil, err
	}
	c := counts{}
	for _, file := range is.Files {
		for _, f := range file.Functions {
			c[f.Name] += f.Count
		}
	}
	return c, nil
}

// clangRuntime says that clang has not its run-time library for something.
func clangRuntime(name string) error {
	if err := needs("clang", "clang++"); err != nil {
		return err
	}
	if found, _ := filepath.Glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt." + name + "-x86_64.a"); len(found) == 0 {
		return fmt.Errorf("%w: clang's run-time library for %s (libclang-rt-14-dev)", errMissing, name)
	}
	return nil
}
