package export

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Pprof writes a table as a gzipped profile.proto, for pprof and what else reads its files: a
// sample for each instruction that ran, where blocks are counted, and one for each function
// with its calls, and its CPU time, where that was sampled. Samples have no callers: with which
// of them the cost goes is not known.
func Pprof(w io.Writer, t *table.Table, mangled bool) error {
	counts, err := read(t)
	if err != nil {
		return err
	}
	return (&pprof{counts: counts, proto: newProto(w), mangled: mangled, begin: t.Realtime}).all()
}

// CallsAt are the counts of a table at a time.
type CallsAt struct {
	Begin, At time.Time // when the table was made, and when they were read
	nonce     [16]byte
	calls     []uint64 // by function
}

// Since is how many calls there were since then, or, where that is nil, ever.
func (c *CallsAt) Since(before *CallsAt) uint64 {
	n := c.total()
	if before != nil {
		n -= min(n, before.total())
	}
	return n
}

func (c *CallsAt) total() (n uint64) {
	for _, calls := range c.calls {
		n += calls
	}
	return n
}

// CallsNow reads them. A reset does not change them.
func CallsNow(t *table.Table) (*CallsAt, error) {
	s, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	return &CallsAt{t.Realtime, s.Time, t.Nonce, s.Calls}, nil
}

// PprofSince is Pprof of the calls that were made since then, and up to now, which it
// returns. t is the table opened again, so that functions which have come since are in it;
// before is nil for all calls of a table that nobody has looked at before.
func PprofSince(w io.Writer, t *table.Table, before *CallsAt, mangled bool) (now *CallsAt, err error) {
	s, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	now = &CallsAt{t.Realtime, s.Time, t.Nonce, slices.Clone(s.Calls)}
	p := &pprof{counts: &counts{t: t, s: s}, proto: newProto(w), mangled: mangled, begin: t.Realtime, until: s.Time}
	if before != nil {
		if before.nonce != t.Nonce || len(before.calls) > len(s.Calls) {
			return nil, fmt.Errorf("%s is the table of another program now", t.Program)
		}
		p.begin = before.At
		for i, calls := range before.calls {
			s.Calls[i] -= min(calls, s.Calls[i])
		}
	}
	return now, p.all()
}

type pprof struct {
	*counts
	*proto
	mangled bool

	begin, until time.Time // until: zero if that is not told

	functions, locations, mappings uint64 // how many there are; the last one's number

	object int // number of the last one + 1
	code   code
}

// all writes the profile.
func (p *pprof) all() error {
	p.head()
	for _, i := range p.ran() {
		if err := p.function(i); err != nil {
			return err
		}
	}
	for _, o := range p.others(p.mangled) {
		if err := p.other(&o); err != nil {
			return err
		}
	}
	return p.out.Close()
}

// code is what is known of an object's.
type code struct {
	image *objcode.Image // nil: it cannot be read
	err   error          // why
	parts []part
	left  uint64 // bytes that are in no block so far
}

// part is a mapping of the program.
type part struct{ id, start, limit uint64 }

// head writes what is said once.
func (p *pprof) head() {
	kinds := [][2]string{{"calls", "count"}}
	if p.flow != nil {
		kinds = append(kinds, [2]string{"instructions", "count"})
	}
	if p.times != nil {
		kinds = append(kinds, [2]string{"cpu", "nanoseconds"})
	}
	kind := message(nil)
	for _, k := range kinds {
		kind = message(nil).number(typeName, p.text(k[0])).number(typeUnit, p.text(k[1]))
		p.add(profileSampleType, kind)
	}
	p.write(message(nil).number(profileDefaultType, p.text(kinds[len(kinds)-1][0])))
	if p.times != nil {
		p.add(profilePeriodType, kind)
		p.write(message(nil).number(profilePeriod, p.times.Period))
		p.write(message(nil).number(profileComment, p.text("CPU time is sampled: see hotspots report for what it may be off by")))
	}
	p.write(message(nil).number(profileTimeNanos, uint64(p.begin.UnixNano())))
	if !p.until.IsZero() {
		p.write(message(nil).number(profileDuration, uint64(max(0, p.until.Sub(p.begin)))))
		p.add(profilePeriodType, kind)
		p.write(message(nil).number(profilePeriod, 1))
	}
	p.write(message(nil).number(profileComment, p.text("exact counts, by hotspots; callers are not known")))
}

