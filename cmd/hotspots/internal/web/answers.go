package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// functions is what does not change of all functions.
func functions(p *program, _ url.Values, _ *http.Request) (reply, error) {
	f, err := p.last()
	if err != nil {
		return reply{}, failed(http.StatusServiceUnavailable, err)
	}
	text, err := p.ledger.textOf(f.Book)
	return reply{"application/json", text}, err
}

// counts is the counts that are others than in the reading that "after" names, of all
// functions without it.
func counts(p *program, q url.Values, _ *http.Request) (reply, error) {
	after, err := number(q, "after", 0)
	if err != nil {
		return reply{}, err
	}
	p.mu.Lock()
	now := p.stateLocked()
	f, err := p.lastLocked()
	if err != nil {
		p.mu.Unlock()
		return reply{}, failed(http.StatusServiceUnavailable, err)
	}
	reading, next := p.number, p.next
	if after > int64(reading) {
		after = 0 // of a server before this one
	}
	var list []uint32
	var n []uint64
	for i, at := range p.changed {
		if int64(at) > after {
			list = append(list, uint32(i))
			n = append(n, f.Calls[i])
		}
	}
	p.mu.Unlock()
	var hot []int
	if f.Hot != nil {
		for i := range f.Calls {
			if f.Hot(i) {
				hot = append(hot, i)
			}
		}
	}
	return columnsReply(map[string]any{"state": now, "reading": reading, "time": milliseconds(f.Time), "since": after, "next": time.Until(next).Milliseconds(), "hot": hot}, list, n)
}

// times is the CPU time of functions themselves, in ns, of those that have some, where it is
// sampled (hotspots run --time).
func times(p *program, _ url.Values, _ *http.Request) (reply, error) {
	f, err := p.last()
	if err != nil {
		return reply{}, failed(http.StatusServiceUnavailable, err)
	}
	var list []uint32
	var n []uint64
	for i, t := range f.Times {
		if t > 0 {
			list, n = append(list, uint32(i)), append(n, t)
		}
	}
	return columnsReply(map[string]any{"total": strconv.FormatUint(f.TotalTime, 10)}, list, n)
}

