package regions

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/table/beside"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// written is a file with a region, removed again, a site, and three accesses.
func written(t testing.TB) []byte {
	t.Helper()
	line, err := json.Marshal(head{Version, "01000000000000000000000000000000"})
	if err != nil {
		t.Fatal(err)
	}
	out := appendJSON(append(line, '\n'), partRegion, Region{Number: 1, Name: "a", Address: 0x1000, Bytes: 64})
	site := le.AppendUint64(le.AppendUint32(nil, 7), 0x401000|(siteLoad|siteStore|8)<<layout.SiteAddressBits)
	out = beside.AppendPart(out, partSites, site)
	var records []byte
	for i := range uint64(3) {
		records = le.AppendUint64(le.AppendUint64(records, 0x1000+8*i), 42|7<<layout.RecThreadBits|1<<(layout.RecThreadBits+layout.RecSiteBits))
	}
	out = beside.AppendPart(out, partRecords, records)
	out = appendJSON(out, partRegion, Region{Number: 1, Name: "a", Address: 0x1000, Bytes: 64, End: 3, Removed: true})
	return appendJSON(out, partTotal, Total{Records: 3, Ended: true})
}

// readAll reads a file from memory as Read and Each do.
func readAll(b []byte) (*File, []Access, error) {
	f := newFile("")
	_, err := readParts(bufio.NewReader(bytes.NewReader(b)), f.add)
	var all []Access
	if err == nil {
		_, err = readParts(bufio.NewReader(bytes.NewReader(b)), func(kind byte, body []byte) error {
			if kind == partRecords {
				eachOf(body, func(a *Access) { all = append(all, *a) }, func(*Event) {})
			}
			return nil
		})
	}
	return f, all, err
}

// TestFile: what was written is read, and of a file that is cut its whole parts are.
func TestFile(t *testing.T) {
	whole := written(t)
	f, all, err := readAll(whole)
	want := Access{Address: 0x1008, Thread: 42, Site: 7, Region: 1}
	if err != nil || len(f.Regions) != 1 || !f.Regions[0].Removed || f.Records != 3 || !f.Total.Ended || len(all) != 3 || all[1] != want ||
		f.Sites[7] != (Site{Address: 0x401000, Size: 8, Load: true, Store: true}) {
		t.Fatalf("%+v, %+v, %v", f, all, err)
	}
	first := bytes.IndexByte(whole, '\n') + 1
	for n := first; n < len(whole); n++ {
		if f, all, err := readAll(whole[:n]); err != nil || uint64(len(all)) != f.Records || f.Total.Ended {
			t.Fatalf("the first %d bytes: %+v, %v", n, f, err)
		}
	}
	for n := range whole {
		spoilt := bytes.Clone(whole)
		spoilt[n] ^= 0x10
		if f, _, err := readAll(spoilt); err == nil && n >= first && f.Records == 3 && f.Total.Ended {
			t.Fatalf("byte %d is another, and that is not seen: %+v", n, f)
		}
	}
}

// eventOf is a record as libdynprof/resident/table/regions.c puts it.
func eventOf(to []byte, e *Event) []byte {
	high := uint64(e.Thread) | e.Value>>layout.RecAddressBits<<layout.RecThreadBits | uint64(e.Argument)<<(layout.RecThreadBits+layout.RecValueBits) |
		uint64(e.Kind)<<(layout.RecThreadBits+layout.RecValueBits+layout.RecArgBits) | 1<<layout.RecEventBit
	return le.AppendUint64(le.AppendUint64(to, e.Value&addressMask|3<<layout.RecAddressBits), high)
}

