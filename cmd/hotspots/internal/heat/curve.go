package heat

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// Point is a slice of time: what was done in it, and by its end.
type Point struct {
	Instructions uint64 `json:"instructions"` // executed by its end
	Nanoseconds  uint64 `json:"ns"`           // from the start to its end
	Parts        uint64 `json:"parts"`        // slices that were made one, that one
	Touched      uint64 `json:"touched"`      // units, in it
	Read         uint64 `json:"read"`
	Written      uint64 `json:"written"`
	Executed     uint64 `json:"executed"`
	WorkingSet   uint64 `json:"working_set"`  // units touched in it or in those before, back to Map.Window
	Used         uint64 `json:"used"`         // units touched by its end
	Resident     uint64 `json:"resident"`     // pages of the process; 0: not known
	MinorFaults  uint64 `json:"minor_faults"` // page faults of it, in the slice, of which the kernel had the page,
	MajorFaults  uint64 `json:"major_faults"` // and those for which it read something
	Threads      uint64 `json:"threads"`      // that it had at the slice's end; 0: not known
	Counting     string `json:"counting"`     // on, off: counting was paused, or both
}

// usualWindow is the part of all instructions that is the window, if nobody says another.
const usualWindow = 20

// trace makes the curve.
func (m *Map) trace(f *heat.File, window uint64) {
	bounds, executed := boundsOf(f)
	if m.Window = window; window == 0 {
		m.Window = max(1, executed/usualWindow)
	}
	last := make([]int32, max(len(bounds)-1, 0)) // by pages from a bound to the next: one more than the last slice
	pages := []uint64{0}                         // by the same, without the first
	m.Curve = []Point{}
	f.Each(func(s *heat.Slice) {
		k := int32(len(m.Curve))
		pages = append(pages, 0)
		p := Point{Instructions: s.Executed, Nanoseconds: s.Time, Parts: s.Parts, Resident: s.Resident, MinorFaults: s.Minor, MajorFaults: s.Major, Threads: s.Threads, Counting: s.Counting.String()}
		if k > 0 {
			p.Used = m.Curve[k-1].Used
		}
		for _, r := range s.Ranges {
			var sums Sums
			sums.count(r)
			p.Touched, p.Read, p.Written, p.Executed = p.Touched+sums.Touched, p.Read+sums.Read, p.Written+sums.Written, p.Executed+sums.Executed
			i, _ := slices.BinarySearch(bounds, r.First)
			for ; bounds[i] < r.First+r.Pages; i++ {
				n := bounds[i+1] - bounds[i]
				if last[i] == 0 {
					p.Used += n
				} else {
					pages[last[i]] -= n
				}
				pages[k+1] += n
				last[i] = k + 1
			}
		}
		m.Curve = append(m.Curve, p)
		m.Curve[k].WorkingSet = m.workingSet(pages)
	})
}

// workingSet is that at the end of the last slice: pages has how many were touched last in
// which slice.
func (m *Map) workingSet(pages []uint64) (n uint64) {
	now := m.Curve[len(m.Curve)-1].Instructions
	for i, p := range slices.Backward(m.Curve) {
		if i < len(m.Curve)-1 && now-p.Instructions >= m.Window {
			break
		}
		n += pages[i+1]
	}
	return n
}

// boundsOf are the pages at which ranges of slices begin or end, by address, and how many
// instructions have run in all.
func boundsOf(f *heat.File) (bounds []uint64, executed uint64) {
	compact := func() {
		slices.Sort(bounds)
		bounds = slices.Compact(bounds)
	}
	most := 1 << 16
	f.Each(func(s *heat.Slice) {
		executed = s.Executed
		for _, r := range s.Ranges {
			bounds = append(bounds, r.First, r.First+r.Pages)
		}
		if len(bounds) > most {
			compact()
			most = max(most, 2*len(bounds))
		}
	})
	compact()
	return bounds, executed
}

