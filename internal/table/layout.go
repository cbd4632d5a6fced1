package table

// The file layout, shared with the C shim and the generated code.
// docs/table-format.md is its description; layout_test.go pins every offset
// and keeps libdynprof/layout.h, which is generated from these constants, in
// step. All integers are little-endian; offsets are bytes from the file's
// start unless they say otherwise.
const (
	Magic   = "DYNPROF\x01" // 8 bytes at offset 0
	Version = 1

	PageSize   = 4096
	HeaderSize = PageSize

	// Fixed part of the header. Written by the planner before State.
	HdrMagic        = 0x000 // [8]byte
	HdrVersion      = 0x008 // u32
	HdrHeaderSize   = 0x00c // u32
	HdrFileSize     = 0x010 // u64, apparent size (the file is sparse)
	HdrNonce        = 0x018 // [16]byte, random; the shim checks it when it maps the file
	HdrState        = 0x028 // u32, State*; stored last, release order
	HdrFlags        = 0x02c // u32, Flag*
	HdrPid          = 0x030 // u32, as the program saw itself
	HdrUID          = 0x034 // u32
	HdrStartTicks   = 0x038 // u64, field 22 of /proc/PID/stat
	HdrBootID       = 0x040 // [16]byte
	HdrPidNS        = 0x050 // u64, inode of the pid namespace
	HdrRealtime     = 0x058 // u64, ns since the epoch at creation
	HdrMonotonic    = 0x060 // u64, CLOCK_MONOTONIC ns at the same moment
	HdrRunID        = 0x068 // [16]byte, the same for all tables of one run; zero if none
	HdrThreshold    = 0x078 // u64, the default threshold; 0 is none
	HdrProgram      = 0x080 // u32, string: path of the executable
	HdrCreator      = 0x084 // u32, string: version of dynprof
	HdrObjects      = 0x088 // section
	HdrFunctions    = 0x0a0 // section
	HdrAliases      = 0x0b8 // section of u32: strings, each list ends with 0
	HdrStrings      = 0x0d0 // section of bytes: NUL-terminated, first byte NUL
	HdrEvents       = 0x0e8 // section
	HdrFired        = 0x100 // section of u32, one for each counter: 0 armed, 1 fired
	HdrRows         = 0x118 // section: count is the most rows that may ever be
	HdrCounters     = 0x130 // u32, counters in use in every row
	HdrCountersCap  = 0x134 // u32, counters that a row has room for
	HdrRowsReserved = 0x138 // u32, rows whose room was reserved at creation

	// Live words, stored by the program's threads while it runs.
	HdrRowsUsed         = 0x200 // u32, atomic add: rows ever handed out
	HdrThreadsDiscarded = 0x204 // u32, atomic add: threads that had no room and are not counted
	HdrProcesses        = 0x208 // u32, atomic add: incarnation numbers handed out
	HdrPatchesRefused   = 0x20c // u32: functions whose bytes could not be patched
	HdrObjectsMissed    = 0x214 // u32, atomic add: objects that were loaded later and could not be planned
	HdrGeneration       = 0x210 // u32, odd while objects and functions are being added
	HdrEventsHead       = 0x218 // u64, atomic add: events ever claimed
	HdrEventsLost       = 0x220 // u64, atomic add: events that found no room

	// Written by `hotspots run` when it has reaped the program.
	HdrEnded     = 0x240 // u32, Ended*
	HdrEndedCode = 0x244 // u32, exit status or signal number
	HdrEndedTime = 0x248 // u64, ns since the epoch

	// A section is {u64 offset; u32 count; u32 capacity; u32 entry size; u32 zero}.
	SecOffset    = 0
	SecCount     = 8
	SecCapacity  = 12
	SecEntrySize = 16
	SectionSize  = 24

	// Object entry.
	ObjPath      = 0  // u32, string
	ObjBuildID   = 4  // u32, string of hex digits
	ObjBias      = 8  // u64, run address minus ELF virtual address
	ObjArena     = 16 // u64, run address that FnStub counts from
	ObjLow       = 24 // u64, lowest mapped run address
	ObjHigh      = 32 // u64, one past the highest
	ObjFlags     = 40 // u32, Obj*
	ObjReason    = 44 // u8, ledger.Reason if the object was left out as a whole
	ObjEntrySize = 48

	// Function entry.
	FnAddress   = 0  // u64, ELF virtual address
	FnSize      = 8  // u32, bytes
	FnName      = 12 // u32, string as in the ELF file; 0 is unnamed
	FnAliases   = 16 // u32, index of the first alias in the aliases section; 0 is none
	FnCounter   = 20 // u32, index of its counter in each row; NoCounter if none
	FnStub      = 24 // u32, offset of its stub from ObjArena
	FnThreshold = 28 // u32, calls at which it fires; 0 is never
	FnObject    = 32 // u16, index of its object
	FnStubSize  = 34 // u16, bytes
	FnSource    = 36 // u8, ledger.Source
	FnTactic    = 37 // u8, ledger.Tactic
	FnReason    = 38 // u8, ledger.Reason
	FnFlags     = 39 // u8, zero
	FnEntrySize = 40

	// What the shim stores as tactic and reason of a function that it could
	// not patch after all: ledger.TacticNone, ledger.ReasonBytesChanged.
	RefusedTactic = 0
	RefusedReason = 12

	NoCounter = 0xffffffff

	// Event entry. Seq is stored last, release order: slot number + 1.
	EvSeq       = 0  // u64
	EvTime      = 8  // u64, CLOCK_MONOTONIC ns
	EvCount     = 16 // u64, calls by all rows when it fired
	EvCounter   = 24 // u32
	EvRow       = 28 // u32
	EvPid       = 32 // u32
	EvTid       = 36 // u32
	EvEntrySize = 40

	// Row: a header, then the counters (u64 each). The GS base of a thread
	// points at its row's header.
	RowState       = 0   // u32: generation << 2 | Row*; the generation grows when the row is taken
	RowKind        = 4   // u32, RowThread or RowProcess
	RowPid         = 8   // u32
	RowTid         = 12  // u32; 0 until the parent has stored it
	RowOwner       = 16  // u32, incarnation number of the process that took it, and may take it again
	RowIndex       = 20  // u32, its own number
	RowBirth       = 24  // [9]u64, what the child needs at its first instructions (libdynprof/birth.h)
	RowNextFree    = 96  // u32, link of the owner's stack of free rows
	RowNextOwned   = 100 // u32, link of the owner's list of rows
	RowIncarnation = 104 // u32, of a RowProcess row: incarnation number of the process that runs on it
	RowCounters    = 128

	// A counter's top bit says that this row has taken the cold path for the
	// present arming; the calls are the lower 63 bits.
	CounterFired = 1 << 63
)

// States of a table.
const (
	StateBuilding = 0 // the planner is at work, or died at it
	StateLive     = 1 // complete: counters may move at any time
)

// Header flags.
const (
	FlagFollowExec = 1 << 0
	FlagThreshold  = 1 << 1 // some function has a threshold
)

// How the program ended, as far as its runner knows.
const (
	EndedUnknown = 0
	EndedExit    = 1
	EndedSignal  = 2
)

// States of a row: the low two bits of RowState.
const (
	RowStateMask = 3

	RowNever    = 0
	RowBirthing = 1 // taken by a parent, its thread not made yet
	RowLive     = 2
	RowFree     = 3 // its thread is gone; the counts stay
)

// Kinds of row.
const (
	RowThread  = 0 // a thread of the process that took the row
	RowProcess = 1 // the first thread of a forked process
)

// Object flags.
const (
	ObjMain     = 1 << 0 // the executable
	ObjSelected = 1 << 1 // its functions are in the table
	ObjLate     = 1 << 2 // loaded by dlopen, maybe closed again
)
