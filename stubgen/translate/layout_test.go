package translate

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// TestShortJumps: jumps are short as far as one byte reaches, whatever nops there may be in front
// of counts, and long behind that.
func TestShortJumps(t *testing.T) {
	nops := func(n int) []byte { return bytes.Repeat([]byte{0x90}, n) }
	for name, code := range map[string]func(n int) []byte{
		"ahead": func(n int) []byte { // test edi,edi; jne 1f; nops; 1: ret
			return slices.Concat([]byte{0x85, 0xff, 0x0f, 0x85}, disp(n), nops(n), []byte{0xc3})
		},
		"back": func(n int) []byte { // 5 nops; 1: nops; dec edi; jne 1b; ret
			return slices.Concat(nops(5+n), []byte{0xff, 0xcf, 0x0f, 0x85}, disp(-n-8), []byte{0xc3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			short, long := 0, 0
			for n := 90; n < 150; n++ {
				in, copied := jumpOf(t, code(n))
				far := int(in.BranchTarget(copied, 0)) - int(in.Len) // behind the jump, wherever that ends
				if far < 0 {
					far = -far - int(in.Len) + shortSize - 1
				}
				const counts = 1 // in between
				switch {
				case in.Len == shortSize:
					short++
				case far+counts <= 127:
					t.Errorf("over %d bytes it is %x", n, copied[:in.Len])
				default:
					long++
				}
			}
			if short == 0 || long == 0 {
				t.Errorf("%d are short, %d long", short, long)
			}
		})
	}
}

func disp(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(int32(n))) }

// jumpOf is the conditional jump in the copy of a function, and the copy from there on.
func jumpOf(t *testing.T, code []byte) (in x86.Inst, copied []byte) {
	t.Helper()
	const text = 0x401000
	o := &stubgen.Object{
		Absolute: true, Text: []stubgen.Segment{{Addr: text, Code: code}},
		Functions: []elfscan.Function{{Addr: text, Size: uint64(len(code)), Source: ledger.SourceSymtab, Name: "f"}},
		Ranges:    []elfscan.Range{{Low: text, High: text + uint64(len(code))}},
	}
	g, why := flow.New(survey.New(o, 1), nil, 1).Graph(0)
	if g == nil {
		t.Fatal(why)
	}
	h, why := PlanHome(g)
	if h == nil {
		t.Fatal(why)
	}
	copied, _, err := encode(t, Lower(h), o, true)
	if err != nil {
		t.Fatal(err)
	}
	for len(copied) > 0 {
		if x86.Decode(copied, &in); in.Kind == x86.Jcc {
			return in, copied
		}
		copied = copied[in.Len:]
	}
	t.Fatal("no jump")
	return in, nil
}
