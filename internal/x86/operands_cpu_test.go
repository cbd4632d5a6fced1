package x86

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestOperandsCPU compares Operands with what the CPU does: whether each page beside and under
// an operand may be without access, or may be read only; and whether what is written
// depends on what was there.
func TestOperandsCPU(t *testing.T) {
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(cpu), " avx512bw ") {
		t.Skip("no AVX-512 here")
	}
	runner := filepath.Join(t.TempDir(), "operands")
	if out, err := exec.Command("gcc", "-O2", "-static", "-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x60000000", "-o", runner, "testdata/operands.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, samples := range map[string][][]byte{
		"legacy": append(lane.Thin(cpuLegacySamples(), 11), cpuImplicit()...), "vex": lane.Thin(cpuVEXSamples(), 5), "evex": lane.Thin(cpuEVEXSamples(), 7), "gathers": cpuGathers(),
	} {
		t.Run(name, func(t *testing.T) { compareCPU(t, runner, samples) })
	}
}

// The operand in memory of all samples is [rbx], or [rbx+zmm2] where there must be a SIB.

func cpuLegacySamples() (s [][]byte) {
	for _, prefix := range []string{"", "\x66", "\xf3", "\xf2"} {
		for _, rex := range []string{"", "\x48"} {
			for _, escape := range []string{"", "\x0f", "\x0f\x38", "\x0f\x3a"} {
				for op := range 256 {
					for reg := range byte(8) {
						s = append(s, append([]byte(prefix+rex+escape), byte(op), 0x03|reg<<3))
					}
				}
			}
		}
	}
	return s
}

// cpuImplicit have operands that are not [rbx].
func cpuImplicit() (s [][]byte) {
	for _, more := range []string{"\xf0\x01\x0b", "\xf0\x0f\xb1\x0b", "\xf0\x48\x0f\xc7\x0b", "\x0f\x01\xfc", "\x67\xa4", "\x8f\x84\x24\x08\xd0\xff\xff", "\x66\x8f\x84\x24\x08\xd0\xff\xff",
		"\xff\xb4\x24\x08\xd0\xff\xff", "\xff\x94\x24\x08\xd0\xff\xff", "\xc8\x10\x00\x00", "\xc8\x00\x00\x01", "\xc8\x00\x00\x04", "\x66\xc8\x00\x00\x02", "\x66\x0f\xf7\xc1", "\xc5\xf9\xf7\xc1", "\x67\x66\x0f\xf7\xc1"} {
		s = append(s, []byte(more))
	}
	return s
}

func cpuVEXSamples() (s [][]byte) {
	for m := byte(1); m < 4; m++ {
		for w := range byte(16) {
			for op := range 256 {
				for _, reg := range []byte{1, 3, 6} {
					s = append(s, []byte{0xc4, 0xe0 | m, w&8<<4 | 0x78 | w&7, byte(op), 0x03 | reg<<3})
				}
			}
		}
	}
	return s
}

func cpuEVEXSamples() (s [][]byte) {
	for m := byte(1); m < 7; m++ {
		for w := range byte(8) {
			for _, p2 := range []byte{0x08, 0x09, 0x28, 0x29, 0x48, 0x49, 0x18, 0x59} {
				for op := range 256 {
					for _, modRM := range []byte{0x0b, 0x4b} {
						s = append(s, []byte{0x62, 0xf0 | m, w&4<<5 | 0x7c | w&3, p2, byte(op), modRM})
					}
				}
			}
		}
	}
	return s
}

func cpuGathers() (s [][]byte) {
	for op := byte(0x90); op <= 0x93; op++ {
		for w := range byte(4) {
			s = append(s, []byte{0xc4, 0xe2, w&2<<6 | 0x79 | w&1<<2, op, 0x0c, 0x13})
			for l := range byte(3) {
				for _, of := range []byte{op, op + 0x10} {
					s = append(s, []byte{0x62, 0xf2, w&2<<6 | 0x7d, 0x09 | l<<5, of, 0x0c, 0x13}, []byte{0x62, 0xf2, w&2<<6 | 0x7d, 0x09 | l<<5, of, 0x4c, 0x13, 0x02})
				}
			}
		}
	}
	return s
}

