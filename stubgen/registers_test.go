package stubgen

import (
	"bytes"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
)

// String is the form of testdata/keeps.s.
func (k Keep) String() string {
	if k.Custom {
		return "custom"
	}
	var list []string
	names := [16]string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
	for i, name := range names {
		if k.Registers.G>>i&1 != 0 {
			list = append(list, name)
		}
	}
	for i := range 16 {
		switch k.Registers.V >> i & 0x1_0001 {
		case 1:
			list = append(list, fmt.Sprintf("xmm%d", i))
		case 0x1_0001:
			list = append(list, fmt.Sprintf("ymm%d", i))
		}
	}
	for i := range 8 {
		if k.Registers.G>>(16+i)&1 != 0 {
			list = append(list, fmt.Sprintf("k%d", i))
		}
	}
	for i := range 16 {
		if k.Registers.V>>(32+i)&1 != 0 {
			list = append(list, fmt.Sprintf("zmm%d", 16+i))
		}
	}
	if k.Align {
		list = append(list, "align")
	}
	text := strings.Join(list, " ")
	switch {
	case text == "":
		return "nothing"
	case k.Stack == ManyWords:
		text += ", any words"
	case k.Stack > 0:
		text += fmt.Sprintf(", %d words", k.Stack)
	}
	return text
}

// TestKeeps holds what has to be kept for made-up functions against what is written
// beside them.
func TestKeeps(t *testing.T) {
	source, err := os.ReadFile("testdata/keeps.s")
	if err != nil {
		t.Fatal(err)
	}
	o := load(t, link(t, "testdata/keeps.s"))
	keeps := NewSurvey(o, 1).Keeps(1)
	found := regexp.MustCompile(`(?m)^# keeps ([^:\n]*)(?::.*)?\nFN (\w+)$`).FindAllStringSubmatch(string(source), -1)
	if len(found) < 30 {
		t.Fatalf("%d functions", len(found))
	}
	for _, m := range found {
		if got := keeps[o.named(t, m[2])].String(); got != m[1] {
			t.Errorf("%s keeps %s, not %s", m[2], got, m[1])
		}
	}
}

// TestKeepsOfPrograms says what has to be kept in real programs: most functions pay
// nothing, and hardly any has a calling convention of its own.
func TestKeepsOfPrograms(t *testing.T) {
	for _, path := range []string{
		"/usr/bin/lua5.4", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		scan, err := elfscan.Scan(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		tally := keepTally{}
		for i, k := range NewSurvey(FromFile(scan, b, 0), 0).Keeps(0) {
			if scan.Functions[i].Excluded == ledger.ReasonNone {
				tally.add(&k)
			}
		}
		t.Logf("%s: %v", filepath.Base(path), tally)
		if tally.registers*4 > tally.functions || tally.custom*50 > tally.functions {
			t.Errorf("%s: too many", path)
		}
	}
}

type keepTally struct{ functions, registers, general, vectors, wide, number, align, custom, unknown int }

func (n *keepTally) add(k *Keep) {
	n.functions++
	r := k.Registers
	switch {
	case k.Custom:
		n.custom++
		return
	case !k.Needed():
		return
	case k.Stack == ManyWords:
		n.unknown++
		return
	case r.Empty():
		n.align++
		return
	}
	n.registers++
	n.number += bits.OnesCount32(r.G) + bits.OnesCount64(r.V)
	if r.G&0xffff != 0 {
		n.general++
	}
	if r.V&0xffff != 0 {
		n.vectors++
	}
	if r.V>>16 != 0 || r.G>>16 != 0 {
		n.wide++
	}
}

func (n keepTally) String() string {
	return fmt.Sprintf("of %d functions %d keep registers (%.1f each; %d general ones, %d vectors, %d wide), %d only have to align; refused: %d custom, %d with stack arguments",
		n.functions, n.registers, float64(n.number)/float64(max(1, n.registers)), n.general, n.vectors, n.wide, n.align, n.custom, n.unknown)
}

// BenchmarkKeeps is the analysis of cc1.
func BenchmarkKeeps(b *testing.B) {
	content, err := os.ReadFile("/usr/lib/gcc/x86_64-linux-gnu/12/cc1")
	if err != nil {
		b.Skip(err)
	}
	scan, err := elfscan.Scan(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		b.Fatal(err)
	}
	s := NewSurvey(FromFile(scan, content, 0), 0)
	for b.Loop() {
		s.Keeps(0)
	}
}

// TestKeepNumbers: the numbers are those of libdynprof/resident/stubs/keeper.h.
func TestKeepNumbers(t *testing.T) {
	source, err := os.ReadFile("../libdynprof/resident/stubs/keeper.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"RAX": keepRAX, "RDX": keepRDX, "XMM0": keepXMM0, "XMM1": keepXMM1, "XMM2_7": keepXMM2to7, "XMM8_15": keepXMM8to15, "WIDE": keepWide,
		"STACK_UNKNOWN": keepStackUnknown, "CUSTOM": keepCustom, "SIZE": KeepSize,
	} {
		m := regexp.MustCompile(`#define DP_KEEP_` + name + ` (\w+)`).FindSubmatch(source)
		var got int
		if m != nil {
			fmt.Sscan(string(m[1]), &got)
		}
		if got != want {
			t.Errorf("DP_KEEP_%s is %d, not %d", name, got, want)
		}
	}
	all := Keep{Registers: x86.CallerSaved, Stack: 3}
	if what := all.what(); what != 0x37f {
		t.Errorf("all of them are %#x", what)
	}
}
