package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table"
)

// memory is what counting takes in a program of one thread while it runs, in
// bytes.
type memory struct {
	Program   string `json:"program"`
	Functions int    `json:"functions"` // counted
	Stubs     int64  `json:"stubs"`     // arenas that run
	Origins   int64  `json:"origins"`   // arenas that are looked up
	Table     int64  `json:"table"`     // on disk or in tmpfs
	NativeKB  int64  `json:"native_rss_kib"`
	KB        int64  `json:"rss_kib"`
	Private   int64  `json:"private_kib"` // added: pages that no other process shares
}

// perFunction is the bytes of arenas and table for each counted function.
func (m memory) perFunction() float64 {
	return float64(m.Stubs+m.Origins+m.Table) / float64(max(m.Functions, 1))
}

// waiting are programs that wait for their input, so that they can be looked at.
var waiting = []struct {
	name string
	args []string
}{
	{"lua5.4", []string{"/usr/bin/lua5.4", "-e", "io.read()"}},
	{"sqlite3", []string{"/usr/bin/sqlite3", "-batch"}},
	{"python3.11", []string{"/usr/bin/python3.11", "-S", "-c", "input()"}},
	{"cc1", []string{cc1, "-quiet", "-", "-o", "/dev/null"}},
}

func (m *machine) memories(f *figures) error {
	for _, p := range waiting {
		if err := needs(p.args[0]); err != nil {
			fmt.Printf("memory of %s: skipped: %v\n", p.name, err)
			continue
		}
		fmt.Printf("memory of %s\n", p.name)
		without, err := m.look(p.args, "")
		if err != nil {
			return err
		}
		with, err := m.look(p.args, filepath.Join(m.work, "memory-"+p.name))
		if err != nil {
			return err
		}
		with.Program, with.NativeKB = p.name, without.KB
		with.Private -= without.Private
		f.Memory = append(f.Memory, *with)
	}
	return nil
}

// look starts a program that waits for its input, and looks at its memory. With
// the name of a table it is counted.
func (m *machine) look(args []string, path string) (*memory, error) {
	c := exec.CommandContext(m.ctx, args[0], args[1:]...)
	c.Dir, c.Env = m.work, m.environment()
	if path != "" {
		c.Env = append([]string{"LD_PRELOAD=" + m.library, "DYNPROF_OUTPUT=" + path}, c.Env...)
	}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	defer c.Wait()
	defer in.Close()
	found := &memory{}
	if path != "" {
		if err := found.ledger(path); err != nil {
			return nil, fmt.Errorf("%s: %w", args[0], err)
		}
	}
	if err := untilAsleep(c.Process.Pid); err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return found, found.mappings(c.Process.Pid)
}

// ledger waits for the table and reads it.
func (m *memory) ledger(path string) error {
	t, err := table.Open(path)
	for tries := 0; err != nil && tries < 1000; tries++ {
		time.Sleep(5 * time.Millisecond)
		t, err = table.Open(path)
	}
	if err != nil {
		return err
	}
	defer t.Close()
	for i := range t.Functions {
		if t.Functions[i].Counted() {
			m.Functions++
		}
	}
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		return err
	}
	m.Table = s.Blocks * 512
	return nil
}

// untilAsleep waits until a process waits in read(2), twice in turn: the program
// has started.
func untilAsleep(pid int) error {
	const read = "0 "
	asleep := 0
	for range 2000 {
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil {
			return err
		}
		if asleep++; !strings.HasPrefix(string(call), read+"0x0 ") {
			asleep = 0
		}
		if asleep == 2 {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("it does not wait for its input")
}

// mappings reads the sizes of the arenas, which are shared anonymous memory,
// and what is resident.
func (m *memory) mappings(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := procmaps.Parse(f)
	if err != nil {
		return err
	}
	for _, p := range all {
		if !strings.HasPrefix(p.Path, "/dev/zero") {
			continue
		}
		if size := int64(p.End - p.Start); p.Prot&procmaps.ProtExec != 0 {
			m.Stubs += size
		} else {
			m.Origins += size
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return err
	}
	m.KB, m.Private = kib(text, "Rss"), kib(text, "Private_Clean")+kib(text, "Private_Dirty")
	return nil
}

func kib(text []byte, name string) int64 {
	var n int64
	_, after, _ := strings.Cut(string(text), "\n"+name+":")
	if _, err := fmt.Sscan(after, &n); err != nil && err != io.EOF {
		return 0
	}
	return n
}
