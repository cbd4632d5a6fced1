// Package mem is the one place that maps, protects and looks at memory by
// address. Nothing else imports golang.org/x/sys/unix for mappings or turns
// integers into pointers.
package mem

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
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

// SelfMaps reads the mappings of this process, in address order.
func SelfMaps() ([]Mapping, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ParseMaps(f)
}

// SelfBrk is where brk(2) of this process starts (proc_pid_stat(5), start_brk).
func SelfBrk() (uint64, error) {
	const field = 47
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	words := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from field 3 on
	if len(words) <= field-3 {
		return 0, fmt.Errorf("/proc/self/stat has %d fields", len(words)+2)
	}
	return strconv.ParseUint(string(words[field-3]), 10, 64)
}

// ParseMaps reads mappings in the format of /proc/PID/maps.
func ParseMaps(r io.Reader) ([]Mapping, error) {
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
