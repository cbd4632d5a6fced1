package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// tool is one way to count calls, or to find out where time goes.
type tool struct {
	name  string
	about string
	pace  pace
	most  int // rounds at most; 0: all

	missing func() error // why it cannot run on this machine; nil: it can
	// program builds the workload for it, and without it from the same compiler:
	// base is what it is compared with. nil: it takes the workload as it is.
	program func(m *machine, w *workload) (base, program string, err error)
	wants   func(w *workload) bool                   // nil: all workloads
	command func(m *machine, c *command)             // puts the tool in front
	read    func(m *machine, r *run) (counts, error) // nil: it counts no calls
}

// pace is how much of a workload's work a tool is given.
type pace int

const (
	fast    pace = iota // all of it
	medium              // an eighth
	slow                // 1/small
	slowest             // 1/small and a fifth of that: it writes a trace
)

// size is the work for a tool of that pace.
func (p pace) size(w *workload, quick bool) int {
	n := w.size
	if quick {
		n /= 5
	}
	switch p {
	case medium:
		n /= 8
	case slow:
		n /= w.small
	case slowest:
		n /= w.small * 5
	}
	return max(n, 1)
}

// run is one run of a tool, to be read.
type run struct {
	*taken
	w       *workload
	program string
	dir     string
	table   *tableFacts // of dynprof
}

// tableFacts is what dynprof's table says beside the counts.
type tableFacts struct {
	functions, counted int
	names              map[place]string
	entries            map[place]uint64 // sizes
	warm               bool             // no planner ran
}

// place is a function by file and link-time address.
type place struct {
	object  string
	address uint64
}

func presentTools(m *machine) []toolFact {
	var all []toolFact
	for _, t := range tools {
		f := toolFact{Name: t.name, About: t.about}
		if t.missing != nil {
			if err := t.missing(); err != nil {
				f.Skipped = err.Error()
			} else if m.quick && t.pace == slowest {
				f.Skipped = "too slow for a quick run"
			}
		}
		if f.Skipped != "" {
			m.missing[t.name] = f.Skipped
			fmt.Printf("%s: skipped: %s\n", t.name, f.Skipped)
		}
		all = append(all, f)
	}
	return all
}

var native = &tool{name: "native", about: "without any tool"}

// again is the program itself once more: what the machine tells apart.
var again = &tool{name: "native-again", about: "without any tool, a second time in each round: what tells nothing apart"}

var dynprof = dynprofTool("dynprof", "LD_PRELOAD=libdynprof.so, without cached plans", "DYNPROF_CACHE=0")

// kept is what dynprof does if calls must stay as they are.
var kept = dynprofTool("dynprof-kept", "the same with DYNPROF_KEEP_CALLS=1", "DYNPROF_KEEP_CALLS=1", "DYNPROF_CACHE=0")

func dynprofTool(name, about string, env ...string) *tool {
	return &tool{
		name: name, about: about,
		command: func(m *machine, c *command) {
			c.env = append(append(c.env, env...), "DYNPROF_OUTPUT="+filepath.Join(c.dir, "table"), "LD_PRELOAD="+m.library)
		},
		read: func(_ *machine, r *run) (counts, error) {
			c, facts, err := readTable(filepath.Join(r.dir, "table"))
			r.table = facts
			return c, err
		},
	}
}

// warm is dynprof as it starts when hotspots run, or hotspots cache warm, has kept plans.
var warm = warmTool("dynprof-warm", "the same with plans of an earlier start", "--text-copies")

// copied is warm with copies of large objects, whose text is changed already.
var copied = warmTool("dynprof-copied", "the same with copies of text, DYNPROF_TEXT_COPIES=1", "--text-copies", "DYNPROF_TEXT_COPIES=1")

// blocks is warm with blocks counted.
var blocks = blocksTool("dynprof-blocks", "the same with DYNPROF_BLOCKS=1: how often each instruction has run", "--blocks", "DYNPROF_BLOCKS=1")

// edges is warm with direct calls counted by site.
var edges = blocksTool("dynprof-edges", "the same with DYNPROF_EDGES=1: who has called whom, of direct calls", "--edges", "DYNPROF_EDGES=1")

// timed is warm with CPU time sampled, by the command, whose time is in it.
var timed = func() *tool {
	t := warmTool("dynprof-time", "hotspots run --time, hotspots included: calls and CPU time", "--text-copies")
	t.wants = hasAim
	t.command = func(m *machine, c *command) {
		m.keepPlans(c.args[0], "--text-copies")
		c.env = append(c.env, "XDG_CACHE_HOME="+m.plans())
		c.args = append([]string{m.hotspots, "run", "--time", "--summary", "0", "--library", m.library, "-o", filepath.Join(c.dir, "table"), "--"}, c.args...)
	}
	return t
}()

