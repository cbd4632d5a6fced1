package lackey

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// counted is what a log tells, by who takes it line by line and granule by granule.
type counted struct {
	slices                        []map[uint64]heat.What
	instructions, accesses, other uint64
	first                         uint64
	ended                         []uint64 // instructions by the end of each slice
}

var (
	accessLine = regexp.MustCompile(`^(I  | L | S | M )([0-9a-f]+),([0-9]+)$`)
	noteLine   = regexp.MustCompile(`^(==|--|\*\*)0*[0-9]{1,9}(==|--|\*\*)`)
)

func count(log []byte, g heat.Granule, each uint64) (c counted) {
	for number, line := range bytes.SplitAfter(log, []byte("\n")) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		m := accessLine.FindSubmatch(text)
		at, size, space := new(big.Int), new(big.Int), new(big.Int).Lsh(big.NewInt(1), 47)
		if m != nil {
			at.SetString(string(m[2]), 16)
			size.SetString(string(m[3]), 10)
		}
		if m == nil || !whole || size.Sign() == 0 || size.Cmp(big.NewInt(65536)) > 0 || new(big.Int).Add(at, size).Cmp(space) > 0 {
			if len(bytes.TrimSpace(text)) > 0 && !noteLine.Match(bytes.TrimSpace(text)) {
				if c.other++; c.first == 0 {
					c.first = uint64(number + 1)
				}
			}
			continue
		}
		what := map[byte]heat.What{'I': heat.WasExecuted, 'L': heat.WasRead, 'S': heat.WasWritten, 'M': heat.WasRead | heat.WasWritten}[bytes.TrimSpace(m[1])[0]]
		if what != heat.WasExecuted {
			c.accesses++
		} else if c.instructions++; c.instructions%each == 1 || each == 1 {
			if c.instructions > 1 {
				c.slices = append(c.slices, map[uint64]heat.What{})
				c.ended = append(c.ended, c.instructions-1)
			}
		}
		if len(c.slices) == 0 {
			c.slices = append(c.slices, map[uint64]heat.What{})
		}
		for b := range size.Uint64() {
			c.slices[len(c.slices)-1][(at.Uint64()+b)/g.Size()] |= what
		}
	}
	c.ended = append(c.ended, c.instructions)
	return c
}

