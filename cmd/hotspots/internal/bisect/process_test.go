package bisect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
)

func sh(t *testing.T, ctx context.Context, script string, in *input, lim limits) (*outcome, string, error) {
	t.Helper()
	dir := t.TempDir()
	o, err := execute(ctx, "/bin/sh", []string{"sh", "-c", script}, os.Environ(), in, dir, lim)
	if err != nil {
		return o, "", err
	}
	out, err := os.ReadFile(filepath.Join(dir, stdoutName))
	if err != nil {
		t.Fatal(err)
	}
	return o, string(out), nil
}

func TestExecute(t *testing.T) {
	long := time.Hour
	for _, row := range []struct {
		name, script string
		lim          limits
		end, stdout  string
	}{
		{"exits", "echo a; exit 3", limits{}, "3", "a\n"},
		{"signal", "kill -SEGV $$", limits{time: long, output: 1}, "139 (segmentation fault)", ""},
		{"hangs, with a child", "sleep 1000; :", limits{time: 200 * time.Millisecond}, "killed: it did not end within 200ms", ""},
		{"no terminal", "(: </dev/tty) 2>/dev/null || echo none", limits{}, "0", "none\n"},
		{"leaves a child that writes", "(sleep 1000; echo late) & echo early", limits{}, "0", "early\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o, out, err := sh(t, t.Context(), row.script, noInput, row.lim)
			if err != nil || o.end() != row.end || out != row.stdout {
				t.Errorf("%+v, %q, %v", o, out, err)
			}
		})
	}
	t.Run("writes without end", func(t *testing.T) {
		o, _, err := sh(t, t.Context(), "while :; do echo on and on and on; done", noInput, limits{output: 1 << 20})
		if err != nil || o.end() != "killed: it wrote more than 1 MB" {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestExecuteKillsWhatIsLeft(t *testing.T) {
	_, out, err := sh(t, t.Context(), "sleep 1000 & echo $!", noInput, limits{})
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if state := processState(pid); state == "" || state == "Z" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d lives", pid)
	syscall.Kill(pid, syscall.SIGKILL)
}

// processState is the letter of proc(5), empty if there is no such process.
func processState(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[0]
}

func TestExecuteIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, _, err := sh(t, ctx, "sleep 1000", noInput, limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestExecuteErrors(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t.Context(), script, []string{script}, nil, noInput, dir, limits{}); !errors.Is(err, launch.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := execute(t.Context(), dir, []string{dir}, nil, noInput, dir, limits{}); !errors.Is(err, launch.ErrNotExecutable) {
		t.Errorf("%v", err)
	}
}

// Every run gets the same input from where we would have read it.
func TestInputIsFedAgain(t *testing.T) {
	pipe := func(t *testing.T) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		w.WriteString("one\ntwo\n")
		w.Close()
		return r
	}
	file := func(t *testing.T) *os.File {
		path := filepath.Join(t.TempDir(), "input")
		if err := os.WriteFile(path, []byte("zero\none\ntwo\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Seek(5, 0)
		return f
	}
	null := func(t *testing.T) *os.File {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, row := range []struct {
		name  string
		stdin func(*testing.T) *os.File
		want  string
	}{
		{"pipe", pipe, "pipe one two \n"},
		{"file, from its offset", file, "regular one two \n"},
		{"device", null, "other \n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := row.stdin(t)
			defer f.Close()
			in, err := newInput(t.Context(), f, t.TempDir(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				const script = "if test -p /dev/stdin; then k=pipe; elif test -f /dev/stdin; then k=regular; else k=other; fi; echo $k $(cat) ''"
				if _, out, err := sh(t, t.Context(), script, in, limits{}); err != nil || out != row.want {
					t.Errorf("%q, %v", out, err)
				}
			}
		})
	}
}

// A program that does not read all of its input ends as usual.
func TestInputNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	in := &input{path: path, pipe: true}
	if o, out, err := sh(t, t.Context(), "echo done", in, limits{}); err != nil || out != "done\n" || o.end() != "0" {
		t.Errorf("%q, %v", out, err)
	}
}

// A pipe that nobody closes keeps us waiting, but not from an interruption.
func TestInputWithoutEnd(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := newInput(ctx, r, t.TempDir(), cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
