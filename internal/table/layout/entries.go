package layout

import (
	"time"

	"github.com/dynprof/dynprof/internal/ledger"
)

// Object is one mapped ELF file of the program.
type Object struct {
	Path    string // resolved path, or a name like [vdso]
	BuildID string // hex digits; empty if it has none
	Bias    uint64 // run address minus ELF virtual address
	Arena   uint64 // run address that Function.Stub counts from
	Low     uint64 // lowest mapped run address
	High    uint64 // one past the highest
	Flags   uint32 // Obj*
	Reason  ledger.Reason
	Reserve uint64 // offset of its arena in the reserve that is kept + 1; 0: not there
	Code    uint32 // bytes where functions may lie; 0: not known
	Untold  uint32 // those of them in no function, without padding
	Slots   uint32 // index in each row of the first word of its slots
	Sets    uint32 // of them; 0: there are none

	Codes     uint32 // number of the instruction at CodesAt of Low, if it is told which ones touch memory,
	CodeCount uint32 // and how many follow it
}

// CodesAt is where the first instruction with a number is, in an object that lies from there on.
func CodesAt(low uint64) uint64 { return low &^ (PageSize - 1) }

// Function is one entry of the ledger.
type Function struct {
	Address   uint64   // ELF virtual address
	Size      uint32   // bytes
	Name      string   // as in the ELF file; empty if it has none
	Aliases   []string // other names of the same address
	Counter   uint32   // index in each row, or NoCounter
	Stub      uint32   // offset of its stub from Object.Arena
	Threshold uint32   // calls at which it fires; 0 is never
	Object    uint16   // index in Objects
	StubSize  uint16   // bytes
	Source    ledger.Source
	Tactic    ledger.Tactic
	Reason    ledger.Reason
	Blocks    ledger.Reason // why its blocks are not counted, where those of others are and it is counted itself
	Count     uint8         // bytes of the count at the stub's beginning
}

// Block is instructions of a function that run one after the other.
type Block struct {
	Address      uint64 // ELF virtual address
	Function     uint32 // index in Functions
	Counter      uint32 // index in each row, or NoCounter
	After        uint32 // number of the block that it runs behind, besides, or NoBlock
	Instructions uint32
	Size         uint32 // bytes
	Flags        uint32 // Block*
	Loop         uint32 // number of the innermost loop that it is in, or NoLoop
	Callee       uint32 // index in Functions + 1, of the one that its last instruction calls or jumps to; 0: not told; with BlockNote index in each row of a note
}

// Way is how control goes from a block to another, comes to one, or leaves one.
type Way struct {
	From, To uint32 // numbers of blocks, or NoBlock
	Counter  uint32 // index in each row, or NoCounter
	Flags    uint32 // Way*
}

// Loop is blocks that run in turn.
type Loop struct {
	Header uint32 // number of a block
	Parent uint32 // number of the loop around it, or NoLoop
	Flags  uint32 // Loop*
	Trips  uint32 // index in each row of the first word of its trips; 0: they are not counted
}

// Folded is a process whose table was folded into another.
type Folded struct {
	Nonce   [16]byte  // of the table that it had
	Time    time.Time // when that was made
	Calls   uint64    // of all functions
	Pid     uint32
	Threads uint32 // that it had when it ended
}

// Encode stores all of d in an entry.
func (d *Folded) Encode(b []byte) {
	copy(b[FdNonce:], d.Nonce[:])
	le.PutUint64(b[FdTime:], uint64(d.Time.UnixNano()))
	le.PutUint64(b[FdCalls:], d.Calls)
	le.PutUint32(b[FdPid:], d.Pid)
	le.PutUint32(b[FdThreads:], d.Threads)
}

// DecodeFolded decodes an entry.
func DecodeFolded(b []byte) Folded {
	return Folded{
		Nonce:   [16]byte(b[FdNonce:]),
		Time:    time.Unix(0, int64(le.Uint64(b[FdTime:]))),
		Calls:   le.Uint64(b[FdCalls:]),
		Pid:     le.Uint32(b[FdPid:]),
		Threads: le.Uint32(b[FdThreads:]),
	}
}

