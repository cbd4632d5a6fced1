package loops

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Trips is how many of a loop's executions that have ended had how many trips.
type Trips struct {
	Ended   uint64   `json:"ended"` // executions
	Least   uint64   `json:"least"` // trips; 0 if none has ended
	Most    uint64   `json:"most"`
	Buckets []Bucket `json:"buckets"` // those with executions, the least trips first
}

// Bucket is executions with so many trips.
type Bucket struct {
	From       uint64  `json:"from"`
	To         *uint64 `json:"to"` // null: and more
	Executions uint64  `json:"executions"`
	number     int
}

// TripsOf are those of a loop; nil where they are not counted.
func TripsOf(l *table.Loop) *Trips {
	h := l.Histogram
	if h == nil {
		return nil
	}
	t := &Trips{Ended: h.Executions, Least: h.Least, Most: h.Most, Buckets: []Bucket{}}
	for i, n := range h.Buckets {
		if n == 0 {
			continue
		}
		from, to := table.Bucket(i)
		b := Bucket{From: from, Executions: n, number: i}
		if to != 0 {
			b.To = &to
		}
		t.Buckets = append(t.Buckets, b)
	}
	return t
}

// Why the trips of a loop are not counted.
const (
	notAsked = "not-asked"
	shared   = "shared"
	untold   = "untold"
	flags    = "flags"
)

// reasons are they as sentences, but for those that concern the whole table.
var reasons = [][2]string{
	{untold, "it cannot be told where the loop is entered, as an indirect jump or what stays behind a call leads back"},
	{flags, "status flags are live where the loop goes round, or where it is left"},
}

func whyNot(t *table.Table, l *table.Loop) string {
	switch {
	case l.Histogram != nil:
		return ""
	case !t.HasTrips() && t.Header.Flags&layout.FlagShared != 0:
		return shared
	case !t.HasTrips():
		return notAsked
	case l.Flags&layout.LoopFlagsLive != 0:
		return flags
	}
	return untold
}

// CheckTrips is an error that says why the table has no trips, if it has none.
func CheckTrips(t *table.Table) error {
	switch {
	case t.HasTrips():
		return nil
	case t.Header.Flags&layout.FlagShared != 0:
		return fmt.Errorf("%s: trips are not counted where all threads share their counters", t.Program)
	}
	return fmt.Errorf("%s: trips were not counted: run it with hotspots run --trips", t.Program)
}

// Missing is how many executions were entered and are not among those that have ended: they
// still run, were left in a way that is not seen, or are outer ones of a recursion.
func (t *Trips) Missing(entries *uint64) uint64 {
	if entries == nil {
		return 0
	}
	return *entries - min(*entries, t.Ended)
}

// Range is the least and the most trips.
func (t *Trips) Range() string {
	switch {
	case t.Ended == 0:
		return "none has ended"
	case t.Least == t.Most:
		return figures.Count(t.Most, "trip")
	}
	return fmt.Sprintf("%s to %s trips", figures.Thousands(t.Least), figures.Thousands(t.Most))
}

// levels of a sparkline; none is no execution.
var levels = []rune("▁▂▃▄▅▆▇█")

const none = '·'

// spark is a sparkline of as many buckets as the largest of all has.
func (t *Trips) spark(buckets int) string {
	most := uint64(1)
	for _, b := range t.Buckets {
		most = max(most, b.Executions)
	}
	line := []rune(strings.Repeat(string(none), buckets))
	for _, b := range t.Buckets {
		level := math.Ceil(float64(b.Executions) / float64(most) * float64(len(levels)))
		line[b.number] = levels[max(int(level), 1)-1]
	}
	return string(line)
}

// Histogram writes the loops, each with a line for each bucket.
func (l *List) Histogram(w io.Writer) error {
	var out strings.Builder
	for i, p := range l.first() {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s at %s of %s: %s", p.Function, p.Header, filepath.Base(p.Object), figures.Count(p.Iterations, "iteration"))
		if p.Entries != nil {
			fmt.Fprintf(&out, ", entered %s", figures.Count(*p.Entries, "time"))
		}
		if p.Trips == nil {
			fmt.Fprintf(&out, "; trips not counted: %s\n", p.NoTrips)
			continue
		}
		fmt.Fprintf(&out, "; %s ended", figures.Count(p.Trips.Ended, "execution"))
		if p.Trips.Ended > 0 {
			fmt.Fprintf(&out, ", %s", p.Trips.Range())
		}
		if n := p.Trips.Missing(p.Entries); n > 0 {
			fmt.Fprintf(&out, "; %s not seen to end", figures.Thousands(n))
		}
		out.WriteString("\n")
		p.Trips.lines(&out)
	}
	l.explain(&out)
	_, err := io.WriteString(w, out.String())
	return err
}

// lines writes one for each bucket from the least to the most.
func (t *Trips) lines(out *strings.Builder) {
	if len(t.Buckets) == 0 {
		return
	}
	counts := [layout.TrCount]uint64{}
	width, most := len("EXECUTIONS"), uint64(0)
	for _, b := range t.Buckets {
		counts[b.number], most = b.Executions, max(most, b.Executions)
		width = max(width, len(figures.Thousands(b.Executions)))
	}
	const bars, trips = 40, 26
	fmt.Fprintf(out, "%*s  %*s    SHARE\n", trips, "TRIPS", width, "EXECUTIONS")
	for i := t.Buckets[0].number; i <= t.Buckets[len(t.Buckets)-1].number; i++ {
		from, to := table.Bucket(i)
		text := figures.Thousands(from)
		switch {
		case to == 0:
			text += " and more"
		case to > from:
			text += " to " + figures.Thousands(to)
		}
		bar := strings.Repeat("#", int(math.Ceil(float64(counts[i])/float64(most)*bars)))
		line := fmt.Sprintf("%*s  %*s  %7s  %s", trips, text, width, figures.Thousands(counts[i]), figures.Share(counts[i], t.Ended), bar)
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// explain says what the reasons mean that are among the loops.
func (l *List) explain(out *strings.Builder) {
	for _, r := range reasons {
		for _, p := range l.first() {
			if p.NoTrips == r[0] {
				fmt.Fprintf(out, "%s: trips are not counted, as %s\n", r[0], r[1])
				break
			}
		}
	}
}
