package heat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// What the shadow is like.
const (
	textSize = layout.ShText
	textRoom = textSize - layout.ShChars
	texts    = 2

	// Images is how many programs can have a shadow that run in a process one after the other.
	Images = layout.ShImages
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

// Shadows is a file without a name, which has a shadow for each of the programs that run in a
// process one after the other.
type Shadows struct {
	file  *os.File
	taken []byte     // a page, whose first word is how many are
	more  int64      // bytes behind each
	all   []*Shadow  // that are, or were, mapped here
	short sync.Mutex // of who has one mapped for a moment: two are more than there may be address space for
	Granule
	blocks  bool  // those of malloc are what is behind each
	threads int64 // how many have one each, one behind the other
	each    int64 // bytes that it has of a granule
}

// Names of pages with more about who touches them.
const (
	ByThread = "threads" // which threads do,
	ByCode   = "who"     // and which instruction has done so last
)

// AllNames are what may be noted, for users.
const AllNames = "pages, lines, bytes, " + ByThread + " or " + ByCode

// Named makes what is noted by that name.
func Named(name string) (*Shadows, error) { return named(name, 0) }

func named(name string, more int64) (*Shadows, error) {
	switch name {
	case ByThread:
		return create(Page, more, Threads, usual)
	case ByCode:
		return create(Page, more, 1, layout.ShBy)
	}
	return create(Names[name], more, 1, usual)
}

// IsName reports whether something is noted by a name.
func IsName(name string) bool {
	_, is := Names[name]
	return is || name == ByThread || name == ByCode
}

// Shadow is memory that a program has mapped: two bytes a granule, which say whether it was
// read and whether it was written. It takes what is touched in it, and is there when the program is
// gone.
type Shadow struct {
	*Shadows
	at      int64 // in the file
	mu      sync.Mutex
	mapped  []byte   // the shadow, or what is behind it and its texts; nil: only while it is looked at
	touched *touched // who has touched what so far; nil: it is not told
	lasts   *lasts   // which instruction has touched what last; nil: likewise
}

const usual = 2 // bytes of a granule

// New makes them. It is an error where the kernel may refuse their pages when they are touched.
func New(g Granule) (*Shadows, error) { return create(g, 0, 1, usual) }

// NewWith makes some of pages with so many bytes more behind each, which are mapped here in its
// place.
func NewWith(more int64) (*Shadows, error) { return create(Page, more, 1, usual) }

func create(g Granule, more, threads, each int64) (*Shadows, error) {
	const never = "2"
	if b, err := os.ReadFile("/proc/sys/vm/overcommit_memory"); err == nil && strings.TrimSpace(string(b)) == never {
		return nil, errors.New("vm.overcommit_memory is 2: memory that is mapped and not there yet could be refused to the program")
	}
	fd, err := unix.MemfdCreate("dynprof-heat", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	s := &Shadows{file: os.NewFile(uintptr(fd), "dynprof-heat"), more: more, Granule: g, threads: threads, each: each}
	if err := s.lay(); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

// shadow is the bytes of one, of all threads.
func (s *Shadows) shadow() int64 { return s.Granule.shadow() / usual * s.each * s.threads }

// room is how many bytes of the file are of one.
func (s *Shadows) room() int64 { return s.shadow() + texts*textSize + s.more }

// lay gives the file its size, which nobody can change.
func (s *Shadows) lay() error {
	const page = 4096
	if err := s.file.Truncate(Images*s.room() + page); err != nil {
		return err
	}
	fd := int(s.file.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	b, err := s.mapAt(Images*s.room(), page)
	s.taken = b
	return err
}

func (s *Shadows) mapAt(at, size int64) ([]byte, error) {
	b, err := unix.Mmap(int(s.file.Fd()), at, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("there is not enough address space (ulimit -v?): %w", err)
	}
	unix.Madvise(b, unix.MADV_DONTDUMP) // else a core of this process would be large
	return b, nil
}

// Path is the path by which the program may open them.
func (s *Shadows) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.file.Fd()) }

// Put stores a word in what is behind each, before a program has one.
func (s *Shadows) Put(at int64, word uint64) error {
	b := binary.LittleEndian.AppendUint64(nil, word)
	for n := range int64(Images) {
		if _, err := s.file.WriteAt(b, n*s.room()+s.shadow()+texts*textSize+at); err != nil {
			return err
		}
	}
	return nil
}

// Taken is how many programs have taken one, or have found that there are no more than Images.
func (s *Shadows) Taken() int { return int(atomic.LoadUint32(s.counter())) }

func (s *Shadows) counter() *uint32 { return &mem.Values[uint32](s.taken)[0] }

// Await waits until others than so many have one, or for so long.
func (s *Shadows) Await(taken int, most time.Duration) { mem.Await(s.counter(), uint32(taken), most) }

// Shadow is that of a program, by its number from 0 on, mapped here.
func (s *Shadows) Shadow(n int) (*Shadow, error) {
	one := &Shadow{Shadows: s, at: int64(n) * s.room()}
	if s.threads > 1 {
		one.touched = &touched{}
	}
	if s.each == layout.ShBy {
		one.lasts = &lasts{}
	}
	if err := one.keep(); err != nil {
		return nil, err
	}
	s.all = append(s.all, one)
	return one, nil
}

// Close ends them; the program still has them.
func (s *Shadows) Close() {
	for _, one := range s.all {
		one.Leave()
	}
	unix.Munmap(s.taken)
	s.file.Close()
}

// part is what is mapped here of it.
func (s *Shadow) part() (at, size int64) {
	if s.more > 0 && !s.blocks {
		return s.at + s.shadow() + texts*textSize, s.more
	}
	return s.at, s.shadow()
}

func (s *Shadow) keep() (err error) {
	s.mapped, err = s.mapAt(s.part())
	return err
}

// Leave gives its address space back: it is mapped only while something is taken from it.
func (s *Shadow) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mapped != nil {
		unix.Munmap(s.mapped)
		s.mapped = nil
	}
}

// More is what is behind it.
func (s *Shadow) More() []byte { return s.mapped }

// MoreAt is where that is, behind the beginning of all.
func (s *Shadow) MoreAt() uint64 { return uint64(s.shadow() + texts*textSize) }

// Table is the nonce of the program's table; 0: there is none yet.
func (s *Shadow) Table() (nonce [16]byte) {
	s.file.ReadAt(nonce[:], s.at+s.shadow()+layout.ShTable) // of what cannot be read it is 0
	return nonce
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
	m.Cut = len(text) == textRoom
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
	at := s.at + s.shadow() + n*textSize
	if _, err := s.file.ReadAt(head[:], at); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length > textRoom {
		return nil, errDamaged // the program has written to it
	}
	b := make([]byte, length)
	_, err := s.file.ReadAt(b, at+layout.ShChars)
	return b, err
}

// ByThread reports whether it is noted, too, who touches what.
func (s *Shadow) ByThread() bool { return s.touched != nil }

// ByCode reports whether it is noted, too, which instruction touches what last.
func (s *Shadow) ByCode() bool { return s.lasts != nil }

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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mapped == nil {
		s.short.Lock()
		defer s.short.Unlock()
		if err := s.keep(); err != nil {
			return to, err
		}
		defer func() {
			unix.Munmap(s.mapped)
			s.mapped = nil
		}()
	}
	fd, end := int(s.file.Fd()), s.at+s.shadow()
	for at := s.at; ; {
		data, hole, err := nextData(fd, at)
		if err == unix.ENXIO || err == nil && data >= end {
			return to, nil
		}
		if err != nil {
			return to, os.NewSyscallError("lseek", err)
		}
		at = min(hole, end)
		words := mem.Values[uint64](s.mapped[data-s.at : at-s.at])
		for i := range words {
			switch {
			case atomic.LoadUint64(&words[i]) == 0:
			case s.lasts != nil:
				to = add(to, s.lasts.take(uint64(data-s.at)/layout.ShBy+uint64(i), atomic.SwapUint64(&words[i], 0)))
			default:
				to = addWord(to, uint64(data-s.at)/2+4*uint64(i), atomic.SwapUint64(&words[i], 0))
			}
		}
	}
}

// nextData is where a file has data next.
func nextData(fd int, at int64) (data, hole int64, err error) {
	if data, err = unix.Seek(fd, at, unix.SEEK_DATA); err == nil {
		hole, err = unix.Seek(fd, data, unix.SEEK_HOLE)
	}
	return data, hole, err
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
