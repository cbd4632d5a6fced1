package procmaps

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const text = `55d1c0a00000-55d1c0a02000 r--p 00000000 fe:00 1311                       /usr/bin/a b
7f0000000000-7f0000001000 r-xs 00001000 00:01 7 
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
`
	got, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mapping{
		{Start: 0x55d1c0a00000, End: 0x55d1c0a02000, Prot: ProtRead, Dev: "fe:00", Inode: 1311, Path: "/usr/bin/a b"},
		{Start: 0x7f0000000000, End: 0x7f0000001000, Prot: ProtRead | ProtExec, Shared: true, Offset: 0x1000, Dev: "00:01", Inode: 7},
		{Start: 0x7ffc00000000, End: 0x7ffc00021000, Prot: ProtRead | ProtWrite, Dev: "00:00", Path: "[stack]"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d mappings, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("mapping %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	for _, bad := range []string{"x", "1-2", "1-2 r-xp zz 0:0 0", "2-1 r-xp 0 0:0 0", "1-2 rx 0 0:0 0"} {
		if _, err := Parse(strings.NewReader(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestSelfHoldsThisCode(t *testing.T) {
	all, err := Of("self")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Prot&ProtExec != 0 && m.Inode != 0 {
			return
		}
	}
	t.Error("no executable file mapping among our own")
}

func FuzzParse(f *testing.F) {
	f.Add("55d1c0a00000-55d1c0a02000 r--p 00000000 fe:00 1311   /usr/bin/a b\n")
	f.Add("1-2 rx")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range all {
			if m.End < m.Start {
				t.Errorf("%+v", m)
			}
		}
	})
}
