package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// program is one of the distribution's own, as it is installed, and what it
// is to do.
type program struct {
	path  string                         // in /usr/bin
	args  string                         // {here} is testdata/programs
	input string                         // file there for stdin
	files func(t *testing.T, dir string) // makes what it works on, in the directory that it runs in
	out   string                         // file that it writes there, compared like its output
	env   []string

	status int
	least  uint64 // calls that it makes at the least, without libc's
}

var programs = []program{
	{path: "lua5.4", args: "{here}/bench.lua", status: 3, least: 1_000_000},
	{path: "sqlite3", args: "-batch bench.db", input: "bench.sql", out: "bench.db", status: 1, least: 1_000_000},
	{path: "xz", args: "-6 -T2 --stdout data", files: dataFile, least: 1_000_000},
	{path: "xz", args: "-6 -T2 --block-size=256KiB -k data", files: dataFile, out: "data.xz", least: 1_000_000},
	{path: "xz", args: "-d --stdout data.xz", files: compressedFile, least: 500},
	{path: "python3.11", args: "-S {here}/bench.py", env: []string{"PYTHONHASHSEED=7", "PYTHONDONTWRITEBYTECODE=1"}, status: 1, least: 1_000_000},
	{path: "git", args: "log --stat -p", files: repository, least: 100_000},
	{path: "gcc", args: "-O1 -S -o - {here}/compiled.c", least: 1_000},
	{path: "perl", args: "{here}/bench.pl", env: []string{"PERL_HASH_SEED=7"}, status: 4, least: 500_000},
	{path: "mawk", args: "-f {here}/bench.awk words", files: wordFile, status: 5, least: 1_000_000},
	{path: "sort", args: "-k2,2 -s --parallel=2 words", files: wordFile, least: 100_000},
	{path: "tar", args: "--sort=name --mtime=@0 --owner=0 --group=0 -cf - tree", files: makeTree, least: 1_000},
	{path: "gzip", args: "-6 -n -c words", files: wordFile, least: 100_000},
	{path: "bzip2", args: "-c words", files: wordFile, least: 100_000},
	{path: "openssl", args: "dgst -sha3-256 words", files: wordFile, least: 100_000},
	{path: "make", args: "-s -C tree", files: makeTree, status: 2, least: 10_000},
}

// leastCounted is the percentage of functions that must be counted, of the
// executable and of everything chosen by default.
const leastCounted = 98

// TestPrograms: stripped programs of the distribution behave as without the
// library, and nearly all of their functions are counted.
func TestPrograms(t *testing.T) {
	lane.Parallel(t)
	for _, p := range programs {
		t.Run(p.path+" "+p.args, func(t *testing.T) {
			t.Parallel()
			needFile(t, "/usr/bin/"+p.path)
			dir := t.TempDir()
			if p.files != nil {
				p.files(t, dir)
			}
			c := p.command(t, dir)
			without, file := run(t, c), p.takeFile(t, dir)
			if without.status != p.status || without.stdout+file == "" {
				t.Fatalf("without the library: status %d, not %d: %s", without.status, p.status, without.stderr)
			}
			least := p.least
			for i, flags := range objects {
				with, tables := countedTables(t, c, "%e", flags...)
				same(t, without, with)
				if p.takeFile(t, dir) != file {
					t.Errorf("%v: %s differs", flags, p.out)
				}
				if len(tables) != 1 {
					t.Fatalf("%v: %d tables, not 1: %v", flags, len(tables), tables)
				}
				if n := covered(t, tables[0], least, flags); i == 0 {
					least = n + 1 // libc's calls come on top
				}
			}
		})
	}
}

// TestFollowExec: the compiler driver with all that it executes, each program
// counted in a table of its own.
func TestFollowExec(t *testing.T) {
	t.Parallel()
	needFile(t, "/usr/bin/gcc")
	p := program{path: "gcc", args: "-O1 -Wall -o linked {here}/compiled.c -lm", out: "linked"}
	c := p.command(t, t.TempDir())
	without, linked := run(t, c), p.takeFile(t, c.dir)
	if without.status != 0 {
		t.Fatalf("without the library: status %d: %s", without.status, without.stderr)
	}
	with, tables := countedTables(t, c, "%e.%p", "--follow-exec")
	same(t, without, with)
	if p.takeFile(t, c.dir) != linked {
		t.Error("the executable that it links differs")
	}
	seen := map[string]int{}
	for _, table := range tables {
		name := tool.FindString(filepath.Base(readReport(t, table).Program))
		seen[name]++
		covered(t, table, tools[name], nil)
	}
	for name := range tools {
		if seen[name] != 1 {
			t.Errorf("%d tables of %s, not 1: %v", seen[name], name, tables)
		}
	}
	if len(tables) != len(tools) {
		t.Errorf("%d tables, not %d: %v", len(tables), len(tools), tables)
	}
}

// tools of the compiler, and the calls that each makes at the least.
var tools = map[string]uint64{"gcc": 1_000, "cc1": 1_000_000, "as": 10_000, "collect2": 100, "ld": 100_000}

// tool is which of them a program is, by a name such as
// x86_64-linux-gnu-gcc-12 or x86_64-linux-gnu-ld.bfd.
var tool = regexp.MustCompile(`\b(gcc|cc1|as|collect2|ld)\b`)

