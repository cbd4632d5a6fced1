package textcopy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/plancache/store"
	"github.com/dynprof/dynprof/internal/table/layout"
)

const pages = fewest + 2 // of the object, the first of which is no text

// object is a file of zeros but for a call in front of the bytes that change, and debug
// information that nobody needs, were it an ELF file.
func object() []byte {
	b := make([]byte, pages*pageSize+100)
	for at := pageSize; at < pages*pageSize; at += pageSize {
		copy(b[at+16:], "\x55\x48\x89\xe5\xc3") // a patch
		copy(b[at+32:], "\xe8\x00\x01\x00\x00") // a call that is led
		copy(b[at+48:], "\x90\x00\x01\x00\x00") // none
		copy(b[at+64:], "\xe8\xe0\x00\x00\x00") // one by a slot
	}
	return b
}

// planOf changes each page of the text of the file at path.
func planOf(t testing.TB, path string) *plancache.Plan {
	t.Helper()
	le := binary.LittleEndian
	const text = (pages - 1) * pageSize
	p := &plancache.Plan{
		Path: []byte(path), Low: 0x400000, High: 0x400000 + pages*pageSize, Arena: 0x300000, ArenaSize: 2 * pageSize, Cold: pageSize, Keeps: pageSize, Counters: 1,
		Stubs: make([]byte, 2*pageSize), Leds: le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 0), 0), 0),
	}
	listed := func(at, of uint32) { p.Listed = le.AppendUint32(le.AppendUint32(p.Listed, at), of) }
	for page := range uint32(pages - 1) {
		at := page * pageSize
		le.PutUint32(p.Leds[4:], 0x100+37)
		listed(at+16, page)
		p.Patches = append(p.Patches, "\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x05\x03\x55\x48\x89\xe5\xc3\x00\xe9\x01\x02\x03\x04\x00"...)
		if page == 0 { // a displacement is of one place
			listed(at+33, 1<<31)
			listed(at+49, 1<<31)
			listed(at+65, 1<<31|1<<30)
		}
	}
	p.Leds = le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 0), 0x100+37), 0x200+37)
	p.Texts = []plancache.Text{{Start: 0x401000, Size: text, Offset: pageSize, Prot: 5, Listed: uint32(len(p.Listed) / 8), Patches: pages - 1, Leds: 1}}
	p.Add(&layout.Function{Address: 0x401010, Size: 5, Counter: 0, Stub: 0x30, StubSize: 20, Tactic: ledger.TacticJump})
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		fi, _ := f.Stat()
		st := fi.Sys().(*syscall.Stat_t)
		p.File = plancache.File{Inode: st.Ino, Size: uint64(st.Size), Mtime: uint64(st.Mtim.Nano()), Ctime: uint64(st.Ctim.Nano())}
		if !plancache.TimesTell(p.File.Mtime, p.File.Ctime) {
			p.File.Content, _ = plancache.ContentOf(f, p.File.Size)
		}
	}
	return p
}

