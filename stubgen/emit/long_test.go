package emit

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

const (
	longAt   = 0x401000
	longBias = 0x7f0000000000 // no immediate holds the addresses
)

// long is an object with size bytes of code, a multiple of 16, of which each 16 branch to
// the start, to the end, and out of it, load, and call; those in the middle may be left
// out.
func long(size int, far bool) *stubgen.Object {
	var code []byte
	rel := func(to int, op ...byte) {
		code = append(code, op...)
		code = binary.LittleEndian.AppendUint32(code, uint32(to-len(code)-4))
	}
	for len(code) < size {
		switch row := len(code) / 16; {
		case row%64 == 1:
			rel(0, 0x0f, 0x85) // jne start
			rel(size-16, 0xe9) // jmp to the last row
			code = append(code, 0xe2, 0xee, 0x90, 0x90, 0x90)
		case row%64 == 2:
			rel(-0x20, 0x48, 0x8b, 0x05) // mov -0x20 from the start(%rip),%rax
			rel(size+0x30, 0x0f, 0x84)   // je behind it all
			code = append(code, 0x66, 0x90, 0x90)
		case row%64 == 3:
			rel(-0x40, 0xe8) // call
			rel(-0x40, 0xe9) // jmp
			code = append(code, 0x0f, 0x1f, 0x44, 0, 0, 0x90)
		default:
			code = append(code, 0x55, 0x5d, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0x90, 0x50, 0x58, 0x51, 0x59, 0x52, 0x5a, 0x66, 0x90)
		}
		if len(code)%16 != 0 {
			panic(fmt.Sprint("BUG: a row ends at ", len(code)))
		}
	}
	o := &stubgen.Object{Text: []stubgen.Segment{{Addr: longAt, Code: append(code, make([]byte, 64)...)}}}
	if far {
		o.Bias = longBias
	}
	return o
}

// TestLongRanges: a range of any length moves as a short one does: what its branches,
// loads and calls lead to is what they led to, inside it in the copy. Its origins tell of
// each instruction.
func TestLongRanges(t *testing.T) {
	for _, size := range []int{64, 256, 272, 4096, 1 << 16, 1<<16 + 4096, 1 << 18} {
		for _, far := range []bool{false, true} {
			t.Run(fmt.Sprint(size, far), func(t *testing.T) {
				o := long(size, far)
				c := Count{Counter: 0x80}
				p, ok := spec(o, longAt, size, &c, false)
				if !ok || p.Moved != size {
					t.Fatalf("%d bytes can move", p.Moved)
				}
				at := o.Run(0x10000000)
				e := Emitter{Origins: &Origins{Base: at}}
				buf := make([]byte, p.Size)
				stub, err := e.Emit(o, &p, buf, at, c)
				if err != nil || int(stub.Len) != p.Size {
					t.Fatalf("%d bytes, not %d: %v", stub.Len, p.Size, err)
				}
				arena := ArenaRef{At: uint64(at)}
				list := arena.Read(e.Origins.Records, e.Origins.Lengths)
				if len(list) != 1 || list[0].Count != int(stub.Body) {
					t.Fatalf("%d records", len(list))
				}
				checkCopies(t, o, &list[0], buf, at)
			})
		}
	}
}

