package x86

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// libraries maps real programs to the largest part of their code that may be
// left out as data in text. libcrypto's assembly has its tables and a signature
// ("AES for x86_64, CRYPTOGAMS by ...") between functions.
var libraries = map[string]float64{
	"/lib/x86_64-linux-gnu/libc.so.6":          0,
	"/lib/x86_64-linux-gnu/libcrypto.so.3":     0.005,
	"/usr/lib/x86_64-linux-gnu/libstdc++.so.6": 0,
	"/usr/bin/python3.11":                      0,
	"/usr/lib/x86_64-linux-gnu/libx265.so.199": 0,
	"/usr/lib/x86_64-linux-gnu/libdav1d.so.6":  0,
	"/usr/lib/gcc/x86_64-linux-gnu/12/cc1":     0,
}

// compared are those of them in make test: libc, libcrypto and libdav1d.
var compared = []int{0, 1, 4}

// TestObjdump compares Decode with objdump at every instruction that objdump
// finds in the executable sections of real programs: length, kind, target of
// direct branches, target of RIP-relative operands. A difference is forgiven
// only in data in text: where no FDE says that there is code.
func TestObjdump(t *testing.T) {
	found := 0
	for _, path := range lane.Some(slices.Sorted(maps.Keys(libraries)), compared...) {
		maxData := libraries[path]
		if _, err := os.Stat(path); err != nil {
			t.Logf("not compared: %v", err)
			continue
		}
		found++
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			compareLibrary(t, path, maxData)
		})
	}
	if found < 3 {
		t.Errorf("only %d of %d programs are there: too little was compared", found, len(libraries))
	}
}

func compareLibrary(t *testing.T, path string, maxData float64) {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := &comparison{t: t, fdes: readFDEs(t, path), gaps: map[uint64]uint64{}}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		if c.code, err = s.Data(); err != nil {
			t.Fatal(err)
		}
		c.base = s.Addr
		c.size += s.Size
		objdump(t, s.Addr+s.Size, c.check, "-d", "-j", s.Name, path)
		c.checkMissed(path, s)
	}
	c.report(maxData)
}

// comparison is one pass over objdump's output for one program.
type comparison struct {
	t    *testing.T
	fdes [][2]uint64 // sorted [start, end)
	code []byte      // of the present section
	base uint64      // its address

	missed   int               // FDEs at whose start objdump was out of step
	again    []int             // of the present section
	rerun    bool              // comparing them
	gaps     map[uint64]uint64 // bytes left out after the FDE that ends at ...
	failures int

	size, insts, branches, ripRel uint64
}

// check compares one instruction of objdump's: [pc, end), text.
func (c *comparison) check(pc, end uint64, text []byte) {
	fde := c.fdeBefore(end)
	inFDE := fde >= 0 && c.fdes[fde][1] > pc
	if inFDE && c.fdes[fde][0] > pc { // in data, and over its end
		c.again = append(c.again, fde)
	}
	if inFDE && !c.rerun && len(c.again) > 0 && c.again[len(c.again)-1] == fde {
		return
	}
	c.insts++
	code := c.code[pc-c.base:]
	why := c.difference(code, pc, end, text)
	switch {
	case why == "":
	case !inFDE:
		c.gaps[c.fdes[max(fde, 0)][1]] += end - pc
	default:
		if c.failures++; c.failures <= 20 {
			c.t.Errorf("%x: % x\t%s\n\t%s", pc, code[:min(end-pc, 16)], text, why)
		}
	}
}

// checkMissed compares the FDEs at whose start objdump was out of step.
func (c *comparison) checkMissed(path string, s *elf.Section) {
	c.missed += len(c.again)
	c.rerun = true
	for _, i := range c.again {
		start, end := c.fdes[i][0], c.fdes[i][1]
		objdump(c.t, end, c.check, "-d", "-j", s.Name, path,
			fmt.Sprintf("--start-address=%#x", start), fmt.Sprintf("--stop-address=%#x", end))
	}
	c.rerun, c.again = false, nil
}

// fdeBefore is the index of the last FDE that starts before end, or -1.
func (c *comparison) fdeBefore(end uint64) int {
	return sort.Search(len(c.fdes), func(i int) bool { return c.fdes[i][0] >= end }) - 1
}

