package heat

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const smaps = `00400000-00402000 r-xp 00000000 fe:00 131 /opt/a b
Size:                  8 kB
Rss:                   4 kB
VmFlags: rd ex mr mw me
7ffd1000-7ffd3000 rw-p 00000000 00:00 0                          [stack]
Rss:                   8 kB
7fff00000000-7fff00001000 rw-p 00000000 00:00 0 
Rss:                   0 k`

// TestShadow: pages that are touched are ranges, by what was done with them, and are there
// again when they are read; what a program has written there is no reason to fail.
func TestShadow(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Skip(err)
	}
	defer s.Close()
	if err := s.Write("none", [16]byte{}); err != nil {
		t.Error("a shadow that nobody has had:", err)
	}
	program, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	put := func(at int64, b ...byte) {
		t.Helper()
		if _, err := program.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	put(2*0x400, 1, 0, 1, 0, 1, 1)
	put(shadowSize-2, 0, 1)
	put(1<<30, 0, 0)
	put(shadowSize, append(binary.LittleEndian.AppendUint64(nil, uint64(len(smaps))), smaps...)...)
	table, nonce := filepath.Join(t.TempDir(), "a"), [16]byte{1}
	if err := s.Write(table, nonce); err != nil {
		t.Fatal(err)
	}
	got, err := Read(table, nonce)
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Version: Version, Table: "01" + strings.Repeat("0", 30),
		Mappings: []Mapping{{0x400000, 0x402000, 0, "/opt/a b", 4096}, {0x7ffd1000, 0x7ffd3000, 0, "[stack]", 8192}, {0x7fff00000000, 0x7fff00001000, 0, "", 0}},
		Ranges:   []Range{{0x400, 2, true, false}, {0x402, 1, true, true}, {shadowSize/2 - 1, 1, false, true}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
	if _, err := Read(table, [16]byte{2}); err != ErrNone {
		t.Errorf("of another table: %v", err)
	}
	put(shadowSize+textSize, 1, 2, 3, 4, 5, 6, 7, 8)
	if err := s.Write(table, nonce); err == nil {
		t.Error("a length that cannot be")
	}
	Remove(table)
	if _, err := Read(table, nonce); err != ErrNone {
		t.Errorf("removed: %v", err)
	}
}

// TestParse: what may not be is an error.
func TestParse(t *testing.T) {
	for _, text := range []string{
		"", "{}", `{"dynprof_heat":2}`, `{"dynprof_heat":1,"ranges":[{"page":1,"pages":0,"read":true}]}`, `{"dynprof_heat":1,"ranges":[{"page":1,"pages":1}]}`,
		`{"dynprof_heat":1,"ranges":[{"page":34359738367,"pages":2,"read":true}]}`, `{"dynprof_heat":1,"ranges":[{"page":1,"pages":18446744073709551615,"read":true}]}`,
		`{"dynprof_heat":1,"ranges":[{"page":2,"pages":1,"read":true},{"page":1,"pages":1,"read":true}]}`, `{"dynprof_heat":1,"mappings":[{"start":4096,"end":4096}]}`,
	} {
		if f, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, f)
		}
	}
	if _, err := Parse([]byte(`{"dynprof_heat":1,"ranges":[{"page":34359738366,"pages":2,"read":true}]}`)); err != nil {
		t.Error(err)
	}
}

// FuzzParse: whatever a file holds, what is read can be written and is read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"dynprof_heat":1,"table":"01","ended":true,"mappings":[{"start":4096,"end":8192,"path":"/a","resident":4096}],"ranges":[{"page":1,"pages":1,"read":true},{"page":2,"pages":3,"written":true}]}`))
	f.Add([]byte(`{"dynprof_heat":1,"ranges":[{"page":34359738366,"pages":2,"read":true}]}`))
	table := filepath.Join(f.TempDir(), "a")
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(b)
		if err != nil {
			return
		}
		nonce := [16]byte{1}
		if err := file.Write(table, nonce); err != nil {
			t.Fatal(err)
		}
		again, err := Read(table, nonce)
		if err != nil || len(again.Ranges) != len(file.Ranges) || len(again.Mappings) != len(file.Mappings) {
			t.Fatalf("%+v, not %+v: %v", again, file, err)
		}
	})
}

// FuzzSmaps: what a program has written in its shadow is no reason to fail otherwise than by an
// error.
func FuzzSmaps(f *testing.F) {
	f.Add([]byte(smaps))
	f.Add([]byte("7ffd1000-7ffd3000 rw-p 00000000 00:00 0 [stack]\nRss: 99999999999999999999 kB"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseSmaps(b)
		if err != nil {
			return
		}
		if len(list) > len(b) {
			t.Fatalf("%d mappings of %d bytes", len(list), len(b))
		}
	})
}
