package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var lua = &suite{
	name: "lua",
	about: "the tests of Lua 5.4.4 and of LPeg 1.0.2 (Debian's sources) on builds by different compilers and flags; " +
		"Lua's own need lua-5.4.4-tests.tar.gz in build/oracles",
	least: 36, leastQuick: 12,
	prepare: prepareLua,
}

var lua51 = &suite{
	name:  "lua51",
	about: "the tests of Lua 5.1, as Debian's golang-github-yuin-gopher-lua carries them, on builds of Lua 5.1.5",
	least: 280, leastQuick: 88,
	prepare: prepareLua51,
}

// build is a way to build a program from C sources.
type build struct {
	name  string
	args  string // compiler and flags
	slow  bool   // left out with -quick
	march string // what /proc/cpuinfo must have
	// mangles: names are those of C++, and libraries of C do not fit.
	mangles bool
}

var builds = []build{
	{name: "O0", args: "gcc -O0"},
	{name: "Os", args: "gcc -Os", slow: true},
	{name: "O1", args: "gcc -O1", slow: true},
	{name: "O2", args: "gcc -O2 -g0 -s"},
	{name: "O3", args: "gcc -O3", slow: true},
	{name: "v4", args: "gcc -O3 -march=x86-64-v4", march: "avx512vl"},
	{name: "v3", args: "gcc -O3 -march=x86-64-v3 -funroll-loops", slow: true, march: "avx2"},
	{name: "cf", args: "gcc -O2 -fcf-protection=full"},
	{name: "noplt", args: "gcc -O2 -fPIE -pie -fno-plt -Wl,-z,now"},
	{name: "nopie", args: "gcc -O2 -fno-pie -no-pie", slow: true},
	{name: "mfentry", args: "gcc -O2 -pg -mfentry", slow: true},
	{name: "patchable", args: "gcc -O2 -fpatchable-function-entry=16,5", slow: true},
	{name: "lto", args: "gcc -O2 -flto=auto -fno-semantic-interposition", slow: true},
	{name: "frame", args: "gcc -O2 -fno-omit-frame-pointer -mno-red-zone -fstack-protector-all -fstack-clash-protection", slow: true},
	{name: "clang", args: "clang -O2", slow: true},
	{name: "clangOs", args: "clang -Oz -fcf-protection=full", slow: true},
	{name: "c++", args: "g++ -O2 -x c++ -fpermissive", slow: true, mangles: true}, // errors are exceptions
}

// usable returns why the build cannot be made or run; empty if it can.
func (b build) usable() string {
	compiler, _, _ := strings.Cut(b.args, " ")
	if reason, ok := isSkipped(needs(compiler)); ok {
		return reason
	}
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	if b.march != "" && !regexp.MustCompile(`\b`+b.march+`\b`).Match(cpu) {
		return "the CPU has no " + b.march
	}
	return ""
}

// make builds all C files of a directory but those left out into a program.
func (b build) make(m *machine, out, dir, flags string, leaveOut ...string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil {
		return err
	}
	args := append(strings.Fields(b.args), "-w")
	args = append(args, strings.Fields(flags)...)
	for _, f := range files {
		keep := true
		for _, l := range leaveOut {
			keep = keep && filepath.Base(f) != l
		}
		if keep {
			args = append(args, f)
		}
	}
	args = append(args, "-o", out, "-lm", "-ldl")
	_, err = m.tool(dir, args...)
	return err
}

// makeAll makes all builds that are going to run, as many at a time as there are
// slots.
func makeAll(m *machine, prefix, dir, flags string, leaveOut ...string) error {
	errs := make([]error, len(builds))
	m.each(len(builds), func(i, _ int) {
		if b := builds[i]; b.usable() == "" && !(m.quick && b.slow) {
			errs[i] = b.make(m, filepath.Join(m.work, prefix+b.name), dir, flags, leaveOut...)
		}
	})
	return errors.Join(errs...)
}