// Site is a direct call, or a jump, to a function of the same object.
type Site struct {
	Address        uint64 // ELF virtual address
	Caller, Callee uint32 // index in Functions
	Counter        uint32 // index in each row, or NoCounter
	Stub           uint32 // offset of its stub from Object.Arena, if it has a counter
	Flags          uint32 // Site*
	Count          uint32 // bytes of the count at the stub's beginning
}

// Encode stores all of s in an entry.
func (s *Site) Encode(b []byte) {
	le.PutUint64(b[StAddress:], s.Address)
	le.PutUint32(b[StCaller:], s.Caller)
	le.PutUint32(b[StCallee:], s.Callee)
	le.PutUint32(b[StCounter:], s.Counter)
	le.PutUint32(b[StStub:], s.Stub)
	le.PutUint32(b[StFlags:], s.Flags)
	le.PutUint32(b[StCount:], s.Count)
}

// DecodeSite decodes an entry.
func DecodeSite(b []byte) Site {
	return Site{
		Address: le.Uint64(b[StAddress:]), Caller: le.Uint32(b[StCaller:]), Callee: le.Uint32(b[StCallee:]),
		Counter: le.Uint32(b[StCounter:]), Stub: le.Uint32(b[StStub:]), Flags: le.Uint32(b[StFlags:]), Count: le.Uint32(b[StCount:]),
	}
}

// Encode stores all of k in an entry.
func (k *Block) Encode(b []byte) {
	le.PutUint64(b[BkAddress:], k.Address)
	le.PutUint32(b[BkFunction:], k.Function)
	le.PutUint32(b[BkCounter:], k.Counter)
	le.PutUint32(b[BkAfter:], k.After)
	le.PutUint32(b[BkInstructions:], k.Instructions)
	le.PutUint32(b[BkSize:], k.Size)
	le.PutUint32(b[BkFlags:], k.Flags)
	le.PutUint32(b[BkLoop:], k.Loop)
	le.PutUint32(b[BkCallee:], k.Callee)
}

// Encode stores all of w in an entry.
func (w *Way) Encode(b []byte) {
	le.PutUint32(b[WyFrom:], w.From)
	le.PutUint32(b[WyTo:], w.To)
	le.PutUint32(b[WyCounter:], w.Counter)
	le.PutUint32(b[WyFlags:], w.Flags)
}

// Block is a block that the way is of: of the same function are both.
func (w *Way) Block() uint32 {
	if w.From != NoBlock {
		return w.From
	}
	return w.To
}

// DecodeWay decodes an entry.
func DecodeWay(b []byte) Way {
	return Way{le.Uint32(b[WyFrom:]), le.Uint32(b[WyTo:]), le.Uint32(b[WyCounter:]), le.Uint32(b[WyFlags:])}
}

// Encode stores all of l in an entry.
func (l *Loop) Encode(b []byte) {
	le.PutUint32(b[LpHeader:], l.Header)
	le.PutUint32(b[LpParent:], l.Parent)
	le.PutUint32(b[LpFlags:], l.Flags)
	le.PutUint32(b[LpTrips:], l.Trips)
}

// DecodeLoop decodes an entry.
func DecodeLoop(b []byte) Loop {
	return Loop{le.Uint32(b[LpHeader:]), le.Uint32(b[LpParent:]), le.Uint32(b[LpFlags:]), le.Uint32(b[LpTrips:])}
}

// DecodeBlock decodes an entry.
func DecodeBlock(b []byte) Block {
	return Block{
		Address:      le.Uint64(b[BkAddress:]),
		Function:     le.Uint32(b[BkFunction:]),
		Counter:      le.Uint32(b[BkCounter:]),
		After:        le.Uint32(b[BkAfter:]),
		Instructions: le.Uint32(b[BkInstructions:]),
		Size:         le.Uint32(b[BkSize:]),
		Flags:        le.Uint32(b[BkFlags:]),
		Loop:         le.Uint32(b[BkLoop:]),
		Callee:       le.Uint32(b[BkCallee:]),
	}
}