// Of testdata/operands.c.
const (
	cpuRegions, cpuPages, cpuPage      = 5, 8, 4096
	cpuCode, cpuMemory, cpuApart       = 0x5f000000, 0x10000000, 0x100000
	cpuPattern                         = cpuCode + 0x40 // where int3 stands
	cpuQuery, cpuAnswer                = 16 + 16*8 + cpuRegions*cpuPages + 16, 8 + 16 + 64
	cpuNone, cpuRead, cpuWrite    byte = 0, 1, 3
)

// cpuBases are the registers that hold addresses, each of a region of its own.
var cpuBases = [cpuRegions]byte{RBX, RSP, RSI, RDI, RBP}

type cpuQ struct {
	regs    [16]uint64
	pages   [cpuRegions * cpuPages]byte
	pattern uint64
	look    uint64
}

func newCPUQ() (q cpuQ) {
	q.pattern = cpuPattern
	for i := range q.regs {
		q.regs[i] = 1
	}
	for i, r := range cpuBases {
		q.regs[r] = cpuMemory + uint64(i)*cpuApart + cpuPages/2*cpuPage + cpuPage/2 + cpuPage/64
	}
	q.regs[RAX] = cpuMemory + cpuPage/2 + cpuPage/64 // clzero
	for i := range q.pages {
		q.pages[i] = cpuWrite
	}
	return q
}

func (q *cpuQ) bytes(code []byte) []byte {
	b := bytes.Repeat([]byte{0xcc}, 16)
	copy(b, code)
	for _, r := range q.regs {
		b = binary.LittleEndian.AppendUint64(b, r)
	}
	b = append(b, q.pages[:]...)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, q.pattern), q.look)
}

// page is the index of the page of an address, -1 if it is in none.
func cpuPageOf(a uint64) int {
	i := (a - cpuMemory) / cpuApart
	k := (a - cpuMemory) % cpuApart / cpuPage
	if i >= cpuRegions || k >= cpuPages {
		return -1
	}
	return int(i*cpuPages + k)
}

// cpuAddress is that of an operand of which zmm2 is the only index that is a vector.
func cpuAddress(o *Operand, in *Inst, regs *[16]uint64) uint64 {
	a := uint64(o.Disp)
	if o.Base < 16 {
		a += regs[o.Base]
	}
	switch {
	case o.Index == NoRegister || o.Flags&OperandVSIB != 0:
	case o.Flags&OperandIndexByte != 0:
		a += regs[o.Index] & 0xff
	default:
		a += regs[o.Index] * uint64(o.Scale)
	}
	if o.Flags&OperandBitOffset != 0 {
		bits := int64(regs[in.Reg()])
		if o.Size == 4 {
			bits = int64(int32(bits))
		} else if o.Size == 2 {
			bits = int64(int16(bits))
		}
		a += uint64(bits>>3) &^ uint64(o.Size-1)
	}
	if o.Flags&OperandLine != 0 {
		a &^= uint64(o.Size - 1)
	}
	if o.Flags&OperandAddr32 != 0 {
		a = uint64(uint32(a))
	}
	return a
}

type cpuA struct {
	sig     syscall.Signal
	write   bool // a page fault of a write
	rip     uint64
	address uint64
	memory  [64]byte
}

// done reports whether the instruction has run.
func (a *cpuA) done() bool {
	return a.sig == syscall.SIGTRAP || a.sig == syscall.SIGFPE || a.rip != cpuCode
}

func (a *cpuA) String() string {
	return fmt.Sprintf("%v at %#x, write %v, address %#x", a.sig, a.rip, a.write, a.address)
}

// check is a question with what must come of it.
type cpuCheck struct {
	sample int
	q      cpuQ
	ask    string
	right  func(a *cpuA) bool
}

