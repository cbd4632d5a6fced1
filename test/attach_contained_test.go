package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// container is a directory with a program, and all that it loads, at the same places.
func container(t *testing.T, program string) (root string) {
	t.Helper()
	root = openDir(t)
	copyFile(t, program, filepath.Join(root, "program"))
	for _, file := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		copyFile(t, file, filepath.Join(root, file))
	}
	return root
}

// TestAttachContained: a program in a container is counted from outside, exactly, into a table
// that it sees nothing of, and is then what it was before.
func TestAttachContained(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot give a program another root, mounts, user")
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c")
	root, others := container(t, program), openDir(t)
	threads := []string{"4", "births", "forks", "signals"}
	plain := func(path string, attr *syscall.SysProcAttr) func() *exec.Cmd {
		return func() *exec.Cmd {
			c := exec.Command(path, threads...)
			c.SysProcAttr, c.Dir = attr, "/"
			return c
		}
	}
	script := func(attr *syscall.SysProcAttr, text string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			c := exec.Command("sh", append([]string{"-ec", text, "sh"}, append(args, threads...)...)...)
			c.SysProcAttr = attr
			return c
		}
	}
	const spaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	filtered := func(how string) func() *exec.Cmd {
		return func() *exec.Cmd {
			c := exec.Command("/program", append(slices.Clone(threads), "seccomp="+how)...)
			c.SysProcAttr, c.Dir = &syscall.SysProcAttr{Chroot: root, Cloneflags: spaces}, "/"
			return c
		}
	}
	mapped := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 1000}}
	for _, row := range []struct {
		name  string
		start func() *exec.Cmd
	}{
		{"mounts", plain(program, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})},
		{"root", plain("/program", &syscall.SysProcAttr{Chroot: root})},
		{"all namespaces", plain("/program", &syscall.SysProcAttr{Chroot: root, Cloneflags: spaces})},
		{"user namespace", plain("/program", &syscall.SysProcAttr{Chroot: root, Cloneflags: spaces | syscall.CLONE_NEWUSER, UidMappings: mapped, GidMappings: mapped})},
		{"overlay", script(&syscall.SysProcAttr{Cloneflags: spaces}, `cd "$2"; mkdir upper work all; mount -t tmpfs none upper; mkdir upper/upper upper/work
			mount -t overlay none -o lowerdir="$1",upperdir=upper/upper,workdir=upper/work all; mkdir all/proc; mount -t proc none all/proc; shift 2; exec chroot all /program "$@"`, root, others)},
		{"a filter that refuses", filtered("refuses")},
		{"a filter that logs", filtered("logs")},
		{"another file of that name", func() *exec.Cmd {
			dir := openDir(t)
			copyFile(t, compile(t, need(t, "gcc"), []string{"-O2", "-fcf-protection=full"}, "attached.c"), filepath.Join(dir, "program"))
			return script(&syscall.SysProcAttr{Cloneflags: spaces}, `mount -t tmpfs none "$2"; cp "$1" "$2"/program; cd "$2"; shift 2; exec ./program "$@"`, program, dir)()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := row.start()
			a := converseAttached(t, c)
			descriptors, dir := a.descriptors(), t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				table := filepath.Join(dir, fmt.Sprint(i))
				if r := a.hotspots("attach", "-o", table); r.status != 0 {
					t.Fatalf("attach: status %d: %s", r.status, r.stderr)
				}
				then := a.quiet()
				first := readReport(t, table)
				a.goOn()
				time.Sleep(50 * time.Millisecond)
				now := a.quiet()
				a.compare(then, now, first, readReport(t, table))
				if now["leaf"] == then["leaf"] {
					t.Error("nothing was called")
				}
				a.goOn()
				if r := a.hotspots("report"); r.status != 0 || !strings.Contains(r.stdout, "running") || !strings.Contains(r.stdout, " leaf\n") {
					t.Errorf("report by number: %+v", r)
				}
				a.detach()
			}
			for _, m := range a.mappings() { // stacks of threads come and go
				if strings.Contains(m, "memfd:") || strings.Contains(m, dir) {
					t.Errorf("is mapped yet: %s", m)
				}
			}
			if now := a.descriptors(); !slices.Equal(descriptors, now) {
				t.Errorf("descriptors: %q, before: %q", now, descriptors)
			}
			a.end()
		})
	}
}
