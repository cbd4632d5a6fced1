package patcher

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
)

// recording is a process that was stopped at its first instruction: a zip file of its
// maps, its files, and the pages that are others than its files' (record_test.go).
const recording = "testdata/target.zip"

// recordedTarget is a process of a recording.
type recordedTarget struct {
	maps     []procmaps.Mapping
	files    map[string][]byte
	runs     []run // what is mapped of files
	loaded   map[string]target.Loaded
	hook     uint64
	debugged bool
	written  []uint64     // pages
	held     []place.Span // address space that was taken
	inodes   uint64       // added to those of files: they are others by now
	reserve  []byte
	mapsErr  error
}

// run is memory without gaps.
type run struct {
	at    uint64
	bytes []byte
}

// open is the recorded process.
func open(t *testing.T) *recordedTarget {
	t.Helper()
	z := unzip(t)
	maps, err := procmaps.Parse(bytes.NewReader(z["maps"]))
	if err != nil {
		t.Fatal(err)
	}
	r := &recordedTarget{maps: maps, files: map[string][]byte{}, loaded: map[string]target.Loaded{}}
	for name, data := range z {
		if path, ok := strings.CutPrefix(name, "files"); ok {
			r.files[path] = data
		}
	}
	for _, m := range maps {
		if m.Inode == 0 {
			continue
		}
		if n := len(r.runs); n == 0 || r.runs[n-1].at+uint64(len(r.runs[n-1].bytes)) != m.Start {
			r.runs = append(r.runs, run{at: m.Start})
		}
		last := &r.runs[len(r.runs)-1]
		for at := m.Start; at < m.End; at += pageSize {
			page, ok := z["pages/"+strconv.FormatUint(at, 16)]
			if !ok {
				page = pageOf(r.files[m.Path], m.Offset+at-m.Start)
			}
			last.bytes = append(last.bytes, page...)
		}
		l, ok := r.loaded[filepath.Base(m.Path)]
		if !ok {
			l = target.Loaded{Name: m.Path, Bias: m.Start, Span: place.Span{Low: m.Start}}
		}
		l.Span.High = m.End
		r.loaded[filepath.Base(m.Path)] = l
	}
	const linker = "ld-linux-x86-64.so.2"
	r.hook = r.loaded[linker].Bias + hookOf(t, r.files[r.loaded[linker].Name])
	return r
}

func (r *recordedTarget) Maps() ([]procmaps.Mapping, error)   { return r.maps, r.mapsErr }
func (r *recordedTarget) Lowest() uint64                      { return 64 << 10 }
func (r *recordedTarget) Growth() place.Growth                { return place.Growth{Stack: 8 << 20} }
func (r *recordedTarget) IsDebugged() bool                    { return r.debugged }
func (r *recordedTarget) Resolve(path string) (string, error) { return path, nil }
func (r *recordedTarget) Written(low, high uint64) (pages []uint64, err error) {
	for _, page := range r.written {
		if page+pageSize > low && page < high {
			pages = append(pages, page)
		}
	}
	return pages, nil
}

// View fails for what is not mapped, where a planner would have died.
func (r *recordedTarget) View(at uint64, n int) []byte {
	for _, run := range r.runs {
		if at >= run.at && at+uint64(n) <= run.at+uint64(len(run.bytes)) {
			return run.bytes[at-run.at:][:n]
		}
	}
	panic(fmt.Sprintf("%#x, %d bytes: not mapped", at, n))
}

func (r *recordedTarget) IsFree(at, size uint64) bool {
	for _, m := range r.maps {
		if at < m.End && m.Start < at+size {
			return false
		}
	}
	for _, s := range r.held {
		if at < s.High && s.Low < at+size {
			return false
		}
	}
	return true
}

func (r *recordedTarget) Hold(at, size uint64) bool {
	free := r.IsFree(at, size)
	if free {
		r.held = append(r.held, place.Span{Low: at, High: at + size})
	}
	return free
}

func (r *recordedTarget) Reserve() ([]byte, error) { return r.reserve, nil }

