package table

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Status says whether a table's program still runs.
type Status int

// Statuses. A program whose table came from another machine, another boot or
// another pid namespace is unknown unless its runner noted the end.
const (
	Unknown Status = iota
	Running
	Exited
	Copied // the file is a copy that hotspots snapshot made
)

func (s Status) String() string {
	switch s {
	case Running:
		return "running"
	case Exited:
		return "exited"
	case Copied:
		return "snapshot"
	}
	return "unknown"
}

// Status asks the kernel whether the program, or a process that it forked,
// is alive.
func (t *Table) Status() Status {
	if !t.Header.Snapshot.IsZero() {
		return Copied
	}
	here := t.sameKernel()
	held, known := t.held()
	if here && t.samePidNS() && processStart(t.Pid) == t.StartTicks && t.StartTicks != 0 &&
		(held || !known || t.State != StateLive) { // not held: it has executed another program
		return Running
	}
	switch {
	case known && !held:
		return Exited // each process of the program keeps the file mapped
	case here && t.samePidNS() && t.Flags&FlagShared == 0: // a shared row tells of no child
		if t.anyRowAlive() {
			return Running
		}
		return Exited
	case t.Ended.Kind != EndedUnknown:
		return Exited
	}
	return Unknown
}

// held reports whether any process has the file open or mapped, besides this
// open of it, and whether that is known. The kernel grants a write lease
// (fcntl(2), F_SETLEASE) only on a file that nobody else has open; a mapping
// counts as one. Only the owner or root may ask.
func (t *Table) held() (held, known bool) {
	f, ok := t.r.(*os.File)
	if !ok {
		return false, false
	}
	switch err := lease(f, syscall.F_WRLCK); err {
	case nil:
		lease(f, syscall.F_UNLCK) // an open by others that waits for it goes on
		return false, true
	case syscall.EAGAIN:
		return true, true
	default:
		return false, false
	}
}

func lease(f *os.File, kind int) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, uintptr(kind)); errno != 0 {
		return errno
	}
	return nil
}

// anyRowAlive reports whether some row's process lives and is younger than
// the program, as its children are.
func (t *Table) anyRowAlive() bool {
	alive := false
	seen := map[uint32]bool{}
	err := t.eachRow(func(r Row) {
		if !r.Held() || seen[r.Pid] {
			return
		}
		seen[r.Pid] = true
		start := processStart(r.Pid)
		alive = alive || r.Pid == 0 || start != 0 && start >= t.StartTicks // 0: it is being born
	})
	return alive || err != nil
}

// Counting reports whether a process counts into the table at path, or whether
// that cannot be told. Who only reads it, or is its agent, does not.
func Counting(path string) (bool, error) {
	f, size, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	t := &Table{r: f, size: size}
	if err := t.readHead(); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if held, known := t.held(); known && !held {
		return false, nil
	}
	return t.Flags&FlagShared != 0 || t.counting(), nil // a shared row tells of no child
}

// counting reports whether some process counts into the table. Others who read
// it may have it open, so that the kernel does not say it at once: then the
// processes in its rows are looked at.
func (t *Table) counting() bool {
	if held, known := t.held(); known && !held {
		return false
	}
	if !t.sameKernel() || !t.samePidNS() {
		return t.Status() != Exited
	}
	if t.mappedBy(t.Pid) {
		return true
	}
	counting := false
	seen := map[uint32]bool{}
	err := t.eachRow(func(r Row) {
		if !counting && r.Held() && !seen[r.Pid] {
			seen[r.Pid] = true
			counting = r.Pid == 0 || t.mappedBy(r.Pid) // 0: it is being born
		}
	})
	return counting || err != nil
}

// mappedBy reports whether process pid lives, is the program's, and has the
// file mapped or does not let us see that. After an exec it has not.
func (t *Table) mappedBy(pid uint32) bool {
	if start := processStart(pid); start == 0 || start < t.StartTicks {
		return false
	}
	f, ok := t.r.(*os.File)
	if !ok {
		return true
	}
	fi, err := f.Stat()
	if err != nil {
		return true
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	inode := strconv.FormatUint(fi.Sys().(*syscall.Stat_t).Ino, 10)
	for line := range bytes.Lines(maps) {
		// address perms offset dev inode path; a table is shared ("s").
		fields := bytes.Fields(line)
		if len(fields) > 5 && bytes.HasSuffix(fields[1], []byte("s")) && string(fields[4]) == inode {
			return true
		}
	}
	return false
}

func (t *Table) sameKernel() bool {
	boot := bootID()
	return boot != [16]byte{} && boot == t.BootID
}

func (t *Table) samePidNS() bool { return t.PidNS != 0 && t.PidNS == pidNamespace("self") }

// Identify returns what tells process pid from every other, as far as /proc
// says; what it does not say is zero.
func Identify(pid int) Identity {
	id := Identity{
		Pid:        uint32(pid),
		UID:        uint32(os.Getuid()),
		StartTicks: processStart(uint32(pid)),
		BootID:     bootID(),
		PidNS:      pidNamespace(strconv.Itoa(pid)),
	}
	id.Realtime, id.Monotonic = time.Now(), monotonic()
	return id
}

// processStart is the start time of a living process in clock ticks since
// boot; 0 if there is none, or only its corpse.
func processStart(pid uint32) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold spaces and parentheses.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0
	}
	start, _ := strconv.ParseUint(fields[19], 10, 64) // field 22 of the line
	return start
}

func bootID() (id [16]byte) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	hex := strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
	for i := range id {
		n, err := strconv.ParseUint(hex[min(len(hex), 2*i):min(len(hex), 2*i+2)], 16, 8)
		if err != nil {
			return [16]byte{}
		}
		id[i] = byte(n)
	}
	return id
}

func pidNamespace(pid string) uint64 {
	fi, err := os.Stat("/proc/" + pid + "/ns/pid")
	if err != nil {
		return 0
	}
	return fi.Sys().(*syscall.Stat_t).Ino
}