// slicesText is a line that says what slices there are.
func (m *Map) slicesText() string {
	n := len(m.Curve)
	if n == 0 {
		return "No slice of time is known.\n"
	}
	most, begun := uint64(0), uint64(0)
	longest, ran := uint64(0), uint64(0)
	parts := uint64(0)
	for i := range m.Curve {
		p := &m.Curve[i]
		most, begun = max(most, p.Nanoseconds-begun), p.Nanoseconds
		longest, ran = max(longest, p.Instructions-ran), p.Instructions
		parts = max(parts, p.Parts)
	}
	end := &m.Curve[n-1]
	of := fmt.Sprintf("%v at most, in which %s instructions of copies", time.Duration(most).Round(time.Microsecond), figures.Thousands(end.Instructions))
	if m.Source != "" {
		of = fmt.Sprintf("%s at most, of %s that", figures.Count(longest, "instruction"), figures.Thousands(end.Instructions))
	}
	text := fmt.Sprintf("%s of time, of %s ran", figures.Count(uint64(n), "slice"), of)
	if parts > 1 {
		text += fmt.Sprintf("; up to %s that were neighbours are one, as there were too many", figures.Thousands(parts))
	}
	return text + ".\n" + m.pausedText()
}

// pausedText is a line that says of which slices little is noted.
func (m *Map) pausedText() string {
	of, late := map[string]uint64{}, uint64(0)
	for i := range m.Curve {
		p := &m.Curve[i]
		if of[p.Counting]++; p.Counting == heat.CountingOff.String() && p.Touched > 0 {
			late++
		}
	}
	off, both := of[heat.CountingOff.String()], of[(heat.CountingOn|heat.CountingOff).String()]
	if off+both == 0 {
		return ""
	}
	text := fmt.Sprintf("Counting was off in %s, and in a part of %s", figures.Count(off, "slice"), figures.Thousands(both))
	if late > 0 {
		text += fmt.Sprintf("; in %s of the former something was touched by calls that had begun before", figures.Thousands(late))
	}
	return text + ".\n"
}

func (p *Point) numbers(i int) []uint64 {
	return []uint64{uint64(i + 1), p.Instructions, p.Nanoseconds, p.Parts, p.Touched, p.Read, p.Written, p.Executed, p.WorkingSet, p.Used, p.Resident, p.MinorFaults, p.MajorFaults, p.Threads}
}

func (m *Map) curveText(w io.Writer, style report.Style) error {
	others := " Resident are all pages of the process, dynprof's own among them, and so are page faults, minor and major, and threads."
	if m.Source != "" {
		others = " A log tells neither time nor what is resident, nor page faults and threads."
	}
	if _, err := fmt.Fprintf(w, "Working set: %ss touched within the last %s instructions.%s\n", m.Noun(), figures.Thousands(m.Window), others); err != nil {
		return err
	}
	var rows [][3]string
	for i := range m.Curve {
		rows = append(rows, [3]string{lineOf(m.Curve[i].numbers(i)...) + "\t" + m.Curve[i].Counting, "", ""})
	}
	return report.Rows(w, style, [3]string{"SLICE\tINSTRUCTIONS\tNS\tPARTS\tTOUCHED\tREAD\tWRITTEN\tEXECUTED\tWORKING SET\tUSED\tRESIDENT\tMINOR\tMAJOR\tTHREADS\tCOUNTING", "", ""}, rows)
}

func (m *Map) curveCSV(w io.Writer) error {
	rows := [][]string{{"slice", "instructions", "ns", "parts", "touched", "read", "written", "executed", "working_set", "used", "resident", "minor_faults", "major_faults", "threads", "counting"}}
	for i := range m.Curve {
		var row []string
		for _, n := range m.Curve[i].numbers(i) {
			row = append(row, strconv.FormatUint(n, 10))
		}
		rows = append(rows, append(row, m.Curve[i].Counting))
	}
	return csv.NewWriter(w).WriteAll(rows)
}