func (r *recordedTarget) Open(path string) (target.File, error) {
	if path == "/proc/self/exe" {
		path = r.loaded["program"].Name
	}
	file, ok := r.files[path]
	if !ok {
		return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	f := recordedFile{bytes.NewReader(file), file, 0}
	for _, m := range r.maps {
		if m.Path == path {
			f.inode = m.Inode + r.inodes
		}
	}
	return f, nil
}

type recordedFile struct {
	*bytes.Reader
	bytes []byte
	inode uint64
}

func (recordedFile) Close() error { return nil }

// request is one for the objects with these names; the last is ever the linker.
func (r *recordedTarget) request(names ...string) *Request {
	q := &Request{
		Options:     Options{Threshold: &symname.Thresholds{}},
		Entries:     Entries{Cold: 0x10, Keep: 0x20, Site: 0x30, Signal: 0x40, Changed: 0x50, Record: 0x60},
		LinkerHook:  r.hook,
		ReserveSize: 16 << 20,
		Miss:        func(i int, why ledger.Reason) { panic(fmt.Sprint("missed: ", i, why)) },
		Stop:        func() { panic("stopped") },
	}
	for _, name := range names {
		q.Objects = append(q.Objects, r.loaded[name])
	}
	r.reserve = aligned(int(q.ReserveSize))
	return q
}

// aligned is memory that begins where a value of any type may.
func aligned(size int) []byte { return mem.Bytes(make([]uint64, size/8)) }

// move moves all of it up by a number of bytes.
func (r *recordedTarget) move(by uint64) {
	for i := range r.maps {
		r.maps[i].Start, r.maps[i].End = r.maps[i].Start+by, r.maps[i].End+by
	}
	for i := range r.runs {
		r.runs[i].at += by
	}
	for name, l := range r.loaded {
		l.Bias, l.Span = l.Bias+by, place.Span{Low: l.Span.Low + by, High: l.Span.High + by}
		r.loaded[name] = l
	}
	r.hook += by
}

// everything is the objects that a usual program has.
func (r *recordedTarget) everything() *Request {
	q := r.request("program", "libc.so.6", "liblate.so", "ld-linux-x86-64.so.2")
	q.Options.Objects = must(symname.ParseObjects("all"))
	return q
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// at is the run address of a function of the recording.
func (r *recordedTarget) at(t *testing.T, p *Plan, name string) uint64 {
	t.Helper()
	for _, o := range p.all {
		if o.code == nil {
			continue
		}
		for i := range o.code.Functions {
			if f := &o.code.Functions[i]; f.Name == name {
				return f.Addr + o.bias
			}
		}
	}
	t.Fatalf("no function %s", name)
	return 0
}

// jumpTarget is where the `jmp rel32` at the start of code, which runs at at, leads.
func jumpTarget(t *testing.T, code []byte, at uint64) uint64 {
	t.Helper()
	if code[0] != 0xe9 {
		t.Fatalf("at %#x is no jump: % x", at, code[:8])
	}
	disp := int32(binary.LittleEndian.Uint32(code[1:]))
	if int64(at)+int64(disp) > math.MaxInt64-5 {
		t.Fatal("it leads out of the address space")
	}
	return at + 5 + uint64(int64(disp))
}

// pageOf is the page of a file at an offset, zeros behind its end.
func pageOf(file []byte, offset uint64) []byte {
	page := make([]byte, pageSize)
	if offset < uint64(len(file)) {
		copy(page, file[offset:])
	}
	return page
}

// hookOf is the link-time address of the dynamic linker's function that debuggers
// stop at.
func hookOf(t *testing.T, file []byte) uint64 {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "_dl_debug_state" }); err == nil && i >= 0 {
		return symbols[i].Value
	}
	symbols, err = f.Symbols()
	if i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "_dl_debug_state" }); err == nil && i >= 0 {
		return symbols[i].Value
	}
	t.Fatalf("no _dl_debug_state: %v", err)
	return 0
}

// unzip reads the recording.
func unzip(t *testing.T) map[string][]byte {
	z, err := zip.OpenReader(recording)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	all := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if all[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
