package web

import (
	"fmt"
	"net/http"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/live"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// state is what is known of a program as a whole. Counts are strings of digits.
type state struct {
	ID        string   `json:"id"`
	Table     string   `json:"table"`
	Program   string   `json:"program"`
	Pid       uint32   `json:"pid"`
	Started   float64  `json:"started"`
	State     string   `json:"state"`
	Running   bool     `json:"running"`
	Total     uint64   `json:"total,string"`
	Functions int      `json:"functions"`
	Threads   int      `json:"threads"`
	Threshold uint64   `json:"threshold"`
	Timed     bool     `json:"timed"` // CPU time is sampled
	Events    int      `json:"events"`
	Remarks   []string `json:"remarks"`
	Reset     float64  `json:"reset"` // 0: never
	Time      float64  `json:"time"`  // of the reading
	Error     string   `json:"error"`
}

// state is that of the last reading.
func (p *program) state() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stateLocked()
}

func (p *program) stateLocked() state {
	book := p.source.Book()
	s := state{
		ID: p.id, Table: symname.Clean(p.source.Path()), Remarks: []string{},
		Program: symname.Clean(book.Program), Pid: book.Pid, Started: milliseconds(book.Started),
	}
	if p.failed != nil {
		s.Error = symname.Clean(p.failed.Error())
	}
	f := p.frame
	if f == nil {
		return s
	}
	s.State, s.Running, s.Total, s.Functions, s.Threads = f.State, f.Running, f.Total, len(f.Calls), f.Counting
	s.Threshold, s.Timed, s.Events, s.Time = f.Threshold, f.Times != nil, len(f.Events), milliseconds(f.Time)
	for _, remark := range f.Remarks {
		s.Remarks = append(s.Remarks, symname.Clean(remark))
	}
	if !f.Reset.IsZero() {
		s.Reset = milliseconds(f.Reset)
	}
	return s
}

// other is a table that could be opened.
type other struct {
	ID      string  `json:"id"`
	Table   string  `json:"table"`
	Program string  `json:"program"`
	Pid     uint32  `json:"pid"`
	Started float64 `json:"started"`
	Status  string  `json:"status"`
}

// maxOthers is how many tables that could be opened are told of, the newest.
const maxOthers = 200

// tables is those that are shown, and the others that there are.
func (s *Server) tables(*http.Request) (reply, error) {
	open, states := map[string]bool{}, []state{}
	for _, p := range s.all() {
		open[p.id] = true
		states = append(states, p.state())
	}
	others, more := []other{}, 0
	for _, e := range s.found() {
		id := live.IDOf(&e.Header)
		switch {
		case open[id]:
		case len(others) == maxOthers:
			more++
		default:
			others = append(others, other{id, symname.Clean(e.Path), symname.Clean(e.Program), e.Pid, milliseconds(e.Realtime), e.Status.String()})
		}
	}
	return jsonReply(map[string]any{"schema": Schema, "interval": s.Interval.Milliseconds(), "tables": states, "others": others, "more": more})
}

// found are the tables that there are.
func (s *Server) found() (all []*find.Entry) {
	if s.Dirs == nil {
		return nil
	}
	list, err := find.List(s.Dirs()...)
	if err != nil {
		return nil // those that are shown are there all the same
	}
	for _, e := range list {
		if e.State == layout.StateLive {
			all = append(all, e)
		}
	}
	return all
}

// open shows one more of the tables that there are. No path is taken from a page.
func (s *Server) open(r *http.Request) (reply, error) {
	id := r.PathValue("id")
	if _, err := s.program(id); err == nil {
		return jsonReply(map[string]any{"schema": Schema})
	}
	for _, e := range s.found() {
		if live.IDOf(&e.Header) != id {
			continue
		}
		s.mu.Lock()
		full := s.asked >= maxPrograms
		if !full {
			s.asked++
		}
		s.mu.Unlock()
		if full {
			return reply{}, failed(http.StatusTooManyRequests, fmt.Errorf("%d tables are open besides the first: start another hotspots web", maxPrograms))
		}
		p, err := live.Open(e.Path, s.Mangled, s.Name, nil)
		if err == nil && !s.Add(p) {
			p.Close()
		}
		if err != nil {
			s.mu.Lock()
			s.asked--
			s.mu.Unlock()
			return reply{}, err
		}
		return jsonReply(map[string]any{"schema": Schema})
	}
	return reply{}, failed(http.StatusNotFound, fmt.Errorf("there is no table %.40q any more", id))
}