func blocksTool(name, about, flag, env string) *tool {
	t := warmTool(name, about, flag, env)
	t.wants = func(w *workload) bool { return slices.Contains(blocksAims, w.name) || w.name == "redis" }
	return t
}

// hasAim reports whether the workload is among those that have to be fast.
func hasAim(w *workload) bool {
	return slices.ContainsFunc(ratioAims, func(a ratioAim) bool { return a.workload == w.name })
}

// warmTool is dynprof with plans that hotspots cache warm has kept with a flag.
func warmTool(name, about, flag string, env ...string) *tool {
	t := dynprofTool(name, about, env...)
	preload, read := t.command, t.read
	t.wants = func(w *workload) bool {
		if slices.ContainsFunc(w.env, func(v string) bool { return strings.HasPrefix(v, "DYNPROF_OBJECTS=") }) {
			return false // planned each time (docs/cache.md)
		}
		return hasAim(w)
	}
	t.command = func(m *machine, c *command) {
		m.keepPlans(c.args[0], flag)
		c.env = append(c.env, "XDG_CACHE_HOME="+m.plans())
		preload(m, c)
	}
	t.read = func(m *machine, r *run) (counts, error) {
		c, err := read(m, r)
		if err == nil && !r.table.warm && m.tooCold() {
			err = fmt.Errorf("%s: a planner ran, again and again", name)
		}
		return c, err
	}
	return t
}

// plans is the cache directory of what starts warm.
func (m *machine) plans() string { return filepath.Join(m.work, "cache") }

// keepPlans has a program planned, once. Where it cannot be, its runs tell.
func (m *machine) keepPlans(program, flag string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	what := flag + " " + program
	if m.planned[what] {
		return
	}
	m.planned[what] = true
	for range 10 { // what has just been written is kept the second time; then there are plans for other places
		c := exec.CommandContext(m.ctx, m.hotspots, "cache", "warm", flag, "--library", m.library, program)
		c.Env = append(os.Environ(), "XDG_CACHE_HOME="+m.plans())
		if out, err := c.CombinedOutput(); err != nil {
			fmt.Printf("%s\n%s", err, out)
		}
	}
}

// tooCold notes that a planner ran although there are plans, and reports whether that is
// more than chance: among a hundred libraries two arenas now and then have the same place,
// until there are plans for others.
func (m *machine) tooCold() bool {
	const chance = 5
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.cold++
	return m.cold > chance
}

// deeper are those that count or note more than calls, in copies of functions, which take longer
// to start.
var deeper = []*tool{blocks, edges, pages, lines, noRegion}

// isOurs is for dynprof, with which every run must succeed, and count.
func (t *tool) isOurs() bool { return t == dynprof || t == kept || t == warm || t == copied }

// peers are what a user would take instead.
var peers = []*tool{profileCounters, coverage, perfRecord, gprof, xray, callgrind, uftrace}

// tools, in the order of the tables.
var tools = slices.Concat([]*tool{again, dynprof, warm, kept, timed, blocks, edges, attached, static, compiled}, touchTools, limits, peers)

// readTable returns the calls of all functions that are counted.
func readTable(path string) (counts, *tableFacts, error) {
	t, err := table.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer t.Close()
	s, err := t.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	if s.ThreadsDiscarded+s.PatchesRefused+s.ObjectsMissed > 0 {
		return nil, nil, fmt.Errorf("dynprof: %d threads, %d functions, %d objects have been lost", s.ThreadsDiscarded, s.PatchesRefused, s.ObjectsMissed)
	}
	c, facts := counts{}, &tableFacts{names: map[place]string{}, entries: map[place]uint64{}, warm: t.Flags&layout.FlagWarm != 0}
	for i := range t.Functions {
		f := &t.Functions[i]
		o := &t.Objects[f.Object]
		if o.Flags&layout.ObjSelected == 0 || f.Reason.Excluded() {
			continue
		}
		facts.functions++
		if !f.Counted() {
			continue
		}
		facts.counted++
		name := f.Name
		if name == "" {
			name = fmt.Sprintf("%s+%#x", filepath.Base(o.Path), f.Address)
		}
		at := place{o.Path, f.Address}
		facts.names[at], facts.entries[at] = name, uint64(f.Size)
		c[name] += s.Calls[i]
	}
	return c, facts, nil
}

// readPairs reads lines of a number and a name.
func readPairs(text string) (counts, error) {
	c := counts{}
	for line := range strings.Lines(text) {
		var n uint64
		var name string
		if _, err := fmt.Sscan(line, &n, &name); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		c[name] += n
	}
	return c, nil
}

// readFile is for files that tools leave.
func readFile(r *run, name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	return string(b), err
}
