package code_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/table/code"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// Executable memory is told apart by what is mapped there.
func TestUnlistedCode(t *testing.T) {
	const size, private = 3 << 20, syscall.MAP_PRIVATE
	before := code.Memory{}
	if !before.See(os.Getpid()) {
		t.Skip("no /proc")
	}
	file := filepath.Join(t.TempDir(), "an image")
	if err := os.WriteFile(file, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	os.Remove(file)
	const executable = syscall.PROT_READ | syscall.PROT_EXEC
	anonymous, err := syscall.Mmap(-1, 0, size, executable, private|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	image, err := syscall.Mmap(int(f.Fd()), 0, 8192, executable, private)
	if err != nil {
		t.Fatal(err)
	}
	seen := code.Memory{}
	seen.See(os.Getpid())
	syscall.Munmap(anonymous)
	seen.See(os.Getpid()) // the most that was seen counts
	syscall.Munmap(image)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u, was := seen.Unlisted([]layout.Object{{Path: self}}), before.Unlisted([]layout.Object{{Path: self}})
	if u.Anonymous-was.Anonymous != size || u.Files-was.Files != 8192 {
		t.Errorf("%+v, before %+v", u, was)
	}
	if u := seen.Unlisted([]layout.Object{{Path: self}, {Path: file}}); u.Files != was.Files {
		t.Errorf("with the file as an object: %+v, before %+v", u, was)
	}
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	if err := code.Note(live.Path, code.Memory{"": 4096, "/x": 8192, "/opt/demo/demo": 1, "[vdso]": 1, "[vsyscall]": 1, "/x/libdynprof.so": 1, "/memfd:dynprof-12": 1}); err != nil {
		t.Fatal(err)
	}
	if u := tabletest.Open(t, live.Path).Header.Unlisted; u != (layout.Unlisted{Anonymous: 4096, Files: 8192}) {
		t.Errorf("%+v", u)
	}
}
