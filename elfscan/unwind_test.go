package elfscan

import (
	"bytes"
	"os"
	"testing"
)

// TestFrames: the FDEs in full are those that Scan finds, and their rules lie in
// them, in order.
func TestFrames(t *testing.T) {
	for _, path := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/bin/ls", "/usr/bin/gdb"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		list, err := Frames(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		o, err := Scan(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		starts := map[uint64]bool{}
		for _, f := range list {
			starts[f.Addr] = true
			for i, r := range f.Rules {
				if r.Addr < f.Addr || r.Addr > f.Addr+f.Size || (i > 0 && r.Addr < f.Rules[i-1].Addr) {
					t.Fatalf("%s: rule %d of %#x is of %#x", path, i, f.Addr, r.Addr)
				}
			}
			if f.Rules[0].Addr != f.Addr || len(f.Rules[0].Ops) == 0 {
				t.Fatalf("%s: %#x has no rule at its start", path, f.Addr)
			}
		}
		missing := 0
		for i := range o.Functions {
			if o.Functions[i].HasFDE && !starts[o.Functions[i].Addr] {
				missing++
			}
		}
		if missing > 2 { // __restore_rt's is a signal frame
			t.Errorf("%s: %d of %d FDEs are missing", path, missing, len(list))
		}
	}
}

// FuzzFrames: whatever the bytes are, there is a result or an error; of call sites, too.
func FuzzFrames(f *testing.F) {
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		f.Skip(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := Frames(bytes.NewReader(b), int64(len(b))); list != nil && err != nil {
			t.Errorf("%d frames and %v", len(list), err)
		}
		if list, err := CallSites(bytes.NewReader(b), int64(len(b))); list != nil && err != nil {
			t.Errorf("%d call sites and %v", len(list), err)
		}
	})
}
