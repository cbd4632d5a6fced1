package plancache

// The layout of a file with the plan of one object, shared with the C of the library:
// libdynprof/resident/base/plancache.h is generated from these constants. All integers
// are little-endian. Offsets are bytes from the file's start unless they say otherwise,
// addresses are link-time ones: those of the ELF file.
const (
	FileMagic   = "DYNPLAN\x01" // 8 bytes at offset 0
	FileVersion = 8

	// Header.
	PlanMagic      = 0x000 // [8]byte
	PlanVersion    = 0x008 // u32
	PlanHdrSize    = 0x00c // u32, PlanHeaderSize
	PlanCheck      = 0x010 // u64, XXH64 of the bytes behind it
	PlanFileSize   = 0x018 // u64
	PlanInode      = 0x020 // u64, of the object's file, as the next four
	PlanObjectSize = 0x028 // u64, bytes
	PlanMtime      = 0x030 // u64, ns
	PlanCtime      = 0x038 // u64, ns
	PlanHead       = 0x040 // u64, FNV-1a of the first HeadSize bytes
	PlanLow        = 0x048 // u64, address of its first mapped page
	PlanHigh       = 0x050 // u64, one past its last
	PlanArena      = 0x058 // u64, address of the arena; it may be below 0
	PlanArenaSize  = 0x060 // u64, whole pages; 0: there is none
	PlanCold       = 0x068 // u64, offset of the cold blocks in the arena
	PlanKeeps      = 0x070 // u64, and of the keep blocks
	PlanHook       = 0x078 // u64, address of the dynamic linker's function that is replaced; 0: it is not here
	PlanCounters   = 0x080 // u32, counters that its functions have
	PlanFlags      = 0x084 // u32, Obj* of the table
	PlanCode       = 0x088 // u32, bytes where functions may lie
	PlanUntold     = 0x08c // u32, those of them in no function
	PlanKey        = 0x090 // section of bytes: for what the plan was made
	PlanBuildID    = 0x0a0 // section of bytes
	PlanTexts      = 0x0b0 // section, in the order of their addresses
	PlanStubs      = 0x0c0 // section of bytes: the arena
	PlanFixups     = 0x0d0 // section, in the order of what they fix
	PlanRecords    = 0x0e0 // section: origins, as stubgen/emit has them
	PlanLengths    = 0x0f0 // section of bytes, theirs
	PlanByText     = 0x100 // section of u32: numbers of records, in the order of their text
	PlanIslands    = 0x110 // section, in the order of their addresses
	PlanListed     = 0x120 // section: changes of the first text, of the second, ...; as the next two: patcher/patch/undo.go
	PlanPatches    = 0x130 // section: what the first text's patches did, the second's, ...
	PlanLeds       = 0x140 // section: functions whose calls are led, of the first text, ...
	PlanFunctions  = 0x150 // section: entries as a table's, of object 0 and with counters from 0 on
	PlanAliases    = 0x160 // section of u32, as a table's
	PlanStrings    = 0x170 // section of bytes, as a table's
	PlanPath       = 0x180 // section of bytes: where the object was, for people
	PlanCreator    = 0x190 // section of bytes: who planned, for people
	PlanReason     = 0x1a0 // u32, ledger.Reason of the object
	PlanContent    = 0x1a8 // u64, ContentOf the object's file, if its times tell nothing; else 0
	PlanBlocks     = 0x1b0 // section: entries as a table's, of functions, blocks and loops of the object and with counters from 0 on
	PlanWays       = 0x1c0 // section, as well
	PlanLoops      = 0x1d0 // section, as well
	PlanOfBlocks   = 0x1e0 // u32, counters that its blocks and ways have, or its call sites, and words of notes and slots
	PlanSets       = 0x1e4 // u32, sets of slots, the last of these words; a power of two, or 0
	PlanSites      = 0x1f0 // section: entries as a table's, of functions of the object and with counters from 0 on
	PlanHeaderSize = 0x200

	// A section is {u64 offset; u32 count; u32 entry size}. It begins at a multiple of 16.
	PartOffset    = 0  // u64
	PartCount     = 8  // u32, entries
	PartEntrySize = 12 // u32, bytes
	PartSize      = 16

	// Text entry: a run of pages that is changed.
	TextStart     = 0  // u64, address
	TextSize      = 8  // u64, whole pages
	TextOffset    = 16 // u64, of the pages in the object's file
	TextProt      = 24 // u32, PROT_*
	TextListed    = 28 // u32, how many changes it has,
	TextPatches   = 32 // u32, how many of them are patches,
	TextLeds      = 36 // u32, and how many functions are called by the others
	TextEntrySize = 40

	// Entries of changes: a patch.Listed, an Overwritten and a Led. Functions have the
	// numbers that they have in their object.
	ListedEntrySize = 8
	PatchEntrySize  = 24
	LedEntrySize    = 12

	// Fixup entry: a word of the arena that depends on more than the object.
	FixAt        = 0 // u32, its offset in the arena
	FixKind      = 4 // u32, Fix*
	FixEntrySize = 8

	// Island entry.
	IslandAt        = 0 // u64, address
	IslandFrom      = 8 // u64, address of the branch that leads there
	IslandEntrySize = 16

	RecordEntrySize = 16

	HeadSize = 1024
)

// A copy of an object's file in which the text is changed as its plan says (package
// patcher/textcopy) has the same bytes at the same offsets, and behind its last page:
const (
	CopyMagic   = "DYNTEXT\x01" // 8 bytes
	CopyOf      = 0x8           // u64, PlanCheck of the plan
	CopyEndSize = 0x10
)

// Kinds of fixups: what the word is, or what is added to it.
const (
	FixCounter  = 0  // u32: 8 times the object's first counter is added,
	FixIndex    = 1  // u32: or the object's first counter,
	FixBlock    = 2  // u32: or 8 times the first of its blocks'
	FixCode     = 3  // u32: or the number of its first instruction
	FixSlow     = 4  // u64: address of the slow path of thresholds,
	FixKeeper   = 5  // of redirected calls,
	FixSite     = 6  // of kernel sites,
	FixChanged  = 7  // of what stands in for the dynamic linker's function,
	FixRecord   = 8  // of what records an access,
	FixTransfer = 9  // and of what is told of bytes that the kernel has moved
	FixReturn   = 10 // u64, an address in the object: its bias is added
)
