package emit

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// CallSite says what the stub of a direct call's site counts, and where it goes on.
type CallSite struct {
	Callee     uint64      // link-time: the first byte of the callee's window
	KeepsFlags bool        // as the callee's count does
	Counter    int32       // displacement of the site's counter from the GS base
	Shared     x86.RunAddr // unless 0, where the counter of all threads is, instead
	To         x86.RunAddr // the callee's stub, which counts the call as any other
}

// CallSiteSize is the room that the stub of a call site takes.
func CallSiteSize(keepsFlags bool) int {
	return aligned(CountSize(keepsFlags, false, false) + JumpSize)
}

// EmitCallSite writes the stub of a call site, which the call leads to in place of the callee's.
// It takes CallSiteSize bytes of dst, which will run at address at, a multiple of Alignment, and
// returns the bytes of its count:
//
//	inc   qword gs:[counter]          ; the count: of the site, not of the callee
//	jmp   <the callee's stub>
//
// Flags that the callee keeps are kept as in its own stub. Whoever is interrupted here shows
// the callee's entry, with its count still to come: the record is that of a way to it.
func (e *Emitter) EmitCallSite(o *stubgen.Object, s *CallSite, dst []byte, at x86.RunAddr) (count int, err error) {
	a := &e.asm
	a.Reset(dst, at)
	if s.KeepsFlags {
		saveFlags(a)
	}
	if s.Shared != 0 {
		a.LockIncTo(s.Shared)
	} else {
		a.IncGS(s.Counter)
	}
	flags := byte(originWay) | flagsOf(o)
	if s.KeepsFlags {
		restoreFlags(a)
		flags |= originKeepsFlags
	}
	count = a.Len()
	a.JmpTo(s.To)
	for a.Len() < CallSiteSize(s.KeepsFlags) {
		a.Int3()
	}
	if e.Origins != nil {
		e.Origins.add(at, o.Run(s.Callee), count, flags, len(e.Origins.Lengths))
	}
	return count, a.Finish()
}
