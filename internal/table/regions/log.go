package regions

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"

	"github.com/dynprof/dynprof/internal/table/beside"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Log is the file, written while the program runs: what was taken from the ring is behind the
// rest before the next is taken.
type Log struct {
	ring    *Ring
	file    *os.File   // nil: there is none yet, or it could not be written to
	path    string     // of its table
	err     error      // the first one
	end     int64      // of what is written wholly; where there was no room for more something may be behind it
	tail    [2]stretch // what is given up for that, one behind the other
	full    bool       // nothing is written any more but what is known at the end
	room    room
	lost    uint64    // records that could not be written
	early   []byte    // what comes into the file when there is one
	sites   []facts   // by number, of those that are in it
	marks   []bool    // names of marks that are
	done    []*done   // by the number of a region; nil: nothing was taken of it
	runs    [many]run // accesses of those that are taken now, each at a place that its upper word leads to
	used    []*run    // of these
	changed []uint32  // numbers of regions of which there are more now
	taken   uint64    // accesses so far
	regions uint64    // so far
	open    []Region  // as they are in the file, which may become others
	names   map[uint32]string
	last    uint32 // thread of the last record,
	had     bool   // if there was one
	total   Total  // as it is in the file
	buf     []byte // of records that are taken

	Audit *Audit                  // is written at the end, if there is one
	Name  func(tid uint32) string // what a thread is called, which may be gone: empty
}

// stretch is a piece of the file that has nothing but records.
type stretch struct {
	begin, end int64
	records    uint64
}

// facts are what is said of all accesses of a site.
type facts struct {
	is, load, store bool
	size            uint32
}

// run is accesses that have the same upper word: thread, site and region.
type run struct {
	high, n, first, last uint64
}

// many is how many runs are counted at a time.
const many = 256

func (l *Log) runOf(high uint64) *run { return &l.runs[high*0x9e3779b97f4a7c15>>56%many] }

// done is what was taken of a region.
type done struct {
	accesses, loads, stores, bytes, first, last uint64

	thread  uint32 // of the last
	threads map[uint32]struct{}
	changed bool
}

// enough is how long such a piece has to be for what is written at the end.
const enough = 64 << 10

// NewLog makes one of what is in a ring.
func NewLog(r *Ring) *Log {
	return &Log{ring: r, sites: make([]facts, layout.RgSiteMax), marks: make([]bool, layout.RgNameMax), done: make([]*done, layout.RgLogs), names: map[uint32]string{}}
}

// mostEarly is how much is kept before there is a file.
const mostEarly = 64 << 20

// IsOpen reports whether there is a file, or it is clear that there will be none.
func (l *Log) IsOpen() bool { return l.path != "" }

// Open begins the file beside a table.
func (l *Log) Open(table string, nonce [16]byte) {
	l.path = table
	if l.file, l.err = create(table, nonce); l.err == nil {
		early := l.early
		l.early = nil
		var fi os.FileInfo
		if fi, l.err = l.file.Stat(); l.err == nil {
			l.end = fi.Size()
		}
		l.write(early, 0)
	}
}

// MostTaken is how many records are taken at once: the rest of the ring has room meanwhile.
const MostTaken = layout.RgRecords / 8

// Take takes records that have come from the ring, and puts them behind those that there are, with
// all that they name. It returns them, until it is called again.
func (l *Log) Take() []byte {
	const head = 1 + binary.MaxVarintLen64
	l.buf = l.ring.next(append(l.buf[:0], make([]byte, head)...), MostTaken)
	body := l.buf[head:]
	n := len(body) / RecordSize
	out := l.newRegions(nil)
	var sites []byte
	for at := 0; at < len(body); at += RecordSize {
		high := le.Uint64(body[at+8:])
		if r := l.runOf(high); r.high == high && r.n > 0 {
			l.taken++
			r.n++
			r.last = l.taken
			continue
		}
		if tid := uint32(high & threadMask); tid != l.last || !l.had {
			l.last, l.had = tid, true
			l.meet(tid)
		}
		if isEvent(high) {
			e := decodeEvent(le.Uint64(body[at:]), high)
			out = l.event(out, &e)
			continue
		}
		if site := siteOf(high); !l.sites[site].is {
			is := l.ring.site(site)
			s := decodeSite(is)
			l.sites[site] = facts{true, s.Load, s.Store, s.Size}
			sites = le.AppendUint64(le.AppendUint32(sites, site), is)
		}
		l.begin(high)
	}
	l.tell()
	if len(sites) > 0 {
		out = beside.AppendPart(out, partSites, sites)
	}
	if len(out) > 0 {
		l.write(out, 0)
	}
	l.write(beside.Part(l.buf, head, partRecords), uint64(n)-events(body))
	if l.lost > 0 {
		l.ring.fail()
	}
	l.ring.take(n)
	return body
}

