package testproc

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestDefaultSignals(t *testing.T) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGUSR1)
	defer signal.Reset()
	ignored := func() string {
		out, err := exec.Command("grep", "SigIgn", "/proc/self/status").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(strings.TrimPrefix(string(out), "SigIgn:"))
	}
	if got := ignored(); !strings.HasSuffix(got, "201") {
		t.Fatalf("ignored before: %s", got)
	}
	DefaultSignals()
	if got, err := strconv.ParseUint(ignored(), 16, 64); err != nil || got&0x7fffffff != 0 { // Go cannot catch 32 and 33
		t.Errorf("ignored behind it: %x, %v", got, err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Error(err)
	} // and it does not end this process
}

func TestOwnDescriptors(t *testing.T) {
	fd, err := syscall.Dup(1) // as a caller that forgot one
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	open := func() bool {
		return exec.Command("test", "-e", "/proc/self/fd/"+strconv.Itoa(fd)).Run() == nil
	}
	if !open() {
		t.Fatal("it is not inherited before")
	}
	if err := OwnDescriptors(); err != nil || open() {
		t.Errorf("inherited behind it, or %v", err)
	}
}
