package attach

import (
	"slices"
	"strconv"
	"time"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
)

// A page of text that is changed becomes the process's own first: the kernel copies it, which
// takes as long as all else that is done about it. So that the process does not stand still for
// all of them at once, most are copied before, some in each of a few short stops: a byte of each is
// written as it is. While it runs that cannot be done, as the program may change that byte.

const (
	fewPages   = 128 // of less there is no stop
	mostStops  = 16
	leastFetch = 2 * time.Millisecond // for which a stop copies, or for as long as it took to stop
)

// fetch has pages of text copied. What fails is left to when they are changed.
func (p *prepared) fetch() {
	pages := p.pagesToFetch()
	for n := 0; n < mostStops && len(pages) >= fewPages; n++ {
		var done int
		err := held(p.Pid, p, nil, func(process *ptrace.Process) (err error) {
			done, err = p.fetchSome(process, pages)
			return err
		})
		if err != nil || done == 0 {
			return
		}
		pages = pages[done:]
	}
}

// pagesToFetch are those that will be changed, but for the process's own.
func (p *prepared) pagesToFetch() []uint64 {
	own := map[uint64]bool{}
	for _, t := range p.plan.Texts() {
		pages, err := mem.OwnPagesOf(p.process.Task(), t.Start, t.End)
		if err != nil {
			return nil
		}
		for _, at := range pages {
			own[at] = true
		}
	}
	return slices.DeleteFunc(p.plan.ChangedPages(), func(at uint64) bool { return own[at] })
}

// fetchSome has the first of some pages copied, for a short time, and says how many.
func (p *prepared) fetchSome(process *ptrace.Process, pages []uint64) (done int, err error) {
	begun := time.Now()
	defer func() { p.pause = max(p.pause, process.Took+time.Since(begun)) }()
	maps, err := procmaps.Of(strconv.Itoa(p.Pid))
	if err == nil {
		err = p.isAsPlanned(maps)
	}
	if err == nil {
		err = isAlone(process)
	}
	if p.isAnother() {
		err = errExecutes
	}
	if err != nil {
		return 0, err
	}
	const often = 16
	b, until := make([]byte, 1), begun.Add(max(leastFetch, process.Took))
	for ; done < len(pages) && (done%often != 0 || time.Now().Before(until)); done++ {
		at := int64(pages[done])
		if _, err := process.Mem.ReadAt(b, at); err != nil {
			return done, err
		}
		if _, err := process.Mem.WriteAt(b, at); err != nil {
			return done, err
		}
	}
	return done, nil
}
