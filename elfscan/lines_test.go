package elfscan

import (
	"bytes"
	"os"
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
			out := lined(t, args...)
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

// lined compiles a program.
func lined(t *testing.T, compiler ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	args := append(compiler[1:], "-o", out, "testdata/parts.c")
	if msg, err := exec.Command(compiler[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", compiler, err, msg)
	}
	return out
}

// TestLinesTooLarge: what claims to be larger than is read is an error, not a part.
func TestLinesTooLarge(t *testing.T) {
	content, err := os.ReadFile(lined(t, "gcc", "-g", "-gz=zlib"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := open(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.sections {
		if s := &f.sections[i]; s.name == ".debug_line" {
			le.PutUint64(content[s.Off+8:], maxDebug+1)
		}
	}
	if starts, err := LineStarts(bytes.NewReader(content), int64(len(content))); err == nil || !strings.Contains(err.Error(), "more than are read") {
		t.Errorf("%d lines, %v", len(starts), err)
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