// imported is what is read again of what was made of a log.
func imported(t testing.TB, from io.Reader, o Options) (*Log, *heat.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a")
	o.Output = func(string, int) (string, error) { return path, nil }
	l, err := Import(from, o)
	if err != nil || l == nil {
		if all, _ := filepath.Glob(path + "*"); len(all) > 0 && l == nil {
			t.Errorf("%v: %v is left", err, all)
		}
		return l, nil, err
	}
	tab, err := table.Open(l.Table)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	f, err := heat.Read(l.Table, tab.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	return l, f.In(f.Noted), nil
}

// check compares what was made of a log with what is counted in it.
func check(t testing.TB, log []byte, o Options) {
	t.Helper()
	want := count(log, o.Granule, o.Slice)
	l, f, err := imported(t, bytes.NewReader(log), o)
	if (err != nil) != (want.instructions == 0) {
		t.Fatalf("%v; there are %d instructions", err, want.instructions)
	}
	if err != nil {
		return
	}
	if l.Instructions != want.instructions || l.Accesses != want.accesses || l.Other != want.other || l.First != want.first || l.Slices != len(want.slices) || l.Slice != o.Slice {
		t.Fatalf("%+v, not %+v", l, want)
	}
	n := 0
	f.Each(func(s *heat.Slice) {
		got := map[uint64]heat.What{}
		for _, r := range s.Ranges {
			for p := r.First; p < r.First+r.Pages; p++ {
				got[p] = r.What
			}
		}
		if s.Executed != want.ended[n] || !maps.Equal(got, want.slices[n]) {
			t.Fatalf("slice %d: %d instructions, %v, not %d, %v", n, s.Executed, got, want.ended[n], want.slices[n])
		}
		n++
	})
	inMaps(t, f)
}

// inMaps: all that was touched has a name.
func inMaps(t testing.TB, f *heat.File) {
	t.Helper()
	all := slices.Clone(f.Mappings)
	for i := range all {
		all[i].Gone = false
	}
	if at, is := (&heat.Maps{Mappings: all}).Unknown(f.Pages(), f.Granule); is {
		t.Fatalf("%#x has no name: %+v", at, f.Mappings)
	}
}

// someLog is a log of so many lines, of which some are none.
func someLog(r *rand.Rand, lines int) []byte {
	var b bytes.Buffer
	at := uint64(0x108000)
	for range lines {
		switch r.IntN(40) {
		case 0:
			b.WriteString([]string{"==12== a note", "", "--12-- x", "hello", "I  0401ab70", " L 0401,", " S xyz,8", " L 800000000000,1", " L 7fffffffffff,2", " S 10,0", " M 123456789012345678901234567890,4", " L 10,99999999999999999999", "I  10,-1", "I 10,4", "\x00\x00", " L 0401ab70,8\r", strings.Repeat("x", room+r.IntN(3)-1), strings.Repeat(" L 10,4", room/7+1)}[r.IntN(18)])
		case 1:
			at = uint64(r.Int64N(1<<47 - 1<<17))
			fallthrough
		case 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
			fmt.Fprintf(&b, " %c %08x,%d", "LSM"[r.IntN(3)], at+uint64(r.IntN(20000)), []int{1, 2, 4, 8, 16, 64, 512, 5000, 65536}[r.IntN(9)])
		default:
			n := uint64(1 + r.IntN(15))
			fmt.Fprintf(&b, "I  %08x,%d", at, n)
			at += n
		}
		b.WriteByte('\n')
	}
	if r.IntN(2) > 0 {
		b.WriteString(" L 10,8") // of 80
	}
	return b.Bytes()
}

// TestImport: slices have what who counts line by line finds in them, whatever else is in the log.
func TestImport(t *testing.T) {
	for seed := range uint64(9) {
		r := rand.New(rand.NewPCG(seed, 1))
		check(t, someLog(r, 1+r.IntN(1500)), Options{Granule: []heat.Granule{heat.Page, heat.Line, heat.Word}[seed%3], Slice: uint64(1 + r.IntN(300))})
	}
}

// TestImportMany: of more slices than there may be neighbours are one, of as many instructions each but few, and
// nothing is lost.
func TestImportMany(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const each, all = 3, 70_000
	var log bytes.Buffer
	for i := range all {
		fmt.Fprintf(&log, "I  %x,4\n S %x,8\n", 0x400000+4*r.IntN(1<<16), 0x7f0000000000+i)
	}
	l, f, err := imported(t, &log, Options{Granule: heat.Word, Slice: each})
	if err != nil || l.Slice%each != 0 || l.Slice <= each || l.Slices != f.Count || f.Count > 4096 {
		t.Fatalf("%+v: %v", l, err)
	}
	before, n, short := uint64(0), 0, 0
	f.Each(func(s *heat.Slice) {
		if n++; s.Executed-before < l.Slice {
			short++
		}
		if s.Executed-before > l.Slice {
			t.Errorf("slice %d of %d: %d instructions, not %d", n, f.Count, s.Executed-before, l.Slice)
		}
		first, last := (0x7f0000000000+before)/8, (0x7f0000000000+s.Executed-1+7)/8
		written := uint64(0)
		for _, r := range s.Ranges {
			if r.What&heat.WasWritten != 0 {
				written += r.Clip(first, last+1).Pages
			}
		}
		if written != last-first+1 {
			t.Errorf("slice %d: %d granules written, not %d", n, written, last-first+1)
		}
		before = s.Executed
	})
	if before != all || short > 3 { // the last one, and where they became longer last
		t.Errorf("%d instructions, %d slices are short", before, short)
	}
}

// TestImportSpill: what a slice has more than is kept granule by granule is in it all the same.
func TestImportSpill(t *testing.T) {
	var log bytes.Buffer
	log.WriteString("I  10,4\n")
	const n = mostGranules/512 + 100
	for i := range n {
		fmt.Fprintf(&log, " L %x,4096\n", 0x10000000+8192*i)
	}
	log.WriteString(" S 10000000,8\n")
	_, f, err := imported(t, &log, Options{Granule: heat.Word, Slice: 100})
	if err != nil {
		t.Fatal(err)
	}
	ranges := f.Pages()
	if len(ranges) != n+2 || ranges[1].What != heat.WasRead|heat.WasWritten || ranges[2].Pages != 511 || ranges[n+1].Pages != 512 {
		t.Errorf("%d ranges", len(ranges))
	}
}

// TestImportNothing: what has no instruction is an error, of one line, and leaves nothing.
func TestImportNothing(t *testing.T) {
	for text, want := range map[string]string{
		"": "no instruction", "==1== Lackey\n": "no instruction", " L 10,4\n": "no instruction", "I  10,4": "no instruction",
		"\x1f\x8b\x08": "compressed", strings.Repeat("x\n", mostElse/2+1): "its first 64 MB", strings.Repeat("\x00", mostElse+1): "its first 64 MB", strings.Repeat(" L 10,4\n", mostElse/8+1): "its first 64 MB",
	} {
		if l, _, err := imported(t, strings.NewReader(text), Options{Granule: heat.Page, Slice: 1}); l != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %+v, %v", text, l, err)
		}
	}
	broken := errors.New("broken")
	l, _, err := imported(t, io.MultiReader(strings.NewReader("I  10,4\n"), &failing{broken}), Options{Granule: heat.Page, Slice: 1})
	if l == nil || l.Instructions != 1 || !errors.Is(err, broken) {
		t.Errorf("%+v, %v", l, err)
	}
	full := errors.New("full")
	if l, err := Import(strings.NewReader("I  10,4\n"), Options{Granule: heat.Page, Slice: 1, Output: func(string, int) (string, error) { return "", full }}); l != nil || !errors.Is(err, full) {
		t.Errorf("%+v, %v", l, err)
	}
}