// timeline is the calls between readings, of all functions or of one.
func timeline(p *program, q url.Values, _ *http.Request) (reply, error) {
	of, err := number(q, "function", -1)
	if err != nil {
		return reply{}, err
	}
	if of >= 0 {
		if _, err := p.function(int(min(of, 1<<31))); err != nil {
			return reply{}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &p.history
	from, to, n := make([]float64, len(h.samples)), make([]float64, len(h.samples)), make([]string, len(h.samples))
	var list []uint64
	if of >= 0 {
		list = h.of(int(of))
	}
	for i := range h.samples {
		s := &h.samples[i]
		total := s.total
		if of >= 0 {
			total = list[i]
		}
		from[i], to[i], n[i] = milliseconds(s.from), milliseconds(s.to), strconv.FormatUint(total, 10)
	}
	return jsonReply(map[string]any{"schema": Schema, "from": from, "to": to, "calls": n, "reading": p.number})
}

// within is the calls of all functions between two moments, as far as readings tell.
func within(p *program, q url.Values, _ *http.Request) (reply, error) {
	from, err := number(q, "from", 0)
	if err != nil {
		return reply{}, err
	}
	to, err := number(q, "to", 1<<62)
	if err != nil {
		return reply{}, err
	}
	f, err := p.last()
	if err != nil {
		return reply{}, failed(http.StatusServiceUnavailable, err)
	}
	p.mu.Lock()
	sums, began, ended := p.history.within(moment(from), moment(to), len(f.Calls))
	p.mu.Unlock()
	var list []uint32
	var n []uint64
	for i, c := range sums {
		if c > 0 {
			list, n = append(list, uint32(i)), append(n, c)
		}
	}
	head := map[string]any{"from": nil, "to": nil}
	if !began.IsZero() {
		head["from"], head["to"] = milliseconds(began), milliseconds(ended)
	}
	return columnsReply(head, list, n)
}

// event is a function that became hot.
type event struct {
	Time     float64 `json:"time"`
	Function int     `json:"function"` // -1: it has come later
	Calls    uint64  `json:"calls,string"`
	Tid      uint32  `json:"tid"`
	Outcome  string  `json:"outcome"`
}

// maxEvents is how many events an answer has, the last.
const maxEvents = 2000

func events(p *program, _ url.Values, _ *http.Request) (reply, error) {
	f, err := p.last()
	if err != nil {
		return reply{}, failed(http.StatusServiceUnavailable, err)
	}
	last := f.Events[max(0, len(f.Events)-maxEvents):]
	list := make([]event, len(last))
	for i, e := range last {
		if e.Function >= len(f.Calls) {
			e.Function = -1
		}
		list[i] = event{milliseconds(e.Time), e.Function, e.Calls, e.Tid, e.Outcome}
	}
	return jsonReply(map[string]any{"schema": Schema, "all": len(f.Events), "threshold": f.Threshold, "events": list})
}

// thread is one with its calls.
type thread struct {
	Pid         uint32 `json:"pid"` // 0: several that nobody has told apart
	Tid         uint32 `json:"tid"`
	Incarnation uint32 `json:"incarnation"`
	Calls       uint64 `json:"calls,string"`
}

func threadsOf(list []top.Thread) []thread {
	all := make([]thread, len(list))
	for i, t := range list {
		all[i] = thread{t.Pid, t.Tid, t.Incarnation, t.Calls}
	}
	return all
}

// maxMatrix is of how many functions one answer has the threads.
const maxMatrix = 64

// indexes reads the numbers of functions, with commas in between.
func indexes(p *program, q url.Values, name string) ([]int, error) {
	if !q.Has(name) || q.Get(name) == "" {
		return nil, nil
	}
	words := strings.SplitN(q.Get(name), ",", maxMatrix+1)
	if len(words) > maxMatrix {
		return nil, fmt.Errorf("%s: it is %d numbers at most", name, maxMatrix)
	}
	var list []int
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %.40q is no number", name, word)
		}
		if _, err := p.function(n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// threads is what each thread has counted, and how often each called the functions named.
func threads(p *program, q url.Values, _ *http.Request) (reply, error) {
	list, err := indexes(p, q, "functions")
	if err != nil {
		return reply{}, err
	}
	f, err := p.last()
	if err != nil {
		return reply{}, failed(http.StatusServiceUnavailable, err)
	}
	rows := [][]thread{}
	for _, called := range p.source.Called(list) {
		rows = append(rows, threadsOf(called))
	}
	return jsonReply(map[string]any{"schema": Schema, "threads": threadsOf(f.Threads), "functions": rows})
}

// coverage is which functions are counted and why others are not, as hotspots coverage has it.
func (s *Server) coverage(p *program, _ url.Values, asked *http.Request) (reply, error) {
	t, done, err := s.whole(asked.Context(), p)
	if err != nil {
		return reply{}, err
	}
	defer done()
	r, err := report.New([]*table.Table{t}, report.Options{Mangled: true})
	if err != nil {
		return reply{}, err
	}
	var b strings.Builder
	err = r.CoverageJSON(&b, r.Coverage())
	return reply{"application/json", []byte(b.String())}, err
}

// edge is calls from or to another function.
type edge struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Calls uint64 `json:"calls,string"`
}

func edgesOf(list []top.Edge) []edge {
	all := make([]edge, len(list))
	for i, e := range list {
		all[i] = edge{e.Name, e.Kind, e.Calls}
	}
	return all
}

// line is one of a listing.
type line struct {
	Text string `json:"text"`
	Hot  bool   `json:"hot"`
}

// detail is all about a function.
func detail(p *program, _ url.Values, r *http.Request) (reply, error) {
	i, err := strconv.Atoi(r.PathValue("index"))
	if err != nil {
		return reply{}, fmt.Errorf("%.40q is no number of a function", r.PathValue("index"))
	}
	if _, err := p.function(i); err != nil {
		return reply{}, failed(http.StatusNotFound, err)
	}
	p.detail.Lock()
	d := p.source.Detail(i)
	p.detail.Unlock()
	code := make([]line, len(d.Code))
	for i, l := range d.Code {
		code[i] = line{symname.Clean(l.Text), l.Hot}
	}
	return jsonReply(map[string]any{
		"schema": Schema, "function": i, "threads": threadsOf(d.Threads), "shared": d.Shared,
		"callers": edgesOf(d.Callers), "callees": edgesOf(d.Callees), "no_edges": symname.Clean(d.NoEdges), "code": code, "no_code": symname.Clean(d.NoCode),
	})
}
