// Package lackey makes of a log of valgrind --tool=lackey --trace-mem=yes what hotspots heat shows:
// which granules of memory were read, written and executed, in slices of executed instructions.
package lackey

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/version"
)

// MostSlice is the instructions that a slice may have.
const MostSlice = 1 << 40

const (
	room      = 256 << 10             // bytes that are read at a time: no line is as long
	mostElse  = 64 << 20              // bytes without an instruction, behind which it is no such log
	mostPath  = 4096                  // bytes of the program's
	lookOften = 10 * time.Millisecond // where files are mapped is looked at as often,
	tellOften = time.Second           // and told, for who watches meanwhile
)

// errNothing is of a log without an instruction.
var errNothing = errors.New("no instruction is in it: valgrind --tool=lackey --trace-mem=yes --log-file=LOG makes such logs")

// Options say what is made of a log.
type Options struct {
	Granule heat.Granule
	Slice   uint64                                        // instructions of a slice, while there are not too many
	Maps    *heat.Maps                                    // where the program had mapped files (heat.FilesIn); nil: that is not known
	Running bool                                          // the log is written while it is read: then the kernel says so, too
	Output  func(program string, pid int) (string, error) // says where the table is to be, when there is something to tell
}

// Log is what was read.
type Log struct {
	Table        string // path
	Program      string // as it was started; empty: the log does not say so
	Instructions uint64
	Accesses     uint64 // others
	Slices       int
	Slice        uint64 // instructions of each, but at the end
	Other        uint64 // lines that are none of lackey's, and no notes of valgrind's: those were left out,
	First        uint64 // the number of the first of them, from 1
	Several      bool   // there are notes of more than one process
}

// Import reads a log, and writes a table that counts nothing, and beside it what the log says, while
// it reads. With an error there is a Log, too, if there is a table, which has what was read before.
func Import(from io.Reader, o Options) (*Log, error) {
	if o.Maps == nil {
		o.Maps = &heat.Maps{Untold: true}
	}
	i := &importer{Options: o, log: heat.Log{Granule: o.Granule, Apart: o.Slice, Source: heat.Lackey}}
	i.slicer = newSlicer(o.Granule, o.Slice, i.add)
	err := i.read(bufio.NewReaderSize(from, room))
	if i.table == nil {
		return nil, cmp.Or(err, errNothing)
	}
	err = errors.Join(err, i.end())
	return &i.Log, err
}

// importer is an import under way.
type importer struct {
	Options
	Log
	pid    int
	line   uint64 // number of the last one
	slicer *slicer
	log    heat.Log
	table  *build.File // nil: there is nothing to tell yet
	places places
	looked time.Time // when the program's files were looked at
	told   time.Time // when it was told what is where
}

func (i *importer) read(r *bufio.Reader) error {
	if head, _ := r.Peek(2); string(head) == "\x1f\x8b" {
		return errors.New("it is compressed: zcat LOG | hotspots heat import -")
	}
	for bytesRead, long := 0, false; ; {
		line, err := r.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case err != nil && err != io.EOF && err != bufio.ErrBufferFull:
			return err
		}
		if bytesRead += len(line); bytesRead > mostElse && i.Instructions == 0 {
			return fmt.Errorf("no instruction is in its first %d MB: it is no log of valgrind --tool=lackey --trace-mem=yes", mostElse>>20)
		}
		isRest := long
		if long = err == bufio.ErrBufferFull; isRest {
			continue
		}
		i.line++
		a, ok := access{}, false
		if err == nil { // else it is too long, or was cut short, maybe in the middle of a number
			a, ok = parse(line[:len(line)-1])
		}
		if !ok {
			i.another(bytes.TrimSpace(line))
			continue
		}
		if a.What != heat.WasExecuted {
			i.Accesses++
		} else if i.Instructions++; i.Instructions == 1 {
			if err := i.begin(); err != nil {
				return err
			}
		}
		i.slicer.note(a)
	}
}

// another takes a line that tells of no access.
func (i *importer) another(line []byte) {
	if len(line) == 0 {
		return
	}
	pid, text, is := note(line)
	if !is {
		if i.Other++; i.First == 0 {
			i.First = i.line
		}
		return
	}
	i.Several = i.Several || i.pid != 0 && pid != i.pid
	i.pid = cmp.Or(i.pid, pid)
	if command, is := strings.CutPrefix(text, "Command: "); is && i.Program == "" {
		i.Program, _, _ = strings.Cut(command[:min(len(command), mostPath)], " ")
	}
}

// begin makes the table.
func (i *importer) begin() error {
	program := cmp.Or(i.Program, "unknown")
	path, err := i.Output(program, i.pid)
	if err != nil {
		return err
	}
	table, err := build.Create(path, &build.Spec{
		Identity: layout.Identity{Pid: uint32(i.pid), UID: uint32(os.Getuid()), Realtime: time.Now()},
		Program:  program, Creator: version.Creator, NoSpare: true, MaxRows: build.RowsReserved,
	})
	if err != nil {
		return err
	}
	i.Table = table.Path()
	if err = i.log.Open(i.Table, table.Nonce, i.places.maps(i.Maps)); err == nil {
		err = table.Publish()
	}
	if err != nil {
		table.Abort()
		return err
	}
	i.table = table
	return nil
}

// add adds a slice, and says how long the next ones are.
func (i *importer) add(s *heat.Slice) (each uint64) {
	i.log.Add(s)
	i.places.add(s.Ranges, i.Granule)
	now := time.Now()
	if i.Running && now.Sub(i.looked) > lookOften {
		i.look()
		i.looked = now
	}
	if now.Sub(i.told) > tellOften {
		i.log.Mapped(i.places.maps(i.Maps))
		i.told = now
	}
	return i.log.Apart
}

// look looks at where the program has mapped files by now, while it is valgrind that has its number.
func (i *importer) look() {
	of := fmt.Sprintf("/proc/%d/", i.pid)
	exe, err := os.Readlink(of + "exe")
	if i.Running = err == nil && strings.HasPrefix(filepath.Base(exe), heat.Lackey); !i.Running {
		return
	}
	text, err := procfile.Read(of + "maps")
	if err != nil {
		return
	}
	if now, err := heat.FilesIn(text); err == nil && len(now.Mappings) > 0 {
		i.Maps = i.Maps.Add(now)
	}
}

// end writes all.
func (i *importer) end() error {
	i.slicer.close()
	i.Slices, i.Log.Slice = i.log.Count(), i.log.Apart
	return errors.Join(i.log.Close(i.Table, i.table.Nonce, i.places.maps(i.Maps)), i.table.Close())
}
