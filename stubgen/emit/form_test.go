package emit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// boundaries are the offsets of instructions, and of the end.
func boundaries(t *testing.T, code []byte) []int {
	t.Helper()
	at := []int{0}
	var in x86.Inst
	for n := 0; n < len(code); at = append(at, n) {
		if err := x86.Decode(code[n:], &in); err != nil {
			t.Fatalf("% x: %v", code, err)
		}
		n += int(in.Len)
	}
	return at
}

// assembled is what write writes.
func assembled(t *testing.T, write func(a *x86.Asm)) []byte {
	t.Helper()
	var a x86.Asm
	code := make([]byte, 256)
	a.Reset(code, fixture.ArenaAt)
	write(&a)
	n := a.PC() - fixture.ArenaAt
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	return code[:n]
}

// redirectable emits the redirectable stub of a plan: its front, the stub, and its
// words.
func redirectable(t *testing.T, o *stubgen.Object, p *Spec) (code, words []byte, stub Stub) {
	t.Helper()
	var e Emitter
	buf, front := make([]byte, p.Size), make([]byte, p.Front)
	words = make([]byte, PointersSize)
	stub, err := e.Emit(o, p, buf, fixture.ArenaAt, Count{Counter: formCounter, Threshold: formLimit,
		Cold: make([]byte, ColdSize), ColdAt: fixture.ArenaAt.Add(0x1000), ColdCommon: fixture.ArenaAt.Add(0x2000),
		Front: front, Pointers: words, PointersAt: formPointers})
	if err != nil {
		t.Fatal(err)
	}
	return append(front, buf...), words, stub
}

const (
	formCounter, formLimit = 0x1238, 0x12345678
	formPointers           = fixture.ArenaAt + 0x3000
)

// form is a struct dp_form (libdynprof/resident/stubs/redirect.h): offsets from a redirectable stub's
// start.
type form struct {
	counts                  int
	add                     int
	front                   int
	arrive, lap, back       int
	check, limit, quad, end int
}

func formOf(t *testing.T, p *Spec, code []byte, stub Stub) form {
	t.Helper()
	front := p.Front
	list := boundaries(t, code[:front+int(stub.Body)])
	find := func(from int, prefix ...byte) int {
		for _, at := range list {
			if at >= from && bytes.HasPrefix(code[at:], prefix) {
				return at - front
			}
		}
		t.Fatalf("no % x in % x", prefix, code)
		return 0
	}
	check := find(front, 0x65, 0x48, 0x81, 0x3c, 0x25)
	f := form{
		counts: int(binary.LittleEndian.Uint16(code[front:])), add: find(0, incGS...) + front, front: front,
		lap: find(0, 0xf0, 0x48, 0xff, 0x0d), back: -6,
		check: check, limit: check + 9, quad: (check + 9) &^ 7, end: int(stub.Body),
	}
	for _, at := range list {
		if code[at] == 0xff && code[at+1] == 0x25 && at+6+int(int32(binary.LittleEndian.Uint32(code[at+2:]))) == front+int(formPointers-fixture.ArenaAt)+pointerArrive {
			f.arrive = at - front
		}
	}
	if p.KeepsFlags {
		f.back = find(front+f.lap, 0x04, 0x7f)
	}
	return f
}

func (f form) String() string {
	return fmt.Sprintf("{.counts = %#x, .add = %d, .front = %d, .arrive = %d, .lap = %d, .back = %d, .check = %d, .limit = %d, .limit_at = %d, .body = %d}",
		f.counts, f.add, f.front, f.arrive, f.lap, f.back, f.check, f.limit, f.quad, f.end)
}

var incGS = []byte{0x65, 0x48, 0xff, 0x04, 0x25}