func prepareLua(m *machine) ([]unit, error) {
	if err := needs("gcc"); err != nil {
		return nil, err
	}
	source, err := m.source("lua5.4", "5.4.4")
	if err != nil {
		return nil, err
	}
	lpeg, err := m.source("lua-lpeg", "1.0.2")
	if err != nil {
		return nil, err
	}
	src := filepath.Join(source, "src")
	// One library for all: the interpreter's build is what differs.
	if err := (build{args: "gcc -O2"}).make(m, filepath.Join(lpeg, "lpeg.so"), lpeg, "-shared -fPIC -I"+src); err != nil {
		return nil, err
	}
	if err := makeAll(m, "lua-", src, "-DLUA_USE_LINUX -Wl,-E", "luac.c"); err != nil {
		return nil, err
	}
	own, why := luaTests(m)
	var units []unit
	for _, b := range builds {
		reason := b.usable()
		program := filepath.Join(m.work, "lua-"+b.name)
		if !b.mangles {
			units = append(units, unit{name: b.name + "/lpeg", dir: lpeg, args: []string{program, "test.lua"}, slow: b.slow, skipped: reason, read: readText})
		}
		if reason == "" {
			reason = why
		}
		u := unit{name: b.name + "/own", args: []string{program, "-e_U=true", "all.lua"}, slow: b.slow, skipped: reason, read: readLua}
		if own != "" {
			if u.dir, err = copyOfTests(m, own, b.name); err != nil {
				return nil, err
			}
		}
		units = append(units, u)
	}
	for i := range units {
		units[i].works = true
	}
	return units, nil
}

// luaTests unpacks Lua's own tests. No package of Debian has those of 5.4.
func luaTests(m *machine) (dir, why string) {
	archive := filepath.Join(m.cache, "lua-5.4.4-tests.tar.gz")
	if _, err := os.Stat(archive); err != nil {
		return "", "no " + archive + " (https://www.lua.org/tests/)"
	}
	dir = filepath.Join(m.work, "lua-tests")
	if err := m.mkdir(dir); err != nil {
		return "", err.Error()
	}
	dir, err := m.unpack(archive, dir)
	if err != nil {
		return "", err.Error()
	}
	return dir, ""
}

// copyOfTests makes a directory of its own for a build: tests write files.
func copyOfTests(m *machine, dir, name string) (string, error) {
	to := filepath.Join(m.work, "tests-"+name)
	_, err := m.tool(m.work, "cp", "-r", dir, to)
	return to, err
}

var luaFile = regexp.MustCompile(`^\*+ FILE '(.*)'\*+$`)

// readLua makes a result of every test file that was started and of the last
// line: a failed assertion ends the run.
func readLua(o *output) (results, error) {
	r := results{}
	n := 0
	err := lines(o.stdout, func(line string) {
		if f := luaFile.FindStringSubmatch(line); f != nil {
			n++
			r[f[1]] = fmt.Sprintf("number %d", n)
		}
		if line == "final OK !!!" {
			r["final"] = "OK"
		}
	})
	return r, err
}

func prepareLua51(m *machine) ([]unit, error) {
	if err := needs("gcc"); err != nil {
		return nil, err
	}
	source, err := m.source("lua5.1", "5.1.5")
	if err != nil {
		return nil, err
	}
	tests, err := m.source("golang-github-yuin-gopher-lua", "0.0~git20170915.0.eb1c729")
	if err != nil {
		return nil, err
	}
	tests = filepath.Join(tests, "_lua5.1-tests")
	files, err := filepath.Glob(filepath.Join(tests, "*.lua"))
	if err != nil {
		return nil, err
	}
	if err := makeAll(m, "lua51-", filepath.Join(source, "src"), "-DLUA_USE_POSIX -DLUA_USE_DLOPEN -Wl,-E", "luac.c", "print.c"); err != nil {
		return nil, err
	}
	var units []unit
	for _, b := range builds {
		reason := b.usable()
		program := filepath.Join(m.work, "lua51-"+b.name)
		own, err := copyOfTests(m, tests, b.name)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			name := filepath.Base(f)
			if name == "all.lua" || name == "big.lua" { // the others; minutes, and only within a coroutine
				continue
			}
			units = append(units, unit{name: b.name + "/" + name, dir: own, args: []string{program, name},
				env: []string{"LUA_PATH=?;./?.lua"}, slow: b.slow, skipped: reason, read: readStatus})
		}
	}
	return units, nil
}