// TestEvents: records that are no accesses are not taken for such, and hold all bits.
func TestEvents(t *testing.T) {
	want := []Event{{Mark, 1<<22 - 1, 1<<21 - 1, 1<<64 - 1}, {Window, 0, 0, 0}, {Time, 1, 0, 1<<63 + 5}, {7, 5, 1 << 20, 1 << 47}, {Mark, 9, 0, 1<<47 - 1}}
	var records []byte
	for i := range want {
		records = eventOf(records, &want[i])
		records = le.AppendUint64(le.AppendUint64(records, 0x1000), 42|1<<(layout.RecThreadBits+layout.RecSiteBits))
	}
	var got []Event
	accesses := 0
	eachOf(records, func(*Access) { accesses++ }, func(e *Event) { got = append(got, *e) })
	f, _, err := readAll(appendJSON(beside.AppendPart(written(t), partRecords, records), partName, markName{3, "x"}))
	if !reflect.DeepEqual(got, want) || accesses != len(want) || err != nil || f.Records != 3+uint64(accesses) || f.Names[3] != "x" {
		t.Errorf("%+v, %d accesses, %+v, %v", got, accesses, f, err)
	}
	for _, version := range []string{"1", "2"} {
		if _, _, err := readAll([]byte("{\"dynprof_regions\":" + version + "}\n")); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := readAll([]byte("{\"dynprof_regions\":3}\n")); err == nil {
		t.Error("a file of a later version is read")
	}
}

// TestClock: times by the time-stamp counter, as far as they can be told.
func TestClock(t *testing.T) {
	c := Clock{From: 1000, FromNS: 5, Until: 1000 + 1<<62, UntilNS: 5 + 1<<61}
	for tsc, want := range map[uint64]uint64{1000: 0, 1002: 1, 1000 + 1<<62: 1 << 61, 1<<63 + 1000: 1 << 62} {
		if ns, ok := c.Since(tsc); ns != want || !ok {
			t.Errorf("%d: %d, %t", tsc, ns, ok)
		}
	}
	for _, c := range []Clock{{}, {From: 1}, {From: 2000, FromNS: 2, Until: 3000, UntilNS: 1}, {From: 1, Until: 1, UntilNS: 1}, {From: 1 << 41, Until: 1 << 42, UntilNS: 1}} {
		if ns, ok := c.Since(1 << 40); ok {
			t.Errorf("%+v: %d", c, ns)
		}
	}
}

// TestDamaged: parts with right sums that no writer makes.
func TestDamaged(t *testing.T) {
	site := le.AppendUint64(le.AppendUint32(nil, layout.RgSiteMax), 1)
	for _, part := range [][]byte{
		beside.AppendPart(nil, 'x', nil),
		beside.AppendPart(nil, partRegion, []byte("{")),
		beside.AppendPart(nil, partTotal, []byte("[]")),
		beside.AppendPart(nil, partSites, site),
		appendJSON(nil, partRegion, Region{Number: layout.RgLogs}),
		appendJSON(nil, partRegion, Region{}),
		appendJSON(nil, partName, markName{Number: layout.RgNameMax}),
	} {
		if _, _, err := readAll(append(written(t), part...)); !errors.Is(err, errDamaged) {
			t.Errorf("%q: %v", part, err)
		}
	}
	if _, _, err := readAll([]byte("{}\n")); err == nil {
		t.Error("a file of no version is read")
	}
}

// TestRead: by the table's nonce; copied and removed with it.
func TestRead(t *testing.T) {
	table, copied, nonce := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), [16]byte{1}
	if _, err := Read(table, nonce); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if err := os.WriteFile(PathOf(table), written(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(table, [16]byte{2}); !errors.Is(err, ErrNone) {
		t.Errorf("of another table: %v", err)
	}
	if err := Copy(table, copied, nonce); err != nil {
		t.Fatal(err)
	}
	f, err := Read(table, nonce)
	again, err2 := Read(copied, nonce)
	if err != nil || err2 != nil || f.Records != 3 {
		t.Fatal(f, err, err2)
	}
	if f.path, again.path = "", ""; !reflect.DeepEqual(f, again) {
		t.Errorf("%+v, not %+v", again, f)
	}
	Remove(copied)
	if _, err := Read(copied, nonce); !errors.Is(err, ErrNone) {
		t.Errorf("it is there: %v", err)
	}
}

// FuzzParts: whatever a file holds is read, or is an error.
func FuzzParts(f *testing.F) {
	f.Add(written(f), byte(partRegion), []byte(`{"number":2}`))
	f.Add([]byte("{\"dynprof_regions\":1}\n"), byte(partRecords), make([]byte, 2*RecordSize))
	f.Add(written(f), byte(partSites), make([]byte, siteSize+1))
	f.Fuzz(func(t *testing.T, b []byte, kind byte, body []byte) {
		file, all, err := readAll(beside.AppendPart(b, kind, body)) // sums that are right, too
		if err == nil && (uint64(len(all)) != file.Records || len(file.Sites) > layout.RgSiteMax || len(file.Regions) >= layout.RgLogs) {
			t.Fatalf("%+v: %d accesses", file, len(all))
		}
	})
}

// TestRefresh: what is known beside records is in the file while the program runs, and is given up for
// what is written at the end.
func TestRefresh(t *testing.T) {
	all, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	shadow, err := all.Shadow(0)
	if err != nil {
		t.Fatal(err)
	}
	r := Of(shadow)
	table, nonce := filepath.Join(t.TempDir(), "a"), [16]byte{1}
	set := func(at int, v uint64) { r.words[at/8] = v }
	site, gone := layout.RgLog+layout.LogSize, layout.RgLog+2*layout.LogSize
	set(site+layout.LogBegin, 1)
	set(layout.RgAsked+layout.AskNumber, 1)
	set(gone+layout.LogBytes, 64)
	set(gone+layout.LogBegin, 1)
	l := NewLog(r)
	l.Open(table, nonce)
	l.Take()
	named := "early"
	l.Name = func(uint32) string { return named }
	l.meet(7)
	for blocks := uint64(1); blocks < 4; blocks++ {
		set(layout.RgAsked+layout.AskBlocks, blocks)
		if blocks == 2 {
			set(gone+layout.LogEnd, 1)
			named = "late"
		} else {
			named = "" // it is gone
		}
		l.Refresh()
		f, err := Read(table, nonce)
		if err != nil || f.Regions[0].Asked.Blocks != blocks || f.Regions[1].Removed != (blocks >= 2) || f.Total.Ended ||
			f.Total.Names[7] != map[bool]string{true: "late", false: "early"}[blocks >= 2] {
			t.Fatalf("%d: %+v: %v", blocks, f, err)
		}
		before := l.end
		if l.Refresh(); l.end != before {
			t.Error("what is the same is written again")
		}
	}
	if l.tail[1].end != l.end || l.tail[1].begin >= l.end {
		t.Errorf("there would be no room for the end: %+v", l.tail)
	}
	if err := l.Close(table, nonce); err != nil {
		t.Fatal(err)
	}
	if f, err := Read(table, nonce); err != nil || f.Regions[0].Asked.Blocks != 3 || !f.Total.Ended || f.Total.Names[7] != "late" {
		t.Errorf("%+v: %v", f, err)
	}
}