// function writes the samples of function i.
func (p *pprof) function(i int) error {
	f := &p.t.Functions[i]
	o := &p.t.Objects[f.Object]
	if p.object != int(f.Object)+1 {
		p.object = int(f.Object) + 1
		p.enter(o)
	}
	p.functions++
	name, raw := symname.Display(f.Name, o.Path, f.Address, !p.mangled), strings.ToValidUTF8(f.Name, "?")
	p.add(profileFunction, message(nil).number(functionID, p.functions).number(functionName, p.text(name)).number(functionSystemName, p.text(raw)))
	if calls, ns := p.s.Calls[i], p.times.Nanoseconds(i); calls > 0 || ns > 0 {
		if err := p.sample(o.Bias+f.Address, calls, 0, ns); err != nil {
			return err
		}
	}
	blocks := p.flow.Of(uint32(i)).Blocks
	for k := range blocks {
		if b := &blocks[k]; b.Runs > 0 {
			if err := p.block(o, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// other writes the time of a function in no ledger, of which no mapping is known.
func (p *pprof) other(o *beside) error {
	p.code.parts = nil
	p.functions++
	name := strings.ToValidUTF8(fmt.Sprintf("%s (%s)", o.name, filepath.Base(symname.Clean(o.object))), "?")
	if strings.HasPrefix(o.object, "[") {
		name = symname.Clean(o.object)
	}
	p.add(profileFunction, message(nil).number(functionID, p.functions).number(functionName, p.text(name)))
	return p.sample(o.address, 0, 0, o.ns)
}

// enter begins with an object: it lay in the program as its file says, or somewhere in its
// range, if that cannot be read.
func (p *pprof) enter(o *layout.Object) {
	p.code = code{}
	if p.code.image, p.code.err = objcode.Load(o); p.code.err != nil {
		p.mapping(o, o.Low, o.High, 0)
		return
	}
	const page = 4096
	for _, s := range p.code.image.Segments {
		p.code.left += uint64(len(s.Code))
		start, end := o.Bias+s.Addr, o.Bias+s.Addr+uint64(len(s.Code))
		p.mapping(o, start-start%page, end+-end%page, s.Offset-s.Offset%page)
	}
}

func (p *pprof) mapping(o *layout.Object, start, limit, offset uint64) {
	p.mappings++
	p.add(profileMapping, message(nil).number(mappingID, p.mappings).
		number(mappingStart, start).number(mappingLimit, limit).number(mappingOffset, offset).
		number(mappingFile, p.text(strings.ToValidUTF8(o.Path, "?"))).number(mappingBuildID, p.text(o.BuildID)).number(mappingHasFunctions, 1))
	p.code.parts = append(p.code.parts, part{p.mappings, start, limit})
}

// block writes a sample for each instruction. The blocks of an object are no larger than its
// code, so that a damaged table does not make a file without end.
func (p *pprof) block(o *layout.Object, b *table.Block) error {
	if p.code.err != nil {
		return p.code.err
	}
	if uint64(b.Size) > p.code.left {
		return layout.Corrupt("the blocks of %s are larger than its code", o.Path)
	}
	p.code.left -= uint64(b.Size)
	n := uint32(0)
	for at := range p.code.image.Instructions(b.Address, b.Size) {
		if err := p.sample(o.Bias+at, 0, b.Runs, 0); err != nil {
			return err
		}
		n++
	}
	if n != b.Instructions {
		return layout.Corrupt("block at %#x of %s: %d instructions, not %d", b.Address, o.Path, n, b.Instructions)
	}
	return nil
}

// sample writes counts of an address of the last function.
func (p *pprof) sample(at, calls, runs, ns uint64) error {
	if max(calls, runs) > math.MaxInt64 {
		return fmt.Errorf("a count of %d is too large for pprof", max(calls, runs))
	}
	p.locations++
	location := message(nil).number(locationID, p.locations).number(locationAddress, at).bytes(locationLine, message(nil).number(lineFunction, p.functions))
	for _, m := range p.code.parts {
		if at >= m.start && at < m.limit {
			location = location.number(locationMapping, m.id)
			break
		}
	}
	p.add(profileLocation, location)
	values := []uint64{calls}
	if p.flow != nil {
		values = append(values, runs)
	}
	if p.times != nil {
		values = append(values, ns)
	}
	p.add(profileSample, message(nil).numbers(sampleLocations, p.locations).numbers(sampleValues, values...))
	return nil
}