// event takes notice of a record that is no access, and adds what it names.
func (l *Log) event(out []byte, e *Event) []byte {
	if e.Kind != Mark || e.Argument >= layout.RgNameMax || l.marks[e.Argument] {
		return out
	}
	l.marks[e.Argument] = true
	return appendJSON(out, partName, markName{e.Argument, l.ring.markName(e.Argument)})
}

// siteOf is the number of a site; there are no others.
func siteOf(high uint64) uint32 {
	return uint32(high>>layout.RecThreadBits&siteMask) % layout.RgSiteMax
}

// begin begins a run with an access.
func (l *Log) begin(high uint64) {
	l.taken++
	r := l.runOf(high)
	if r.n > 0 {
		l.count(r)
	} else {
		l.used = append(l.used, r)
	}
	*r = run{high, 1, l.taken, l.taken}
}

// count counts a run of a region.
func (l *Log) count(r *run) {
	region, thread, s := uint32(r.high>>(layout.RecThreadBits+layout.RecSiteBits)), uint32(r.high&threadMask), &l.sites[siteOf(r.high)]
	if int(region) >= len(l.done) {
		return
	}
	d := l.done[region]
	if d == nil {
		d = &done{first: r.first, threads: map[uint32]struct{}{}}
		l.done[region] = d
	}
	if !d.changed {
		d.changed = true
		l.changed = append(l.changed, region)
	}
	if d.accesses == 0 || d.thread != thread {
		d.thread = thread
		d.threads[thread] = struct{}{}
	}
	d.accesses += r.n
	d.first, d.last = min(d.first, r.first), max(d.last, r.last)
	d.bytes += r.n * uint64(s.size)
	if s.load {
		d.loads += r.n
	}
	if s.store {
		d.stores += r.n
	}
}

// tell tells the program what has been counted.
func (l *Log) tell() {
	for _, r := range l.used {
		l.count(r)
		r.n = 0
	}
	l.used = l.used[:0]
	for _, region := range l.changed {
		l.ring.tell(region, l.done[region])
		l.done[region].changed = false
	}
	l.changed = l.changed[:0]
}

// newRegions adds those that are not there yet.
func (l *Log) newRegions(out []byte) []byte {
	for ; ; l.regions++ {
		g, ok := l.ring.region(l.regions + 1)
		if !ok {
			return out
		}
		out = appendJSON(out, partRegion, g)
		l.open = append(l.open, g)
	}
}

// mostNames is how many threads are asked for their names.
const mostNames = 1024

// meet notes a thread, and what it is called: once it has ended nobody knows.
func (l *Log) meet(tid uint32) {
	if _, have := l.names[tid]; !have && l.Name != nil && len(l.names) < mostNames {
		l.names[tid] = l.Name(tid)
	}
}

// Refresh writes down what has changed but for records, for who looks on: regions that are gone, what was
// asked for, the names of threads.
func (l *Log) Refresh() {
	if l.file == nil || l.full || l.Name == nil {
		return
	}
	var out []byte
	l.open = slices.DeleteFunc(l.open, func(g Region) bool {
		now, _ := l.ring.region(g.Number)
		if now.Removed || g.Asked != nil && *now.Asked != *g.Asked {
			out = appendJSON(out, partRegion, now)
		}
		if g.Asked != nil {
			*g.Asked = *now.Asked
		}
		return now.Removed
	})
	for tid, name := range l.names {
		if now := l.Name(tid); now != "" && now != name {
			l.names[tid] = now
		}
	}
	total := l.totalNow()
	total.Records = 0 // those that are there count
	if !reflect.DeepEqual(total, l.total) {
		out = appendJSON(out, partTotal, total)
		l.total = total
	}
	if len(out) == 0 {
		return
	}
	if err := l.put(out); err != nil {
		l.err, l.full = errors.Join(l.err, err), true
		return
	}
	l.keepLoose(l.end - int64(len(out)))
}

