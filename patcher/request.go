package patcher

import (
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
)

// Request is what is to be planned, and what the plan has to do with. Addresses are
// run addresses.
type Request struct {
	Options Options
	Objects []target.Loaded // the executable first, unless they come later
	Entries Entries

	// LinkerHook is the dynamic linker's function that is called when its list of
	// objects has changed; 0: there is none.
	LinkerHook uint64
	Static     bool // there is no dynamic linker, or it is in the program itself
	Early      bool // nothing has run yet, nor is relocated

	// The reserve has ReserveSize bytes, of which the first are arenas already.
	ReserveSize, ReserveUsed uint64
	Keep                     bool // it stays: objects that come later use it, too

	Translator bool // calls can be sent to other code
	Traps      bool // SIGTRAP is handled since the start
	Shared     bool // all threads share the counters, whatever the objects need

	Late bool       // the objects come later, and
	Held place.Span // address space is taken for the arenas
	// Table is the table that is there then.
	Table func() (*build.Appender, error)

	// Cache has plans of earlier starts; nil: none are used, nor made for later ones.
	// Planner tells whose plans those may be: it is another where this one would plan
	// otherwise.
	// Creator is what tables say of who made them.
	// MostKept is how many bytes stubs of an object have at most that is planned for
	// later starts; 0: as many as there are.
	Cache    Cache
	Planner  []byte
	MostKept int
	Creator  string

	// Miss notes why object i of the list is not counted, Stop that a new object
	// may take the GS segment: nothing may count any more. Both are told at once,
	// whatever becomes of the plan.
	Miss func(i int, why ledger.Reason)
	Stop func()

	// Progress is told how much of the work is done, at any time and by any goroutine; nil: nobody asks.
	Progress func(percent uint32)
}

// Cache finds the file of a plan (internal/plancache) by the object's file and by what
// it was made for. It returns nil where there is none.
type Cache interface {
	Load(file target.Identity, key []byte) []byte
}

// Options are what a user chooses (docs/environment.md).
type Options struct {
	Objects     *symname.Objects // nil: the default choice
	Only, Skip  *symname.Names   // nil: all, none
	BlocksOf    *symname.Names   // whose blocks are counted, with setting.Blocks; nil: all
	Hot         bool             // blocks of a function are counted when it has reached its threshold
	Heat        bool             // it is noted which memory is touched, with setting.Blocks
	HeatByMasks bool             // by pext, with which the CPU is fast
	HeatThreads bool             // of each thread for itself
	HeatTells   bool             // and by which instruction
	Granule     byte             // with Heat: bits of an address within what is noted as one
	Bases       bool             // with Heat: of segments they can be read
	Regions     bool             // with Heat: instead accesses to regions are recorded
	Overhead    uint32           // tenths of a percent: the agent chooses whose blocks are counted, with setting.Control; 0: it does not
	Threshold   *symname.Thresholds
	On          setting.Switches
}

// Entries are where generated code leads to: the slow paths of thresholds, of
// redirected calls, of kernel sites, of signal sites and of accesses that are recorded,
// what stands in for the dynamic linker's function, what is told of blocks that are
// handed out and taken back, what takes the returns of signal handlers, and what is told of
// bytes that the kernel has moved; 0: nothing is, or does.
type Entries struct{ Cold, Keep, Site, Signal, Record, Changed, Allocator, Return, Transfer uint64 }

// decision is what holds for all that is planned together.
type decision struct {
	debugged     bool // a debugger watches
	traps        bool // SIGTRAP stays handled
	shared       bool // all threads share the counters
	blind        bool // objects that come later are not seen
	notes        bool // callees of calls by pointers are noted
	trips        bool // trips of loops are counted
	heat         bool // it is noted which memory is touched
	masks        bool // by pext
	threads      bool // of each thread for itself
	tells        bool // and by which instruction
	granule      byte // bits of an address within what is noted as one
	bases        bool // of segments can be read
	records      bool // instead accesses to regions are recorded
	switched     bool // blocks are counted of some calls: while their function is hot, or counting is not paused
	within       bool // within a bound: of functions that have no way back into their copies, which costs more than counting
	sites        bool // direct calls are counted by site
	redirectable bool // calls can be sent to other code: fronts count in a row of the thread's own
}
