package seccomp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

const (
	allow, refuse, kill = 0x7fff0000, 0x00050001, 0x80000000

	loadAbs, jumpEq, jumpGe, jumpSet, ret = classLD | modeABS, classJMP | opJEQ, classJMP | opJGE, classJMP | opJSET, classRET
)

func TestOf(t *testing.T) {
	// As libseccomp begins.
	head := []Inst{{loadAbs, 0, 0, dataArch}, {jumpEq, 1, 0, archX8664}, {ret, 0, 0, kill}, {loadAbs, 0, 0, dataNr}, {jumpGe, 0, 1, 0x40000000}, {ret, 0, 0, kill}}
	with := func(more ...Inst) []Inst { return append(append([]Inst{}, head...), more...) }
	for _, row := range []struct {
		name   string
		filter []Inst
		nr     int
		want   Outcomes
	}{
		{"all is allowed", []Inst{{ret, 0, 0, allow}}, Any, Allowed},
		{"another machine's are killed", with(Inst{ret, 0, 0, allow}), Any, Allowed},
		{"one is refused", with(Inst{jumpEq, 0, 1, 9}, Inst{ret, 0, 0, refuse}, Inst{ret, 0, 0, allow}), Any, Allowed | Refused},
		{"that one", with(Inst{jumpEq, 0, 1, 9}, Inst{ret, 0, 0, refuse}, Inst{ret, 0, 0, allow}), 9, Refused},
		{"another", with(Inst{jumpEq, 0, 1, 9}, Inst{ret, 0, 0, refuse}, Inst{ret, 0, 0, allow}), 10, Allowed},
		{"one is killed", with(Inst{jumpEq, 0, 1, 9}, Inst{ret, 0, 0, kill}, Inst{ret, 0, 0, allow}), Any, Allowed | Else},
		{"by an argument", with(Inst{jumpEq, 0, 3, 9}, Inst{loadAbs, 0, 0, 16}, Inst{jumpSet, 0, 1, 4}, Inst{ret, 0, 0, refuse}, Inst{ret, 0, 0, allow}), 9, Allowed | Refused},
		{"by where it is made", []Inst{{loadAbs, 0, 0, 8}, {jumpEq, 0, 1, 9}, {ret, 0, 0, kill}, {ret, 0, 0, allow}}, 9, Allowed | Else},
		{"the accumulator", []Inst{{loadAbs, 0, 0, 16}, {ret | returnA, 0, 0, 0}}, 9, Allowed | Refused | Else},
		{"falls off the end", []Inst{{loadAbs, 0, 0, 0}}, 9, Else},
		{"jumps off the end", []Inst{{classJMP | opJA, 0, 0, 0xffffffff}}, 9, Else},
		{"divides by zero", []Inst{{classALU | opDIV | sourceX, 0, 0, 0}, {ret, 0, 0, allow}}, 9, Allowed | Else},
		{"others answer", []Inst{{ret, 0, 0, 0x7fc00000}}, Any, Else},
	} {
		if got := Of(row.filter, row.nr); got != row.want {
			t.Errorf("%s: %b, not %b", row.name, got, row.want)
		}
	}
}

func TestSeesAddresses(t *testing.T) {
	for at, want := range map[uint32]bool{dataNr: false, dataArch: false, 8: true, 12: true, 16: false} {
		if got := SeesAddresses([]Inst{{loadAbs, 0, 0, at}, {ret, 0, 0, allow}}); got != want {
			t.Errorf("%d: %v", at, got)
		}
	}
}

func TestParse(t *testing.T) {
	if _, err := Parse(make([]byte, InstSize+1)); err == nil {
		t.Error("half an instruction is understood")
	}
	if _, err := Parse(nil); err == nil {
		t.Error("nothing is understood")
	}
	if _, err := Parse(make([]byte, (mostInsts+1)*InstSize)); err == nil {
		t.Error("a filter is longer than the kernel's may be")
	}
	got, err := Parse([]byte{6, 0, 1, 2, 0, 0, 0xff, 0x7f})
	if err != nil || len(got) != 1 || got[0] != (Inst{6, 1, 2, allow}) {
		t.Errorf("%v, %v", got, err)
	}
}