// Counted reports whether calls of f are counted.
func (f *Function) Counted() bool {
	return f.Tactic != ledger.TacticNone && f.Counter != NoCounter
}

// Identity says which process a table belongs to, so that a later process
// with the same number is not taken for it.
type Identity struct {
	Pid        uint32 // as the program saw itself
	UID        uint32
	StartTicks uint64 // field 22 of /proc/PID/stat (proc(5))
	BootID     [16]byte
	PidNS      uint64    // inode of the pid namespace
	Realtime   time.Time // when the table was made
	Monotonic  uint64    // CLOCK_MONOTONIC ns at the same moment
}

// Ended says how a program ended, as its runner saw it.
type Ended struct {
	Kind uint32 // EndedUnknown, EndedExit, EndedSignal, EndedDetached
	Code uint32 // exit status or signal number
	Time time.Time

	Transfers Transfers // in its life
}

// Header is what a table says about its program.
type Header struct {
	Identity
	Nonce     [16]byte // random, to tell two files of one name apart
	RunID     [16]byte
	State     uint32 // StateBuilding, StateLive
	Flags     uint32
	Threshold uint64
	Program   string
	Creator   string
	Listen    string // address of the endpoint for metrics; empty if there is none
	Arguments string // the program's command line; empty unless the user wanted it to be kept
	Ended     Ended
	Snapshot  time.Time // when the copy was made, if it is one
	Overhead  uint32    // HdrOverhead
	WentOn    uint32    // how often the program has gone on as another, by exec, that has a table of its own
	Unlisted  Unlisted  // as far as hotspots run has seen some
	Transfers Transfers // all 0: not known
	Sockets   Sockets
}

// Runner is the process number that hotspots run had, if it started the program; else any.
func (h *Header) Runner() uint32 { return le.Uint32(h.RunID[len(h.RunID)-4:]) }

// Transfers is what the kernel has read of files, pipes and the like into a program's memory, and written
// of that, by system calls read(2), write(2) and their like.
type Transfers struct {
	Read       uint64 // bytes
	ReadCalls  uint64
	Written    uint64 // bytes
	WriteCalls uint64
}

// Sockets is what the kernel has moved by recv(2), send(2) and theirs, as far as objects with
// ObjTransfers have asked for it.
type Sockets struct{ Received, Sent Moves }

// Moves is what system calls of one kind have moved.
type Moves struct {
	Calls  uint64 // that came back
	Bytes  uint64
	Untold uint64 // calls of which Bytes has nothing: it is not known how much they moved
}

// Unlisted is executable memory of a process that is of no object in its table,
// bytes: what compilers and interpreters have made while it ran, or have loaded
// by themselves. Nobody tells where functions are there.
type Unlisted struct {
	Anonymous uint64 // memory of no file
	Files     uint64 // of files that the dynamic linker has not loaded
}

// Encode stores all of o in an entry; its strings are those at path and buildID.
func (o *Object) Encode(b []byte, path, buildID uint32) {
	le.PutUint32(b[ObjPath:], path)
	le.PutUint32(b[ObjBuildID:], buildID)
	le.PutUint64(b[ObjBias:], o.Bias)
	le.PutUint64(b[ObjArena:], o.Arena)
	le.PutUint64(b[ObjLow:], o.Low)
	le.PutUint64(b[ObjHigh:], o.High)
	le.PutUint32(b[ObjFlags:], o.Flags)
	b[ObjReason] = uint8(o.Reason)
	le.PutUint64(b[ObjReserve:], o.Reserve)
	le.PutUint32(b[ObjCode:], o.Code)
	le.PutUint32(b[ObjUntold:], o.Untold)
	le.PutUint32(b[ObjSlots:], o.Slots)
	le.PutUint32(b[ObjSets:], o.Sets)
	le.PutUint32(b[ObjCodes:], o.Codes)
	le.PutUint32(b[ObjCodeCount:], o.CodeCount)
}

