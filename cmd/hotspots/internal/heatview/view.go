// Package heatview makes the cells of a picture of touched pages that is watched while it
// grows: what of it somebody sees, and what has changed in that since he was told.
package heatview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// Bounds of what may be asked for.
const (
	MostColumns = 4096
	MostRows    = 2048
	MostText    = 1 << 10 // bytes that ask for it

	mostNumber = 1 << 53 // of JavaScript
)

// View is what somebody sees: pages from an address up to another, over instructions.
type View struct {
	Number  uint32  `json:"view"`    // frames say of which view they are
	Columns int     `json:"columns"` // cells at most
	Rows    int     `json:"rows"`
	After   uint64  `json:"after"`  // instructions
	Before  uint64  `json:"before"` // 0: all there are
	Last    uint64  `json:"last"`   // not 0: the last so many, as the program goes on, in place of these
	From    uint64  `json:"from"`   // address
	To      uint64  `json:"to"`     // 0: the end
	Mapped  bool    `json:"mapped"` // pages that nothing touched have rows, too
	Grow    float64 `json:"grow"`   // not 0: so many times as much of the addresses, by their rows,
	At      float64 `json:"at"`     // around this part of them, 0 at the lowest to 1 at the highest,
	Move    float64 `json:"move"`   // and moved by so much of them
}

// mostSaid is the bytes of what is said of text that is no view; as of other such errors it is to
// have room in a frame that closes a WebSocket (RFC 6455, 5.5: 125 bytes, with its code).
const mostSaid = 90

// ParseView reads one. Whatever makes no sense is an error.
func ParseView(text []byte) (v View, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		said := err.Error() // with what the client has sent
		if len(said) > mostSaid {
			said = strings.ToValidUTF8(said[:mostSaid], "") + "…"
		}
		return View{}, errors.New("that is no view: " + said)
	}
	if _, err := d.Token(); err != io.EOF {
		return View{}, errors.New("there is more behind the view")
	}
	return v, v.check()
}

func (v *View) check() error {
	for _, row := range []struct {
		what string
		ok   bool
	}{
		{fmt.Sprintf("columns: 1 to %d", MostColumns), v.Columns >= 1 && v.Columns <= MostColumns},
		{fmt.Sprintf("rows: 1 to %d", MostRows), v.Rows >= 1 && v.Rows <= MostRows},
		{"instructions: after, before, last are less than 2^53, and before is more than after", max(v.After, v.Before, v.Last) < mostNumber && (v.Before == 0 || v.Before > v.After)},
		{"addresses: from is less than to, and that no more than 2^47", max(v.From, v.To) <= heat.Pages*heat.PageSize && (v.To == 0 || v.To > v.From)},
		{"grow: 0, or 1/65536 to 65536", v.Grow == 0 || v.Grow >= 1.0/65536 && v.Grow <= 65536},
		{"at: 0 to 1", v.At >= 0 && v.At <= 1},
		{"move: -16 to 16", math.Abs(v.Move) <= 16},
	} {
		if !row.ok {
			return errors.New(row.what)
		}
	}
	return nil
}

// clip is the addresses in granules, the last one not in it.
func (v *View) clip(granule uint64) (first, end uint64) {
	first, end = v.From/granule, (v.To+granule-1)/granule
	if v.To == 0 {
		end = math.MaxUint64
	}
	return first, end
}

// Band is what is mapped at some addresses.
type Band struct {
	Name       string
	First, End uint64 // granules
	Ours       bool   // it is dynprof's own,
	Gone       bool   // or was there before: neither has rows but what is touched
}

// Source is what a view is of.
type Source struct {
	File     *heat.File
	Times    int                             // the slices are others than those of a smaller number
	Granule  uint64                          // bytes: what a page is here
	Executed uint64                          // instructions
	Used     []heat.Range                    // all that was touched, by address
	Mapped   []Band                          // by address; none lies upon another
	Maps     int                             // Mapped is another than that of a smaller number
	Written  time.Time                       // when the last slice was
	Settle   func([]heat.Range) []heat.Range // what of a slice's pages is so in the end; nil: all
}

// Settled is what of some pages is so in the end, as far as that is known.
func (s *Source) Settled(list []heat.Range) []heat.Range {
	if s.Settle == nil {
		return list
	}
	return s.Settle(list)
}

// Named says what is mapped at a granule, and up to which one, that not included, it is.
func (s *Source) Named(granule uint64) (name string, end uint64) {
	i := sort.Search(len(s.Mapped), func(i int) bool { return s.Mapped[i].End > granule })
	switch {
	case i == len(s.Mapped):
		return Unmapped, math.MaxUint64
	case s.Mapped[i].First > granule:
		return Unmapped, s.Mapped[i].First
	}
	return s.Mapped[i].Name, s.Mapped[i].End
}

// Unmapped is the name of memory that is not there any more.
const Unmapped = "[unmapped]"

// rows are runs of granules that have rows in a view of all addresses, by address.
func (s *Source) rows(mapped bool) []heat.Range {
	if !mapped {
		return heat.Flat(append([]heat.Range(nil), s.Used...))
	}
	all := append([]heat.Range(nil), s.Used...)
	for _, b := range s.Mapped {
		if b.Ours || b.Gone {
			continue
		}
		all = append(all, heat.Range{First: b.First, Pages: b.End - b.First})
	}
	return heat.Flat(all)
}

// navigate applies Grow, At and Move, so that From and To say it all.
func (v *View) navigate(s *Source) {
	grow := v.Grow
	if grow == 0 {
		grow = 1
	}
	if grow == 1 && v.Move == 0 {
		return
	}
	defer func() { v.Grow, v.At, v.Move = 0, 0, 0 }()
	runs := s.rows(v.Mapped)
	all := uint64(0)
	for _, r := range runs {
		all += r.Pages
	}
	first, end := v.clip(s.Granule)
	low, high := float64(below(runs, first)), float64(below(runs, end))
	if all == 0 || high <= low {
		v.From, v.To = 0, 0
		return
	}
	size := math.Max(1, math.Round(min((high-low)*grow, float64(all))))
	from := math.Round(low + v.At*(high-low) - v.At*size + v.Move*(high-low))
	from = max(0, min(from, float64(all)-size))
	if size >= float64(all) {
		v.From, v.To = 0, 0
		return
	}
	v.From, v.To = place(runs, uint64(from))*s.Granule, (place(runs, uint64(from+size)-1)+1)*s.Granule
}

// below is how many granules of runs are below one.
func below(runs []heat.Range, granule uint64) (n uint64) {
	for _, r := range runs {
		if r.First >= granule {
			break
		}
		n += min(r.Pages, granule-r.First)
	}
	return n
}

// place is the granule of runs below which there are so many.
func place(runs []heat.Range, n uint64) uint64 {
	for _, r := range runs {
		if n < r.Pages {
			return r.First + n
		}
		n -= r.Pages
	}
	return 0
}
