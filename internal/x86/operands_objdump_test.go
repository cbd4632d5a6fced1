package x86

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestOperandsObjdump compares size and address of operands with what objdump names.
func TestOperandsObjdump(t *testing.T) {
	for name, samples := range map[string][][]byte{
		"legacy": legacySamples(), "vex": vexSamples(), "evex": append(evexSamples(), broadcastSamples()...),
		"xop": xopSamples(), "random": randomSamples(50_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareOperands(t, lane.Thin(samples, 11))
		})
	}
}

// broadcastSamples have EVEX.b, with and without a displacement of 8 bits.
func broadcastSamples() (s [][]byte) {
	for m := range byte(7) {
		for w := range byte(8) {
			for _, p2 := range []byte{0x18, 0x38, 0x58} {
				for op := range 256 {
					for _, modRM := range []byte{0x06, 0x46, 0x4e, 0x5e, 0x6e, 0x7e} {
						s = append(s, []byte{0x62, 0xf0 | m, w&4<<5 | 0x7c | w&3, p2, byte(op), modRM})
					}
				}
			}
		}
	}
	return s
}

func compareOperands(t *testing.T, samples [][]byte) {
	var code []byte
	for _, s := range samples {
		code = append(code, s...)
		for len(code)%stride != 0 {
			code = append(code, 0x90)
		}
	}
	path := filepath.Join(t.TempDir(), "samples")
	if err := os.WriteFile(path, code, 0o600); err != nil {
		t.Fatal(err)
	}
	compared, failures := 0, 0
	objdump(t, uint64(len(code)), func(pc, _ uint64, text []byte) {
		if pc%stride != 0 || strings.Contains(string(text), "bad") {
			return
		}
		b := code[pc:]
		var in Inst
		if Decode(b, &in) != nil || in.Kind == Trap || notByObjdump(&in) {
			return
		}
		why, ok := operandDifference(&in, b, string(text))
		if ok {
			compared++
		}
		if why != "" {
			if failures++; failures <= 400 {
				t.Errorf("% x\t%s\t%s", b[:in.Len], text, why)
			}
		}
	}, "-M", "intel", "-D", "-b", "binary", "-m", "i386:x86-64", path)
	t.Logf("%d operands compared", compared)
	if compared < 100 {
		t.Error("too few")
	}
}

// notByObjdump are instructions of which objdump 2.40 says what is in no manual, and those of
// which manuals differ.
func notByObjdump(in *Inst) bool {
	switch in.Map {
	case MapLegacy: // far pointers of 64 bits are Intel's; movsxd with both prefixes has REX.W's size
		return in.Rex&RexW != 0 && (in.Op == 0xff && (in.reg() == 3 || in.reg() == 5) || in.Op == 0x63)
	case Map0F:
		return in.Op == 0x1a || in.Op == 0x1b || in.Rex&RexW != 0 && (in.Op == 0xb2 || in.Op == 0xb4 || in.Op == 0xb5)
	case Map3DNow:
		return in.Prefix&PrefixOpSize != 0
	case Map0F3A: // elements of 16 bits are never read for all
		return in.Enc == EncEVEX && (in.Op == 0x42 || in.Op == 0x70 || in.Op == 0x72)
	}
	return false
}

var (
	memoryText = regexp.MustCompile(`(?:(\w+) (?:PTR|BCST) )?(?:\w\w:)?\[([^\]]*)\]`)
	ptrSizes   = map[string]uint16{"BYTE": 1, "WORD": 2, "DWORD": 4, "FWORD": 6, "QWORD": 8, "TBYTE": 10, "OWORD": 16, "XMMWORD": 16, "YMMWORD": 32, "ZMMWORD": 64}
)

// operandDifference compares the operand that ModRM names; false if there is none in either.
func operandDifference(in *Inst, code []byte, text string) (why string, ok bool) {
	var ops [MaxOperands]Operand
	n := in.Operands(code, &ops)
	text, _, _ = strings.Cut(text, " #")
	found := memoryText.FindStringSubmatch(text)
	if found == nil || !in.HasModRM {
		return "", false
	}
	for _, o := range ops[:n] {
		if o.Flags&OperandImplicit != 0 {
			continue
		}
		if size, ok := ptrSizes[found[1]]; ok && size != o.Size && o.Kind != OperandAddress && o.Kind != OperandPrefetch && o.Kind != OperandFlush {
			return fmt.Sprintf("%d bytes", o.Size), true
		}
		if ours, theirs := addressOf(&o), parseAddress(found[2]); ours != theirs {
			return fmt.Sprintf("address %+v, not %+v", ours, theirs), true
		}
		return "", true
	}
	return "no operand", true
}

// address is that of an operand; base and index are nothing or a register's name.
type address struct {
	base, index string
	disp        uint32
}

func addressOf(o *Operand) (a address) {
	a.disp = uint32(o.Disp)
	short := o.Flags&OperandAddr32 != 0
	if o.Base != NoRegister {
		a.base = generalText(o.Base, short)
	}
	switch {
	case o.Index == NoRegister:
	case o.Flags&OperandVSIB != 0: // xmm, ymm, zmm
		a.index = fmt.Sprintf("mm%d*%d", o.Index, o.Scale)
	default:
		a.index = fmt.Sprintf("%s*%d", generalText(o.Index, short), o.Scale)
	}
	return a
}

// parseAddress reads base+index*scale+displacement.
func parseAddress(text string) (a address) {
	for _, part := range strings.Split(strings.ReplaceAll(text, "-", "+-"), "+") {
		switch digits, minus := strings.CutPrefix(part, "-"); {
		case strings.HasPrefix(digits, "0x"):
			n := uint32(hexNumber([]byte(digits)))
			if minus {
				n = -n
			}
			a.disp += n
		case strings.Contains(part, "iz*"): // no index
		case strings.Contains(part, "mm"):
			a.index = part[1:]
		case strings.Contains(part, "*"):
			a.index = part
		default:
			a.base = part
		}
	}
	return a
}

func generalText(n byte, short bool) string {
	names := [17]string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "8", "9", "10", "11", "12", "13", "14", "15", "ip"}
	switch {
	case n >= 8 && n < 16 && short:
		return "r" + names[n] + "d"
	case short:
		return "e" + names[n]
	}
	return "r" + names[n]
}
