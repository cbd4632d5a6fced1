package debugfile

import (
	"bytes"
	"encoding/hex"
	"hash/crc32"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// packed is content as xz packs it.
func packed(t testing.TB, content []byte, flags ...string) []byte {
	t.Helper()
	xz, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("no xz on this machine (make deps installs it)")
	}
	c := exec.Command(xz, append([]string{"-c"}, flags...)...)
	c.Stdin = bytes.NewReader(content)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUnpack(t *testing.T) {
	content := bytes.Repeat([]byte("all that is packed "), 5000)
	for _, flags := range [][]string{{}, {"-9"}, {"--check=none"}, {"--check=crc32"}, {"--check=sha256"}, {"--block-size=10000"}, {"-T2", "--block-size=30000"}} {
		b := packed(t, content, flags...)
		if got, err := unpack(b); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%v: %d bytes, %v", flags, len(got), err)
		}
		for _, n := range []int{0, 5, 12, 20, len(b) / 2} {
			if got, err := unpack(b[:n]); err == nil {
				t.Errorf("%v, cut at %d: %d bytes", flags, n, len(got))
			}
		}
		if len(flags) == 0 {
			damaged := slices.Clone(b)
			damaged[len(damaged)/2] ^= 1
			if _, err := unpack(damaged); err == nil {
				t.Error("damaged data is taken")
			}
		}
	}
	if got, err := unpack(packed(t, nil)); err != nil || len(got) != 0 {
		t.Errorf("nothing: %q, %v", got, err)
	}
	for _, flags := range [][]string{{"--x86", "--lzma2"}, {"--lzma2=dict=128MiB"}} {
		if _, err := unpack(packed(t, content, flags...)); err == nil {
			t.Errorf("%v is taken", flags)
		}
	}
}

// TestUnpackBomb: what would unpack to more than there is memory for is an error, and a
// dictionary is not made as large as a header says.
func TestUnpackBomb(t *testing.T) {
	if _, err := unpack(packed(t, make([]byte, maxUnpacked+1), "-1")); err == nil || !strings.Contains(err.Error(), "more than 128 MB") {
		t.Error(err)
	}
	head := []byte{2, 0, 0x21, 1, 40, 0, 0, 0}
	head = le.AppendUint32(head, crc32.ChecksumIEEE(head))
	b, _ := hex.DecodeString("fd377a585a000004e6d6b446")
	if _, err := unpack(append(append(b, head...), 0)); err == nil || !strings.Contains(err.Error(), "dictionary of more than 64 MB") {
		t.Error(err)
	}
}

// TestCheck: names that overlap are refused where copies of them would be large, and files
// of every day are not.
func TestCheck(t *testing.T) {
	const sections, names = 2000, 1 << 19
	b := make([]byte, 64+64*sections+names+1)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[18:], 62)
	le.PutUint64(b[40:], 64)
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], sections)
	le.PutUint16(b[62:], 1)
	le.PutUint64(b[64+64+24:], 64+64*sections)
	le.PutUint64(b[64+64+32:], names)
	for i := range names - 1 {
		b[64+64*sections+i] = 'x'
	}
	if err := Check(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), "names") {
		t.Error(err)
	}
	for _, path := range []string{"/proc/self/exe", "/bin/sh", "/lib/x86_64-linux-gnu/libc.so.6"} {
		f, size, err := Regular(path)
		if err != nil {
			continue // not on this machine
		}
		if err := Check(f, size); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		f.Close()
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed(f, []byte("text")))
	f.Add(packed(f, bytes.Repeat([]byte("text"), 100), "--block-size=50"))
	f.Fuzz(func(_ *testing.T, b []byte) { unpack(b) })
}

// FuzzELF: whatever a file holds, there are symbols or an error, or neither.
func FuzzELF(f *testing.F) {
	if self, err := os.ReadFile("/proc/self/exe"); err == nil && len(self) > 1<<12 {
		f.Add(self[:1<<12])
	}
	small, names := make([]byte, 64+3*64), "\x00.symtab\x00f\x00"
	copy(small, "\x7fELF\x02\x01\x01")
	le.PutUint16(small[18:], 62)
	le.PutUint64(small[40:], 64)
	le.PutUint16(small[58:], 64)
	le.PutUint16(small[60:], 3)
	le.PutUint16(small[62:], 1)
	for i, s := range []struct{ kind, at, size, link uint32 }{{}, {3, 256, uint32(len(names)), 0}, {2, 280, 48, 1}} {
		h := small[64+64*i:]
		le.PutUint32(h, 1)
		le.PutUint32(h[4:], s.kind)
		le.PutUint64(h[24:], uint64(s.at))
		le.PutUint64(h[32:], uint64(s.size))
		le.PutUint32(h[40:], s.link)
	}
	symbol := make([]byte, 24)
	le.PutUint32(symbol, 9)
	symbol[4], symbol[6] = 0x12, 1
	le.PutUint64(symbol[8:], 0x1000)
	small = append(append(append(append(small, names...), make([]byte, 280-256-len(names))...), make([]byte, 24)...), symbol...)
	if g, err := open(bytes.NewReader(small), int64(len(small))); err != nil {
		f.Fatal(err)
	} else if s, err := g.symbols(); err != nil || len(s[0x1000]) != 1 || s[0x1000][0] != "f" {
		f.Fatalf("%v, %v", s, err)
	}
	f.Add(small)
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		g.buildID()
		g.link()
		g.symbols()
		g.named(".gnu_debugdata", maxUnpacked)
		Check(bytes.NewReader(b), int64(len(b)))
	})
}
