// Package plancache is the format of cached plans (docs/architecture.md, "The plan
// cache"): what a planner found out about one object, so that the next start need not
// plan it again. A file is hostile input: Decode checks all that whoever uses a plan
// relies on, but for the code itself.
package plancache

//go:generate go test -run "^TestHeader$" -update .

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"

	"github.com/dynprof/dynprof/internal/table/layout"
)

var le = binary.LittleEndian

// What is wrong with a file.
var (
	ErrNotPlan = errors.New("it is no cached plan")
	ErrVersion = errors.New("it is a cached plan of another format")
	ErrCorrupt = errors.New("it is a damaged plan")
)

// Plan is the plan of one object. Addresses are link-time ones, of an arena's too.
type Plan struct {
	Key     []byte // for what it was made: options, and who planned
	BuildID []byte
	Path    []byte // where its file was, for people
	Creator []byte // who planned, for people
	File    File
	Sum     uint64 // of the file that it was decoded from

	Low, High   uint64 // its mapped pages
	Arena       uint64
	ArenaSize   uint64 // whole pages; 0: it needs none
	Cold, Keeps uint64 // offsets in the arena
	Hook        uint64 // 0: it has not the dynamic linker's function
	Counters    uint32
	Flags       uint32 // layout.Obj*
	Code        uint32
	Untold      uint32
	Reason      uint32

	Texts   []Text
	Listed  []byte // entries of ListedEntrySize bytes, as those that follow
	Patches []byte
	Leds    []byte
	Stubs   []byte
	Fixups  []byte
	Records []byte
	Lengths []byte
	ByText  []byte
	Islands []byte
	Ledger

	Flow
	Sets          uint32 // of slots for callees
	BlockCounters uint32 // of blocks and ways, or of call sites, and words of notes and slots

	Sites []byte // a table's section of the object's call sites, counters as those of blocks
}

// Ledger is a table's sections of the object, which is its only one.
type Ledger struct{ Functions, Aliases, Strings []byte }

// Flow is a table's sections of the object's blocks, which are its only ones; counters are
// from the first of a block on. It is empty where they are not counted.
type Flow struct{ Blocks, Ways, Loops []byte }

// File tells the object's file from others, and from itself before it was changed.
type File struct {
	Inode, Size  uint64
	Mtime, Ctime uint64 // ns
	Head         uint64 // HeadOf its first bytes
	Content      uint64 // ContentOf it, if TimesTell does not hold
}

// Text is a run of pages that is changed.
type Text struct {
	Start, Size uint64 // whole pages
	Offset      uint64 // in the object's file
	Prot        uint32
	Listed      uint32 // how many of the changes are its,
	Patches     uint32 // of the patches,
	Leds        uint32 // and of the functions that are called
}

// HeadOf is a sum of the first bytes of an object, which are its headers and mostly its
// build-id (FNV-1a).
func HeadOf(b []byte) uint64 { return fnv(fnvBegin, b[:min(len(b), HeadSize)]) }

// part is a section: where its header is, and what is in it.
type part struct {
	at    int
	size  int // of an entry
	bytes *[]byte
}

func (p *Plan) parts(texts *[]byte) []part {
	return []part{
		{PlanKey, 1, &p.Key}, {PlanBuildID, 1, &p.BuildID}, {PlanTexts, TextEntrySize, texts},
		{PlanListed, ListedEntrySize, &p.Listed}, {PlanPatches, PatchEntrySize, &p.Patches},
		{PlanLeds, LedEntrySize, &p.Leds}, {PlanStubs, 1, &p.Stubs}, {PlanFixups, FixEntrySize, &p.Fixups},
		{PlanRecords, RecordEntrySize, &p.Records}, {PlanLengths, 1, &p.Lengths}, {PlanByText, 4, &p.ByText},
		{PlanIslands, IslandEntrySize, &p.Islands}, {PlanFunctions, layout.FnEntrySize, &p.Functions},
		{PlanAliases, 4, &p.Aliases}, {PlanStrings, 1, &p.Strings}, {PlanPath, 1, &p.Path}, {PlanCreator, 1, &p.Creator},
		{PlanBlocks, layout.BkEntrySize, &p.Blocks}, {PlanWays, layout.WyEntrySize, &p.Ways}, {PlanLoops, layout.LpEntrySize, &p.Loops},
		{PlanSites, layout.StEntrySize, &p.Sites},
	}
}

// word is a field of the header.
type word struct {
	at  int
	u64 *uint64
	u32 *uint32
}

func (p *Plan) words() []word {
	return []word{
		{PlanInode, &p.File.Inode, nil}, {PlanObjectSize, &p.File.Size, nil}, {PlanMtime, &p.File.Mtime, nil},
		{PlanCtime, &p.File.Ctime, nil}, {PlanHead, &p.File.Head, nil}, {PlanLow, &p.Low, nil}, {PlanHigh, &p.High, nil},
		{PlanArena, &p.Arena, nil}, {PlanArenaSize, &p.ArenaSize, nil}, {PlanCold, &p.Cold, nil}, {PlanKeeps, &p.Keeps, nil},
		{PlanHook, &p.Hook, nil}, {PlanCounters, nil, &p.Counters}, {PlanFlags, nil, &p.Flags}, {PlanCode, nil, &p.Code},
		{PlanUntold, nil, &p.Untold}, {PlanReason, nil, &p.Reason}, {PlanContent, &p.File.Content, nil}, {PlanOfBlocks, nil, &p.BlockCounters},
		{PlanSets, nil, &p.Sets},
	}
}

// Encode is the file of p, of which Decode makes the same.
func (p *Plan) Encode() []byte { return bytes.Join(p.Pieces(), nil) }

// Pieces are what Encode is of, in order. All that is large is p's own.
func (p *Plan) Pieces() [][]byte {
	texts := make([]byte, 0, len(p.Texts)*TextEntrySize)
	for _, t := range p.Texts {
		for _, v := range []uint64{t.Start, t.Size, t.Offset} {
			texts = le.AppendUint64(texts, v)
		}
		for _, v := range []uint32{t.Prot, t.Listed, t.Patches, t.Leds} {
			texts = le.AppendUint32(texts, v)
		}
	}
	head := make([]byte, PlanHeaderSize)
	copy(head[PlanMagic:], FileMagic)
	le.PutUint32(head[PlanVersion:], FileVersion)
	le.PutUint32(head[PlanHdrSize:], PlanHeaderSize)
	for _, w := range p.words() {
		if w.u64 != nil {
			le.PutUint64(head[w.at:], *w.u64)
		} else {
			le.PutUint32(head[w.at:], *w.u32)
		}
	}
	all, size := [][]byte{head}, len(head)
	for _, s := range p.parts(&texts) {
		gap := -size & (aligned - 1)
		le.PutUint64(head[s.at+PartOffset:], uint64(size+gap))
		le.PutUint32(head[s.at+PartCount:], uint32(len(*s.bytes)/s.size))
		le.PutUint32(head[s.at+PartEntrySize:], uint32(s.size))
		all, size = append(all, make([]byte, gap), *s.bytes), size+gap+len(*s.bytes)
	}
	le.PutUint64(head[PlanFileSize:], uint64(size))
	sum := xxhash.New()
	sum.Write(head[PlanCheck+8:])
	for _, b := range all[1:] {
		sum.Write(b)
	}
	le.PutUint64(head[PlanCheck:], sum.Sum64())
	return all
}

// aligned is where sections begin: at its multiples.
const aligned = 16

// sumOf is what PlanCheck has to be.
func sumOf(b []byte) uint64 { return xxhash.Sum64(b[PlanCheck+8:]) }