type failing struct{ error }

func (f *failing) Read([]byte) (int, error) { return 0, f.error }

// TestImportNotes: program, process and files are those that the log and a copy of its mappings tell.
func TestImportNotes(t *testing.T) {
	const log = "==12== Command: /bin/ls -l\n==12== \nI  00109000,4\n S 0010b000,8\n S 0010c008,8\n L 1ffeff0000,8\n L 1ffff00000,8\n==13== Command: x\n"
	known, err := heat.FilesIn([]byte("108000-10c000 r-xp 00000000 fe:00 131 /bin/ls\n4000000-4001000 r-xp 00000000 fe:00 131 /lib/a\n"))
	if err != nil {
		t.Fatal(err)
	}
	var program string
	var pid int
	path := filepath.Join(t.TempDir(), "a")
	l, err := Import(strings.NewReader(log), Options{Granule: heat.Page, Slice: 1, Maps: known, Output: func(p string, n int) (string, error) {
		program, pid = p, n
		return path, nil
	}})
	if err != nil || program != "/bin/ls" || pid != 12 || !l.Several || l.Program != program || l.Other != 0 {
		t.Fatalf("%s, %d, %+v: %v", program, pid, l, err)
	}
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if tab.Program != program || tab.Header.Pid != 12 || len(tab.Functions) > 0 {
		t.Errorf("%+v", tab.Header)
	}
	f, err := heat.Read(path, tab.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range f.Mappings {
		names = append(names, m.Path)
		if !m.Gone {
			t.Errorf("%+v", m)
		}
	}
	if want := []string{"/bin/ls", "[0x10c000]", "/lib/a", "[0x1ffeff0000]", "[0x1ffff00000]"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%q, not %q", names, want)
	}
}

// TestPlaces: what is far apart has names of its own, as far as there are names.
func TestPlaces(t *testing.T) {
	for _, n := range []uint64{1, mostPlaces, mostPlaces + 1, 5 * mostPlaces} {
		var p places
		for i := range n {
			p.add([]heat.Range{{First: 512 * i, Pages: 1}, {First: 512*i + 3, Pages: 2}}, heat.Page)
		}
		want := n
		for ; want > mostPlaces; want = 1 {
		}
		if all := p.maps(&heat.Maps{}).Mappings; uint64(len(all)) != want || all[0].Path != "[0x0]" || all[0].Start != 0 || all[len(all)-1].End != (512*(n-1)+5)*heat.PageSize {
			t.Errorf("%d: %d places", n, len(all))
		}
	}
}

// FuzzImport: of whatever bytes what is made is what who counts line by line finds in them, or an error.
func FuzzImport(f *testing.F) {
	f.Add([]byte("==1== Command: a\nI  0401ab70,3\n S 1fff000748,8\n M 10,16\n L 7fffffffffff,1\nI  0401ab73,5\n"), uint8(0), uint8(1))
	f.Add(someLog(rand.New(rand.NewPCG(1, 2)), 30), uint8(2), uint8(7))
	f.Fuzz(func(t *testing.T, log []byte, g, each uint8) {
		if bytes.HasPrefix(log, []byte("\x1f\x8b")) {
			return
		}
		check(t, log, Options{Granule: []heat.Granule{heat.Page, heat.Line, heat.Word}[g%3], Slice: 1 + uint64(each)})
	})
}

// BenchmarkImport is of a log like that of a real program: runs of instructions, and accesses near each other.
func BenchmarkImport(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 3))
	var log bytes.Buffer
	w := bufio.NewWriter(&log)
	for at, n := uint64(0x4000000), 0; n < 1_000_000; n++ {
		size := uint64(2 + r.IntN(5))
		fmt.Fprintf(w, "I  %08x,%d\n", at, size)
		if at += size; r.IntN(6) == 0 {
			at = 0x4000000 + uint64(r.IntN(1<<19))
		}
		if r.IntN(3) == 0 {
			fmt.Fprintf(w, " %c %08x,8\n", "LLLSM"[r.IntN(5)], 0x1ffefff000+uint64(r.IntN(1<<16)))
		}
	}
	w.Flush()
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "a")
		if _, err := Import(bytes.NewReader(log.Bytes()), Options{Granule: heat.Line, Slice: 512, Output: func(string, int) (string, error) { return path, nil }}); err != nil {
			b.Fatal(err)
		}
		os.Remove(path)
	}
}
