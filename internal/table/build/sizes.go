package build

//go:generate go test -run "^TestHeader$" -update .

// Sizes of a new table. Capacity costs nothing until it is used: the file is
// sparse. A start without a planner makes the same table: libdynprof/resident/base/tablesize.h
// is generated from these constants.
const (
	MaxFileSize  = 32 << 30 // apparent bytes
	MaxRows      = 65536
	MinRows      = 64 // asked for even where MaxFileSize is passed by it
	RowsReserved = 2  // rows with room on disk from the start

	MaxObjects = 1 << 16 // Function.Object is a u16

	MaxStrings = 1 << 30 // bytes of all names together
	// For objects that come later: Firefox's libxul has 274,000 functions, LLVM and
	// clang 178,000. A counter takes room in every row, of address space where
	// there is nothing else; where that is short, fewer will do.
	SpareFunctions      = 512 << 10
	SpareFunctionsShort = 128 << 10
	SpareStrings        = 64 << 20
	// And for their blocks, where these are counted: the counters are for 80,000 functions
	// of usual size.
	SpareBlocks        = 2 << 20
	SpareWays          = 3 << 20
	SpareLoops         = 256 << 10
	SpareBlockCounters = 1 << 20
	// Or for their call sites, each with a counter; cc1 has 7 a function.
	SpareSites   = 1 << 20
	BlocksShort  = 8 // so many times less where address space is short
	SpareEvents  = 256
	MoreEvents   = 4096 // with a threshold: of objects that come later
	MaxFormers   = 1024
	MaxMissed    = 64
	MaxBaselines = 4 // one in force, the others for those who are writing one
)
