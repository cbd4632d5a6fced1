package keep

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
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// text is the form of testdata/keeps.s.
func text(k *emit.Keep) string {
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
	words := strings.Join(list, " ")
	switch {
	case words == "":
		return "nothing"
	case k.Stack == emit.ManyWords:
		words += ", any words"
	case k.Stack > 0:
		words += fmt.Sprintf(", %d words", k.Stack)
	}
	return words
}

// TestKeeps holds what has to be kept for made-up functions against what is written
// beside them.
func TestKeeps(t *testing.T) {
	source, err := os.ReadFile("testdata/keeps.s")
	if err != nil {
		t.Fatal(err)
	}
	o := fixture.Load(t, fixture.Link(t, "testdata/keeps.s"))
	keeps := Find(survey.New(o, 1), 1)
	found := regexp.MustCompile(`(?m)^# keeps ([^:\n]*)(?::.*)?\nFN (\w+)$`).FindAllStringSubmatch(string(source), -1)
	if len(found) < 30 {
		t.Fatalf("%d functions", len(found))
	}
	for _, m := range found {
		if got := text(&keeps[fixture.Named(t, o, m[2])]); got != m[1] {
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
		for i, k := range Find(survey.New(stubgen.FromFile(scan, b, 0), 0), 0) {
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

func (n *keepTally) add(k *emit.Keep) {
	n.functions++
	r := k.Registers
	switch {
	case k.Custom:
		n.custom++
		return
	case !k.Needed():
		return
	case k.Stack == emit.ManyWords:
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
	s := survey.New(stubgen.FromFile(scan, content, 0), 0)
	for b.Loop() {
		Find(s, 0)
	}
}
