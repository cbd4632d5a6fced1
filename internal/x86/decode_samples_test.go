package x86

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

const stride = 16 // of samples in the file that objdump reads

// TestObjdumpSamples compares Decode with objdump on made-up instructions.
func TestObjdumpSamples(t *testing.T) {
	for name, samples := range map[string][][]byte{
		"legacy": legacySamples(),
		"vex":    vexSamples(),
		"evex":   evexSamples(),
		"xop":    xopSamples(),
		"random": randomSamples(200_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareSamples(t, lane.Thin(samples, 5)) // no power of two, nor a multiple of 7: each opcode is among them
		})
	}
}

// modRMSamples has every reg with every shape of operand.
func modRMSamples() (m []byte) {
	for reg := range byte(8) {
		for _, shape := range []byte{0x00, 0x04, 0x05, 0x41, 0x84, 0xc0, 0xc1} {
			m = append(m, shape|reg<<3)
		}
	}
	return m
}

// legacySamples has every opcode of the legacy maps behind every mandatory
// prefix and with and without REX.W.
func legacySamples() (s [][]byte) {
	for _, prefix := range []string{"", "\x66", "\xf3", "\xf2", "\x67"} {
		for _, rex := range []string{"", "\x48"} {
			for _, escape := range []string{"", "\x0f", "\x0f\x38", "\x0f\x3a"} {
				for op := range 256 {
					for _, m := range modRMSamples() {
						s = append(s, append([]byte(prefix+rex+escape), byte(op), m))
					}
				}
			}
		}
	}
	return s
}

func vexSamples() (s [][]byte) {
	for m := range byte(5) {
		for w := range byte(16) { // W, L, pp
			for op := range 256 {
				for _, modRM := range modRMSamples()[:28] {
					s = append(s, []byte{0xc4, 0xe0 | m, w&8<<4 | 0x78 | w&7, byte(op), modRM})
				}
			}
		}
	}
	return s
}

func xopSamples() (s [][]byte) {
	for m := range byte(16) {
		for _, w := range []byte{0, 0x80, 1} {
			for op := range 256 {
				for _, modRM := range modRMSamples()[:28] {
					s = append(s, []byte{0x8f, 0xe0 | m, w | 0x78, byte(op), modRM})
				}
			}
		}
	}
	return s
}

func evexSamples() (s [][]byte) {
	for m := range byte(8) {
		for w := range byte(8) { // W, pp
			for _, mask := range []byte{0x08, 0x09, 0x48, 0x49} { // 128 and 512 bits, k0 and k1
				for op := range 256 {
					for _, modRM := range modRMSamples()[7:21] {
						s = append(s, []byte{0x62, 0xf0 | m, w&4<<5 | 0x7c | w&3, mask, byte(op), modRM})
					}
				}
			}
		}
	}
	return s
}

// randomSamples has random bytes, half of them behind random prefixes.
func randomSamples(n int) (s [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	const prefixes = "\x66\xf2\xf3\x67\x2e\x64\xf0\x48\x41"
	for range n {
		b := make([]byte, stride-1)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		for i := 0; r.IntN(2) == 0 && i < len(b); i++ {
			b[i] = prefixes[r.IntN(len(prefixes))]
		}
		s = append(s, b)
	}
	return s
}

func compareSamples(t *testing.T, samples [][]byte) {
	var code []byte
	for _, s := range samples {
		code = append(code, s...)
		for len(code)%stride != 0 {
			code = append(code, 0x90) // also SIB byte, displacement and immediate
		}
	}
	path := filepath.Join(t.TempDir(), "samples")
	if err := os.WriteFile(path, code, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &sampleComparison{comparison: comparison{t: t, code: code}}
	objdump(t, uint64(len(code)), c.join, "-D", "-b", "binary", "-m", "i386:x86-64", path)
	t.Logf("%d samples: %d accepted by both, %d only by Decode, %d only by objdump",
		len(samples), c.both, c.onlyOurs, c.onlyObjdump)
	if c.both < lane.Of(200, 1000) {
		t.Error("too few to compare")
	}
}

// sampleComparison compares the instructions at multiples of stride.
type sampleComparison struct {
	comparison
	start                       uint64
	prefixes                    []byte // printed by objdump as an instruction of their own
	both, onlyOurs, onlyObjdump int
}

// join joins prefixes that objdump prints as instructions of their own with
// the instruction.
func (c *sampleComparison) join(pc, end uint64, text []byte) {
	if len(c.prefixes) == 0 || pc%stride == 0 {
		c.start, c.prefixes = pc, c.prefixes[:0]
	}
	if op, operands := splitPrefixes(string(text)); operands == "" && isPrefixText(op) {
		c.prefixes = append(append(c.prefixes, text...), ' ')
		return
	}
	// objdump ends an instruction at a REX before another prefix, and forgets
	// the prefixes before it. The CPU ignores only the REX (SDM vol. 2, 2.2.1).
	if c.start%stride == 0 && !bytes.Contains(c.prefixes, []byte("rex")) {
		c.sample(c.start, end, append(c.prefixes, text...))
	}
	c.prefixes = c.prefixes[:0]
}

func (c *sampleComparison) sample(pc, end uint64, text []byte) {
	code := c.code[pc:]
	var in Inst
	ours := Decode(code, &in) == nil
	theirs := !bytes.Contains(text, []byte("(bad)")) && !bytes.Contains(text, []byte(".byte"))
	switch {
	case ours && theirs:
		c.both++
		if why := c.difference(code, pc, end, text); why != "" {
			c.fail(pc, text, why)
		}
	case ours:
		c.onlyOurs++
	case theirs:
		c.onlyObjdump++
		if end-pc <= maxLen && !vexAfterPrefix(code) {
			c.fail(pc, text, "only objdump accepts it")
		}
	}
}

func (c *sampleComparison) fail(pc uint64, text []byte, why string) {
	if c.failures++; c.failures <= 20 {
		c.t.Errorf("% x\t%s\n\t%s", c.code[pc:pc+stride], text, why)
	}
}

// vexAfterPrefix reports VEX, EVEX or XOP behind a prefix with which the CPU
// raises #UD (SDM vol. 2, 2.3.2 to 2.3.4); objdump does not mind.
func vexAfterPrefix(code []byte) bool {
	i := 0
	for oneByte[code[i]]&attrPrefix != 0 {
		i++
	}
	return i > 0 && bytes.IndexByte([]byte{0xc4, 0xc5, 0x62, 0x8f}, code[i]) >= 0
}
