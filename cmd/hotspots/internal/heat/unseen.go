package heat

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
)

// Unseen is what may have touched more pages. Accesses of objects that are not counted, as libc, are in
// none of these, nor are those of the kernel but by read, write, recv, send and their like.
type Unseen struct {
	Kernel   *Kernel  `json:"kernel,omitempty"`  // nil: not known, or nothing
	Sockets  *Sockets `json:"sockets,omitempty"` // nil: not known
	MadeCode uint64   `json:"made_code"`         // bytes of executable memory without a file, the most at a time that was seen: code that was made at run time
	VDSO     bool     `json:"vdso"`              // there is a libc, which calls functions of the kernel's in it

	Functions int    `json:"functions"` // that were called, and do not run as copies
	Calls     uint64 `json:"calls"`     // of these

	NoRoom []string `json:"no_room,omitempty"` // objects of these functions: there was no room for copies
	Go     []string `json:"go,omitempty"`      // these have a Go runtime

	// Executions of instructions in copies whose operands are
	Segment  uint64 `json:"segment"`  // by FS or GS
	Repeated uint64 `json:"repeated"` // with a rep prefix
	Masked   uint64 `json:"masked"`   // with a mask, or at several addresses
	Other    uint64 `json:"other"`    // of 32-bit addresses, xsave, bit strings and others

	Programs uint32 `json:"programs"` // that it executed, also in its place

	Unknown int `json:"unknown_objects"` // whose files are not there any more: their instructions are in none of these
}

// Kernel is what the kernel has stored in memory of the program and of children that it has waited for,
// and read of it, by read, write, sendfile and their like: what the dynamic linker and dynprof have read
// and written there is among it. Not among it are recv and send, io_uring, mapped files, and what other
// system calls take and return.
type Kernel struct {
	StoredBytes uint64 `json:"stored_bytes"`
	ReadCalls   uint64 `json:"read_calls"`
	LoadedBytes uint64 `json:"loaded_bytes"`
	WriteCalls  uint64 `json:"write_calls"`
}

func kernelOf(t *layout.Transfers) *Kernel {
	if *t == (layout.Transfers{}) {
		return nil
	}
	return &Kernel{t.Read, t.ReadCalls, t.Written, t.WriteCalls}
}

// Sockets is what the kernel has stored in memory of the program and of processes that it has forked, and
// read of it, by recv, recvfrom, recvmsg and recvmmsg, send, sendto, sendmsg and sendmmsg: data, not addresses
// and control messages. Calls are those that came back, failed ones too; of those untold it is not known how
// much they have moved.
type Sockets struct {
	StoredBytes    uint64 `json:"stored_bytes"`
	ReceiveCalls   uint64 `json:"receive_calls"`
	ReceivesUntold uint64 `json:"receives_untold"`
	LoadedBytes    uint64 `json:"loaded_bytes"`
	SendCalls      uint64 `json:"send_calls"`
	SendsUntold    uint64 `json:"sends_untold"`
}

// SocketsOf is nil where no object's calls are added up.
func SocketsOf(t *table.Table) *Sockets {
	if len(report.Flagged(t, layout.ObjTransfers)) == 0 {
		return nil
	}
	in, out := &t.Header.Sockets.Received, &t.Header.Sockets.Sent
	return &Sockets{in.Bytes, in.Calls, in.Untold, out.Bytes, out.Calls, out.Untold}
}

// text is what it is, for people.
func (s *Sockets) text() string {
	side := func(bytes uint64, did string, calls uint64, name string, untold uint64) string {
		text := fmt.Sprintf("%s %s by %s of %s and theirs", figures.Count(bytes, "byte"), did, figures.Count(calls, "call"), name)
		if untold > 0 {
			text += fmt.Sprintf(", of which %s moved what is not known", figures.Thousands(untold))
		}
		return text
	}
	return side(s.StoredBytes, "stored", s.ReceiveCalls, "recv", s.ReceivesUntold) + ", and " + side(s.LoadedBytes, "read", s.SendCalls, "send", s.SendsUntold)
}

// hasLibc reports whether a C library is among the objects: it calls functions of the vdso.
func hasLibc(objects []layout.Object) bool {
	return slices.ContainsFunc(objects, func(o layout.Object) bool {
		name := filepath.Base(o.Path)
		return strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "ld-musl-")
	})
}

