package heat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// What the shadow is like.
const (
	textSize = layout.ShText
	texts    = 2
)

// Granule is what is noted as one: how many bits of an address are within it.
type Granule uint8

// The granules that there are.
const (
	Page Granule = layout.ShPage
	Line Granule = layout.ShLine // of the CPU's caches
	Word Granule = layout.ShWord
)

// Names are what users call them.
var Names = map[string]Granule{"pages": Page, "lines": Line, "bytes": Word}

// Size is its bytes.
func (g Granule) Size() uint64 { return 1 << g }

// Count is how many there are.
func (g Granule) Count() uint64 { return 1 << (layout.ShBits - g) }

// shadow is the bytes of a shadow.
func (g Granule) shadow() int64 { return int64(2 * g.Count()) }

// Shadow is memory that the program has mapped: two bytes a granule, which say whether it was
// read and whether it was written. It has no name, takes what is touched in it, and is there
// when the program is gone.
type Shadow struct {
	file   *os.File
	mapped []byte // the shadow, or what is behind it and its texts
	more   int64  // bytes of that
	Granule
	threads int64    // how many have one each, one behind the other
	touched *touched // who has touched what so far; nil: it is not told
}

// shadow is the bytes of all.
func (s *Shadow) shadow() int64 { return s.Granule.shadow() * s.threads }

// ByThread is the name of pages with who touches them.
const ByThread = "threads"

// Named makes what is noted by that name.
func Named(name string) (*Shadow, error) {
	if name == ByThread {
		return create(Page, 0, Threads)
	}
	return New(Names[name])
}

// IsName reports whether something is noted by a name.
func IsName(name string) bool {
	_, is := Names[name]
	return is || name == ByThread
}

// New makes one. It is an error where the kernel may refuse its pages when they are touched.
func New(g Granule) (*Shadow, error) { return create(g, 0, 1) }

// NewWith makes one of pages with so many bytes more behind it, which are mapped here in its
// place.
func NewWith(more int64) (*Shadow, error) { return create(Page, more, 1) }

func create(g Granule, more, threads int64) (*Shadow, error) {
	const never = "2"
	if b, err := os.ReadFile("/proc/sys/vm/overcommit_memory"); err == nil && strings.TrimSpace(string(b)) == never {
		return nil, errors.New("vm.overcommit_memory is 2: memory that is mapped and not there yet could be refused to the program")
	}
	fd, err := unix.MemfdCreate("dynprof-heat", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	s := &Shadow{file: os.NewFile(uintptr(fd), "dynprof-heat"), more: more, Granule: g, threads: threads}
	if threads > 1 {
		s.touched = &touched{}
	}
	if err := s.lay(); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

// lay gives it its size, which nobody can change, and maps it.
func (s *Shadow) lay() error {
	if err := s.file.Truncate(s.shadow() + texts*textSize + s.more); err != nil {
		return err
	}
	fd := int(s.file.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	from, size := int64(0), s.shadow()
	if s.more > 0 {
		from, size = s.shadow()+texts*textSize, s.more
	}
	b, err := unix.Mmap(fd, from, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("there is not enough address space (ulimit -v?): %w", err)
	}
	s.mapped = b
	unix.Madvise(b, unix.MADV_DONTDUMP) // else a core of this process would be large
	return nil
}

// More is what is behind it.
func (s *Shadow) More() []byte { return s.mapped }

// MoreAt is where that is, behind the beginning of all.
func (s *Shadow) MoreAt() uint64 { return uint64(s.shadow() + texts*textSize) }

// Path is the path by which the program may open it.
func (s *Shadow) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.file.Fd()) }

// Close ends it; the program still has it.
func (s *Shadow) Close() {
	unix.Munmap(s.mapped)
	s.file.Close()
}

// Maps is what the program has told of what is mapped, at its end, or else at its start; ErrNone
// if it has never had the shadow.
func (s *Shadow) Maps() (*Maps, error) {
	if m, err := s.maps(1); err != ErrNone {
		return m, err
	}
	return s.Begun()
}

// Begun is what was mapped at the program's start.
func (s *Shadow) Begun() (*Maps, error) { return s.maps(0) }

func (s *Shadow) maps(n int64) (*Maps, error) {
	m := &Maps{Ended: n > 0}
	text, err := s.text(n)
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return nil, ErrNone
	}
	m.Cut = len(text) == textSize-8
	m.Mappings, err = parseSmaps(text)
	return m, err
}

// Had reports whether the program has had it.
func (s *Shadow) Had() bool {
	text, err := s.text(0)
	return err == nil && len(text) > 0
}

// text is one of those behind the shadow.
func (s *Shadow) text(n int64) ([]byte, error) {
	var head [8]byte
	at := s.shadow() + n*textSize
	if _, err := s.file.ReadAt(head[:], at); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length > textSize-uint64(len(head)) {
		return nil, errDamaged // the program has written to it
	}
	b := make([]byte, length)
	_, err := s.file.ReadAt(b, at+int64(len(head)))
	return b, err
}

// ByThread reports whether it is noted, too, who touches what.
func (s *Shadow) ByThread() bool { return s.touched != nil }

// Take takes the granules that were touched since it was last called, and puts them behind others.
// What a thread touches meanwhile is in this list or in the next, and no thread waits. It looks
// at what has data only: to read a hole would fill it.
func (s *Shadow) Take(to []Range) ([]Range, error) {
	if s.touched == nil {
		return s.take(to)
	}
	all, err := s.take(nil)
	return append(to, s.touched.take(all)...), err
}

func (s *Shadow) take(to []Range) ([]Range, error) {
	fd := int(s.file.Fd())
	for at := int64(0); ; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO || err == nil && data >= s.shadow() {
			return to, nil
		}
		if err != nil {
			return to, os.NewSyscallError("lseek", err)
		}
		hole, err := unix.Seek(fd, data, unix.SEEK_HOLE)
		if err != nil {
			return to, os.NewSyscallError("lseek", err)
		}
		at = min(hole, s.shadow())
		words := mem.Values[uint64](s.mapped[data:at])
		for i := range words {
			if atomic.LoadUint64(&words[i]) != 0 {
				to = addWord(to, uint64(data)/2+4*uint64(i), atomic.SwapUint64(&words[i], 0))
			}
		}
	}
}

// addWord adds the four granules of a word of the shadow.
func addWord(to []Range, at, word uint64) []Range {
	for ; word != 0; at, word = at+1, word>>16 {
		var is What
		if word&0xff != 0 {
			is = WasRead
		}
		if word&0xff00 != 0 {
			is |= WasWritten
		}
		if is != 0 {
			to = add(to, Range{First: at, Pages: 1, What: is})
		}
	}
	return to
}

// parseSmaps reads the format of /proc/PID/smaps (proc_pid_smaps(5)), whose last line may be
// cut.
func parseSmaps(text []byte) (list []Mapping, err error) {
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		switch {
		case !bytes.HasSuffix(line, []byte("\n")):
		case bytes.IndexByte(name, ' ') >= 0: // of numbers only, as "start-end rwxp offset dev"
			all, err := procmaps.Parse(bytes.NewReader(line))
			if err != nil {
				return nil, err
			}
			for _, m := range all {
				one := Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path}
				if one.IsShadow() || one.IsShared() {
					one.Inode = m.Inode
				}
				list = append(list, one)
			}
		case string(name) == "Rss" && len(list) > 0:
			kilobytes, err := strconv.ParseUint(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 54)
			if err != nil {
				return nil, err
			}
			list[len(list)-1].Resident = kilobytes << 10
		}
	}
	return list, nil
}
