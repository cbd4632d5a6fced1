// Package sampling reads what the kernel records of programs that are sampled
// (perf_event_open(2)), and makes of it where each has spent its time. It is pure.
package sampling

import (
	"cmp"
	"slices"
	"strings"
)

// Image is a program that was executed, with the processes that it has forked. An exec makes
// another one.
type Image struct {
	Pid    uint32 // that executed it
	Began  uint64 // when, CLOCK_MONOTONIC ns
	Name   string // of the program's file
	Parent *Image // that it was executed by; nil of the first

	Spots   map[Place]*Spot
	Kernel  uint64 // samples in the kernel
	Planner uint64 // samples in processes of dynprof's own
}

// Place is an address in the memory of an image's processes.
type Place struct {
	Address uint64
	In      *Mapping // nil: nobody told of memory there
}

// Spot is how often a place was found.
type Spot struct {
	Samples uint64
	// Where the program's own instruction is that the one here stands for, if that was found
	// out: this is an arena, or a jump into one.
	Origin *Place
	Own    bool // it is dynprof's own code
	Looked bool // that was looked for: its process was still there
}

// Mapping is memory that can be executed.
type Mapping struct {
	Start, End, Offset uint64
	Inode              uint64
	Path               string
}

// process is one that is sampled.
type process struct {
	image    *Image
	mappings []*Mapping // by address; shared with the process that it was forked from
	threads  int
	planner  bool // it is dynprof's own
}

// New is a place that is seen for the first time.
type New struct {
	Pid     uint32
	Image   *Image
	Address uint64
	Spot    *Spot
}

// Collector puts records in the order of time and adds them up.
type Collector struct {
	Images    []*Image // in the order in which they were executed
	Lost      uint64   // records that found no room
	Throttled uint64   // times that the kernel stopped the samples

	waiting   []Record
	processes map[uint32]*process
	fresh     []New
}

// NewCollector begins with nothing.
func NewCollector() *Collector { return &Collector{processes: map[uint32]*process{}} }

// Add takes a record. Those of one CPU come in the order of time, of several they do not.
func (c *Collector) Add(r *Record) { c.waiting = append(c.waiting, *r) }

// Settle uses the records from before that moment, in the order of time: all of them have to
// be there. It returns the places that were not known before, each of a process that was
// there then.
func (c *Collector) Settle(before uint64) []New {
	slices.SortStableFunc(c.waiting, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
	n, _ := slices.BinarySearchFunc(c.waiting, before, func(r Record, t uint64) int { return cmp.Compare(r.Time, t) })
	for i := range c.waiting[:n] {
		c.use(&c.waiting[i])
	}
	c.waiting = slices.Delete(c.waiting, 0, n)
	fresh := c.fresh
	c.fresh = nil
	return fresh
}

func (c *Collector) use(r *Record) {
	switch r.Kind {
	case Sample:
		c.sample(r)
	case Mapped:
		c.of(r.Pid).add(&Mapping{r.Start, r.Start + r.Size, r.Offset, r.Inode, r.Name})
	case Named:
		c.named(r)
	case Forked:
		c.forked(r)
	case Exited:
		p := c.of(r.Pid)
		if p.threads--; p.threads <= 0 {
			delete(c.processes, r.Pid)
		}
	case Lost:
		c.Lost += r.Count
	case Throttled:
		c.Throttled++
	}
}

// of is the process of that number. One whose birth was lost is of the first image.
func (c *Collector) of(pid uint32) *process {
	p := c.processes[pid]
	if p == nil {
		p = &process{threads: 1}
		if len(c.Images) > 0 {
			p.image = c.Images[0]
		}
		c.processes[pid] = p
	}
	return p
}

func (c *Collector) sample(r *Record) {
	p := c.of(r.Pid)
	switch {
	case p.image == nil: // it has not been executed yet: "BUG"
	case p.planner:
		p.image.Planner++
	case r.Kernel:
		p.image.Kernel++
	default:
		at := Place{r.IP, p.mapping(r.IP)}
		spot := p.image.Spots[at]
		if spot == nil {
			spot = &Spot{}
			p.image.Spots[at] = spot
			c.fresh = append(c.fresh, New{r.Pid, p.image, r.IP, spot})
		}
		spot.Samples++
	}
}

// ownNames are what processes of dynprof's call themselves (libdynprof/twin.c, outsider.c).
var ownNames = []string{"dynprof-planner", "dynprof-agent"}

func (c *Collector) named(r *Record) {
	p := c.of(r.Pid)
	if r.Executed && !p.planner {
		p.image = &Image{Pid: r.Pid, Began: r.Time, Name: r.Name, Parent: p.image, Spots: map[Place]*Spot{}}
		c.Images = append(c.Images, p.image)
		p.mappings = nil
	}
	p.planner = p.planner || slices.Contains(ownNames, r.Name)
}

func (c *Collector) forked(r *Record) {
	if r.Pid == r.Parent {
		c.of(r.Pid).threads++
		return
	}
	parent := c.of(r.Parent)
	c.processes[r.Pid] = &process{image: parent.image, mappings: slices.Clip(parent.mappings), threads: 1, planner: parent.planner}
}

// add adds a mapping, which takes the place of what was there.
func (p *process) add(m *Mapping) {
	list := make([]*Mapping, 0, len(p.mappings)+2)
	for _, old := range p.mappings {
		if old.End <= m.Start || old.Start >= m.End {
			list = append(list, old)
			continue
		}
		if old.Start < m.Start {
			front := *old
			front.End = m.Start
			list = append(list, &front)
		}
		if old.End > m.End {
			behind := *old
			behind.Offset += m.End - old.Start
			behind.Start = m.End
			list = append(list, &behind)
		}
	}
	i, _ := slices.BinarySearchFunc(list, m.Start, func(m *Mapping, at uint64) int { return cmp.Compare(m.Start, at) })
	p.mappings = slices.Insert(list, i, m)
}

// mapping is what is at an address.
func (p *process) mapping(at uint64) *Mapping {
	i, found := slices.BinarySearchFunc(p.mappings, at, func(m *Mapping, at uint64) int { return cmp.Compare(m.Start, at) })
	if !found {
		i--
	}
	if i < 0 || at >= p.mappings[i].End {
		return nil
	}
	return p.mappings[i]
}

// Found notes that the instruction at a new place stands for another of the program's.
func (c *Collector) Found(n New, origin uint64) {
	n.Spot.Origin = &Place{origin, c.of(n.Pid).mapping(origin)}
}

// IsFile reports whether the memory is of a file.
func (m *Mapping) IsFile() bool {
	return strings.HasPrefix(m.Path, "/") && !strings.HasPrefix(m.Path, "//")
}