// written is a plan as a start has left it.
func written(t *testing.T, p *plancache.Plan) *plancache.Plan {
	t.Helper()
	d, err := plancache.Decode(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// aDay is a file's mtime, so that it is not its ctime.
var aDay = time.Unix(1700000000, 0)

func objectFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "object")
	if err := errors.Join(os.WriteFile(path, object(), 0o600), os.Chtimes(path, time.Now(), aDay)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestText(t *testing.T) {
	p := written(t, planOf(t, objectFile(t)))
	got, err := Text(p, bytes.NewReader(object()))
	if err != nil {
		t.Fatal(err)
	}
	want := append(object()[pageSize:pages*pageSize:pages*pageSize], make([]byte, 0)...)
	for at := 0; at < len(want); at += pageSize {
		copy(want[at+16:], "\xe9\x01\x02\x03\x04")
	}
	copy(want[32:], "\xe8\x00\x02\x00\x00") // and what is no call stays, or goes by a slot
	if !bytes.Equal(got, want) {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("at %#x: % x, not % x", i, got[i:i+8], want[i:i+8])
			}
		}
	}
	changed := object()
	changed[5*pageSize+18]++
	for name, b := range map[string][]byte{"changed": changed, "cut": object()[:3*pageSize]} {
		if _, err := Text(p, bytes.NewReader(b)); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of several texts the one with the most changes is copied; the others stay.
func TestSeveral(t *testing.T) {
	p := planOf(t, objectFile(t))
	last := &p.Texts[0]
	last.Size -= pageSize
	last.Patches--
	last.Listed--
	p.Texts = append(p.Texts, plancache.Text{Start: last.Start + last.Size, Size: pageSize, Offset: last.Offset + last.Size, Prot: 5, Listed: 1, Patches: 1})
	le := binary.LittleEndian
	le.PutUint32(p.Listed[len(p.Listed)-8:], 16)
	le.PutUint32(p.Listed[len(p.Listed)-4:], 0)
	p = written(t, p)
	if !Wanted(p) || Copied(p) != &p.Texts[0] {
		t.Fatalf("%+v", p.Texts)
	}
	whole := written(t, planOf(t, objectFile(t)))
	want, err := Text(whole, bytes.NewReader(object()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Text(p, bytes.NewReader(object())); err != nil || !bytes.Equal(got, want[:len(want)-pageSize]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestWrite(t *testing.T) {
	path := objectFile(t)
	p := written(t, planOf(t, path))
	if !Wanted(p) {
		t.Error("it is not worth a copy")
	}
	f, err := os.Create(path + ".copy")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	src := bytes.NewReader(object())
	if err := Write(f, p, src); err != nil {
		t.Fatal(err)
	}
	if err := Check(f, p, src); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(path + ".copy")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := Text(p, src)
	want := append(object()[:pageSize:pageSize], text...)
	want = append(append(want, object()[pages*pageSize:]...), make([]byte, pageSize-100)...)
	want = append(want, trailer(p)...)
	if !bytes.Equal(b, want) {
		t.Errorf("%d bytes, not %d as they should be", len(b), len(want))
	}
	f.WriteAt([]byte{1}, 7*pageSize)
	if err := Check(f, p, src); !errors.Is(err, ErrNotCopy) {
		t.Errorf("a byte of its text: %v", err)
	}
}

func TestWanted(t *testing.T) {
	p := planOf(t, objectFile(t))
	for name, change := range map[string]func(q *plancache.Plan){
		"no text":       func(q *plancache.Plan) { q.Texts = nil },
		"not counted":   func(q *plancache.Plan) { q.Counters = 0 },
		"writable":      func(q *plancache.Plan) { q.Texts[0].Prot = 7 },
		"a few changes": func(q *plancache.Plan) { q.Texts[0].Listed = fewest },
		"by site":       func(q *plancache.Plan) { q.AddSite(&layout.Site{Counter: layout.NoCounter}) },
		"a giant":       func(q *plancache.Plan) { q.File.Size = largest + 1 },
	} {
		q := *p
		q.Texts = append([]plancache.Text(nil), p.Texts...)
		if change(&q); Wanted(&q) {
			t.Error(name)
		}
	}
}

func TestJoin(t *testing.T) {
	got := join([]span{{pageSize * 9, pageSize * 50}, {pageSize + 1, pageSize + 2}, {-5, 10}, {3 * pageSize, 3 * pageSize}, {7*pageSize - 1, 7*pageSize + 1}}, 10*pageSize+5)
	want := []span{{0, 2 * pageSize}, {6 * pageSize, 8 * pageSize}, {9 * pageSize, 10*pageSize + 5}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// The parts of this test's own ELF file, without its debug information.
func TestParts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, _ := f.Stat()
	if got := parts(f, fi.Size()); len(got) == 0 || got[0].from != 0 || got[len(got)-1].to != fi.Size() {
		t.Errorf("%v of %d bytes", got, fi.Size())
	}
	if got := parts(bytes.NewReader([]byte("text")), 4); !reflect.DeepEqual(got, []span{{0, 4}}) {
		t.Errorf("of no ELF file: %v", got)
	}
}

// TestOpen: where times tell nothing, what is in the object does.
func TestOpen(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	path := filepath.Join(t.TempDir(), "object")
	if err = errors.Join(err, os.WriteFile(path, b, 0o600), os.Chtimes(path, time.Now(), aDay)); err != nil {
		t.Fatal(err)
	}
	p := planOf(t, path)
	if p.File.Content != 0 {
		t.Fatalf("%+v: its times tell", p.File)
	}
	open := func() error {
		f, err := Open(p)
		f.Close()
		return err
	}
	if err := open(); err != nil {
		t.Errorf("its times: %v", err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil { // mtime and ctime are one
		t.Fatal(err)
	}
	p = planOf(t, path)
	if p.File.Content == 0 {
		t.Fatalf("%+v: no sum", p.File)
	}
	if err := open(); err != nil {
		t.Errorf("its content: %v", err)
	}
	if p.File.Content++; !errors.Is(open(), ErrChanged) {
		t.Errorf("another content: %v", open())
	}
}

func TestFill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plans")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path, gone := objectFile(t), objectFile(t)
	p, q := planOf(t, path), planOf(t, gone)
	for name, p := range map[string]*plancache.Plan{"0000000000000001.plan": p, "0000000000000002.plan": q} {
		if err := s.Write(name, p.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write("0000000000000003.plan", make([]byte, 20000)); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(gone, nil, 0o600)
	if made, err := Fill(s, time.Now().Add(time.Hour)); made != 0 || err != nil {
		t.Errorf("older than asked for: %d, %v", made, err)
	}
	if made, err := Fill(s, time.Time{}); made != 1 || !errors.Is(err, ErrChanged) || !errors.Is(err, plancache.ErrNotPlan) {
		t.Errorf("%d, %v", made, err)
	}
	fi, err := os.Stat(filepath.Join(dir, "0000000000000001.text"))
	if err != nil {
		t.Fatal(err)
	}
	if was, _ := os.Stat(path); !fi.ModTime().Equal(was.ModTime().Truncate(time.Microsecond)) || fi.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v; its object's time is %v", fi.ModTime(), fi.Mode(), was.ModTime())
	}
	if made, _ := Fill(s, time.Time{}); made != 0 {
		t.Errorf("%d again", made)
	}
	if plans, left, err := s.List(); err != nil || len(left) != 0 || plans[0].Copy+plans[1].Copy+plans[2].Copy == 0 {
		t.Errorf("%v, %v, %v", plans, left, err)
	}
	if err := s.Remove("0000000000000001.plan"); err != nil {
		t.Error(err)
	}
	if _, err := s.OpenCopy("0000000000000001.plan"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is left: %v", err)
	}
}

// FuzzText: nothing that passes for a plan makes it fail otherwise than by an error.
func FuzzText(f *testing.F) {
	file := bytes.NewReader(object())
	f.Add(planOf(f, "").Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= plancache.PlanHeaderSize {
			binary.LittleEndian.PutUint64(b[plancache.PlanCheck:], xxhash.Sum64(b[plancache.PlanCheck+8:]))
		}
		p, err := plancache.Decode(b)
		if err != nil || !Wanted(p) {
			return
		}
		if text, err := Text(p, file); err == nil && uint64(len(text)) != Copied(p).Size {
			t.Errorf("%d bytes of %d", len(text), p.Texts[0].Size)
		}
	})
}
