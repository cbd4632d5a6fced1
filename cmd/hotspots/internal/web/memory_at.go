package web

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heatview"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// Bounds of what is told of some pages.
const (
	mostParts   = 10_000
	mostSymbols = 8   // of one part
	mostNamed   = 128 // rows
)

// symbols are the names of what lies where in a program, which are read when they are asked for.
type symbols struct {
	mu  sync.Mutex
	all *heat.Symbols
	n   int // functions

	codes  *heat.Codes // of these names
	finder *debugfile.Finder
}

// in are the names of functions and variables in some addresses, and how many more there are.
func (y *symbols) in(p *program, from, to uint64, most int) (names []string, more int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.of(p).Names(from, to, most)
}

// find are the functions and the variables in some addresses, and how many more there are.
func (y *symbols) find(p *program, from, to uint64, most int) (list []heat.Symbol, more int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.of(p).Find(from, to, most)
}

func (y *symbols) of(p *program) *heat.Symbols {
	book := p.source.Book()
	if y.all == nil || y.n != len(book.Functions) {
		y.codes = nil
		y.all, y.n = heat.NewSymbols(book.Objects, book.Functions, book.Name, book.Mangled), len(book.Functions)
	}
	return y.all
}

// named is what lies at the addresses of some rows, of so many bytes each.
func (s *Server) named(p *program, q url.Values, _ *http.Request) (reply, error) {
	row, err := number(q, "row", 0)
	if err != nil {
		return reply{}, failed(http.StatusBadRequest, err)
	}
	if row < 1 || row > pages.PageSize {
		return reply{}, failed(http.StatusBadRequest, fmt.Errorf("row: 1 to %d bytes", pages.PageSize))
	}
	type line struct {
		Symbols []heat.Symbol `json:"symbols"`
		More    int           `json:"more_symbols"`
	}
	rows := []line{}
	for at := range strings.SplitSeq(q.Get("at"), ",") {
		from, err := strconv.ParseUint(at, 16, 47)
		if err != nil || len(rows) == mostNamed {
			return reply{}, failed(http.StatusBadRequest, fmt.Errorf("at: %d addresses at most, hex digits, with commas between them", mostNamed))
		}
		list, more := p.symbols.find(p, from, from+uint64(row), mostSymbols)
		rows = append(rows, line{append([]heat.Symbol{}, list...), more})
	}
	return jsonReply(map[string]any{"schema": Schema, "rows": rows})
}

// noted is the touched pages of a program as they are now.
func (s *Server) noted(ctx context.Context, p *program) (*heatview.Source, error) {
	if now, _, err := s.watchOf(p).look(); now != nil && err == nil {
		return &now.Source, nil
	}
	next, err := s.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer next()
	t, err := p.openTable()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	f, err := heat.File(t)
	if err != nil {
		return nil, failed(http.StatusNotFound, err)
	}
	size := f.Noted.Size()
	return &heatview.Source{File: f.In(f.Noted), Granule: size, Mapped: bandsOf(f.Mappings, size)}, nil
}

// part reads which pages, and when, somebody asks for.
func part(q url.Values, granule uint64) (part pages.Part, err error) {
	var n [4]int64
	for i, of := range []struct {
		name string
		none int64
	}{{"from", 0}, {"to", pages.Pages * pages.PageSize}, {"after", 0}, {"before", math.MaxInt64}} {
		if n[i], err = number(q, of.name, of.none); err != nil {
			return part, err
		}
	}
	if n[0] >= n[1] || n[2] >= n[3] {
		return part, fmt.Errorf("from and to are addresses, after and before instructions: the first of both is less")
	}
	return pages.Part{First: uint64(n[0]) / granule, End: (uint64(n[1]) + granule - 1) / granule, After: uint64(n[2]), Before: uint64(n[3])}, nil
}