func (c *comparison) report(maxData float64) {
	c.t.Logf("%d instructions, %d direct branches, %d RIP-relative operands in %d bytes",
		c.insts, c.branches, c.ripRel, c.size)
	var data uint64
	for _, after := range slices.Sorted(maps.Keys(c.gaps)) {
		data += c.gaps[after]
		c.t.Logf("left out as data: %d bytes between %x and the next FDE", c.gaps[after], after)
	}
	c.t.Logf("left out: %d bytes in %d places, %.3f %%; objdump started anew at %d FDEs behind them",
		data, len(c.gaps), 100*float64(data)/float64(c.size), c.missed)
	if float64(data) > maxData*float64(c.size) {
		c.t.Errorf("more than %.3f %% was left out", 100*maxData)
	}
}

// difference is empty if Decode and objdump agree.
func (c *comparison) difference(code []byte, pc, end uint64, text []byte) string {
	var in Inst
	if err := Decode(code, &in); err != nil {
		return err.Error()
	}
	if want := end - pc; uint64(in.Len) != want {
		if in.Op == 0x9b && in.Map == MapLegacy { // objdump joins fwait with the x87 instruction behind it
			return c.difference(code[in.Len:], pc+uint64(in.Len), end, text)
		}
		return fmt.Sprintf("length %d, objdump %d", in.Len, want)
	}
	kind, target := objdumpKind(text)
	looseNop := kind == Nop && in.Kind == Plain && (in.Map == Map0F || in.Op == 0x87) // reserved NOPs, xchg %ax,%ax
	if in.Kind != kind && !looseNop {
		return fmt.Sprintf("kind %d, want %d", in.Kind, kind)
	}
	if target != 0 {
		c.branches++
		if got := in.BranchTarget(code, pc); got != target && !in.OpSizeBranch() {
			return fmt.Sprintf("branch to %x, objdump %x", got, target)
		}
	}
	target, ripRel := objdumpRIPTarget(text)
	if in.RIPRel() != ripRel {
		return fmt.Sprintf("RIP-relative: %v, objdump %v", in.RIPRel(), ripRel)
	}
	if ripRel {
		c.ripRel++
		if in.Prefix&PrefixAddrSize != 0 {
			target = uint64(uint32(target)) // SDM vol. 2, 2.2.1.6 and table 2-7; objdump prints 64 bits
		}
		if got := in.RIPTarget(code, pc); got != target {
			return fmt.Sprintf("operand at %x, objdump %x", got, target)
		}
	}
	return ""
}

var fdeLine = regexp.MustCompile(`FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)`)

// readFDEs gives the code ranges of .eh_frame as readelf prints them.
func readFDEs(t *testing.T, path string) [][2]uint64 {
	var fdes [][2]uint64
	run(t, func(line []byte) {
		if m := fdeLine.FindSubmatch(line); m != nil {
			fdes = append(fdes, [2]uint64{hexNumber(m[1]), hexNumber(m[2])})
		}
	}, "readelf", "--wide", "--debug-dump=frames,no-follow-links", path)
	if len(fdes) == 0 {
		t.Fatalf("no FDE in %s", path)
	}
	slices.SortFunc(fdes, func(a, b [2]uint64) int { return int(int64(a[0] - b[0])) })
	return fdes
}

// objdump calls fn for each instruction that objdump prints. sectionEnd is
// where the last one ends.
func objdump(t *testing.T, sectionEnd uint64, fn func(pc, end uint64, text []byte), args ...string) {
	var pc uint64
	var text []byte
	args = append([]string{"-z", "-w", "--no-show-raw-insn", "-M", "intel64"}, args...)
	run(t, func(line []byte) {
		head, tail, ok := bytes.Cut(line, []byte(":\t"))
		if !ok {
			return
		}
		next := hexNumber(bytes.TrimLeft(head, " "))
		if text != nil {
			fn(pc, next, text)
		}
		pc, text = next, append(text[:0], tail...)
	}, "objdump", args...)
	if text == nil {
		t.Fatalf("objdump %v printed no instruction", args)
	}
	fn(pc, sectionEnd, text)
}

// run calls fn for each line that a program prints.
func run(t *testing.T, fn func(line []byte), name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: install binutils", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fn(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
}

func hexNumber(s []byte) uint64 {
	n, err := strconv.ParseUint(string(bytes.TrimPrefix(s, []byte("0x"))), 16, 64)
	if err != nil {
		panic(fmt.Sprintf("BUG: objdump's format: %v", err))
	}
	return n
}
