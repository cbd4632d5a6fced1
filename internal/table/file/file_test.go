package file_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func head(t *testing.T, path string, flags int) *file.File {
	t.Helper()
	f, err := file.OpenHead(path, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOpen(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	f := head(t, live.Path, os.O_RDONLY)
	if f.Path() != live.Path || f.OS() == nil || f.Program != "/opt/demo/demo" || f.Nonce != live.Nonce || f.Geometry != live.Geometry {
		t.Errorf("%+v", f)
	}
	if v, err := f.U32(layout.HdrVersion); v != layout.Version || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
	if n, err := f.U64(layout.HdrFileSize); n != live.Size || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	if _, err := f.U64(int64(live.Size) - 4); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("behind the end: %v", err)
	}
	for off, want := range map[uint32]string{0: "", 1: "/opt/demo/demo"} {
		if s, err := f.String(off); s != want || err != nil {
			t.Errorf("string at %d: %q, %v", off, s, err)
		}
	}
	if _, err := f.String(1 << 31); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("string outside: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	if f := file.New(bytes.NewReader(b), int64(len(b))); f.ReadHead() != nil || f.Path() != "" || f.OS() != nil || f.Close() != nil || f.Nonce != live.Nonce {
		t.Errorf("of bytes: %+v", f)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		t.TempDir(): layout.ErrNotTable, fifo: layout.ErrNotTable, "/dev/null": layout.ErrNotTable, fifo + "no": os.ErrNotExist,
		os.Args[0]: layout.ErrNotTable,
	} {
		if f, err := file.OpenHead(path, os.O_RDONLY); f != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// TestHeld: the kernel says whether anybody else has the file.
func TestHeld(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	live.Close()
	f := head(t, live.Path, os.O_RDWR)
	held := func(what string, want bool) {
		t.Helper()
		if got, known := f.Held(); got != want || !known {
			t.Errorf("%s: held %v, known %v", what, got, known)
		}
	}
	held("nobody", false)
	m := tabletest.Map(t, live.Path)
	held("a mapping", true)
	if err := syscall.Munmap(m); err != nil {
		t.Fatal(err)
	}
	other := head(t, live.Path, os.O_RDONLY)
	held("a reader", true)
	other.Close()
	held("nobody again", false)
	cmd := exec.Command("sleep", "1000")
	cmd.Stdin = tabletest.Writable(t, live.Path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin.(*os.File).Close()
	held("a child", true)
	cmd.Process.Kill()
	cmd.Wait()
	held("it has ended", false)
	if held, known := file.New(bytes.NewReader(nil), 0).Held(); held || known {
		t.Error("bytes are held")
	}
}

// TestOpenLeased: whoever asks whether the file is held keeps others out for a moment
// only: they try again.
func TestOpenLeased(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	live.Close()
	f := head(t, live.Path, os.O_RDWR)
	if err := f.Lease(); err != nil {
		t.Skip(err)
	}
	if _, err := os.OpenFile(live.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("opened a leased file: %v", err)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		f.Unlease()
	}()
	g, err := file.OpenHead(live.Path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := f.Lease(); err != syscall.EAGAIN {
		t.Errorf("leased beside a reader: %v", err)
	}
}

// scattered is a file with data in some places and holes in others.
func scattered(t *testing.T, r *rand.Rand, size int) (*os.File, []byte) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	for range r.IntN(12) {
		b := make([]byte, 1+r.IntN(9000))
		for i := range b {
			b[i] = byte(1 + r.IntN(255))
		}
		at := r.IntN(size)
		if _, err := f.WriteAt(b[:min(len(b), size-at)], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]byte, size)
	if _, err := f.ReadAt(all, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return f, all
}

// TestEachData: what is used is what the file holds, and what is left out is zero;
// with holes, without, and with buffers of any size.
func TestEachData(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		const size = 1 << 20
		onDisk, all := scattered(t, r, size)
		s := layout.Section{Offset: uint64(r.IntN(size / 2)), EntrySize: []uint32{1, 8, 24, 40, 4096, 12288}[r.IntN(6)]}
		count := uint64(r.IntN((size-int(s.Offset))/int(s.EntrySize) + 1))
		want := all[s.Offset : s.Offset+count*uint64(s.EntrySize)]
		buf := make([]byte, r.IntN(20000))
		for name, f := range map[string]*file.File{"file": file.New(onDisk, size), "bytes": file.New(bytes.NewReader(all), size)} {
			got, next := make([]byte, len(want)), uint64(0)
			err := f.EachDataIn(buf, s, count, func(first uint64, b []byte) error {
				if first < next || len(b) == 0 || len(b)%int(s.EntrySize) != 0 {
					t.Fatalf("%s: %d bytes of entries of %d from entry %d on, behind %d", name, len(b), s.EntrySize, first, next)
				}
				next = first + uint64(len(b))/uint64(s.EntrySize)
				copy(got[first*uint64(s.EntrySize):], b)
				return nil
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %+v, %d entries: they differ; %v", name, s, count, err)
			}
		}
	}
}

// An error of use ends the pass, and so does the end of the file.
func TestEachStops(t *testing.T) {
	f, all := scattered(t, rand.New(rand.NewPCG(3, 4)), 1<<20)
	mine := errors.New("enough")
	s := layout.Section{Offset: 0, Count: 1 << 18, EntrySize: 4}
	calls := 0
	stop := func(b []byte) error { calls++; return mine }
	for name, pass := range map[string]func(*file.File) error{
		"data": func(f *file.File) error {
			return f.EachData(s, 1<<18, func(_ uint64, b []byte) error { return stop(b) })
		},
		"chunk": func(f *file.File) error { return f.EachChunk(s, stop) },
		"entry": func(f *file.File) error { return f.EachEntry(s, stop) },
	} {
		calls = 0
		if err := pass(file.New(bytes.NewReader(all), 1<<20)); err != mine || calls != 1 {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
	short := file.New(bytes.NewReader(all[:1000]), 1<<20)
	none := func([]byte) error { return nil }
	for name, err := range map[string]error{
		"data":  short.EachData(s, 1<<18, func(uint64, []byte) error { return nil }),
		"chunk": short.EachChunk(s, none), "entry": short.EachEntry(s, none),
	} {
		if !errors.Is(err, layout.ErrTruncated) {
			t.Errorf("%s of a short file: %v", name, err)
		}
	}
	if err := file.New(f, 1<<20).EachData(layout.Section{}, 0, nil); err != nil {
		t.Errorf("a section that is not there: %v", err)
	}
}

// TestEachRow: every row that was handed out and holds anything is seen.
func TestEachRow(t *testing.T) {
	for _, functions := range []int{5, 2000} { // rows of some pages, most of them holes
		spec := tabletest.Synthetic(functions)
		live := tabletest.Create(t, "a.dynprof", spec)
		want := []uint32{0, 1, 7, live.Rows.Capacity - 2}
		for _, i := range want {
			live.Row(layout.Row{Index: i, State: layout.RowLive, Pid: 9, Tid: i + 1})
		}
		live.Set(5, make([]uint64, functions)...)
		live.Word(int64(live.Rows.Offset)+int64(live.Rows.EntrySize)*int64(live.Rows.Capacity-1), layout.RowLive) // not handed out
		f := head(t, live.Path, os.O_RDONLY)
		var got []uint32
		if err := f.EachRow(func(r layout.Row) {
			if r.Held() {
				if got = append(got, r.Index); r.Tid != r.Index+1 {
					t.Errorf("row %d: %+v", r.Index, r)
				}
			}
		}); err != nil || !slices.Equal(got, want) {
			t.Errorf("rows %v, want %v; %v", got, want, err)
		}
		live.Word(layout.HdrRowsUsed, 1<<32-1) // more than there are
		n := 0
		if err := f.EachRow(func(r layout.Row) { n++ }); err != nil || n > int(live.Rows.Capacity) {
			t.Errorf("%d rows of %d, %v", n, live.Rows.Capacity, err)
		}
		if err := os.Truncate(live.Path, int64(live.Rows.Offset)+100); err != nil {
			t.Fatal(err)
		}
		if err := f.EachRow(func(layout.Row) {}); !errors.Is(err, layout.ErrTruncated) {
			t.Errorf("of a short file: %v", err)
		}
	}
}
