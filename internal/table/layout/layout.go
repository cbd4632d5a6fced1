package layout

// The file layout, shared with the C shim and the generated code.
// docs/table-format.md is its description; layout_test.go pins every offset
// and keeps libdynprof/resident/base/layout.h, which is generated from these constants, in
// step. All integers are little-endian; offsets are bytes from the file's
// start unless they say otherwise.
const (
	Magic   = "DYNPROF\x01" // 8 bytes at offset 0
	Version = 1
	// VersionReset is what a table says once its counts have been reset: an older
	// reader refuses it, and does not show counts from before.
	VersionReset = 2
	// VersionBlocks is what a table says that counts blocks: rows have counters that are
	// of no function, and are no calls, and some are addresses.
	VersionBlocks = 4
	// VersionTrips is what a table says that counts the trips of loops: some of these
	// counters do not add up.
	VersionTrips = 5
	// VersionSites is what a table says that counts calls by their sites: as well, and
	// what it has counters of an older reader does not know.
	VersionSites = 6
	// VersionSwitched is what a table says that counts blocks of some calls: an older
	// reader would take their instructions for all.
	VersionSwitched = 7
	// VersionLate is what a table says once it has blocks of objects that came later: an
	// older reader knows one range of their counters only.
	VersionLate = 8
	// VersionLateSites is what a table says once it has call sites of objects that came
	// later, for the same reason.
	VersionLateSites = 9

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
	HdrRunID        = 0x068 // [16]byte, the same for all tables of one run; zero if none. Of hotspots run the last 4 bytes are its process number
	HdrThreshold    = 0x078 // u64, the default threshold; 0 is none
	HdrProgram      = 0x080 // u32, string: path of the executable
	HdrCreator      = 0x084 // u32, string: version of dynprof
	HdrObjects      = 0x088 // section
	HdrFunctions    = 0x0a0 // section
	HdrAliases      = 0x0b8 // section of u32: strings, each list ends with 0
	HdrStrings      = 0x0d0 // section of bytes: NUL-terminated, first byte NUL
	HdrEvents       = 0x0e8 // section
	HdrFired        = 0x100 // section of u32, one for each counter: Fired*
	HdrRows         = 0x118 // section: count is the most rows that may ever be
	HdrCounters     = 0x130 // u32, counters in use in every row
	HdrCountersCap  = 0x134 // u32, counters that a row has room for
	HdrRowsReserved = 0x138 // u32, rows whose room was reserved at creation
	HdrFormers      = 0x140 // section: owners that rows had before
	HdrBaselines    = 0x158 // section: counts to subtract; see HdrBaseline
	HdrSnapshot     = 0x170 // u64, ns since the epoch if the file is a copy that hotspots made
	HdrReserve      = 0x178 // u64, bytes of the reserve, if all processes keep it (run --control)
	HdrListen       = 0x180 // u32, string: address of the program's endpoint for metrics (run --listen)
	HdrArguments    = 0x184 // u32, string: the program's command line, with spaces between its words (run --args)
	HdrMissed       = 0x188 // section: objects that were loaded later and could not be planned
	HdrBlocks       = 0x1a0 // section: blocks of functions, in their order
	HdrBlocksFirst  = 0x1b8 // u32, the first counter that is a block's, or a call site's,
	HdrBlocksCount  = 0x1bc // u32, and how many follow each other there; those of objects that came later are behind their functions'
	HdrWays         = 0x1c0 // section: ways between these blocks, by function
	HdrLoops        = 0x1d8 // section: loops of these blocks, by function
	HdrSites        = 0x3e0 // section: direct calls of counted functions, by object, function and address

	// Live words, stored by the program's threads while it runs.
	HdrRowsUsed         = 0x200 // u32, atomic add: rows ever handed out
	HdrThreadsDiscarded = 0x204 // u32, atomic add: threads that had no room and are not counted
	HdrProcesses        = 0x208 // u32, atomic add: incarnation numbers handed out
	HdrPatchesRefused   = 0x20c // u32: functions whose bytes could not be patched
	HdrObjectsMissed    = 0x214 // u32, atomic add: how often an object was loaded later and could not be planned
	HdrGeneration       = 0x210 // u32, odd while objects and functions are being added
	HdrEventsHead       = 0x218 // u64, atomic add: events ever claimed
	HdrEventsLost       = 0x220 // u64, atomic add: events that found no room
	HdrFormersHead      = 0x228 // u64, atomic add: former owners ever noted, those without room too
	HdrBaseline         = 0x230 // u64, atomic: ticket << 8 | number of the baseline in force + 1; 0 is none
	HdrBaselineTickets  = 0x238 // u32, atomic add: resets ever begun
	HdrBaselinesTaken   = 0x23c // u32, atomic: a bit for each baseline that is in force or being written

	// Control, by whoever pauses; see docs/control.md.
	HdrPaused        = 0x280 // u32: 1 if stubs shall not count
	HdrPauseLock     = 0x284 // u32, thread that changes stubs; 0 is none
	HdrAgent         = 0x288 // u32, Agent*
	HdrAgentPid      = 0x28c // u32
	HdrRequest       = 0x290 // u32, futex: number << 8 | Request*
	HdrReply         = 0x298 // u64: the request that is done, a futex, and the result above
	HdrReserveUsed   = 0x2a0 // u64, bytes of the reserve that are arenas
	HdrObservingCost = 0x2a8 // u64, ns of CPU time that counting blocks took, by the agent's estimate,
	HdrObservingTime = 0x2b0 // u64, and of all CPU time that it has seen
	HdrOverhead      = 0x2b8 // u32, tenths of a percent of CPU time within which it chooses whose blocks are counted; 0: it does not
	HdrPauses        = 0x2bc // u32, atomic add: changes of HdrPaused, 2 each: odd while stubs are being changed
	HdrStockHead     = 0x2c0 // u64, stack of rows that are ready for use under a seccomp filter: tag << 32 | row + 1
	HdrStockRows     = 0x2c8 // u32, atomic: rows on that stack
	HdrRowsTaken     = 0x2cc // u32, atomic add: rows taken since somebody looked for rows of ended threads
	HdrStopped       = 0x2d0 // u32: 1 since the program took the GS segment while rows were found by it, or loaded what may take it: nothing counts any more
	HdrMissedHead    = 0x2d4 // u32, atomic add: entries of HdrMissed ever claimed, those without room too
	HdrAppender      = 0x2d8 // u32, robust futex: thread that adds objects
	HdrCollector     = 0x2dc // u32, row + 1 that the counts of loose rows are added to; 0: none
	HdrLoose         = 0x2e0 // u32, atomic: threads that count in loose rows, in their process's memory
	HdrDispatched    = 0x2e4 // u32, atomic add: processes that turned Syscall User Dispatch or another filter of addresses on, or replaced system calls that we must know of or memory of ours, and do not count any more
	HdrRowLists      = 0x300 // [16]u32, a list for each chunk of rows (0 and 1, 2^k to 2^(k+1)-1): row + 1 of those that have room
	HdrFreeRows      = 0x340 // [16]u64, a stack for each chunk: tag << 32 | row + 1 of those whose threads are gone
	HdrDropped       = 0x3c0 // u64, atomic add: events that the translator was not told of: its ring was full
	HdrDeferred      = 0x3c8 // u64, atomic add: events whose synchronous delivery came later, in another's turn

	HdrTranslatorFailures = 0x3d0 // u64, atomic add: times that a translator failed: it crashed, was gone, gave what was refused, or a plug-in did not start

	HdrExecuted = 0x3d8 // u32, atomic add: programs that processes have executed and that are not counted
	HdrWentOn   = 0x3dc // u32, atomic add: how often the program has gone on as another, which has a table of its own

	// Written by `hotspots run` when it has reaped the program.
	HdrEnded     = 0x240 // u32, Ended*
	HdrEndedCode = 0x244 // u32, exit status or signal number
	HdrEndedTime = 0x248 // u64, ns since the epoch
	// What it has seen of the program's executable memory that is of no object.
	HdrCodeAnonymous = 0x250 // u64, bytes of no file
	HdrCodeInFiles   = 0x258 // u64, bytes of files that the dynamic linker has not loaded
	// What the kernel has read and stored for it, by its /proc/PID/io when it had ended: that of read(2), write(2)
	// and their like, of children that were waited for, too. All 0: it could not be read.
	HdrReadBytes  = 0x3f8 // u64
	HdrReadCalls  = 0x400 // u64
	HdrWriteBytes = 0x408 // u64
	HdrWriteCalls = 0x410 // u64
	// What the kernel has moved between sockets and the memory of the program and of processes that it has
	// forked, added up by these at recvfrom(2), recvmsg(2), recvmmsg(2), sendto(2), sendmsg(2) and sendmmsg(2) of
	// objects with ObjTransfers. Calls are those that came back, failed ones too. Live words, as those above.
	HdrReceiveCalls  = 0x418 // u64, atomic add
	HdrReceiveBytes  = 0x420 // u64, atomic add
	HdrReceiveUntold = 0x428 // u64, atomic add: calls that moved something, and it is not known how much
	HdrSendCalls     = 0x430 // u64, atomic add
	HdrSendBytes     = 0x438 // u64, atomic add
	HdrSendUntold    = 0x440 // u64, atomic add
	// And when it has folded tables of short programs into this one.
	HdrFolded = 0x260 // section: their processes, this table's own among them

	// A section is {u64 offset; u32 count; u32 capacity; u32 entry size; u32 zero}.
	SecOffset    = 0  // u64, of its first entry in the file
	SecCount     = 8  // u32, entries that are there to read
	SecCapacity  = 12 // u32, entries that it has room for
	SecEntrySize = 16 // u32, bytes
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
	ObjReserve   = 48 // u64, offset of its arena in a reserve that is kept + 1; 0: not there
	ObjCode      = 56 // u32, bytes where functions may lie: sections of code; 0: not known
	ObjUntold    = 60 // u32, those of them in no function, without padding
	ObjSlots     = 64 // u32, index in each row of the first word of its slots
	ObjSets      = 68 // u32, how many sets of them it has: a power of two, or 0
	ObjCodes     = 72 // u32, number of the instruction where the page of ObjLow begins, by which pages say who has touched them last (hotspots run --heat=who),
	ObjCodeCount = 76 // u32, and how many follow each other, one for each byte; 0: they are not told
	ObjEntrySize = 80

	FirstCode = 1       // the first object's,
	MostCodes = 1 << 31 // and how many all have together: others have no number that is told

	// Tables of the first versions have shorter ones.
	LeastObjEntrySize = 48

	// Function entry.
	FnAddress   = 0  // u64, ELF virtual address
	FnSize      = 8  // u32, bytes
	FnName      = 12 // u32, string as in the ELF file; 0 is unnamed
	FnAliases   = 16 // u32, index of the first alias in the aliases section; 0 is none
	FnCounter   = 20 // u32, index of its counter in each row; NoCounter if none
	FnStub      = 24 // u32, offset of its stub from ObjArena
	FnThreshold = 28 // u32, calls at which it fires; 0 is never
	FnObject    = 32 // u16, index of its object
	FnStubSize  = 34 // u16, bytes; 65,535 for that and more
	FnSource    = 36 // u8, ledger.Source
	FnTactic    = 37 // u8, ledger.Tactic
	FnReason    = 38 // u8, ledger.Reason why it is not counted; of one that is, why its blocks are not
	FnCount     = 39 // u8, bytes of the count, which a paused stub begins with a jump over; 0: not known
	FnEntrySize = 40

	// What the shim stores as tactic and reason of a function that it could
	// not patch after all: ledger.TacticNone, ledger.ReasonBytesChanged.
	RefusedTactic = 0
	RefusedReason = 12

	// And of one whose text the program has taken back: ledger.ReasonTextChanged.
	ChangedReason = 25

	NoCounter = 0xffffffff

	// Event entry. Seq is stored release order behind what is above it: slot
	// number + 1. The outcome comes when the translator is done.
	EvSeq       = 0  // u64
	EvTime      = 8  // u64, CLOCK_MONOTONIC ns
	EvCount     = 16 // u64, calls by all rows when it fired
	EvCounter   = 24 // u32
	EvRow       = 28 // u32
	EvPid       = 32 // u32
	EvTid       = 36 // u32
	EvOutcome   = 40 // u32, Outcome*
	EvEntrySize = 48

	// Tables without outcomes have shorter ones.
	LeastEvEntrySize = 40

	// Former owner entry: what a row's owner had counted when the next one took
	// the row.
	FmFrom        = 0  // u64, calls of the whole row when it took the row
	FmTo          = 8  // u64, and when it had ended
	FmRow         = 16 // u32, number of the row + 1; stored last, release order
	FmPid         = 20 // u32
	FmTid         = 24 // u32
	FmIncarnation = 28 // u32, of its process
	FmEntrySize   = 32

	// Missed entry: an object that was loaded later and could not be planned. The
	// reason is stored last, release order.
	MsReason    = 0 // u32, ledger.Reason
	MsTimes     = 4 // u32, atomic add: how often
	MsPath      = 8 // [248]byte, as the dynamic linker has it, NUL-terminated; the end of a longer one
	MsPathSize  = 248
	MsEntrySize = 256

	// Folded entry: a process whose counts are in the table's only row. A table with that nonce
	// that is still there holds the same counts.
	FdNonce     = 0  // [16]byte, of the table that the process had
	FdTime      = 16 // u64, ns since the epoch when that was made
	FdCalls     = 24 // u64, of all functions
	FdPid       = 32 // u32
	FdThreads   = 36 // u32, rows that threads had when it ended
	FdEntrySize = 40

	// Block entry: instructions that run one after the other. It has run as often as its
	// counter says, if it has one, else as follows from its function's ways: what comes to
	// a block leaves it. Where a function has no ways its block has run as often as it was
	// called. To that comes how often the block has run that it stands behind, if it does:
	// what follows a call at its old place.
	BkAddress      = 0  // u64, ELF virtual address
	BkFunction     = 8  // u32, number of its function
	BkCounter      = 12 // u32, index in each row; NoCounter if none
	BkAfter        = 16 // u32, number of the block that it stands behind, a lesser one; NoBlock if none
	BkInstructions = 20 // u32
	BkSize         = 24 // u32, bytes
	BkFlags        = 28 // u32, Block*
	BkLoop         = 32 // u32, number of the innermost loop that it is in; NoLoop if none
	BkCallee       = 36 // u32, number + 1 of the function that its last instruction calls, or jumps to; 0 if that cannot be told; with BlockNote index in each row of the note of its callees
	BkEntrySize    = 40

	// Way entry: how control goes from a block to another of the function, or comes from
	// outside of them, or leaves them. It was taken as often as its counter says, if it
	// has one, or its function was called, if its flags say so; else that follows.
	WyFrom      = 0  // u32, number of a block; NoBlock: from outside
	WyTo        = 4  // u32, number of a block; NoBlock: it leads outside
	WyCounter   = 8  // u32, index in each row; NoCounter if none
	WyFlags     = 12 // u32, Way*
	WyEntrySize = 16

	WayCalls = 1 // it is taken as often as the function is called
	WayBack  = 2 // it leads back to the header of a loop
	WayEntry = 4 // it is where the function is entered

	// Loop entry: blocks that run in turn.
	LpHeader    = 0  // u32, number of the block that it is entered at
	LpParent    = 4  // u32, number of the loop around it, a lesser one; NoLoop if there is none
	LpFlags     = 8  // u32, Loop*
	LpTrips     = 12 // u32, index in each row of the first word of its trips; 0 if these are not counted
	LpEntrySize = 16

	NoLoop        = 0xffffffff
	LoopUntold    = 1 // ways back to its header cannot be told from others
	LoopFlagsLive = 2 // its trips are not counted: status flags are live where it goes round, or is left

	// Trips: words of a row for each loop. An execution of a loop is from where it is
	// entered to where it is left, its trips are how often its header has run in it. Those
	// that have ended are in buckets, of 1 trip, 2 and 3, 4 to 7, ..., and in the last one
	// that many and more.
	TrStack   = 0  // u64, stack pointer of the execution that the thread counts; 0: none
	TrRounds  = 8  // u64, its trips
	TrMost    = 16 // u64, trips of the longest that has ended
	TrLeast   = 24 // u64, complement of those of the shortest; 0: none has ended
	TrBuckets = 32 // [28]u64, executions that have ended
	TrSize    = 256
	TrWords   = TrSize / 8
	TrCount   = 28 // buckets

	// The shadow, in which it is noted what memory is touched: two bytes for each granule of so
	// many bits of address, and behind them two texts, of what is mapped at the start and at the
	// end. Granules have 1<<12 bytes, or as many as these.
	ShBits = 47
	ShText = 8 << 20

	// ShThreads is how many there are if threads are told apart, one behind the other: a row notes in
	// that of its number, of which the lowest byte counts.
	ShThreads = 256
	ShPage    = 12
	ShLine    = 6
	ShWord    = 3

	// Where it is told who has touched a page last, it has two u32 in place of the two bytes: the
	// number of the instruction that has read it, and of the one that has written it; 0: none.
	ShBy      = 8
	ShByWrote = 4

	// The file has a shadow for each of so many programs that run in the process one after the
	// other, each with what is behind it; and a page, in which it is counted how many are taken.
	ShImages = 64
	ShTable  = 8  // of a text, behind its length: the nonce of the count table,
	ShChars  = 24 // and what it says

	// Behind these, with hotspots run --regions, what records accesses (docs/regions.md): the
	// ring, which threads put records into and hotspots run takes them out of; where they
	// are made; all regions that there have been; and those that there are.
	RgHead   = 0x0      // u64, number of a record in front of which no place is free
	RgTail   = 0x40     // u64, of the next one that is taken
	RgBeats  = 0x48     // u64, grows while somebody takes them
	RgWaits  = 0x80     // u64, how often a thread has waited for room,
	RgWaited = 0x88     // u64, and nanoseconds that all have waited together
	RgLost   = 0x90     // u64, accesses that were not recorded, as nobody took records for long
	RgUntold = 0x98     // u64, that were not as there were too many instructions
	RgNext   = 0xa0     // u64, regions so far
	RgUsed   = 0xa8     // u64, of the live ones: how many entries were ever used
	RgEnded  = 0xb0     // u64, 1: nothing is recorded any more, for the same
	RgLow    = 0xc0     // u64, where regions are: who is below,
	RgHigh   = 0xc8     // u64, or above, may not be in one
	RgLeast  = 0xd0     // u64, what RgLow becomes
	RgForked = 0xd8     // u64, 1: there is a child that has copies of its own of blocks
	RgMade   = 0xe0     // u64, regions that have been made, wholly
	RgEdge   = 0xe8     // u64, where RgLow and RgHigh lead to: a sum with it has its sign of who may be in one
	RgUnmade = 0xf0     // u64, mappings of files that are no regions, as there were too many
	RgOff    = 0x100    // u64, why nothing is recorded now, or which kinds are not: Off*; 0: all is
	RgTurns  = 0x108    // u64, how often recording went on that the program, or the time, had switched off
	RgSeen   = 0x110    // u64, with which number of windows the last record was put
	RgFailed = 0x120    // u64, 1: what is taken cannot be written any more
	RgTick   = 0x140    // u64, the last time that was noted, by the time-stamp counter
	RgFrom   = 0x180    // two u64: the time-stamp counter at the start, and CLOCK_MONOTONIC then, ns
	RgUntil  = 0x190    // and later on; 0: there is none
	RgAudit  = 0xe00    // u64, 1: whoever makes or removes a region says so, by a system call
	RgSpare  = 0xf00    // bytes that only who traces the program writes to
	RgLive   = 0x1000   // regions that there are,
	RgAsked  = 0x3000   // allocation sites,
	RgLog    = 0x4000   // all that there have been,
	RgNames  = 0x210000 // of marks,
	RgDone   = 0x300000 // what has been taken of each region that there has been,
	RgSites  = 0x400000 // u64 each: what makes accesses, by a sum of it; 0: none
	RgRing   = 0x800000 // two u64 each: the records
	RgSize   = 0x900000

	RgLives   = 256
	RgAsks    = 64
	RgLogs    = 1 << 14
	RgSiteMax = 1 << 18
	RgRecords = 1 << 16
	RgNameMax = 1 << 12

	// Behind the texts, with hotspots run --allocs, blocks of malloc (docs/heat.md): who has asked for them,
	// those that there are, and the ring of those that were given back.
	AlLook     = 0x0    // u64, which look of hotspots run at it all is the last, from 1
	AlBrief    = 0x40   // u64, how many more that came since that, and are given back, may be put into the ring
	AlHead     = 0x80   // u64, number of a block in front of which no place of the ring is free
	AlTail     = 0xc0   // u64, of the next one that is taken
	AlLongest  = 0x100  // u64, the most places that one had to look at for a block
	AlUnled    = 0x140  // u64, libraries that came later of which a function could not be led to us
	AlChildren = 0x148  // u64, blocks that children asked for, which are not noted
	AlUntold   = 0x180  // u64, blocks that were given back and found no room in the ring,
	AlShort    = 0x1c0  // u64, and those that came since the last look, beyond AlBrief
	AlCallers  = 0x1000 // who has asked; the first is all for whom there was no room
	AlSlots    = 0x800000
	AlRing     = 0x2800000
	AlSize     = 0x3800000

	AlCallerMax = 1 << 16
	AlSlotMax   = 1 << 21
	AlRingMax   = 1 << 20
	AlBriefs    = 1 << 12 // between two looks

	// Who asks for blocks.
	CallerBack   = 0  // u64, the return address of who asks; 0: there is none
	CallerBlocks = 8  // u64, so far, and
	CallerBytes  = 16 // u64, their bytes
	CallerFreed  = 24 // u64, blocks that were given back, and
	CallerGone   = 32 // u64, their bytes
	CallerPeak   = 40 // u64, the most bytes at a time
	CallerUnheld = 48 // u64, blocks that found no place, or are too large
	CallerSize   = 64

	// A block is two words: its address in units of 8 bytes, who has asked for it, and what it is, in the ring how
	// often that had been filled, + 1; its size, and the look behind which it came.
	HeldUnit     = 3  // bits
	HeldCaller   = 44 // from this bit on
	HeldState    = 60
	HeldLook     = 36
	HeldLookBits = 28
	HeldTaken    = 2 // it is there; else 0: never, 1: not any more

	// Why nothing is recorded: kinds that are not, as of LiveKinds; the program has said so; a
	// thread has, of itself, once; it may be off, or has been, once: windows are told apart; it is not
	// the time for it.
	OffKinds   = 3
	OffProgram = 4
	OffThread  = 8
	OffTurns   = 16
	OffTime    = 32
	OffTimes   = 64 // this is none, but that times are noted

	// That system call, getpid with this as its first argument, which getpid does not look at;
	// with 1 behind it pages have to be open until the next one.
	RgAuditCall = 0x64796e70726f66

	// A region that there is; one that there was.
	LiveNumber = 0  // u64, of the region, from 1; 0: free; all bits: being made
	LiveLow    = 8  // u64
	LiveHigh   = 16 // u64
	LiveKinds  = 24 // u64, which accesses are recorded: 1 that read, 2 that write, or both
	LiveSize   = 32
	LogAddress = 0  // u64
	LogBytes   = 8  // u64, and from LogKinds on which are recorded
	LogKinds   = 62 // bit
	LogBegin   = 16 // u64, number of the record that was next when it was made, + 1; 0: it is not there yet
	LogEnd     = 24 // u64, when it was removed; 0: it was not
	LogName    = 32 // up to a 0
	LogSize    = 128

	// The name of a mark.
	NameSum  = 0  // u64, of its text; 0: there is none
	NameDone = 8  // u64, 1: the text is there
	NameText = 16 // up to a 0
	NameSize = 128

	// What has been taken of a region.
	DoneAccesses = 0  // u64
	DoneLoads    = 8  // u64, that read,
	DoneStores   = 16 // u64, and that write
	DoneBytes    = 24 // u64, of all
	DoneThreads  = 32 // u64, that have made them
	DoneFirst    = 40 // u64, number of the first, from 1, of all accesses
	DoneLast     = 48 // u64
	DoneSize     = 64

	// An allocation site, which is a region without an address: blocks that were asked for there.
	AskNumber = 0  // u64, of the region, stored last; 0: there is none
	AskBlocks = 8  // u64, so far, and
	AskBytes  = 16 // u64, their bytes
	AskFreed  = 24 // u64, blocks that are gone, or have moved
	AskPeak   = 32 // u64, the most bytes that a process had at a time,
	AskMost   = 40 // u64, and the most blocks
	AskUnheld = 48 // u64, blocks that nothing was noted of, as there were too many, or they were too large
	AskUnled  = 56 // u64, pieces of code that nothing was noted of, as there were too many, and functions of later libraries
	AskSize   = 64

	// A record: the address, and behind it how often the ring had been filled when it was put
	// there, + 1; the thread, then the number of the site, and of the region.
	RecAddressBits = 47
	RecTagBits     = 16
	RecThreadBits  = 22
	RecSiteBits    = 20

	// A record that is no access has its highest bit set. Then it is the thread; a value, whose
	// lower bits are where the address would be; an argument; and what it is.
	RecValueBits = 17
	RecArgBits   = 21
	RecEventBit  = 63
	RecMark      = 1 // the number of its name, its value
	RecWindow    = 2 // accesses from here on are of the window of that number
	RecTime      = 3 // they were made at this time or later, by the time-stamp counter

	// A site: where the instruction is, then what emit.Record says without its last bit.
	SiteAddressBits = 47

	NoBlock    = 0xffffffff
	BlockEntry = 1 // it is at the function's entry
	BlockNote  = 2 // it ends with a call by a pointer, or a jump, whose callees are noted

	// Site entry: a direct call, or a jump, of a function of its object. It was made as often
	// as its counter says, each time before its callee's counter counted it, too. If it has
	// none it is left as it was, and so not told from the callee's other calls.
	StAddress   = 0  // u64, ELF virtual address of the instruction
	StCaller    = 8  // u32, number of the function that it is in
	StCallee    = 12 // u32, number of the function that it leads to
	StCounter   = 16 // u32, index in each row; NoCounter if none
	StStub      = 20 // u32, offset of its stub from ObjArena
	StFlags     = 24 // u32, Site*
	StCount     = 28 // u32, bytes of the count, which a paused stub begins with a jump over
	StEntrySize = 32

	SiteTail = 1 // it is a jump

	// Note: two words of a row. Of each callee beyond the first there is a slot, in a set
	// that follows from its address and from the note.
	NtCallee = 0 // u64, run address of the callee that came first; 0: none has
	NtCalls  = 8 // u64, how often it was called
	NtSize   = 16
	NtWords  = NtSize / 8

	// Slot: four words of a row.
	SlCallee = 0  // u64, run address; 0: it is free. Stored behind SlNote
	SlNote   = 8  // u32, where the note is in a row, in bytes
	SlCalls  = 16 // u64
	SlSize   = 32
	SetSlots = 8 // in a set
	SetWords = SetSlots * SlSize / 8

	// Baseline entry. The counts are behind it, one u64 for each counter that a
	// row has room for, then one for each row.
	BlTime     = 0  // u64, ns since the epoch
	BlCounters = 8  // u32, how many of the counters' counts are in use,
	BlRows     = 12 // u32, and of the rows'
	BlCounts   = 64

	// Row: a header, then the counters (u64 each). The GS base of a thread
	// points at its row's header.
	RowState       = 0   // u32: generation << 2 | Row*; the generation grows when the row is taken
	RowKind        = 4   // u32, RowThread, RowProcess or RowShared
	RowPid         = 8   // u32
	RowTid         = 12  // u32; 0 until the parent has stored it
	RowOwner       = 16  // u32, incarnation number of the process that took it
	RowIndex       = 20  // u32, its own number
	RowBirth       = 24  // [17]u32, what the child needs at its first instructions (libdynprof/resident/rows/birth.h)
	RowTrapBlocked = 92  // u32, 1: the thread asked to have SIGTRAP blocked, and traps are allowed
	RowNextFree    = 96  // u32, link of the stack of free rows, or of the stock
	RowNext        = 100 // u32, link of the list of rows that have room
	RowIncarnation = 104 // u32, of a RowProcess row: incarnation number of the process that runs on it
	RowRoom        = 108 // u32, bytes from its start that have room on disk
	RowBase        = 112 // u64, calls of the whole row when its owner took it, or ManyOwners
	RowPidSpace    = 120 // u32, pid space in which RowTid is valid: inode of the pid namespace, or incarnation number of a process in it; 0 is not known
	RowSelf        = 96  // u64, where the discard row and loose rows are, which are on no list
	RowLivesIn     = 124 // u32, pid space in which the row's thread sees others
	RowCounters    = 128

	ManyOwners = 1<<64 - 1 // the owners of the row are not told apart

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
	FlagThreshold  = 1 << 1  // some function has a threshold
	FlagShared     = 1 << 2  // all threads and processes count into row 0, with locked instructions
	FlagLock       = 1 << 3  // because the user asked for it
	FlagTranslator = 1 << 4  // all stubs check a threshold and can send calls to other code
	FlagBlind      = 1 << 5  // objects that are loaded later are not seen: they might use the GS segment
	FlagWarm       = 1 << 6  // all objects had plans of earlier starts: no planner ran
	FlagTrips      = 1 << 7  // trips of loops are counted
	FlagSwitched   = 1 << 8  // blocks are counted of some calls: copies have switches,
	FlagHot        = 1 << 9  // which are turned on when functions reach their thresholds
	FlagBases      = 1 << 10 // memory by FS is noted, too, and by GS where threads share the counters
	FlagMemory     = 1 << 11 // it is noted what memory is touched,
	FlagRegions    = 1 << 12 // or accesses to regions are recorded
)

