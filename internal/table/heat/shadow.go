package heat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// What the shadow is like.
const (
	pageBits   = 12
	shadowSize = layout.ShSize
	textSize   = layout.ShText
	texts      = 2
)

// Shadow is memory that the program has mapped: two bytes a page, which say whether it was
// read and whether it was written. It has no name, takes what is touched in it, and is there
// when the program is gone.
type Shadow struct{ file *os.File }

// New makes one. It is an error where the kernel may refuse its pages when they are touched.
func New() (*Shadow, error) {
	const never = "2"
	if b, err := os.ReadFile("/proc/sys/vm/overcommit_memory"); err == nil && strings.TrimSpace(string(b)) == never {
		return nil, errors.New("vm.overcommit_memory is 2: memory that is mapped and not there yet could be refused to the program")
	}
	fd, err := unix.MemfdCreate("dynprof-heat", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	s := &Shadow{os.NewFile(uintptr(fd), "dynprof-heat")}
	if err := s.file.Truncate(shadowSize + texts*textSize); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

// Path is the path by which the program may open it.
func (s *Shadow) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.file.Fd()) }

// Close ends it; the program still has it.
func (s *Shadow) Close() { s.file.Close() }

// Write writes what is in it beside a table, if the program has had it.
func (s *Shadow) Write(table string, nonce [16]byte) error {
	f, err := s.File()
	if errors.Is(err, ErrNone) {
		return nil // it said so when the program started
	}
	if err != nil {
		return err
	}
	return f.Write(table, nonce)
}

// File is what is in it by now; ErrNone if the program has never had it.
func (s *Shadow) File() (*File, error) {
	f := &File{Ended: true}
	text, err := s.text(1)
	if err == nil && len(text) == 0 {
		f.Ended = false
		text, err = s.text(0)
	}
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return nil, ErrNone
	}
	f.Cut = len(text) == textSize-8
	if f.Mappings, err = parseSmaps(text); err != nil {
		return nil, err
	}
	return f, s.ranges(func(r Range) { f.Ranges = append(f.Ranges, r) })
}

// text is one of those behind the shadow.
func (s *Shadow) text(n int64) ([]byte, error) {
	var head [8]byte
	at := int64(shadowSize) + n*textSize
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

// ranges lists the pages that are touched.
func (s *Shadow) ranges(add func(Range)) error {
	var last Range
	at := int64(0)
	buf := make([]byte, 1<<20)
	for {
		data, err := unix.Seek(int(s.file.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO || err == nil && data >= shadowSize {
			break
		}
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		hole, err := unix.Seek(int(s.file.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		at = min(hole, data+int64(len(buf)), shadowSize)
		b := buf[:at-data]
		if _, err := s.file.ReadAt(b, data); err != nil {
			return err
		}
		for i := 0; i+1 < len(b); i += 2 {
			one := Range{uint64(data+int64(i)) / 2, 1, b[i] != 0, b[i+1] != 0}
			switch {
			case !one.Read && !one.Written:
			case last.First+last.Pages == one.First && last.Read == one.Read && last.Written == one.Written:
				last.Pages++
			default:
				if last.Pages > 0 {
					add(last)
				}
				last = one
			}
		}
	}
	if last.Pages > 0 {
		add(last)
	}
	return nil
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
				list = append(list, Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path})
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