// DecodeObject decodes all but the strings of an entry.
func DecodeObject(b []byte) Object {
	o := Object{
		Bias:   le.Uint64(b[ObjBias:]),
		Arena:  le.Uint64(b[ObjArena:]),
		Low:    le.Uint64(b[ObjLow:]),
		High:   le.Uint64(b[ObjHigh:]),
		Flags:  le.Uint32(b[ObjFlags:]),
		Reason: ledger.Reason(b[ObjReason]),
	}
	if len(b) >= ObjCode {
		o.Reserve = le.Uint64(b[ObjReserve:])
	}
	if len(b) >= ObjSlots {
		o.Code, o.Untold = le.Uint32(b[ObjCode:]), le.Uint32(b[ObjUntold:])
	}
	if len(b) >= ObjCodes {
		o.Slots, o.Sets = le.Uint32(b[ObjSlots:]), le.Uint32(b[ObjSets:])
	}
	if len(b) >= ObjEntrySize {
		o.Codes, o.CodeCount = le.Uint32(b[ObjCodes:]), le.Uint32(b[ObjCodeCount:])
	}
	return o
}

// Encode stores all of f in an entry; its strings are those at name, and those
// of the list at aliases.
func (f *Function) Encode(b []byte, name, aliases uint32) {
	le.PutUint64(b[FnAddress:], f.Address)
	le.PutUint32(b[FnSize:], f.Size)
	le.PutUint32(b[FnName:], name)
	le.PutUint32(b[FnAliases:], aliases)
	le.PutUint32(b[FnCounter:], f.Counter)
	le.PutUint32(b[FnStub:], f.Stub)
	le.PutUint32(b[FnThreshold:], f.Threshold)
	le.PutUint16(b[FnObject:], f.Object)
	le.PutUint16(b[FnStubSize:], f.StubSize)
	b[FnSource] = uint8(f.Source)
	b[FnTactic] = uint8(f.Tactic)
	b[FnReason] = uint8(f.Reason)
	if f.Tactic != ledger.TacticNone && f.Reason == ledger.ReasonNone {
		b[FnReason] = uint8(f.Blocks)
	}
	b[FnCount] = f.Count
}

// DecodeFunction decodes all but the strings of an entry.
func DecodeFunction(b []byte) Function {
	f := Function{
		Address:   le.Uint64(b[FnAddress:]),
		Size:      le.Uint32(b[FnSize:]),
		Counter:   le.Uint32(b[FnCounter:]),
		Stub:      le.Uint32(b[FnStub:]),
		Threshold: le.Uint32(b[FnThreshold:]),
		Object:    le.Uint16(b[FnObject:]),
		StubSize:  le.Uint16(b[FnStubSize:]),
		Source:    ledger.Source(b[FnSource]),
		Tactic:    ledger.Tactic(b[FnTactic]),
		Reason:    ledger.Reason(b[FnReason]),
		Count:     b[FnCount],
	}
	if f.Tactic != ledger.TacticNone && f.Reason != ledger.ReasonTextChanged {
		f.Reason, f.Blocks = ledger.ReasonNone, f.Reason
	}
	return f
}

// The numbers that the shim stores are those of package ledger.
const (
	_ = uint(RefusedReason-ledger.ReasonBytesChanged) + uint(ledger.ReasonBytesChanged-RefusedReason)
	_ = uint(ChangedReason-ledger.ReasonTextChanged) + uint(ledger.ReasonTextChanged-ChangedReason)
	_ = uint(RefusedTactic-ledger.TacticNone) + uint(ledger.TacticNone-RefusedTactic)
	_ = uint(MissedNoMemory-ledger.ReasonNoMemory) + uint(ledger.ReasonNoMemory-MissedNoMemory)
	_ = uint(MissedUsesGS-ledger.ReasonUsesGS) + uint(ledger.ReasonUsesGS-MissedUsesGS)
	_ = uint(MissedSandboxed-ledger.ReasonSandboxed) + uint(ledger.ReasonSandboxed-MissedSandboxed)
	_ = uint(MissedNoPlanner-ledger.ReasonNoPlanner) + uint(ledger.ReasonNoPlanner-MissedNoPlanner)
	_ = uint(MissedUnseen-ledger.ReasonUnseen) + uint(ledger.ReasonUnseen-MissedUnseen)
)
