// Package symbols tells debuggers what the code in arenas is: it reads the memory of
// a counted program, a core or a process, and writes an ELF file with a symbol and
// unwind rules for each stub.
package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// ErrNone says that no stub of ours is in the memory.
var ErrNone = errors.New("nothing in it was counted, or its shared memory is not in the core (core(5), coredump_filter)")

// image is the memory of a program.
type image struct {
	areas []area
	files []mapped
	alive bool // it is of a process
	// Of a process: which areas may be parts of the reserve.
	shared []bool
	close  func() error
}

// area is a range of addresses whose bytes can be read.
type area struct {
	start, end uint64
	at         int64 // offset in r of the first byte
	r          io.ReaderAt
}

// mapped is a part of a file at an address.
type mapped struct {
	start, end, offset uint64
	path               string
}

// Open reads a core, or the process of that number.
func open(name string) (*image, error) {
	if pid, err := strconv.ParseUint(name, 10, 31); err == nil {
		return openProcess(strconv.FormatUint(pid, 10))
	}
	return openCore(name)
}

// bytes reads n bytes at an address. Numbers in a core may be anything: room is
// made only for what is there.
func (m *image) bytes(at, n uint64) ([]byte, error) {
	for i := range m.areas {
		a := &m.areas[i]
		if at >= a.start && at < a.end && n <= a.end-at {
			b := make([]byte, n)
			_, err := a.r.ReadAt(b, a.at+int64(at-a.start))
			return b, err
		}
	}
	return nil, fmt.Errorf("no memory at %#x", at)
}

// openProcess reads /proc/PID.
func openProcess(pid string) (*image, error) {
	maps, err := procmaps.Of(pid)
	if err != nil {
		return nil, err
	}
	mem, err := os.Open("/proc/" + pid + "/mem")
	if err != nil {
		return nil, err
	}
	m := &image{close: mem.Close, alive: true}
	for _, p := range maps {
		if p.Prot&procmaps.ProtRead != 0 && !strings.HasPrefix(p.Path, "[v") {
			m.areas = append(m.areas, area{p.Start, p.End, int64(p.Start), mem})
			m.shared = append(m.shared, isReserve(&p))
		}
		if strings.HasPrefix(p.Path, "/") {
			m.files = append(m.files, mapped{p.Start, p.End, p.Offset, p.Path})
		}
	}
	return m, nil
}

// openCore reads an ELF core.
func openCore(path string) (*image, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	e, err := elf.NewFile(file)
	if err != nil || e.Type != elf.ET_CORE {
		file.Close()
		return nil, fmt.Errorf("%s is no core", path)
	}
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	m := &image{close: file.Close}
	size := uint64(st.Size())
	for _, p := range e.Progs {
		if p.Off > size { // it was cut short
			continue
		}
		p.Filesz = min(p.Filesz, size-p.Off)
		switch {
		case p.Type == elf.PT_LOAD && p.Filesz > 0 && p.Vaddr < 1<<47:
			m.areas = append(m.areas, area{p.Vaddr, p.Vaddr + p.Filesz, int64(p.Off), file})
		case p.Type == elf.PT_NOTE:
			b := make([]byte, p.Filesz)
			if _, err := file.ReadAt(b, int64(p.Off)); err == nil {
				m.notes(b)
			}
		}
	}
	return m, nil
}

// notes looks for the one that lists mapped files.
func (m *image) notes(b []byte) {
	const ntFile, head = 0x46494c45, 12
	for len(b) >= head {
		le := binary.LittleEndian
		name, desc, kind := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		from := head + (name+3)&^3
		if from+desc > uint64(len(b)) {
			return
		}
		if kind == ntFile {
			m.mappedFiles(b[from : from+desc])
		}
		b = b[min(from+(desc+3)&^3, uint64(len(b))):]
	}
}

// mappedFiles reads NT_FILE: a count, the size of a page, three words for each, and
// the names.
func (m *image) mappedFiles(b []byte) {
	word := func(i uint64) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	if len(b) < 16 || word(0) > uint64(len(b))/24 || 16+24*word(0) > uint64(len(b)) {
		return
	}
	names := b[16+24*word(0):]
	for i := range word(0) {
		name, rest, ok := bytes.Cut(names, []byte{0})
		if !ok {
			return
		}
		m.files = append(m.files, mapped{word(2 + 3*i), word(3 + 3*i), word(4+3*i) * word(1), string(name)})
		names = rest
	}
}
