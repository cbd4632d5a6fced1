package names

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

const hashes = "14c793413ced3c7592f7c59ecb760477 b895d61142a5faf017a1201bdc100655"

// TestAddresses: names by address are of the executable, or of an object by file name or build
// ID, and come before those that there are; addresses of no function are told.
func TestAddresses(t *testing.T) {
	f, err := Read("f", strings.NewReader("# mine\n0x10 first function\n lib.so+0x10 of lib\r\n\nabcd+0x20 by id\n0x11 nobody\n"))
	if err != nil {
		t.Fatal(err)
	}
	tab := &table.Table{
		Objects: []layout.Object{{Path: "/bin/p", Flags: layout.ObjMain}, {Path: "/lib/lib.so"}, {Path: "/lib/other.so", BuildID: "abcd"}},
		Functions: []layout.Function{
			{Object: 0, Address: 0x10, Name: "old", Aliases: []string{"older"}}, {Object: 1, Address: 0x10}, {Object: 2, Address: 0x10}, {Object: 2, Address: 0x20},
		},
	}
	var said []string
	n := &Namer{Files: []*File{f}, Say: func(format string, args ...any) { said = append(said, args[0].(string)) }}
	for range 2 {
		n.byAddress(tab, &tab.Objects[0], []int{0})
		n.byAddress(tab, &tab.Objects[1], []int{1})
		n.byAddress(tab, &tab.Objects[2], []int{2, 3})
	}
	got := ""
	for _, e := range tab.Functions {
		got += e.Name + " " + strings.Join(e.Aliases, " ") + "|"
	}
	if got != "first function old older|of lib | |by id |" {
		t.Error(got)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "f: 1 of its names") {
		t.Errorf("%q", said)
	}
}

func TestReadWrong(t *testing.T) {
	for _, text := range []string{
		"x", "0x10", "10 name", "lib+10 name", "0xg name", "code " + hashes + " name", "build\ncode x", "build\ncode " + hashes, "build\ncode " + hashes[1:] + " name", strings.Repeat("x", maxLine+1),
	} {
		if _, err := Read("f", strings.NewReader(text)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
	if _, err := ReadFile(t.TempDir()); err == nil {
		t.Error("a directory")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("0x10 a\nlib+0x20 b\nbuild x\ncode " + hashes + " c")
	f.Fuzz(func(t *testing.T, text string) {
		if file, err := Read("f", strings.NewReader(text)); (file == nil) == (err == nil) {
			t.Errorf("%v, %v", file, err)
		}
	})
}
