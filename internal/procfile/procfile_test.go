package procfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRead: what the kernel has is read; pipes, and what has no end, are not there.
func TestRead(t *testing.T) {
	b, err := Read("/proc/self/status")
	if err != nil || !bytes.HasPrefix(b, []byte("Name:")) {
		t.Errorf("%.20q, %v", b, err)
	}
	dir := t.TempDir()
	pipe, endless := filepath.Join(dir, "pipe"), filepath.Join(dir, "endless")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/zero", endless)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, endless, dir, filepath.Join(dir, "none")} {
		if b, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
}

func TestStateOf(t *testing.T) {
	for line, state := range map[string]byte{"1 (a) b) S 1": 'S', "1 (x) Z": 'Z', "1 (x)": 0, "1 (x) ": 0, "": 0} {
		if got := StateOf([]byte(line)); got != state {
			t.Errorf("%q: %c", line, got)
		}
	}
}

func TestIsKernels(t *testing.T) {
	const rest = " 65535 0 0 0 0 0"
	for stat, is := range map[string]bool{
		"21249 (iou-wrk-21247) S 1 2 2 0 -1 4210768" + rest: true,
		"26405 (iou-sqp-26405) R 1 2 2 0 -1 4210768" + rest: true,
		"7 (vhost-6) S 1 2 2 0 -1 4210752" + rest:           true,
		"8 (iou-wrk-8) S 1 2 2 0 -1 4194560" + rest:         false, // a program's that calls itself so
		"8 (CPU 0/KVM) R 1 2 2 0 -1 4194576" + rest:         false, // PF_VCPU, in earlier kernels
		"9 (a (iou-) b) S 1 2 2 0 -1 4210768" + rest:        false,
		"9 (iou-wrk-8) S 1 2 2 0 -1":                        false,
		"9 iou-wrk":                                         false,
		"":                                                  false,
	} {
		if IsKernels([]byte(stat)) != is {
			t.Errorf("%q: %v", stat, !is)
		}
	}
}
