// Package setting is the table of all that a user can choose: the flags of
// `hotspots run`, and the variables that they stand for, which the library reads.
// docs/environment.md says what they mean.
//
// A new switch is a row here, and `On[ID]` where it is used: the flag, its variable,
// what hotspots bisect passes on, and the first columns of docs/environment.md
// (go generate) come from the row.
package setting

//go:generate go test -run "^TestEnvironmentDoc$" -update .

// Kind says what the value of a setting is.
type Kind uint8

// Kinds.
const (
	Switch Kind = iota // on or off: a flag without value; in a variable all but 0 is on
	Text
	List // a flag that may be repeated; in a variable separated by ;
	Time // as time.ParseDuration reads it
)

// ID is the number of a setting. Those that are passed on are in this order in the
// program's environment.
type ID uint8

// The settings.
const (
	Output ID = iota
	Objects
	Only
	Skip
	Threshold
	FollowExec
	FollowSelf
	PerfMap
	Args
	Cache
	TextCopies
	Control
	AllowTraps
	KeepCalls
	Lock
	Blocks
	BlocksOf
	Edges
	Trips
	Heat
	Allocs
	Regions
	Region
	Overhead
	Translator
	Listen
	Linger
	Hotspots // the command that the library executes to listen
	RunID
	Strict    // the library ends a program that it cannot count, before main
	Note      // file that the library makes when it has said why it counts nothing
	Outside   // socket of hotspots run, which counts what loads no library, of what is executed
	Pad       // makes the number of our variables even
	Library   // not passed on
	Preloaded // what was put into LD_PRELOAD besides the library, so that it can take it out again

	Count
)

// Setting is a row of the table.
type Setting struct {
	Flag     string // of hotspots run, without dashes; empty if it has none
	Short    string // its letter, if it has one
	Variable string
	Kind     Kind
	Help     string // of the flag; `WORD` is its value
	Bisect   string // help of the same flag of hotspots bisect; empty if that has none
}