func compareCPU(t *testing.T, runner string, samples [][]byte) {
	var codes [][]byte
	var first []cpuCheck
	for _, s := range samples {
		b := append(append([]byte{}, s...), 0x01, 0x00, 0x00, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		var in Inst
		if Decode(b, &in) != nil || in.Kind == Trap || in.Kind == Syscall || in.RIPRel() {
			continue
		}
		if notByCPU(&in) {
			continue
		}
		codes = append(codes, b[:in.Len])
		first = append(first, cpuCheck{sample: len(codes) - 1, q: newCPUQ()})
	}
	var all []cpuCheck
	ran := 0
	for i, a := range askCPU(t, runner, codes, first) {
		if a.sig != syscall.SIGILL && a.done() {
			ran++
			all = append(all, cpuChecks(codes[i], i)...)
		}
	}
	failures := 0
	for i, a := range askCPU(t, runner, codes, all) {
		c := &all[i]
		if !c.right(&a) {
			if failures++; failures <= 60 {
				t.Errorf("% x %s: %s: %v", codes[c.sample], Text(codes[c.sample], 0), c.ask, &a)
			}
		}
	}
	t.Logf("%d of %d instructions ran, %d questions", ran, len(codes), len(all))
	if ran < len(codes)/10 {
		t.Error("too few to compare")
	}
}

// notByCPU are instructions of which CPUs, or the kernel, have ways of their own.
func notByCPU(in *Inst) bool {
	if in.Enc != EncLegacy {
		return false
	}
	switch in.Map {
	case MapLegacy:
		switch in.Op {
		case 0x63: // movsxd to 16 bits: 2 bytes with Intel, 4 with AMD
			return in.wide16()
		case 0xc2, 0xc3, 0xe8, 0xff: // with 66: OpSizeBranch
			return in.wide16() && (in.Op != 0xff || in.reg() == 2 || in.reg() == 4)
		}
	case Map0F38: // movdir64b to where it is from: which fault comes first
		return in.Op == 0xf8 && in.Prefix&PrefixOpSize != 0 && in.Reg() == in.ModRM&7|in.Rex&RexB<<3
	case Map0F:
		switch in.Op {
		case 0x00: // the kernel does it in place of the CPU (UMIP)
			return true
		case 0x01: // the same; and mwaitx, which waits
			return in.ModRM != 0xfc
		case 0xb2, 0xb4, 0xb5: // lfs with 64 bits: with Intel alone
			return in.Rex&RexW != 0
		}
	}
	return false
}

// cpuChecks are the questions about an instruction.
func cpuChecks(code []byte, sample int) (all []cpuCheck) {
	var in Inst
	if Decode(code, &in) != nil {
		panic("BUG")
	}
	var ops [MaxOperands]Operand
	n := in.Operands(code, &ops)
	ask := func(q cpuQ, right func(a *cpuA) bool, format string, args ...any) {
		all = append(all, cpuCheck{sample, q, fmt.Sprintf(format, args...), right})
	}
	faults := func(lo, hi uint64, write bool) func(*cpuA) bool {
		return func(a *cpuA) bool {
			return !a.done() && a.sig == syscall.SIGSEGV && a.address >= lo && a.address < hi && a.write == write
		}
	}
	done := (*cpuA).done
	touched := map[byte]bool{}
	for i := range ops[:n] {
		o := &ops[i]
		if o.Kind&operandBoth == 0 {
			continue
		}
		touched[o.Base] = true
		if o.Index < 16 {
			touched[o.Index] = true
		}
		q := newCPUQ()
		start := cpuAddress(o, &in, &q.regs)
		total := uint64(o.Size) * uint64(o.Count)
		if o.Flags&OperandVSIB != 0 {
			total = uint64(o.Size)
		}
		page := cpuPageOf(start)
		if page < 0 || o.Base >= 16 || o.Flags&OperandVariable != 0 {
			continue
		}
		writes := o.Kind&OperandStore != 0
		none := q
		none.pages[page] = cpuNone
		ask(none, faults(start, start+total, writes), "operand %d without access", i)
		read := q
		read.pages[page] = cpuRead
		if writes {
			ask(read, faults(start, start+total, true), "operand %d read only", i)
		} else {
			ask(read, done, "operand %d read only", i)
		}
		// At the end and at the start of a page, and one byte further.
		end := (start &^ (cpuPage - 1)) + cpuPage
		if o.Flags&OperandLine == 0 && !(o.Flags&OperandBitOffset != 0 && in.Reg() == o.Base) {
			at := q
			at.regs[o.Base] += end - total - start
			at.pages[page+1] = cpuNone
			ask(at, done, "operand %d before what has no access", i)
			at.regs[o.Base]++
			ask(at, func(a *cpuA) bool { // or unaligned
				return faults(end, end+1, writes)(a) || !a.done() && a.address == 0
			}, "operand %d over the end of a page", i)
			if in.Map == MapLegacy && in.Op == 0xc8 { // enter also asks whether it may write where the stack ends then
				continue
			}
			if page%cpuPages == 0 { // movdir64b to where rax leads
				continue
			}
			at = q
			at.regs[o.Base] -= start - (end - cpuPage)
			at.pages[page-1] = cpuNone
			ask(at, done, "operand %d behind what has no access", i)
		}
	}
	all = append(all, cpuStores(&in, code, ops[:n], sample)...)
	if in.Kind == Plain || in.Kind == Nop || in.Kind == Endbr { // what it does not touch
		q := newCPUQ()
		for i, r := range cpuBases {
			for k := range cpuPages {
				if !touched[r] && (r != RBX || !touched[RAX]) {
					q.pages[i*cpuPages+k] = cpuNone
				}
			}
		}
		if n == 0 || ops[0].Kind != OperandFlush { // that needs access as a load does
			ask(q, done, "without access where no operand is")
		}
	}
	return all
}

// cpuStores asks whether what is written depends on what was there.
func cpuStores(in *Inst, code []byte, ops []Operand, sample int) (all []cpuCheck) {
	for i := range ops {
		o := &ops[i]
		q := newCPUQ()
		q.look = cpuAddress(o, in, &q.regs)
		if o.Kind&OperandStore == 0 || o.Size == 0 || o.Size > 64 || cpuPageOf(q.look) < 0 || len(ops) > 1 && ops[1-i].Kind&OperandLoad != 0 {
			continue
		}
		var first cpuA
		isStore := o.Kind == OperandStore
		untold := in.Map == MapLegacy && in.Enc == EncLegacy && (in.Op == 0x86 || in.Op == 0x87 || in.Op == 0x20) // xchg; and with ch, which is 0
		all = append(all, cpuCheck{sample, q, "what is stored", func(a *cpuA) bool { first = *a; return a.done() }})
		q.pattern = 0x5a3c_97c3_69a5_3c1d
		all = append(all, cpuCheck{sample, q, fmt.Sprintf("operand %d depends on what was there: %v", i, !isStore), func(a *cpuA) bool {
			same := bytes.Equal(first.memory[:o.Size], a.memory[:o.Size])
			return same == isStore || untold && same
		}})
	}
	return all
}

func askCPU(t *testing.T, runner string, codes [][]byte, checks []cpuCheck) []cpuA {
	t.Helper()
	var in bytes.Buffer
	for i := range checks {
		in.Write(checks[i].q.bytes(codes[checks[i].sample]))
	}
	cmd := exec.Command(runner)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil || len(out) != cpuAnswer*len(checks) {
		t.Fatalf("%v: %d of %d answers; the last was % x", err, len(out)/cpuAnswer, len(checks), codes[checks[min(len(out)/cpuAnswer, len(checks)-1)].sample])
	}
	all := make([]cpuA, len(checks))
	for i := range all {
		b := out[i*cpuAnswer:]
		const writing = 2
		all[i] = cpuA{sig: syscall.Signal(b[0]), write: b[1]&writing != 0, rip: binary.LittleEndian.Uint64(b[8:]), address: binary.LittleEndian.Uint64(b[16:])}
		copy(all[i].memory[:], b[24:])
	}
	return all
}