// What a function's fired word says.
const (
	FiredArmed = 0 // it fires when a row reaches its threshold,
	FiredDone  = 1 // has fired,
	FiredLap   = 2 // fires when its lap is over: it has been armed again,
	FiredNever = 3 // or has no threshold
)

// What became of an event.
const (
	OutcomeNone       = 0 // no translator was there
	OutcomeQueued     = 1 // the translator has not come to it yet
	OutcomeRunning    = 2 // it has been called and has not returned
	OutcomeReturned   = 3 // it returned and left the function as it is
	OutcomeRedirected = 4 // it sent the function's calls to other code
	OutcomeRestored   = 5 // or back
	OutcomeCrashed    = 6 // a fault in the translator, which is not called any more
	OutcomeDropped    = 7 // the ring was full
	OutcomeGone       = 8 // the translator's code was gone
	OutcomeRefused    = 9 // the translator wanted the calls redirected, and was refused: what it gave is no code, or the kernel forbids it
)

// Why the shim could not plan an object: numbers of package ledger.
const (
	MissedNoMemory  = 11
	MissedUsesGS    = 15
	MissedSandboxed = 22
	MissedNoPlanner = 23
	MissedUnseen    = 24
)

// How the program ended, as far as its runner knows; or that only its counting did.
const (
	EndedUnknown  = 0
	EndedExit     = 1
	EndedSignal   = 2
	EndedDetached = 3 // by hotspots detach: it ran on
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
	RowShared  = 2 // all threads and processes
)

// States of the agent, which does what is asked for from outside.
const (
	AgentNone  = 0 // the program was not started with run --control
	AgentReady = 1
	AgentGone  = 2 // all processes have ended
)

// What the agent can be asked to do.
const (
	RequestPause  = 1
	RequestResume = 2
)

// Object flags.
const (
	ObjMain      = 1 << 0 // the executable
	ObjSelected  = 1 << 1 // its functions are in the table
	ObjLate      = 1 << 2 // loaded by dlopen, maybe closed again
	ObjUsesGS    = 1 << 3 // it uses the GS segment itself
	ObjOldBirth  = 1 << 4 // it may make threads and processes by int $0x80
	ObjCached    = 1 << 5 // its plan is one of an earlier start
	ObjByCall    = 1 << 6 // there was no room for its blocks, or call sites: its functions are counted by call
	ObjGo        = 1 << 7 // blocks are counted, but its functions by call, as it has a Go runtime
	ObjTransfers = 1 << 8 // what its system calls move between sockets and memory is added up
)