// totalNow is what is known of it now.
func (l *Log) totalNow() Total {
	t := l.ring.total()
	t.Records, t.Lost = l.taken-l.lost, t.Lost+l.lost
	for tid, name := range l.names {
		if name != "" {
			if t.Names == nil {
				t.Names = map[uint32]string{}
			}
			t.Names[tid] = name
		}
	}
	return t
}

func appendJSON(out []byte, kind byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("regions: BUG: " + err.Error())
	}
	return beside.AppendPart(out, kind, text)
}

// write writes parts that have so many records. If it cannot, these are lost, and counted, as is all
// that comes later.
func (l *Log) write(parts []byte, records uint64) {
	switch {
	case l.file != nil && !l.full:
		begin := l.end
		err := l.room.take(l.file, uint64(len(parts)))
		if err == nil {
			err = l.put(parts)
		}
		if err != nil {
			l.err = errors.Join(l.err, err)
			l.full = true
			l.lost += records
		} else {
			l.keep(begin, records)
		}
	case l.path == "" && len(l.early)+len(parts) <= mostEarly:
		l.early = append(l.early, parts...)
	default:
		l.lost += records
	}
}

// put writes parts behind those that are whole. Where there is no room what has been written of
// them stays: it keeps others from the room that the last parts will need.
func (l *Log) put(parts []byte) error {
	n, err := l.file.Write(parts)
	if err == nil {
		l.end += int64(n)
	}
	return err
}

// keep notes that parts with so many records were written.
func (l *Log) keep(begin int64, records uint64) {
	if records == 0 { // regions and sites stay
		l.tail = [2]stretch{{}, {begin: l.end}}
		return
	}
	l.keepLoose(begin)
	l.tail[1].records += records
}

// keepLoose notes parts that may be given up: records, and what is written again at the end.
func (l *Log) keepLoose(begin int64) {
	before, last := &l.tail[0], &l.tail[1]
	switch {
	case last.end-last.begin >= enough:
		*before, *last = *last, stretch{begin: begin}
	case last.end <= last.begin: // it has nothing yet
		last.begin = begin
	}
	last.end = l.end
}

// putLast writes the last parts, which say what is lost: in place of what was not written wholly,
// or, if that is too little, of records in front of it, too.
func (l *Log) putLast(parts func() []byte) error {
	err := errors.Join(l.file.Truncate(l.end), l.put(parts()))
	if err == nil {
		return nil
	}
	for i := len(l.tail) - 1; i >= 0 && l.tail[i].end > l.tail[i].begin; i-- {
		l.lost += l.tail[i].records
		l.end = l.tail[i].begin
	}
	return errors.Join(l.file.Truncate(l.end), l.put(parts()))
}

// isAt reports whether the file is beside that table: it was moved with it.
func (l *Log) isAt(table string) bool {
	is, err := l.file.Stat()
	there, thereErr := os.Lstat(PathOf(table))
	return err == nil && thereErr == nil && os.SameFile(is, there)
}

// Close ends the file, beside a table, which may have got another path meanwhile.
func (l *Log) Close(table string, nonce [16]byte) error {
	if !l.IsOpen() {
		l.Open(table, nonce)
	}
	out := l.newRegions(nil)
	for n := uint64(1); n <= l.regions; n++ {
		if g, ok := l.ring.region(n); ok && (g.Removed || g.Asked != nil) {
			out = appendJSON(out, partRegion, g)
		}
	}
	if l.Audit != nil {
		out = appendJSON(out, partAudit, l.Audit)
	}
	if l.file == nil {
		return l.err
	}
	err := l.putLast(func() []byte {
		total := l.totalNow()
		total.Ended = true
		return appendJSON(slices.Clip(out), partTotal, total)
	})
	l.err = errors.Join(l.err, err)
	moved := l.isAt(table)
	err = errors.Join(l.err, l.file.Close())
	if err == nil && l.path != table && !moved {
		Remove(table)
		err = os.Rename(PathOf(l.path), PathOf(table))
	}
	return err
}