// notedPart is what is known of a program's pages, and the part of that which somebody asks for.
func (s *Server) notedPart(p *program, q url.Values, r *http.Request) (src *heatview.Source, of pages.Part, err error) {
	if src, err = s.noted(r.Context(), p); err == nil {
		of, err = part(q, src.Granule)
	}
	return src, of, err
}

// touch is a slice in which something was done.
type touch struct {
	Slice        int    `json:"slice"`
	Instructions uint64 `json:"instructions"` // by its end
	Nanoseconds  uint64 `json:"ns"`
}

// at is what is known of some pages: what they are, and who touched them last until then.
func (s *Server) at(p *program, q url.Values, r *http.Request) (reply, error) {
	src, of, err := s.notedPart(p, q, r)
	if err != nil {
		return reply{}, err
	}
	var last [3]*touch // by bit of What
	all := amount{Granule: src.Granule}
	src.File.From(&pages.Cursor{}, func(one *pages.Slice, c *pages.Cursor) bool {
		began := one.Began(c.Executed)
		if began >= of.Before {
			return false
		}
		what := pages.What(0)
		var touched []pages.Range
		for _, r := range src.Settled(one.Ranges) {
			if r = r.Clip(of.First, of.End); r.Pages > 0 {
				what |= r.What
				touched = append(touched, r)
			}
		}
		if max(one.Executed, began+1) > of.After {
			all.add(touched)
		}
		for bit := range last {
			if what&(1<<bit) != 0 {
				last[bit] = &touch{c.Number, one.Executed, one.Time}
			}
		}
		return true
	})
	var whose *heat.Whose
	if who := src.File.WhoIn(of.First, of.End); who != nil {
		threads, err := p.threads()
		if err != nil {
			return reply{}, err
		}
		whose = threads.Of(who)
	}
	readers, writers := p.symbols.lasts(p, src.File.LastsIn(of.First, of.End), of)
	blocks, err := p.blocksAt(src.File, pages.Part{First: of.First * src.Granule, End: of.End * src.Granule, Before: of.Before})
	if err != nil {
		return reply{}, err
	}
	name, _ := src.Named(of.First)
	names, more := p.symbols.in(p, of.First*src.Granule, of.End*src.Granule, mostSymbols)
	return jsonReply(map[string]any{
		"schema": Schema, "touched": all.told(), "symbols": notNil(names), "more_symbols": more, "memory": name,
		"read": last[0], "written": last[1], "executed": last[2],
		"threads": whose, "last_readers": readers, "last_writers": writers, "blocks": blocks,
	})
}

// amount is how much was touched.
type amount struct {
	Granule  uint64 `json:"granule"`  // bytes
	Granules uint64 `json:"granules"` // different ones
	Slices   uint64 `json:"slices"`   // that there are
	Times    uint64 `json:"times"`    // granules of all of these

	all []pages.Range
}

func (a *amount) add(slice []pages.Range) {
	a.Slices++
	a.Times += sumOf(slice)
	a.all = pages.Union(a.all, slice)
}

func (a *amount) told() *amount {
	a.Granules = sumOf(a.all)
	return a
}

func sumOf(list []pages.Range) (n uint64) {
	for _, r := range list {
		n += r.Pages
	}
	return n
}

// threads are those that are told apart.
func (p *program) threads() (heat.Threads, error) {
	t, err := p.openTable()
	if err != nil {
		return heat.Threads{}, err
	}
	defer t.Close()
	return heat.ThreadsOf(t)
}

