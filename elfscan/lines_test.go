package elfscan

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLineStarts compares the addresses with those that objdump decodes.
func TestLineStarts(t *testing.T) {
	for _, build := range []string{
		"gcc -O2 -g", "gcc -O0 -g -gdwarf-2", "gcc -O1 -g -gdwarf-3", "gcc -O2 -g -gdwarf-4 -no-pie",
		"gcc -O2 -g -gz=zlib", "gcc -O3 -g -ffunction-sections", "clang -O2 -g", "clang -O0 -g -gdwarf-4",
	} {
		t.Run(build, func(t *testing.T) {
			args := strings.Fields(build)
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skipf("no %s on this machine (make deps installs it)", args[0])
			}
			out := filepath.Join(t.TempDir(), "program")
			args = append(args, "-o", out, "testdata/parts.c")
			if msg, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v %s", build, err, msg)
			}
			m := openImage(t, out)
			got, err := LineStarts(m.r, m.size)
			if err != nil {
				t.Fatal(err)
			}
			text, err := exec.Command("objdump", "--dwarf=decodedline", out).Output()
			if err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for _, line := range strings.Split(string(text), "\n") {
				f := strings.Fields(line)
				if len(f) < 3 || f[1] == "-" { // the end of a sequence
					continue
				}
				if addr, err := strconv.ParseUint(strings.TrimPrefix(f[2], "0x"), 16, 64); err == nil && strings.HasPrefix(f[2], "0x") {
					want = append(want, addr)
				}
			}
			slices.Sort(want)
			if want = slices.Compact(want); !slices.Equal(got, want) || len(got) < 20 {
				t.Errorf("got  %x\nwant %x", got, want)
			}
		})
	}
}

// FuzzLineStarts: whatever the bytes are, addresses or an error.
func FuzzLineStarts(f *testing.F) {
	f.Add([]byte{
		46, 0, 0, 0, 3, 0, 20, 0, 0, 0, 1, 1, 251, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0,
		0, 9, 2, 0, 16, 0, 0, 0, 0, 0, 0, 1, 0x84, 8, 9, 1, 0, 0, 1, 1,
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := linePrograms{text: spans{{0x1000, 0x2000}}}
		if err := p.all(bytes.Clone(b)); err == nil && len(p.starts) > len(b) {
			t.Errorf("%d addresses from %d bytes", len(p.starts), len(b))
		}
	})
}
