package x86

import (
	"bytes"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestEffects compares Effects with what instructions do where they run: those
// of the decoder's samples, and those of libcrypto, libm and libc.
func TestEffects(t *testing.T) {
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(cpu), " avx512bw ") {
		t.Skip("no AVX-512 here")
	}
	runner := filepath.Join(t.TempDir(), "effects")
	if out, err := exec.Command("gcc", "-O2", "-static", "-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x60000000", "-o", runner, "testdata/effects.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	thin := func(all [][]byte, n int) (some [][]byte) {
		r := rand.New(rand.NewPCG(3, 4))
		for range n {
			some = append(some, all[r.IntN(len(all))])
		}
		return some
	}
	n := lane.Of(3000, 40_000)
	for name, samples := range map[string][][]byte{
		"legacy": thin(legacySamples(), 2*n), "vex": thin(vexSamples(), n), "evex": thin(evexSamples(), n), "real": realSamples(t, n),
	} {
		t.Run(name, func(t *testing.T) { compareEffects(t, runner, samples) })
	}
}

// realSamples are different instructions of libraries.
func realSamples(t *testing.T, n int) (list [][]byte) {
	seen := map[string]bool{}
	for _, name := range []string{"libcrypto.so.3", "libm.so.6", "libc.so.6"} {
		code := textOf(t, filepath.Join("/usr/lib/x86_64-linux-gnu", name))
		var in Inst
		for at := 0; at < len(code) && len(seen) < n; {
			if Decode(code[at:], &in) != nil {
				at++
				continue
			}
			b := code[at : at+int(in.Len)]
			key := fmt.Sprintf("%x", b[:min(len(b), 5)])
			if !seen[key] {
				seen[key] = true
				list = append(list, b)
			}
			at += int(in.Len)
			at += at % 7 // not all from the beginning
		}
	}
	return list
}

// unfit are instructions whose outcome is not a matter of registers alone, or that
// would change the process.
func unfit(in *Inst) bool {
	if in.Kind != Plain || in.Enc == EncXOP || in.Prefix&(PrefixFS|PrefixGS|PrefixLock) != 0 || in.RIPRel() {
		return true
	}
	switch in.Map {
	case MapLegacy:
		switch in.Op {
		case 0x8e, 0x9d, 0xc8, 0xc9, 0xcf, 0x8c, 0xfb, 0xfa, 0xc6, 0xc7:
			return in.Op != 0xc6 && in.Op != 0xc7 || in.ModRM == 0xf8
		case 0xd9, 0xdd, 0xdb, 0xdf: // may load a control word
			return !in.regForm()
		case 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed, 0xee, 0xef, 0x6c, 0x6d, 0x6e, 0x6f:
			return true
		}
	case Map0F:
		switch in.Op {
		case 0x00, 0x01, 0x02, 0x03, 0x31, 0x33, 0xa0, 0xa1, 0xa8, 0xa9, 0xae, 0xb2, 0xb4, 0xb5, 0xa2, 0xc7, 0x77, 0xff, 0xb9, 0x0e, 0xa6, 0xa7:
			return true
		}
	}
	return false
}

func compareEffects(t *testing.T, runner string, samples [][]byte) {
	var records bytes.Buffer
	var list [][]byte
	for _, s := range samples {
		b := append(append([]byte{}, s...), 0x11, 0x13, 0x17, 0, 0x10, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0)
		var in Inst
		if Decode(b, &in) != nil || unfit(&in) {
			continue
		}
		b = b[:in.Len]
		list = append(list, b)
		record := make([]byte, 16)
		record[0] = in.Len
		copy(record[1:], b)
		records.Write(record)
	}
	cmd := exec.Command("setarch", "-R", runner) // what it meets by chance it meets in each run
	cmd.Stdin = &records
	out, err := cmd.Output()
	const registers = 72
	if err != nil || len(out) != registers*len(list) {
		t.Fatalf("%v: %d of %d answers", err, len(out)/registers, len(list))
	}
	ran := 0
	for i, b := range list {
		found := out[i*registers:][:registers]
		if found[0] == 255 {
			continue
		}
		ran++
		checkEffects(t, b, found)
	}
	t.Logf("%d of %d instructions ran", ran, len(list))
	if ran < len(list)/10 {
		t.Error("too few to compare")
	}
}

func checkEffects(t *testing.T, code, found []byte) {
	var in Inst
	if Decode(code, &in) != nil {
		t.Fatal("BUG")
	}
	e := in.Effects(code)
	for r, f := range found {
		bit, name := registerBit(r)
		has := func(s RegSet) bool { return !s.And(bit).Empty() }
		switch {
		case f&1 != 0 && !has(e.Written):
			t.Errorf("% x %s writes %s", code, Text(code, 0), name)
		case f&2 != 0 && !has(e.Read):
			t.Errorf("% x %s reads %s", code, Text(code, 0), name)
		case f&4 != 0 && has(e.Killed) && !has(e.Read):
			t.Errorf("% x %s keeps some of %s", code, Text(code, 0), name)
		}
	}
}

// registerBit is register r of testdata/effects.c.
func registerBit(r int) (RegSet, string) {
	switch {
	case r < 16:
		return general(byte(r)), fmt.Sprintf("general %d", r)
	case r < 64:
		return RegSet{V: 1 << (r - 16)}, fmt.Sprintf("vector bit %d", r-16)
	}
	return mask(byte(r - 64)), fmt.Sprintf("k%d", r-64)
}

func textOf(t *testing.T, path string) []byte {
	f, err := elf.Open(path)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	text, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