// covered fails unless the table has at least that many calls and enough of
// the functions counted. It returns the calls.
func covered(t *testing.T, table string, least uint64, flags []string) uint64 {
	t.Helper()
	out := run(t, cmd(build(t, "hotspots"), "coverage", "--format", "json", table))
	type object struct {
		Object    string         `json:"object"`
		Percent   *float64       `json:"percent"`
		Functions int            `json:"functions"`
		Uncounted map[string]int `json:"uncounted"`
	}
	var c struct {
		Program    string   `json:"program"`
		TotalCalls uint64   `json:"total_calls"`
		Total      object   `json:"total"`
		Objects    []object `json:"objects"`
	}
	if err := json.Unmarshal([]byte(out.stdout), &c); err != nil || out.stderr != "" {
		t.Fatalf("coverage of %s: %v\n%s", table, err, out.stderr)
	}
	enough := func(o object, least float64) {
		if o.Percent == nil {
			t.Errorf("%v: no functions of %s in %s", flags, o.Object, c.Program)
		} else if *o.Percent < least {
			t.Errorf("%v: %.2f %% of %d functions of %s in %s are counted: %v", flags, *o.Percent, o.Functions, o.Object, c.Program, o.Uncounted)
		}
	}
	enough(c.Total, leastCounted)
	i := slices.IndexFunc(c.Objects, func(o object) bool { return o.Object == c.Program })
	if i < 0 {
		t.Fatalf("%v: no %s in the coverage", flags, c.Program)
	}
	if tool.FindString(filepath.Base(c.Program)) == "ld" {
		// 7 of its 474 functions are one ret or short jump, without padding:
		// a jump of five bytes finds no room.
		enough(c.Objects[i], leastCounted-1)
	} else {
		enough(c.Objects[i], leastCounted)
	}
	if c.TotalCalls < least {
		t.Errorf("%v: %d calls of %s, not %d or more", flags, c.TotalCalls, c.Program, least)
	}
	return c.TotalCalls
}

// countedTables runs c with more flags of hotspots run and returns the tables
// that it leaves, named by the pattern.
func countedTables(t *testing.T, c command, pattern string, flags ...string) (result, []string) {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{build(t, "hotspots"), "run", "-o", filepath.Join(dir, pattern), "--summary", "0"}, flags...)
	c.args = append(append(args, "--"), c.args...)
	r := run(t, c)
	tables, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return r, tables
}

// command is p in dir, with everything from outside pinned.
func (p *program) command(t *testing.T, dir string) command {
	t.Helper()
	here, err := filepath.Abs("testdata/programs")
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(p.args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{here}", here)
	}
	c := cmd(append([]string{"/usr/bin/" + p.path}, args...)...)
	c.dir = dir
	c.env = append([]string{"HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1"}, p.env...)
	if p.input != "" {
		c.stdin = read(t, filepath.Join(here, p.input))
	}
	return c
}

// takeFile returns what the program wrote and removes it before the next run.
func (p *program) takeFile(t *testing.T, dir string) string {
	t.Helper()
	if p.out == "" {
		return ""
	}
	path := filepath.Join(dir, p.out)
	defer os.Remove(path)
	return read(t, path)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write makes a file. A child of another test that is being made meanwhile would
// hold it open until its exec, so that this one could not be executed.
func write(t testing.TB, path, content string, mode os.FileMode) string {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// words are lines of numbers and made-up words, always the same.
func words(lines int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "%d", i)
		for range 2 + random.IntN(8) {
			b.WriteByte(' ')
			for range 1 + random.IntN(4) {
				b.WriteString([]string{"ka", "lo", "mi", "qu", "sta", "ten", "er"}[random.IntN(7)])
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func wordFile(t *testing.T, dir string) { write(t, filepath.Join(dir, "words"), words(20_000), 0o600) }
func dataFile(t *testing.T, dir string) {
	write(t, filepath.Join(dir, "data"), words(lane.Of(9_000, 40_000)), 0o600)
}

func compressedFile(t *testing.T, dir string) {
	dataFile(t, dir)
	in(t, dir, "", "xz", "-6", "-T2", "data")
}

// makeTree makes directories of small files, and a makefile that works on them.
func makeTree(t *testing.T, dir string) {
	tree := filepath.Join(dir, "tree")
	for i := range 40 {
		sub := filepath.Join(tree, fmt.Sprintf("d%d", i%5))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(sub, fmt.Sprintf("f%d.txt", i)), words(i), 0o600)
	}
	write(t, filepath.Join(tree, "Makefile"), `all: $(patsubst %.txt,%.n,$(sort $(wildcard d*/*.txt))); @echo $(words $^) made, $(lastword $^) last >&2; exit 6
%.n: ; @echo $* $(words $(shell cat $*.txt))
.PHONY: all
`, 0o600)
}

// repository makes a history of 60 commits with fixed authors and times.
func repository(t *testing.T, dir string) {
	var b strings.Builder
	text := strings.SplitAfter(words(300), "\n")
	for i := range 60 {
		text[i*7%300] = fmt.Sprintf("changed by %d\n", i)
		content := strings.Join(text[:100+2*i], "")
		who := fmt.Sprintf("A%d <a%d@example.org> %d +0100", i%3, i%3, 1600000000+3600*i)
		fmt.Fprintf(&b, "commit refs/heads/main\nauthor %s\ncommitter %s\ndata <<.\nchange %d\n\nwith text\n.\n", who, who, i)
		fmt.Fprintf(&b, "M 644 inline d%d/file.txt\ndata %d\n%s\n", i%4, len(content), content)
	}
	in(t, dir, "", "git", "init", "-q", "-b", "main")
	in(t, dir, b.String(), "git", "fast-import", "--quiet")
}

// in runs a program that prepares something in dir.
func in(t *testing.T, dir, stdin, name string, args ...string) {
	t.Helper()
	e := exec.Command(need(t, name), args...)
	e.Dir, e.Stdin = dir, strings.NewReader(stdin)
	e.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := e.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
