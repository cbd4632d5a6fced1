package agent

import (
	"fmt"
	"os"
	"time"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// processes tells the CPU time of a fork tree.
type processes struct {
	t    *file.File
	exe  os.FileInfo // of the first one; nil if nobody may know it
	last map[uint32]time.Duration
}

func newProcesses(t *file.File) processes {
	p := processes{t: t, last: map[uint32]time.Duration{}}
	p.exe, _ = os.Stat(executable(t.Pid))
	return p
}

func executable(pid uint32) string { return fmt.Sprintf("/proc/%d/exe", pid) }

// spent is the CPU time that they have taken since they were asked last. What a process has
// taken after that when it ends is not known, nor what those of other pid namespaces take.
func (p *processes) spent() (sum time.Duration) {
	now := map[uint32]time.Duration{}
	ask := func(pid uint32) {
		last, known := p.last[pid]
		if _, asked := now[pid]; asked || pid == 0 || !known && alive.Start(pid) < p.t.StartTicks || !p.counts(pid) {
			return
		}
		if taken, err := mem.ProcessTime(pid); err == nil {
			now[pid] = taken
			sum += max(0, taken-last)
		}
	}
	ask(p.t.Pid)
	p.t.EachRow(func(r layout.Row) {
		if r.Held() {
			ask(r.Pid)
		}
	})
	p.last = now
	return sum
}

// counts reports whether a process may be one of the tree that has executed nothing else. The
// kernel does not say what a process runs whose first thread has ended.
func (p *processes) counts(pid uint32) bool {
	exe, err := os.Stat(executable(pid))
	if err != nil || p.exe == nil {
		return pid == p.t.Pid && alive.Start(pid) == p.t.StartTicks
	}
	return os.SameFile(exe, p.exe)
}
