// Package procmaps reads /proc/PID/maps.
package procmaps

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/dynprof/dynprof/internal/procfile"
)

// Prot is what a mapping allows: PROT_READ, PROT_WRITE, PROT_EXEC of mmap(2).
type Prot uint32

// Protection bits, as in mmap(2).
const (
	ProtRead  Prot = 1
	ProtWrite Prot = 2
	ProtExec  Prot = 4
)

// Mapping is one line of /proc/PID/maps (proc_pid_maps(5)).
type Mapping struct {
	Start, End uint64 // addresses, End excluded
	Prot       Prot
	Shared     bool
	Offset     uint64 // in the file
	Dev        string // major:minor in hex
	Inode      uint64
	Path       string // as the kernel prints it: escaped newlines, " (deleted)"
}

// Of reads the mappings of a process, "self" for this one, in address order. Those of
// one whose first thread has ended are told by its other threads.
func Of(pid string) ([]Mapping, error) {
	all, err := read("/proc/" + pid + "/maps")
	if err != nil || len(all) > 0 {
		return all, err
	}
	threads, _ := os.ReadDir("/proc/" + pid + "/task")
	for _, t := range threads {
		if all, err = read("/proc/" + pid + "/task/" + t.Name() + "/maps"); len(all) > 0 {
			return all, err
		}
	}
	return nil, nil
}

func read(path string) ([]Mapping, error) {
	f, err := procfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads mappings in the format of /proc/PID/maps.
func Parse(r io.Reader) ([]Mapping, error) {
	var all []Mapping
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 16<<10), 64<<10) // a path is at most 4 × PATH_MAX when escaped
	for s.Scan() {
		m, err := parseMapping(s.Bytes())
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, s.Err()
}

// parseMapping reads `start-end rwxp offset major:minor inode   path`.
func parseMapping(line []byte) (Mapping, error) {
	var m Mapping
	var field [5][]byte
	rest := line
	for i := range field {
		field[i], rest, _ = bytes.Cut(rest, []byte(" "))
	}
	start, end, ok := bytes.Cut(field[0], []byte("-"))
	var errs [4]error
	m.Start, errs[0] = strconv.ParseUint(string(start), 16, 64)
	m.End, errs[1] = strconv.ParseUint(string(end), 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(string(field[2]), 16, 64)
	m.Inode, errs[3] = strconv.ParseUint(string(field[4]), 10, 64)
	for _, err := range errs {
		ok = ok && err == nil
	}
	if !ok || len(field[1]) != 4 || m.End < m.Start {
		return m, fmt.Errorf("mapping line %q is not understood", line)
	}
	for i, bit := range []Prot{ProtRead, ProtWrite, ProtExec} {
		if field[1][i] != '-' {
			m.Prot |= bit
		}
	}
	m.Shared = field[1][3] == 's'
	m.Dev = string(field[3])
	m.Path = string(bytes.TrimLeft(rest, " "))
	return m, nil
}
