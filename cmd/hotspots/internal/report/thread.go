package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/symname"
)

// Thread is what one thread counted, or one process.
type Thread struct {
	Program   string `json:"program"` // of its table
	Pid       uint32 `json:"pid"`     // 0: ended threads that nobody has told apart
	Tid       uint32 `json:"tid"`
	Threads   int    `json:"threads"` // that have calls
	Calls     uint64 `json:"calls"`
	Name      string `json:"name"`                // that the program gave it, while it runs; of a process, of its first thread
	Arguments string `json:"arguments,omitempty"` // of the program's first process, if they were kept

	incarnation uint32
}

// ByThread lists the threads with their calls, which add up to the total, most
// calls first or by number ("name").
func (r *Report) ByThread(order string) []*Thread {
	var all []*Thread
	for _, p := range r.Programs {
		for _, o := range p.Owners {
			if o.Calls > 0 {
				all = append(all, &Thread{p.Program, o.Pid, o.Tid, 1, o.Calls, p.threadName(o.Pid, o.Tid), "", o.Incarnation})
			}
		}
	}
	sortThreads(all, order)
	return all
}

// threadName is the name of a thread that runs; empty if it is not known.
func (p *Program) threadName(pid, tid uint32) string {
	if !p.here || pid == 0 {
		return ""
	}
	return symname.Clean(procfile.ThreadName(pid, tid))
}

// ByProcess adds up the threads of each process. A process that fork made is
// one of its own, under its own number.
func (r *Report) ByProcess(order string) []*Thread {
	type key struct {
		table            int
		pid, incarnation uint32
	}
	byKey := map[key]*Thread{}
	var all []*Thread
	for i, p := range r.Programs {
		for _, o := range p.Owners {
			if o.Calls == 0 {
				continue
			}
			k := key{i, o.Pid, o.Incarnation}
			one := byKey[k]
			if one == nil {
				one = &Thread{Program: p.Program, Pid: o.Pid, Tid: o.Pid, Name: p.threadName(o.Pid, o.Pid), incarnation: o.Incarnation}
				if o.Pid == p.Pid {
					one.Arguments = p.Arguments
				}
				byKey[k] = one
				all = append(all, one)
			}
			one.Threads++
			one.Calls += o.Calls
		}
	}
	sortThreads(all, order)
	return all
}

func sortThreads(all []*Thread, order string) {
	slices.SortStableFunc(all, func(a, b *Thread) int {
		first := 0
		if order == "calls" {
			first = cmp.Compare(b.Calls, a.Calls)
		}
		return cmp.Or(first, cmp.Compare(a.Pid, b.Pid), cmp.Compare(a.Tid, b.Tid), cmp.Compare(a.incarnation, b.incarnation))
	})
}

// ThreadText writes threads or, if processes, processes.
func (r *Report) ThreadText(w io.Writer, all []*Thread, processes bool, style Style) error {
	if _, err := fmt.Fprintln(w, r.Headline()); err != nil {
		return err
	}
	heading, last := "CALLS\tSHARE\tCUM\tPID", "TID"
	if processes {
		last = "THREADS"
	}
	t := newText(heading+"\t"+last, "PROGRAM", "NAME")
	var sum uint64
	for _, one := range all {
		sum += one.Calls
		pid, n := fmt.Sprint(one.Pid), fmt.Sprint(one.Tid)
		if processes {
			n = fmt.Sprint(one.Threads)
		}
		note := cmp.Or(one.Arguments, one.Name)
		if one.Pid == 0 {
			pid, note = "-", "(threads that have ended)"
			if !processes {
				n = "-"
			}
		}
		t.row(fmt.Sprintf("%s\t%s\t%s\t%s\t%s", figures.Thousands(one.Calls), figures.Share(one.Calls, r.TotalCalls), figures.Share(sum, r.TotalCalls), pid, n), one.Program, note)
	}
	return t.write(w, style)
}

// ThreadJSON writes threads or processes.
func (r *Report) ThreadJSON(w io.Writer, all []*Thread, processes bool) error {
	name := "threads"
	if processes {
		name = "processes"
	}
	return WriteJSON(w, r.head(), name, all)
}

// ThreadCSV writes threads or processes.
func ThreadCSV(w io.Writer, all []*Thread) error {
	rows := [][]string{{"program", "pid", "tid", "threads", "calls", "name", "arguments"}}
	for _, t := range all {
		rows = append(rows, []string{t.Program, fmt.Sprint(t.Pid), fmt.Sprint(t.Tid), fmt.Sprint(t.Threads), fmt.Sprint(t.Calls), t.Name, t.Arguments})
	}
	return csv.NewWriter(w).WriteAll(rows)
}
