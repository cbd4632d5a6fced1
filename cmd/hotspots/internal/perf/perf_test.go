package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/sampling"
)

// TestOpen: what the thread executes is sampled, with its children, and nothing else is.
func TestOpen(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e, err := Open(MostHertz)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("this machine lets nobody sample: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 1000 { // what this thread does is not to be seen
		os.Getpid()
	}
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; (cat /dev/null)")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var executed []string
	samples, forks := 0, 0
	e.Read(func(r *sampling.Record) {
		switch {
		case r.Kind == sampling.Sample:
			samples++
		case r.Kind == sampling.Named && r.Executed:
			executed = append(executed, r.Name)
		case r.Kind == sampling.Forked && r.Pid != r.Parent:
			forks++
		}
		if int(r.Pid) == os.Getpid() {
			t.Errorf("of this process: %+v", *r)
		}
	})
	slices.Sort(executed)
	if samples == 0 || forks == 0 || !slices.Equal(executed, []string{"cat", "sh"}) {
		t.Errorf("%d samples, %d forks, %q", samples, forks, executed)
	}
	if n := e.Came(); n != 0 {
		t.Errorf("%d CPUs came", n)
	}
	e.Read(func(r *sampling.Record) { t.Errorf("read twice: %+v", *r) })
}

// TestRing: records go round the end of the ring.
func TestRing(t *testing.T) {
	var head, tail atomic.Uint64
	r := &ring{data: make([]byte, 128), head: &head, tail: &tail}
	want := uint64(0)
	for i := range uint64(50) {
		b := record(t, 0x400000+i)
		for k, c := range b {
			r.data[(int(head.Load())+k)%len(r.data)] = c
		}
		head.Add(uint64(len(b)))
		if i%3 != 2 {
			continue
		}
		r.read(func(rec *sampling.Record) {
			if rec.IP != 0x400000+want || rec.Pid != 7 || rec.Kernel {
				t.Errorf("record %d: %+v", want, *rec)
			}
			want++
		})
		if tail.Load() != head.Load() {
			t.Fatalf("read to %d of %d", tail.Load(), head.Load())
		}
	}
	if want != 48 {
		t.Errorf("%d records", want)
	}
	copy(r.data, make([]byte, 128)) // sizes of 0
	head.Add(64)
	r.read(func(*sampling.Record) { t.Error("of zeros") })
	if tail.Load() != head.Load() {
		t.Error("it does not go on")
	}
}

// record is a sample, 40 bytes.
func record(t *testing.T, ip uint64) []byte {
	t.Helper()
	le := binary.LittleEndian
	b := le.AppendUint32(nil, unix.PERF_RECORD_SAMPLE)
	b = le.AppendUint16(b, unix.PERF_RECORD_MISC_USER)
	b = le.AppendUint16(b, 40)
	b = le.AppendUint64(b, ip)
	b = le.AppendUint32(le.AppendUint32(b, 7), 8)
	return le.AppendUint64(le.AppendUint64(b, 99), 0)
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string]string{"0": "[0]", "0-3": "[0 1 2 3]", "0-1,8,10-11": "[0 1 8 10 11]"} {
		if got, err := parseCPUs(list); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{"", "x", "3-1", "-1", "0-99999999", "0,"} {
		if got, err := parseCPUs(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}

// TestRefusal: each says what to do.
func TestRefusal(t *testing.T) {
	for _, row := range []struct {
		err   error
		level int
		says  string
	}{
		{unix.EACCES, 3, "sysctl kernel.perf_event_paranoid=2"},
		{os.NewSyscallError("perf_event_open", unix.EPERM), 4, "kernel.perf_event_paranoid is 4"},
		{unix.EPERM, 2, "seccomp profile, or add CAP_PERFMON"},
		{unix.EACCES, -1, "security module"},
		{unix.ENOSYS, 0, "no perf events"},
		{unix.EMFILE, 0, "ulimit -n"},
		{unix.EINVAL, 0, "invalid argument"},
	} {
		if err := refusal(row.err, row.level); !strings.Contains(err.Error(), row.says) || !errors.Is(err, row.err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v at %d: %v", row.err, row.level, err)
		}
	}
}
