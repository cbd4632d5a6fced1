// Package ledger holds the words of the ledger: where a function was learnt
// of, how its entry was patched, and why it is not counted. Every other
// package uses these types, so that a reason has one spelling in the planner,
// the table, the command line and the metrics.
//
// The numbers are part of the table format (docs/table-format.md): append,
// never renumber.
package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// Source says which part of the ELF file told us of a function.
type Source uint8

// Sources, best name first: where several know an address, the lowest wins.
const (
	SourceNone      Source = iota
	SourceSymtab           // .symtab
	SourceDynsym           // .dynsym
	SourceEhFrame          // an FDE of .eh_frame
	SourceGopclntab        // the table of a Go runtime; it has names, and comes before .eh_frame
)

var sourceNames = [...]string{"none", "symtab", "dynsym", "eh_frame", "gopclntab"}

// Tactic is how an entry is patched (docs/architecture.md, "Tactics").
type Tactic uint8

// Tactics, cheapest first.
const (
	TacticNone      Tactic = iota // not patched; the ledger has a Reason
	TacticWholeBody               // the whole function runs in its stub
	TacticJump                    // 5-byte jump, displaced instructions, jump back
	TacticHop                     // 2-byte jump to an island that holds the 5-byte jump
	TacticPunned                  // jump whose displacement shares bytes with what follows
	TacticEvict                   // a neighbour is moved to make room
	TacticTrap                    // int3, only on request
)

var tacticNames = [...]string{"none", "whole-body", "jump", "hop", "punned", "evict", "trap"}

// Reason says why a function is not counted.
type Reason uint8

// Reasons for which a function is not counted.
const (
	ReasonNone              Reason = iota
	ReasonNotSelected              // --only, --skip or --objects left it out
	ReasonTooShort                 // no room for the jump, even with padding
	ReasonBranchIntoWindow         // some branch, or a goroutine that goes on, lands between the window's bytes
	ReasonEntryInWindow            // another function starts inside the window
	ReasonReturnInWindow           // a call in the window returns into the window
	ReasonEntryLoop                // a loop of its own comes back to the entry and cannot be led past the count
	ReasonUndecodable              // the bytes are not instructions we know, or its object has more jump tables than are read
	ReasonUnsupported              // an instruction that cannot be moved (xbegin, 16-bit branch)
	ReasonKernelSite               // the window holds a system call that is patched itself: one that makes threads or filters, or handles signals
	ReasonOutOfReach               // no arena within ±2 GiB of all it refers to
	ReasonNoMemory                 // the arena or the table is full
	ReasonBytesChanged             // memory is not what the planner read, or not what the file has
	ReasonProtected                // its text cannot be made writable
	ReasonNotMapped                // the address is not in an executable segment
	ReasonUsesGS                   // it came later and uses the GS segment, or came with such an object
	ReasonAliasedText              // its text is mapped executable a second time
	ReasonNoFile                   // the object's file cannot be read
	ReasonMayFault                 // its first instruction may fault, at an address that the Go runtime must know
	ReasonInsideInstruction        // it starts inside an instruction: the file is wrong about it
	ReasonRestartable              // its first instructions are part of a restartable sequence (rseq)
	ReasonDebugged                 // a debugger watches, and knows where its lines start
	ReasonSandboxed                // it came later, under a seccomp filter that may kill the planner
	ReasonNoPlanner                // it came later, and there was no planner: no memory, a process limit, or it died
	ReasonUnseen                   // it came later, and its code cannot be looked at: it may use the GS segment
	ReasonTextChanged              // it was counted until the program made its text writable
	ReasonAllocator                // it tells of blocks of memory that it hands out, or takes back
)

// Exclusions: the address is not a function at all, or one that must never be
// patched. It stands outside every percentage.
const (
	ReasonColdPart     Reason = 128 + iota // a cold or split part of another function
	ReasonPLT                              // procedure linkage table
	ReasonStart                            // the ELF entry point
	ReasonInitFini                         // _init, _fini
	ReasonSignalReturn                     // __restore_rt: unwinders recognise its bytes
	ReasonTrampoline                       // _dl_runtime_resolve*, _dl_tlsdesc*: own register conventions
	ReasonBreakpoint                       // it starts with int3: a trap handler looks at the address
)

var reasonNames = map[Reason]string{
	ReasonNone:              "",
	ReasonNotSelected:       "not-selected",
	ReasonTooShort:          "too-short",
	ReasonBranchIntoWindow:  "branch-into-window",
	ReasonEntryInWindow:     "entry-in-window",
	ReasonReturnInWindow:    "return-in-window",
	ReasonEntryLoop:         "entry-loop",
	ReasonUndecodable:       "undecodable",
	ReasonUnsupported:       "unsupported-instruction",
	ReasonKernelSite:        "kernel-site",
	ReasonOutOfReach:        "out-of-reach",
	ReasonNoMemory:          "no-memory",
	ReasonBytesChanged:      "bytes-changed",
	ReasonProtected:         "protected",
	ReasonNotMapped:         "not-mapped",
	ReasonUsesGS:            "uses-gs",
	ReasonAliasedText:       "aliased-text",
	ReasonNoFile:            "no-file",
	ReasonMayFault:          "may-fault",
	ReasonInsideInstruction: "inside-instruction",
	ReasonRestartable:       "restartable",
	ReasonDebugged:          "debugged",
	ReasonSandboxed:         "sandboxed",
	ReasonNoPlanner:         "no-planner",
	ReasonUnseen:            "unseen",
	ReasonTextChanged:       "text-changed",
	ReasonAllocator:         "allocator",
	ReasonColdPart:          "cold-part",
	ReasonPLT:               "plt",
	ReasonStart:             "start",
	ReasonInitFini:          "init-fini",
	ReasonSignalReturn:      "signal-return",
	ReasonTrampoline:        "trampoline",
	ReasonBreakpoint:        "breakpoint",
}

func (s Source) String() string { return name(sourceNames[:], s, "source") }
func (t Tactic) String() string { return name(tacticNames[:], t, "tactic") }

// String is the empty string for ReasonNone.
func (r Reason) String() string {
	if s, ok := reasonNames[r]; ok {
		return s
	}
	return fmt.Sprintf("reason-%d", uint8(r)) // a newer table
}

// Excluded reports whether r takes the address out of every percentage.
func (r Reason) Excluded() bool { return r >= ReasonColdPart }

// Reasons lists every known reason but ReasonNone, in number order.
func Reasons() []Reason {
	all := slices.Sorted(maps.Keys(reasonNames))
	return all[1:]
}

func name[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s-%d", kind, v) // a newer table
}
