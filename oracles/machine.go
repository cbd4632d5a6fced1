package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is where the suites run: directories, the library, the user.
type machine struct {
	ctx      context.Context
	root     string // of the project
	cache    string // downloads, kept: build/oracles
	work     string // everything else, removed at the end
	library  string // a copy: a build meanwhile does not change it
	empty    string // a library that does nothing, preloaded in runs without
	hotspots string // a copy, too
	user     *syscall.Credential
	jobs     int
	longest  time.Duration // a command that says nothing else may run
	quick    bool
	verbose  bool
	plans    bool   // of earlier starts are used
	copies   bool   // of text, too
	how      how    // what is counted besides calls
	objects  string // that are counted, as --objects; "" is the default
}

const neededRoom = 3 << 30 // bytes for unpacked and built sources, and tables

// newMachine makes the work directory: in memory if there is room, since every
// counted process makes a table and thousands of files make a disk slow.
func newMachine(ctx context.Context, root string) (*machine, error) {
	m := &machine{ctx: ctx, root: root, cache: filepath.Join(root, "build", "oracles")}
	base := os.TempDir()
	if room("/dev/shm") > neededRoom {
		base = "/dev/shm"
	}
	work, err := os.MkdirTemp(base, "oracles-")
	if err != nil {
		return nil, err
	}
	m.work = work
	if err := m.settle(); err != nil {
		m.remove()
		return nil, err
	}
	return m, nil
}

func (m *machine) settle() error {
	if err := os.Chmod(m.work, 0o755); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := m.becomeNobody(); err != nil {
			return err
		}
	}
	if err := m.makeDirectories(); err != nil {
		return err
	}
	m.library = filepath.Join(m.work, "lib", "libdynprof.so")
	m.empty = filepath.Join(m.work, "lib", "empty.so")
	if err := copyFile(m.library, filepath.Join(m.root, "build", "libdynprof.so"), 0o755); err != nil {
		return fmt.Errorf("%w: run make first", err)
	}
	m.hotspots = filepath.Join(m.work, "lib", "hotspots")
	if err := copyFile(m.hotspots, filepath.Join(m.root, "build", "hotspots"), 0o755); err != nil {
		return fmt.Errorf("%w: run make first", err)
	}
	_, err := m.tool(m.work, "gcc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-o", m.empty)
	return err
}

func (m *machine) makeDirectories() error {
	for _, dir := range []string{"home", "tmp", "tables", "lib", "cache"} {
		if err := m.mkdir(filepath.Join(m.work, dir)); err != nil {
			return err
		}
	}
	return nil
}

// becomeNobody makes commands run as the user nobody: many tests are left out
// for root, and none can do damage.
func (m *machine) becomeNobody() error {
	u, err := user.Lookup("nobody")
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	m.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(m.work, int(uid), int(gid))
}

// remove removes the work directory.
func (m *machine) remove() {
	// Tests leave directories that not even their owner may search.
	exec.Command("chmod", "-R", "u+rwX", m.work).Run()
	os.RemoveAll(m.work)
}

// clear removes what a suite has left in the work directory.
func (m *machine) clear() error {
	entries, _ := os.ReadDir(m.work)
	for _, e := range entries {
		if e.Name() != "lib" {
			dir := filepath.Join(m.work, e.Name())
			exec.Command("chmod", "-R", "u+rwX", dir).Run()
			os.RemoveAll(dir)
		}
	}
	return m.makeDirectories()
}

// mkdir makes a directory that commands may write to.
func (m *machine) mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if m.user == nil {
		return nil
	}
	return os.Chown(dir, int(m.user.Uid), int(m.user.Gid))
}

// write writes a file that commands may write to.
func (m *machine) write(path, text string, mode os.FileMode) error {
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		return err
	}
	if m.user == nil {
		return nil
	}
	return os.Chown(path, int(m.user.Uid), int(m.user.Gid))
}

// environment is that of every command. Without the library it has the same
// variables, and a library that does nothing: what a test sees of its
// environment differs in values only.
func (m *machine) environment(counted bool, tables string) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + filepath.Join(m.work, "home"),
		"TMPDIR=" + filepath.Join(m.work, "tmp"),
		"LC_ALL=C", "TERM=dumb", "USER=nobody", "LOGNAME=nobody",
	}
	if tables == "" {
		return env
	}
	plans, copies := "0", "0"
	if m.plans {
		plans = filepath.Join(m.work, "cache", "plans")
	}
	if m.copies {
		copies = "1"
	}
	ours := append(m.how.variables(), "DYNPROF_CACHE="+plans, "DYNPROF_TEXT_COPIES="+copies)
	if m.objects != "" {
		ours = append(ours, "DYNPROF_OBJECTS="+m.objects)
	}
	preload := m.empty
	switch {
	case m.how.byCommand() && counted:
		env = append(env, ours...) // which the program does not see
	case m.how.byCommand():
	default:
		env = append(append(env, ours...), "DYNPROF_FOLLOW_EXEC=1", "DYNPROF_OUTPUT="+filepath.Join(tables, "%p"+tableSuffix))
		if counted {
			preload = m.library
		}
	}
	return append(env, "LD_PRELOAD="+preload)
}

// room is the number of bytes that are free in a file system.
func room(dir string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}

// available is the number of bytes of memory that are free, or can be made so. A
// file system in memory may have a greater size.
func available() uint64 {
	text, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	var kilobytes uint64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return math.MaxUint64 // not known
	}
	return kilobytes << 10
}

func copyFile(to, from string, mode os.FileMode) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// needs returns an error that skips the suite if a program or file is missing.
func needs(what ...string) error {
	for _, w := range what {
		if filepath.IsAbs(w) {
			if _, err := os.Stat(w); err == nil {
				continue
			}
		} else if _, err := exec.LookPath(w); err == nil {
			continue
		}
		return skip("no %s on this machine (scripts/deps.sh oracles installs it)", w)
	}
	return nil
}