// run is what the kernel does.
func run(filter []Inst, data []byte) value {
	var a, x uint32
	var mem [16]uint32
	for pc := 0; pc < len(filter); pc++ {
		i := filter[pc]
		operand := i.K
		if i.Code&sourceX != 0 {
			operand = x
		}
		switch i.Code & 7 {
		case classLD, classLDX:
			v := mem[i.K%16]
			switch i.Code & 0xe0 {
			case modeIMM:
				v = i.K
			case modeABS:
				v = binary.LittleEndian.Uint32(data[i.K:])
			case modeLEN:
				v = dataSize
			}
			if i.Code&7 == classLD {
				a = v
			} else {
				x = v
			}
		case classST:
			mem[i.K%16] = a
		case classSTX:
			mem[i.K%16] = x
		case classALU:
			if i.Code&0xf0 == opDIV && operand == 0 {
				return value{constant, kill}
			}
			a = computed(Inst{i.Code &^ sourceX, 0, 0, operand}, value{constant, a}).k
		case classJMP:
			if i.Code&0xf0 == opJA {
				pc += int(i.K)
			} else if taken, _ := ways(Inst{i.Code &^ sourceX, 0, 0, operand}, value{constant, a}); taken {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		case classRET:
			if i.Code&returnA != 0 {
				return value{constant, a}
			}
			return value{constant, i.K}
		case classMISC:
			if i.Code&0xf8 == miscTXA {
				a = x
			} else {
				x = a
			}
		}
	}
	return value{}
}

// TestRandom: what the kernel would do is among what is said.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...uint32) uint32 { return all[r.IntN(len(all))] }
	for range 20000 {
		n := 3 + r.IntN(20)
		filter := make([]Inst, n)
		for pc := range filter[:n-1] {
			left := n - 2 - pc
			i := Inst{K: pick(0, 1, 9, 10, 231, 511, 0x40000000, archX8664, uint32(r.IntN(64)))}
			switch r.IntN(8) {
			case 0, 1:
				i.Code, i.K = loadAbs, pick(0, 4, 8, 16, 24)
			case 2:
				i.Code = uint16(pick(classLD|modeIMM, classLDX|modeIMM, classST, classSTX, classLD|0x60, classLDX|0x60, classLD|modeLEN))
				if i.Code&0xe0 == 0x60 || i.Code == classST || i.Code == classSTX {
					i.K %= 16
				}
			case 3:
				i.Code = classALU | uint16(pick(opADD, opSUB, opMUL, opDIV, opOR, opAND, opLSH, opRSH, opNEG, opXOR)) | uint16(pick(0, sourceX))
			case 4:
				i.Code = uint16(pick(classMISC, classMISC|miscTXA))
			case 5:
				i.Code, i.K = ret, pick(allow, refuse, kill)
			default:
				i.Code = classJMP | uint16(pick(opJEQ, opJGT, opJGE, opJSET)) | uint16(pick(0, 0, sourceX))
				i.Jt, i.Jf = uint8(r.IntN(left+1)), uint8(r.IntN(left+1))
			}
			filter[pc] = i
		}
		filter[n-1] = Inst{ret | uint16(pick(0, returnA)), 0, 0, pick(allow, refuse, kill)}
		for range 8 {
			data := make([]byte, dataSize)
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			nr := int(pick(0, 1, 9, 10, 231, uint32(r.IntN(numbers))))
			binary.LittleEndian.PutUint32(data[dataNr:], uint32(nr))
			binary.LittleEndian.PutUint32(data[dataArch:], archX8664)
			for _, asked := range []int{nr, Any} {
				if got, want := Of(filter, asked), outcomeOf(run(filter, data)); got&want != want {
					t.Fatalf("%+v\nsystem call %d, asked for %d: %b, not %b", filter, nr, asked, got, want)
				}
			}
		}
	}
}
