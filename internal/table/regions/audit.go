package regions

import (
	"sync/atomic"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Audit is what pages that are protected have told of accesses to regions, and of which there
// are records.
type Audit struct {
	Seen     uint64 `json:"seen"`     // accesses to protected pages that are to a region
	Recorded uint64 `json:"recorded"` // of these are recorded: thread, instruction, address, size, kind
	Missed   uint64 `json:"missed"`   // of these are not,
	Unseen   uint64 `json:"unseen"`   // and records of which there is no access

	Unchecked uint64 `json:"unchecked"` // records that could not be compared
	Own       uint64 `json:"own"`       // accesses of dynprof's own code
	Pages     uint64 `json:"pages"`     // that were protected, at most
	Bare      uint64 `json:"bare"`      // that could not be, at most: of code, or a thread's own things
	Calls     uint64 `json:"calls"`     // system calls for which pages were open,
	Open      uint64 `json:"open_ns"`   // and how long other threads ran meanwhile
	Faults    uint64 `json:"faults"`    // that there were,
	Took      uint64 `json:"took_ns"`   // and how long it took until their threads went on

	Misses []AuditSite `json:"misses"` // by instruction
	Spare  []AuditSite `json:"spare"`  // of Unseen
	Ended  string      `json:"ended"`  // why it has ended before the program; empty: it has not
}

// AuditSite is an instruction, and how it comes to memory.
type AuditSite struct {
	Address  uint64 `json:"address"` // where it always was
	Size     uint32 `json:"size"`    // bytes of an access; 0: not known
	Load     bool   `json:"load"`
	Store    bool   `json:"store"`
	Form     string `json:"form"`   // why an operand such as that is not recorded; empty: it could be
	Copied   bool   `json:"copied"` // it ran in a copy
	Accesses uint64 `json:"accesses"`
}

// Live are the regions that there are.
func (r *Ring) Live() (all []Region) {
	for i := range min(r.get(layout.RgUsed), layout.RgLives) {
		at := layout.RgLive + int(i)*layout.LiveSize
		n := r.get(at + layout.LiveNumber)
		if low, high := r.get(at+layout.LiveLow), r.get(at+layout.LiveHigh); n > 0 && n < layout.RgLogs && low < high {
			all = append(all, Region{Number: n, Address: low, Bytes: high - low, Kinds: Kinds(r.get(at + layout.LiveKinds))})
		}
	}
	return all
}

// Ask has the program tell when regions are made or removed.
func (r *Ring) Ask() { atomic.StoreUint64(&r.words[layout.RgAudit/8], 1) }

// Spare is memory for who traces the program, and where that is behind the beginning of what
// the program has mapped.
func (r *Ring) Spare() (b []byte, at uint64) {
	const size = 256
	return r.bytes[layout.RgSpare : layout.RgSpare+size], r.shadow.MoreAt() + layout.RgSpare
}

// Decode calls use with each access of records as the ring has them, and what makes such.
func (r *Ring) Decode(records []byte, use func(a *Access, s *Site)) {
	eachOf(records, func(a *Access) {
		s := decodeSite(r.site(a.Site))
		use(a, &s)
	}, func(*Event) {})
}
