// Package report is what the command line shows of count tables: one list of
// functions from one or more tables, sorted, filtered, written as text, JSON
// or CSV. The JSON is described in docs/json.md.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/code"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Schema is the version of every JSON that the command line writes.
const Schema = 1

// Function is one function of the ledger with its calls.
type Function struct {
	Object  string   `json:"object"`
	BuildID string   `json:"build_id"`
	Address Address  `json:"address"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Size    uint32   `json:"size"`
	Calls   uint64   `json:"calls"`
	Hot     bool     `json:"hot"`
	Source  string   `json:"source"`
	Tactic  string   `json:"tactic"`
	Reason  string   `json:"reason"`
	// Instructions that it has executed, what it calls left out; nil if its blocks are
	// not counted.
	Instructions *uint64 `json:"instructions,omitempty"`
	// Why they are not, where those of others are; empty where nobody tells.
	BlocksReason string `json:"blocks_reason,omitempty"`
	// What it has read and written; nil as well if Options.Loads does not ask.
	*objcode.Accesses
	// Calls that its instructions are of; nil if they are of all.
	Observed  *uint64 `json:"observed_calls,omitempty"`
	*SelfTime         // nil if no CPU time was sampled
	// Where its source is, and what was inlined into it; of AddLines.
	File    string   `json:"file,omitempty"`
	Line    int      `json:"line,omitempty"`
	Inlined []string `json:"inlined,omitempty"`

	times  *timeSum
	entry  *layout.Function
	first  *layout.Function // in the first table that has it, which names it
	object *layout.Object
}

// Address is an ELF virtual address.
type Address uint64

func (a Address) String() string { return fmt.Sprintf("0x%x", uint64(a)) }

// MarshalText writes it as nm does, with 0x in front.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Excluded reports whether f is no function in the sense of the percentages.
func (f *Function) Excluded() bool { return f.entry.Reason.Excluded() }

// Program is one table that went into a report.
type Program struct {
	Program    string `json:"program"`
	Pid        uint32 `json:"pid"`
	Status     string `json:"status"`
	TotalCalls uint64 `json:"total_calls"`
	// Its command line; empty unless that was kept (run --args).
	Arguments string `json:"arguments,omitempty"`
	// How many processes' tables were folded into this one; 0 if it is one process's.
	Folded int `json:"folded,omitempty"`

	// Programs that processes of it have executed, and that are not counted.
	Executed uint32 `json:"executed"`

	// Threads that had no room in the table: their calls are missing.
	ThreadsLost uint32 `json:"threads_lost"`
	// Threads whose calls come into the table when they end.
	ThreadsLoose uint32 `json:"threads_loose"`
	// How often an object was loaded later that could not be planned,
	ObjectsMissed uint32 `json:"objects_missed"`
	// and which: there is room for 64 in a table.
	Missed []Missed `json:"missed"`
	// When the counts were reset: those from before are in no figure.
	Reset *time.Time `json:"reset,omitempty"`
	// When the table was copied, if it is a copy.
	Snapshot *time.Time `json:"snapshot,omitempty"`
	// Why all threads counted into one row, by locked instructions; empty if
	// each had its own.
	Lock string `json:"lock"`
	// It runs, and its calls are not counted at the moment.
	Paused bool `json:"paused,omitempty"`
	// The program took the GS segment, and nothing has counted since.
	Stopped bool `json:"stopped"`
	// The library that may take it, if it was the loading of one.
	StoppedBy string `json:"stopped_by"`
	// Processes that turned Syscall User Dispatch or another filter of addresses on, and were not counted from then on.
	Dispatched uint32 `json:"dispatched"`
	// Executable memory of the first process that no ELF file describes, bytes:
	// what is called there is not counted. 0 if it was not looked at.
	CodeAnonymous uint64 `json:"code_anonymous"`
	CodeInFiles   uint64 `json:"code_in_files"`
	// Libraries that came later and may make threads and processes by int $0x80:
	// these count in their parents' rows, and calls are lost.
	OldBirths []string `json:"old_births"`
	// Functions that were counted until the program made their text writable or replaced it.
	TextChanged int `json:"text_changed"`
	// Instructions that functions have executed whose blocks are counted; nil if those of
	// none are,
	TotalInstructions *uint64 `json:"total_instructions,omitempty"`
	// what these have read and written; nil if Options.Loads does not ask,
	TotalAccesses *objcode.Accesses `json:"total_accesses,omitempty"`
	// and functions that were called of which they are not.
	WithoutBlocks int `json:"without_blocks,omitempty"`
	// These by the reason, where somebody tells.
	BlocksReasons map[string]int `json:"blocks_reasons,omitempty"`
	// Objects whose functions are counted by call only, as there was no room for their blocks.
	ByCall []string `json:"by_call,omitempty"`
	// Objects whose direct calls are not counted by site, for the same reason.
	SitesWithoutRoom []string `json:"sites_without_room,omitempty"`
	// Those of which they are in a run with blocks, as they have a Go runtime.
	ByCallGo []string `json:"by_call_go,omitempty"`
	// Functions of whose calls instructions are counted of some only.
	Observed int `json:"partly_observed,omitempty"`
	// What observing within a bound cost; nil if the run has none.
	Observing *Observing `json:"observing,omitempty"`
	// CPU time; nil if none was sampled.
	Time *Sampling `json:"time,omitempty"`

	Ended   layout.Ended    `json:"-"`
	Owners  []table.Owner   `json:"-"`
	Objects []layout.Object `json:"-"`

	alone bool // memory is looked at, which is of one program, as --follow-exec does not go with it
	here  bool // it runs, and its processes have these numbers for us, too
}

// Report is the functions of one or more tables. The first table's program
// gives its name.
type Report struct {
	Program
	Programs  []Program // each table, in order of their start
	Functions []*Function

	beside   map[identity]*Function // that took CPU time, and are in no ledger
	HasLines bool                   // of functions; see AddLines
}

// Options of New. The zero value demangles.
type Options struct {
	Mangled bool // leave C++ and Rust names as they are in the ELF file
	Most    int  // only so many functions, those called most, and what is called as often as the last of them; 0: all
	Loads   bool // and what functions have read and written, which the files tell of what their blocks have run

	beforeReset bool // with what was counted before a reset
}

// identity is what a function is known by. Where no build ID tells one version of an
// object from another its name and size do.
type identity struct {
	object, buildID string
	address         uint64
	name            string
	size            uint32
}

func identityOf(o *layout.Object, f *layout.Function) identity {
	if o.BuildID != "" {
		return identity{object: o.Path, buildID: o.BuildID, address: f.Address}
	}
	return identity{object: o.Path, address: f.Address, name: f.Name, size: f.Size}
}

// New reads the counts of all tables. A function that is in several, by its
// identity, is one. Addresses that are no functions are
// left in: see Function.Excluded.
func New(tables []*table.Table, opt Options) (*Report, error) {
	tables = slices.Clone(tables)
	slices.SortStableFunc(tables, func(a, b *table.Table) int { return a.Realtime.Compare(b.Realtime) })
	r := &Report{}
	known := map[identity]*Function{}
	for _, t := range tables {
		read := t.SinceReset
		if opt.beforeReset {
			read = t.Snapshot
		}
		s, err := read()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Path(), err)
		}
		executed, err := executed(t, s, opt.Loads)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Path(), err)
		}
		var times *Times
		if opt.Most == 0 {
			times, err = TimesOf(t)
		}
		r.add(t, s, executed, SamplingOf(times, err))
		timed := map[int]*Function{}
		for i := range t.Functions {
			f := &t.Functions[i]
			if opt.Most > 0 && s.Calls[i] == 0 {
				continue
			}
			o := &t.Objects[f.Object]
			k := identityOf(o, f)
			one := known[k]
			if one == nil {
				one = &Function{first: f, object: o}
				known[k] = one
				r.Functions = append(r.Functions, one)
			}
			one.merge(f, s.Calls[i], s.Hot(i))
			if n, ok := executed[uint32(i)]; ok {
				one.observe(n, s.Calls[i])
			}
			if times != nil {
				timed[i] = one
			}
		}
		r.addTimes(times, timed)
	}
	r.keepMost(opt.Most)
	for _, f := range r.Functions {
		f.describe(opt)
	}
	for _, f := range r.beside {
		f.describe(opt)
	}
	return r, nil
}

// ran is what was seen of a function; accesses are nil if they are not asked for.
type ran struct {
	instructions uint64
	accesses     *objcode.Accesses
	calls        uint64 // that these are of,
	some         bool   // if they are not of all
}

// executed is what each function has executed of which blocks are counted, by its number: not
// of those of which no call was observed.
func executed(t *table.Table, s *table.Snapshot, loads bool) (map[uint32]*ran, error) {
	flow, err := t.Flow(s)
	if err != nil {
		return nil, err
	}
	if flow == nil {
		if loads {
			return nil, errors.New("it counts no blocks, so neither loads nor stores: run the program with hotspots run --blocks")
		}
		return nil, nil
	}
	all := map[uint32]*ran{}
	images := map[uint16]*objcode.Image{}
	for i := range flow.Blocks {
		b := &flow.Blocks[i]
		f := all[b.Function]
		if f == nil {
			f = &ran{}
			if loads {
				f.accesses = &objcode.Accesses{}
			}
			f.calls, f.some = flow.Observed(b.Function)
			all[b.Function] = f
		}
		f.instructions += b.Executed()
		if !loads || b.Runs == 0 {
			continue
		}
		object := t.Functions[b.Function].Object
		if images[object] == nil {
			if images[object], err = objcode.Load(&t.Objects[object]); err != nil {
				return nil, err
			}
		}
		f.accesses.Add(images[object].Accesses(b.Address, b.Size), b.Runs)
	}
	maps.DeleteFunc(all, func(_ uint32, n *ran) bool { return n.some && n.calls == 0 && n.instructions == 0 })
	return all, nil
}

// observe adds what was seen of a function in a table in which it has so many calls.
func (f *Function) observe(n *ran, calls uint64) {
	seen := f.Calls - calls // in other tables
	if f.Observed != nil {
		seen = *f.Observed
	}
	f.Instructions = sum(f.Instructions, n.instructions)
	f.Accesses = sumAccesses(f.Accesses, n.accesses)
	switch {
	case n.some:
		f.Observed = sum(&seen, n.calls)
	case f.Observed != nil:
		f.Observed = sum(&seen, calls)
	}
}

// sumAccesses adds what may not be known.
func sumAccesses(sum, more *objcode.Accesses) *objcode.Accesses {
	if more == nil {
		return sum
	}
	n := *more
	if sum != nil {
		n.Add(*sum, 1)
	}
	return &n
}

// sum is a number of what may not be counted, and n more.
func sum(p *uint64, n uint64) *uint64 {
	if p != nil {
		n += *p
	}
	return &n
}

// addExecuted notes the instructions of a table, and what has none.
func (p *Program) addExecuted(t *table.Table, s *table.Snapshot, executed map[uint32]*ran) {
	if executed == nil {
		return
	}
	p.TotalInstructions = new(uint64)
	for _, n := range executed {
		*p.TotalInstructions += n.instructions
		p.TotalAccesses = sumAccesses(p.TotalAccesses, n.accesses)
		if n.some {
			p.Observed++
		}
	}
	for i, calls := range s.Calls {
		if _, ok := executed[uint32(i)]; !ok && calls > 0 {
			p.WithoutBlocks++
			if why := t.Functions[i].Blocks; why != ledger.ReasonNone {
				if p.BlocksReasons == nil {
					p.BlocksReasons = map[string]int{}
				}
				p.BlocksReasons[why.String()]++
			}
		}
	}
}

// sumReasons is a new map: a report's first is that of its first program.
func sumReasons(a, b map[string]int) map[string]int {
	if len(b) == 0 {
		return a
	}
	sum := maps.Clone(b)
	for why, n := range a {
		sum[why] += n
	}
	return sum
}

// add notes one more table.
func (r *Report) add(t *table.Table, s *table.Snapshot, executed map[uint32]*ran, sampling *Sampling) {
	p := programOf(t, s, alive.Of(t.File))
	code := unlisted(t, p.Status)
	p.CodeAnonymous, p.CodeInFiles = code.Anonymous, code.Files
	p.addExecuted(t, s, executed)
	p.Observing = observing(t, s, executed)
	p.Time = sampling
	r.Programs = append(r.Programs, p)
	if len(r.Programs) == 1 {
		r.Program = p
		return
	}
	r.TotalCalls += p.TotalCalls
	if p.TotalInstructions != nil {
		r.TotalInstructions = sum(r.TotalInstructions, *p.TotalInstructions)
	}
	r.TotalAccesses = sumAccesses(r.TotalAccesses, p.TotalAccesses)
	r.WithoutBlocks += p.WithoutBlocks
	r.BlocksReasons = sumReasons(r.BlocksReasons, p.BlocksReasons)
	r.Observed += p.Observed
	r.Observing = r.Observing.add(p.Observing)
	if len(r.Programs) == 2 && r.Time != nil { // it is still the first one's own
		r.Time = (*Sampling)(nil).add(r.Time)
	}
	r.Time = r.Time.add(p.Time)
	r.Executed += p.Executed
	r.alone = r.alone || p.alone
	r.ThreadsLost += p.ThreadsLost
	r.ThreadsLoose += p.ThreadsLoose
	r.CodeAnonymous += p.CodeAnonymous
	r.CodeInFiles += p.CodeInFiles
	r.ObjectsMissed += p.ObjectsMissed
	r.Missed = append(slices.Clip(r.Missed), p.Missed...)
	r.Lock = cmp.Or(r.Lock, p.Lock)
	r.StoppedBy = cmp.Or(r.StoppedBy, p.StoppedBy)
	r.Stopped = r.Stopped || p.Stopped
	r.Dispatched += p.Dispatched
	r.TextChanged += p.TextChanged
	r.OldBirths = addOnce(r.OldBirths, p.OldBirths...)
	r.ByCall, r.ByCallGo = addOnce(r.ByCall, p.ByCall...), addOnce(r.ByCallGo, p.ByCallGo...)
	r.SitesWithoutRoom = addOnce(r.SitesWithoutRoom, p.SitesWithoutRoom...)
	if p.Status == alive.Running.String() || r.Status == alive.Word(alive.Exited, r.Ended) {
		r.Status = p.Status
	}
}

// programOf is what a table's header and a snapshot of it say.
func programOf(t *table.Table, s *table.Snapshot, status alive.Status) Program {
	p := Program{
		Program: symname.Clean(t.Program), Pid: t.Pid, Arguments: symname.Clean(t.Arguments), Status: alive.Word(status, t.Ended), TotalCalls: s.Total(), Folded: len(s.Folded),
		Executed: s.Executed, ThreadsLost: s.ThreadsDiscarded, ThreadsLoose: s.ThreadsLoose, ObjectsMissed: s.ObjectsMissed, Missed: missed(s), Lock: lock(t), Stopped: s.Stopped, Dispatched: s.Dispatched, TextChanged: t.TextChanged(), OldBirths: oldBirths(t), ByCallGo: Flagged(t, layout.ObjGo),
		Ended: t.Ended, Objects: t.Objects, alone: t.Flags&(layout.FlagMemory|layout.FlagRegions) != 0,
	}
	running := status == alive.Running
	p.Paused, p.here = running && s.Paused, running && alive.SamePidNS(&t.Identity)
	if p.Owners = s.Owners(); !s.Reset.IsZero() {
		p.Reset = utc(s.Reset)
	}
	if !t.Header.Snapshot.IsZero() {
		p.Snapshot = utc(t.Header.Snapshot)
	}
	if byCall := Flagged(t, layout.ObjByCall); t.HasSites() {
		p.SitesWithoutRoom = byCall
	} else {
		p.ByCall = byCall
	}
	if p.Stopped {
		p.StoppedBy = takesGS(t, p.Missed)
	}
	return p
}

// Brief says how a program is, or how it ended, and what its counts lack, a line each.
func Brief(t *table.Table, s *table.Snapshot, status alive.Status) (state string, lacks []string) {
	r := &Report{Program: programOf(t, s, status)}
	r.Programs = []Program{r.Program}
	lacks = r.lacks()
	for _, lines := range []string{r.LockLine(), r.MissedLines()} {
		if lines != "" {
			lacks = append(lacks, strings.Split(lines[1:], "\n")...)
		}
	}
	return r.state(), lacks
}

// unlisted is what was seen of the program, or is while it runs.
func unlisted(t *table.Table, status string) layout.Unlisted {
	code := code.Memory{}
	if status == alive.Running.String() && find.MappedBy(int(t.Pid)) != "" && code.See(int(t.Pid)) {
		return code.Unlisted(t.Objects)
	}
	return t.Header.Unlisted
}

func utc(t time.Time) *time.Time { t = t.UTC(); return &t }

// lock is why all threads of t's program share a row.
func lock(t *table.Table) string {
	if t.Flags&layout.FlagShared == 0 {
		return ""
	}
	if t.Flags&layout.FlagLock != 0 {
		return "as asked for"
	}
	if path := early(t, layout.ObjUsesGS); path != "" {
		return path + " uses the GS segment"
	}
	if path := early(t, layout.ObjOldBirth); path != "" {
		return path + " may make threads and processes by int $0x80"
	}
	if t.Flags&layout.FlagBlind != 0 {
		return "libraries that are loaded later cannot be seen, nor counted"
	}
	return "the GS segment was in use when the program started"
}

// early is the first object with a flag that was there at the start.
func early(t *table.Table, flag uint32) string {
	i := slices.IndexFunc(t.Objects, func(o layout.Object) bool { return o.Flags&(flag|layout.ObjLate) == flag })
	if i < 0 {
		return ""
	}
	return symname.Clean(t.Objects[i].Path)
}

// oldBirths are the objects that came later, and may make threads and processes by
// int $0x80, which count in their parents' rows.
func oldBirths(t *table.Table) []string {
	all := []string{}
	for i := range t.Objects {
		if o := &t.Objects[i]; o.Flags&layout.ObjOldBirth != 0 && t.Flags&layout.FlagShared == 0 {
			all = addOnce(all, symname.Clean(o.Path))
		}
	}
	return all
}

// Flagged are the paths of the objects with a flag.
func Flagged(t *table.Table, flag uint32) (all []string) {
	for i := range t.Objects {
		if o := &t.Objects[i]; o.Flags&flag != 0 {
			all = addOnce(all, symname.Clean(o.Path))
		}
	}
	return all
}

func addOnce(all []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(slices.Clip(all), s)
		}
	}
	return all
}

// keepMost does what Options.Most says. It comes before the names are made, which takes
// longest.
func (r *Report) keepMost(n int) {
	if n <= 0 || n >= len(r.Functions) {
		return
	}
	calls := make([]uint64, len(r.Functions))
	for i, f := range r.Functions {
		calls[i] = f.Calls
	}
	slices.Sort(calls)
	r.Keep(func(f *Function) bool { return f.Calls >= calls[len(calls)-n] })
}

// describe fills in what the first table says of f.
func (f *Function) describe(opt Options) {
	o, e := f.object, f.first
	f.Object, f.BuildID, f.Address = symname.Clean(o.Path), symname.Clean(o.BuildID), Address(e.Address)
	f.Name, f.Aliases = symname.Display(e.Name, o.Path, e.Address, !opt.Mangled), make([]string, len(e.Aliases))
	f.Size, f.Source = e.Size, e.Source.String()
	for i, a := range e.Aliases {
		f.Aliases[i] = symname.Display(a, o.Path, e.Address, !opt.Mangled)
	}
	if f.times != nil {
		f.SelfTime = f.times.time()
	}
}

// merge adds one table's calls. A table that counted the function says more
// about it than one that did not.
func (f *Function) merge(e *layout.Function, calls uint64, hot bool) {
	f.Calls += calls
	f.Hot = f.Hot || hot
	if f.entry == nil || !f.entry.Counted() && e.Counted() {
		f.entry, f.Tactic, f.Reason, f.BlocksReason = e, e.Tactic.String(), e.Reason.String(), e.Blocks.String()
	}
}

// Counted reports whether some table counted f.
func (f *Function) Counted() bool { return f.entry.Counted() }

// Keep leaves only the functions that keep says yes to.
func (r *Report) Keep(keep func(*Function) bool) {
	r.Functions = slices.DeleteFunc(r.Functions, func(f *Function) bool { return !keep(f) })
}

// Matching tells whether a function's name or one of its aliases matches re.
func Matching(re *regexp.Regexp) func(*Function) bool {
	return func(f *Function) bool {
		return re.MatchString(f.Name) || slices.ContainsFunc(f.Aliases, re.MatchString)
	}
}

// IsNamed reports whether a function is the one that a user names: as it is shown, as in the
// file, by an alias, or by its address, 0x and hex digits.
func IsNamed(e *layout.Function, shown, name string) bool {
	if name == "" { // not those that have none
		return false
	}
	if shown == name || e.Name == name || slices.Contains(e.Aliases, name) {
		return true
	}
	at, hex := strings.CutPrefix(name, "0x")
	n, err := strconv.ParseUint(at, 16, 64)
	return hex && err == nil && n == e.Address
}

// HasReason tells whether a function has that reason or that tactic.
func HasReason(word string) func(*Function) bool {
	return func(f *Function) bool { return f.Reason == word || f.Reason == "" && f.Tactic == word }
}

// Words lists the tactics and reasons that HasReason knows.
func Words() []string {
	var all []string
	for t := ledger.TacticWholeBody; t <= ledger.TacticTrap; t++ {
		all = append(all, t.String())
	}
	for _, r := range ledger.Reasons() {
		all = append(all, r.String())
	}
	return all
}

// Orders are the words of --sort.
var Orders = []string{"calls", "instructions", "loads", "stores", "name", "size", "time"}

// Sort orders the functions: most calls, time or bytes first, names by letter.
// Equal ones are in order of name, object and address.
func (r *Report) Sort(order string) {
	slices.SortFunc(r.Functions, func(a, b *Function) int {
		var first int
		switch order {
		case "calls":
			first = cmp.Compare(b.Calls, a.Calls)
		case "instructions":
			first = cmp.Compare(b.instructions(), a.instructions())
		case "loads":
			first = cmp.Compare(b.accesses().Loads, a.accesses().Loads)
		case "stores":
			first = cmp.Compare(b.accesses().Stores, a.accesses().Stores)
		case "size":
			first = cmp.Compare(b.Size, a.Size)
		case "time":
			first = cmp.Or(cmp.Compare(b.self(), a.self()), cmp.Compare(b.Calls, a.Calls))
		}
		return cmp.Or(first, strings.Compare(a.Name, b.Name), strings.Compare(a.Object, b.Object), cmp.Compare(a.Address, b.Address))
	})
}

// instructions is -1 where blocks are not counted.
func (f *Function) instructions() int64 {
	if f.Instructions == nil {
		return -1
	}
	return int64(*f.Instructions)
}

// accesses are none where they are not known.
func (f *Function) accesses() objcode.Accesses {
	if f.Accesses == nil {
		return objcode.Accesses{}
	}
	return *f.Accesses
}

// Top leaves the first n functions; 0 leaves all.
func (r *Report) Top(n int) {
	if n > 0 && n < len(r.Functions) {
		r.Functions = r.Functions[:n]
	}
}