// checkCopies holds each copy of a range against its original.
func checkCopies(t *testing.T, o *stubgen.Object, m *Moved, buf []byte, at x86.RunAddr) {
	t.Helper()
	code := o.Code(longAt)
	copies := map[uint64]uint64{} // by run address of the original
	from, to := m.From, uint64(at)+uint64(m.Count)
	for i := range m.Originals {
		copies[from] = to
		from, to = from+uint64(m.Originals[i]), to+uint64(m.Copies[i])
	}
	if n := from - m.From; n != uint64(len(code)-64) {
		t.Fatalf("%d bytes of %d", n, len(code)-64)
	}
	for from, to := range copies {
		var in, moved x86.Inst
		original, written := code[from-m.From:], buf[to-uint64(at):]
		x86.DecodeAgain(original, &in)
		x86.DecodeAgain(written, &moved)
		want := uint64(0)
		switch in.Kind {
		case x86.Plain:
			if !in.RIPRel() {
				continue
			}
			if got, want := moved.RIPTarget(written, to), in.RIPTarget(original, from); got != want {
				t.Fatalf("what is at %#x reads %#x, not %#x", from, got, want)
			}
			continue
		case x86.Jcc, x86.Jmp:
			want = in.BranchTarget(original, from)
		case x86.Loop:
			want = in.BranchTarget(original, from)
			written = written[4:] // behind loop taken; jmp next
			x86.DecodeAgain(written, &moved)
			to += 4
		case x86.Call:
			checkPush(t, written, from+uint64(in.Len), to, buf, at)
			continue
		}
		if want == 0 {
			continue
		}
		if inside, ok := copies[want]; ok {
			want = inside
		}
		if got := moved.BranchTarget(written, to); got != want {
			t.Fatalf("the branch at %#x leads to %#x, not %#x", from, got, want)
		}
	}
}

// checkPush demands that the return address ret is what the copy of a call at to pushes.
func checkPush(t *testing.T, written []byte, ret, to uint64, buf []byte, at x86.RunAddr) {
	t.Helper()
	const over = 11 // call over; int3; lea
	written, to = written[over:], to+over
	var in x86.Inst
	x86.DecodeAgain(written, &in)
	got := uint64(0)
	if in.RIPRel() {
		literal := in.RIPTarget(written, to)
		if literal%8 != 0 {
			t.Errorf("a literal at %#x", literal)
		}
		got = binary.LittleEndian.Uint64(buf[literal-uint64(at):])
	} else {
		got = uint64(binary.LittleEndian.Uint32(written[1:]))
	}
	if got != ret {
		t.Fatalf("the call pushes %#x, not %#x", got, ret)
	}
}

// TestLongOriginsInC: what the library reads of records is what was written, of short
// runs and of long ones, one behind the other.
func TestLongOriginsInC(t *testing.T) {
	s := Origins{Base: fixture.ArenaAt}
	var want strings.Builder
	for i, run := range []struct{ insts, count int }{{3, 9}, {300, 300}, {65535, 255}, {65536, 255}, {200_000, 70}, {1, 0}, {2, 100_000}} {
		start, sum := len(s.Lengths), 0
		for k := range run.insts {
			s.Lengths = append(s.Lengths, byte(k%15+1), byte(k%30+1))
			sum += k%15 + 1 + 256*(k%30+1)
		}
		s.add(fixture.ArenaAt.Add(i<<24), 0x1000, run.count, 0, start)
		fmt.Fprintln(&want, run.insts, run.count, sum)
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{"records": s.Records, "lengths": s.Lengths} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reader := filepath.Join(dir, "reader")
	if out, err := exec.Command("gcc", "-Wall", "-I../../libdynprof/resident", "-o", reader, "testdata/origins.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	got, err := exec.Command(reader, filepath.Join(dir, "records"), filepath.Join(dir, "lengths")).Output()
	if err != nil || string(got) != want.String() {
		t.Errorf("%v: the library reads\n%swant\n%s", err, got, &want)
	}
	arena := ArenaRef{At: uint64(fixture.ArenaAt)}
	var read strings.Builder
	for _, m := range arena.Read(s.Records, s.Lengths) {
		sum := 0
		for i := range m.Originals {
			sum += m.Originals[i] + 256*m.Copies[i]
		}
		fmt.Fprintln(&read, len(m.Originals), m.Count, sum)
	}
	if read.String() != want.String() {
		t.Errorf("Read tells\n%swant\n%s", &read, &want)
	}
	// A list that is cut anywhere is read up to there.
	if n := len(arena.Read(s.Records, slices.Clone(s.Lengths[:len(s.Lengths)-1]))); n != 6 {
		t.Errorf("%d runs of a list that is cut", n)
	}
}
