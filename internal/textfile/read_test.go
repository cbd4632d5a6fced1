package textfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, fifo, large := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxSize+1); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(file); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for path, want := range map[string]string{
		fifo: "regular", "/dev/zero": "regular", dir: "regular", large: "larger", dir + "/none": "no such file",
	} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