// All is the table. It is there before the Go runtime has started (package launch).
var All = [Count]Setting{
	Output: {"output", "o", "DYNPROF_OUTPUT", Text,
		"write the count table to `FILE` (default %e.%p.dynprof in $XDG_RUNTIME_DIR/dynprof or /tmp/dynprof-UID)", ""},
	Objects: {"objects", "", "DYNPROF_OBJECTS", Text,
		"count in the objects that match `GLOBS` (default: the executable and its libraries, without libc)",
		"look in the objects that match `GLOBS`, as for run (default: the executable and its libraries, without libc)"},
	Only: {"only", "", "DYNPROF_ONLY", Text,
		"count only functions with these `NAMES`",
		"look only at functions with these `NAMES`, as for run"},
	Skip: {"skip", "", "DYNPROF_SKIP", Text,
		"leave out functions with these `NAMES`",
		"leave out functions with these `NAMES`, as for run"},
	Threshold: {"threshold", "", "DYNPROF_THRESHOLD", List,
		"note when a function has been called `N` times; NAME=N: for functions of that name, with * and ?; may be repeated, and the last that matches counts; see hotspots events", ""},
	FollowExec: {"follow-exec", "", "DYNPROF_FOLLOW_EXEC", Switch,
		"count the programs that the program executes, too, each in its own table",
		"look in the programs that the program executes, too"},
	FollowSelf: {"follow-self", "", "DYNPROF_FOLLOW_SELF", Switch,
		"go on counting where the program executes another in its place, as wrappers and a shell's exec do: that has a table of its own, and is the one that is shown; --follow-self=false counts the first one only", ""},
	Args: {"args", "", "DYNPROF_ARGS", Switch,
		"keep the program's command line in the table, where it tells processes of one program apart; whoever may read the table sees it, passwords and all", ""},
	PerfMap: {"perf-map", "", "DYNPROF_PERF_MAP", Switch,
		"tell perf the names of the stubs: /tmp/perf-PID.map", ""},
	Cache: {"cache", "", "DYNPROF_CACHE", Switch,
		"keep what is found out about the program and its libraries, for later starts; --cache=false neither keeps nor uses it; see hotspots cache", ""},
	TextCopies: {"text-copies", "", "DYNPROF_TEXT_COPIES", Switch,
		"start large programs faster: keep copies of them with their text changed already, and map those; /proc/PID/maps has the names of the copies", ""},
	Control: {"control", "", "DYNPROF_CONTROL", Switch,
		"let hotspots pause and resume the counting: a process beside the program takes requests", ""},
	AllowTraps: {"allow-traps", "", "DYNPROF_ALLOW_TRAPS", Switch,
		"count by int3 what no jump finds room for, at some microseconds a call; see docs/stubs.md",
		"patch as hotspots run --allow-traps does"},
	KeepCalls: {"keep-calls", "", "DYNPROF_KEEP_CALLS", Switch,
		"leave calls as they are, which then go by way of the entry: slower, but breakpoints, uprobes and hooks that are set at an entry later see them",
		"patch as hotspots run --keep-calls does"},
	Lock: {"lock", "", "DYNPROF_LOCK", Switch,
		"count with lock, slower: for programs that take the GS segment after their start", ""},
	Blocks: {"blocks", "", "DYNPROF_BLOCKS", Switch,
		"count every block of every function, too, and so every instruction: functions run as copies with counters in them; --blocks=hot: of functions that have reached their threshold, from then on; --blocks='NAME*,...': of functions with such names, @FILE: with names of that file",
		"patch as hotspots run --blocks does"},
	BlocksOf: {"", "", "DYNPROF_BLOCKS_OF", Text, "", ""}, // the value of the flag of Blocks
	Edges: {"edges", "", "DYNPROF_EDGES", Switch,
		"count each direct call by where it is, too, so that hotspots calls knows callers and callees; with --blocks, whom calls by pointers reach",
		"patch as hotspots run --edges does"},
	Trips: {"trips", "", "DYNPROF_TRIPS", Switch,
		"count of each loop how many of its executions had so many trips, too, as hotspots loops shows it; with --blocks, which it implies",
		"patch as hotspots run --trips does"},
	Heat: {"heat", "", "DYNPROF_HEAT", Text,
		"note which of the `GRANULES` of memory are read and written, as hotspots heat shows them: lines of 64 bytes, --heat=pages, or --heat=bytes, eight at a time, --heat=threads: pages, and which threads touched each, or --heat=who: pages, and which function read and which wrote each last; with --blocks, which it implies", ""},
	Allocs: {"allocs", "", "DYNPROF_ALLOCS", Switch,
		"with --heat: note each block of malloc, too, and who has asked for it, as hotspots heat --objects shows them; see docs/heat.md", ""},
	Regions: {"regions", "", "DYNPROF_REGIONS", Switch,
		"record each access to memory that the program names by memtr.h or dynprof.h, as hotspots regions shows them; with --blocks, which it implies; see docs/regions.md", ""},
	Region: {"region", "", "DYNPROF_REGION", List,
		"record each access to memory: `WHAT` is a variable of the program, PATH:VARIABLE of a library, main:.bss or PATH:.SECTION, 0xADDRESS+BYTES, main or the name of a library, heap, stack, file:PATH, or malloc@FUNCTION, malloc@OBJECT+0xADDRESS for blocks that are asked for there; NAME=WHAT names it; may be repeated; implies --regions", ""},
	Overhead: {"overhead", "", "DYNPROF_OVERHEAD", Text,
		"count blocks of hot functions that call nothing, by turns, so that it takes no more than this `SHARE` of CPU time by estimate, as 5%; all else is counted by call; implies --blocks=hot and --control; see docs/blocks.md", ""},
	Translator: {"translator", "", "DYNPROF_TRANSLATOR", Text,
		"load `FILE.so` into the program: it is told of functions that reach their threshold and may send their calls to other code; -: a library that the program loads later will register one", ""},
	Listen: {"listen", "", "DYNPROF_LISTEN", Text,
		"serve the counts for Prometheus at this `ADDRESS` while the program runs: IP:PORT, PORT, unix:PATH; see docs/listen.md", ""},
	Linger: {"linger", "", "DYNPROF_LINGER", Time,
		"after the program's end wait this `time` for a last scrape", ""},
	Hotspots: {"", "", "DYNPROF_HOTSPOTS", Text, "", ""},
	RunID:    {"", "", "DYNPROF_RUN_ID", Text, "", ""},
	Strict: {"strict", "", "DYNPROF_STRICT", Switch,
		"do not run a program that cannot be counted, and fail where a name of --objects, --only, --skip, --threshold matches nothing", ""},
	Note:    {"", "", "DYNPROF_NOTE", Text, "", ""},
	Outside: {"", "", "DYNPROF_OUTSIDE", Text, "", ""},
	Pad:     {"", "", "DYNPROF_PAD", Text, "", ""},
	Library: {"library", "", "DYNPROF_LIBRARY", Text,
		"preload this libdynprof.so (`FILE`) instead of the one that hotspots carries",
		"preload this libdynprof.so (`FILE`) instead of the one that hotspots carries"},
	Preloaded: {"", "", "DYNPROF_PRELOADED", Text, "", ""},
}

// BlocksHot is the value of BlocksOf that is no name: blocks of a function are counted when it
// has reached its threshold.
const BlocksHot = "hot"

// HeatUsual is the value of Heat where the flag has none.
const HeatUsual = "lines"

// OfVariable finds the setting that a variable stands for.
func OfVariable(name string) (id ID, known bool) {
	for i := range All {
		if All[i].Variable == name {
			return ID(i), true
		}
	}
	return 0, false
}

// IsSwitch reports whether a flag needs no value: what comes behind it is not one.
func IsSwitch(flag string) bool {
	for id := range Count {
		if (All[id].Kind == Switch || id == Heat) && All[id].Flag == flag {
			return true
		}
	}
	return false
}

// IsOn is what a switch's variable says. An empty one is as good as none.
func IsOn(value string) bool { return value != "" && value != "0" }

// Switches says of each switch whether it is on.
type Switches [Count]bool

// Usual are those that are on in hotspots run unless the user says otherwise.
var Usual = Switches{Cache: true, FollowSelf: true}

// Values adds the variables of those switches for which passed is true to values: 1; 0 if
// it is not as usual; or empty.
func (s *Switches) Values(values map[ID]string, passed func(*Setting) bool) {
	for i := range All {
		if All[i].Kind != Switch || !passed(&All[i]) {
			continue
		}
		switch {
		case s[i]:
			values[ID(i)] = "1"
		case Usual[i]:
			values[ID(i)] = "0"
		default:
			values[ID(i)] = ""
		}
	}
}

// Flags are the flags of those that are on, as a user writes them.
func (s *Switches) Flags() (flags []string) {
	for i := range All {
		if s[i] {
			flags = append(flags, "--"+All[i].Flag)
		}
	}
	return flags
}