// whose is who has touched what, for all pages: those of one thread, and those that are shared.
func (s *Server) whose(p *program, _ url.Values, r *http.Request) (reply, error) {
	src, err := s.noted(r.Context(), p)
	if err != nil {
		return reply{}, err
	}
	threads, err := p.threads()
	if err != nil {
		return reply{}, err
	}
	type run struct {
		From    uint64 `json:"from"` // address
		To      uint64 `json:"to"`
		Threads int    `json:"threads"`
		Thread  int    `json:"thread"` // if that is one: its number in the list
	}
	told := struct {
		Schema  int      `json:"schema"`
		Noted   bool     `json:"noted"`   // else nobody knows
		Threads []string `json:"threads"` // as in readers and writers of memory/at
		Runs    []run    `json:"runs"`    // by address
		More    int      `json:"more"`    // that are not told, the last ones
	}{Schema, src.File.Threads, []string{}, []run{}, 0}
	names := map[string]int{}
	for _, b := range src.File.Who {
		all := b.All()
		one := run{From: b.First * src.Granule, To: (b.First + b.Pages) * src.Granule, Threads: all.Len()}
		if one.Threads == 1 {
			name := threads.In(&all)[0].String()
			if _, known := names[name]; !known {
				names[name] = len(told.Threads)
				told.Threads = append(told.Threads, name)
			}
			one.Thread = names[name]
		}
		if n := len(told.Runs) - 1; n >= 0 && told.Runs[n].To == one.From && told.Runs[n].Threads == one.Threads && told.Runs[n].Thread == one.Thread {
			told.Runs[n].To = one.To
		} else if len(told.Runs) == mostParts {
			told.More++
		} else {
			told.Runs = append(told.Runs, one)
		}
	}
	return jsonReply(told)
}

// notNil is a list that JSON has as one, also if it is empty.
func notNil(list []string) []string { return append([]string{}, list...) }

// touched is pages, one behind the other, of the same memory, with which the same was done.
type touched struct {
	Memory   string         `json:"memory"`
	Address  report.Address `json:"address"`
	Pages    uint64         `json:"pages"`
	Read     bool           `json:"read"`
	Written  bool           `json:"written"`
	Executed bool           `json:"executed"`
	First    uint32         `json:"first"` // slices
	Last     uint32         `json:"last"`
	Symbols  []string       `json:"symbols"`
	More     int            `json:"more_symbols"`
}

// touchedIn is what was done in some pages in some time: the table behind a part of the picture.
func (s *Server) touchedIn(p *program, q url.Values, r *http.Request) (reply, error) {
	src, of, err := s.notedPart(p, q, r)
	if err != nil {
		return reply{}, err
	}
	sum := struct {
		Schema   int       `json:"schema"`
		Page     uint64    `json:"page"` // bytes
		Touched  uint64    `json:"touched"`
		Read     uint64    `json:"read"`
		Written  uint64    `json:"written"`
		Executed uint64    `json:"executed"`
		First    uint32    `json:"first"`
		Last     uint32    `json:"last"`
		Parts    []touched `json:"parts"`
		More     int       `json:"more"` // parts that are not told, the last ones
	}{Schema: Schema, Page: src.Granule, Parts: []touched{}}
	for _, one := range src.Settled(src.File.Within(of)) {
		sum.Touched += one.Pages
		for _, n := range []struct {
			is pages.What
			to *uint64
		}{{pages.WasRead, &sum.Read}, {pages.WasWritten, &sum.Written}, {pages.WasExecuted, &sum.Executed}} {
			if one.What&n.is != 0 {
				*n.to += one.Pages
			}
		}
		if sum.First == 0 || one.Begin < sum.First {
			sum.First = one.Begin
		}
		sum.Last = max(sum.Last, one.End)
		for one.Pages > 0 { // of one memory after the other
			name, end := src.Named(one.First)
			n := min(one.Pages, end-one.First)
			if len(sum.Parts) == mostParts {
				sum.More++
			} else {
				t := touched{
					Memory: name, Address: report.Address(one.First * src.Granule), Pages: n, First: one.Begin, Last: one.End,
					Read: one.What&pages.WasRead != 0, Written: one.What&pages.WasWritten != 0, Executed: one.What&pages.WasExecuted != 0,
				}
				names, more := p.symbols.in(p, one.First*src.Granule, (one.First+n)*src.Granule, mostSymbols)
				t.Symbols, t.More = notNil(names), more
				sum.Parts = append(sum.Parts, t)
			}
			one.First, one.Pages = one.First+n, one.Pages-n
		}
	}
	return jsonReply(sum)
}