// UnseenOf adds it up.
func UnseenOf(t *table.Table, s *table.Snapshot, flow *table.Flow) (u Unseen) {
	u.Programs = s.Executed
	images := map[uint16]*objcode.Image{}
	u.Kernel, u.Sockets, u.MadeCode, u.VDSO = kernelOf(&t.Header.Transfers), SocketsOf(t), t.Header.Unlisted.Anonymous, hasLibc(t.Objects)
	u.NoRoom, u.Go = report.Flagged(t, layout.ObjByCall), report.Flagged(t, layout.ObjGo)
	for i := range t.Functions {
		if !RunsAsCopy(t, flow, uint32(i)) && s.Calls[i] > 0 {
			u.Functions++
			u.Calls += s.Calls[i]
		}
	}
	for i := range flow.Blocks {
		b := &flow.Blocks[i]
		if b.Runs == 0 || !RunsAsCopy(t, flow, b.Function) {
			continue
		}
		object := t.Functions[b.Function].Object
		m, looked := images[object]
		if !looked {
			var err error
			if m, err = objcode.Load(&t.Objects[object]); err != nil {
				m = nil
				u.Unknown++
			}
			images[object] = m
		}
		if m != nil {
			for _, code := range m.Instructions(b.Address, b.Size) {
				u.add(code, b.Runs, t.Header.Flags)
			}
		}
	}
	return u
}

// RunsAsCopy reports whether a function does. One of a single block that does not has its block
// all the same, which runs as often as it is called; but a jump leads into all copies, and into
// nothing else that such functions have.
func RunsAsCopy(t *table.Table, flow *table.Flow, i uint32) bool {
	return len(flow.Of(i).Blocks) > 0 && t.Functions[i].Tactic == ledger.TacticJump
}

// add adds an instruction that ran n times.
func (u *Unseen) add(code []byte, n uint64, flags uint32) {
	var in x86.Inst
	var ops [x86.MaxOperands]x86.Operand
	if x86.Decode(code, &in) != nil {
		return
	}
	for _, o := range ops[:in.Operands(code, &ops)] {
		switch {
		case o.Kind&(x86.OperandLoad|x86.OperandStore) == 0 || isSeen(&in, code, &o, flags):
			continue
		case o.Segment != x86.SegmentNone:
			u.Segment += n
		case o.Flags&x86.OperandRepeated != 0:
			u.Repeated += n
		case o.Flags&(x86.OperandMasked|x86.OperandVSIB) != 0:
			u.Masked += n
		default:
			u.Other += n
		}
		return
	}
}

// isSeen reports whether an operand is noted, in a table with these flags.
func isSeen(in *x86.Inst, code []byte, o *x86.Operand, flags uint32) bool {
	switch {
	case o.Segment == x86.SegmentFS && flags&layout.FlagBases == 0:
		return false
	case o.Segment == x86.SegmentGS && (flags&layout.FlagBases == 0 || flags&layout.FlagShared == 0):
		return false
	}
	_, ok := in.Form(code, o)
	return ok
}

// Text is what it is, for people.
func (u *Unseen) Text() string {
	var parts []string
	if u.Functions > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s that do not run as copies", figures.Count(u.Calls, "call"), figures.Count(uint64(u.Functions), "function")))
	}
	for _, path := range u.NoRoom {
		parts = append(parts, fmt.Sprintf("all of %s, for whose copies there was no room", path))
	}
	for _, path := range u.Go {
		parts = append(parts, fmt.Sprintf("all of %s, which has a Go runtime", path))
	}
	for _, p := range []struct {
		n    uint64
		what string
	}{{u.Segment, "by FS or GS"}, {u.Repeated, "with rep"}, {u.Masked, "with masks, or gathers"}, {u.Other, "of other kinds"}} {
		if p.n > 0 {
			parts = append(parts, figures.Count(p.n, "access")+" "+p.what)
		}
	}
	if k := u.Kernel; k != nil {
		parts = append(parts, fmt.Sprintf("of the kernel's %s stored by %s of read and their like, and %s read by %s of write and theirs (dynprof's own and those of children among them; other system calls are not)",
			figures.Count(k.StoredBytes, "byte"), figures.Count(k.ReadCalls, "call"), figures.Count(k.LoadedBytes, "byte"), figures.Count(k.WriteCalls, "call")))
	}
	if s := u.Sockets; s != nil && s.ReceiveCalls+s.SendCalls > 0 {
		parts = append(parts, "of sockets "+s.text())
	} else if s == nil && u.Kernel != nil {
		parts = append(parts, "what recv and send moved is not told")
	}
	if u.MadeCode > 0 {
		parts = append(parts, fmt.Sprintf("%s of code made at run time, whose accesses are not seen", figures.Count(u.MadeCode, "byte")))
	}
	text := "what objects that are not counted touch, "
	if u.VDSO {
		text += "the vdso, "
	}
	text += "and the kernel"
	if len(parts) > 0 {
		text += "; " + strings.Join(parts, ", ")
	}
	switch n := u.Programs; {
	case n == 1:
		text += "; and a program that it executed: run that by itself"
	case n > 1:
		text += fmt.Sprintf("; and %s programs that it executed: run them by themselves", figures.Thousands(uint64(n)))
	}
	if u.Unknown > 0 {
		text += fmt.Sprintf("; and what is in %s", figures.Count(uint64(u.Unknown), "changed file"))
	}
	return text
}

// text is a line; cut says that not all mappings are known.
func (u *Unseen) text(cut bool) string {
	text := "Not seen: " + u.Text()
	if cut {
		text += "; and what is mapped behind the last line of /proc/PID/smaps that had room"
	}
	return text + ".\n"
}
