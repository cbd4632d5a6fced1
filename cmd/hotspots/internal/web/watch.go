package web

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heatview"
	"github.com/dynprof/dynprof/internal/procmaps"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// How often a file of touched pages is looked at while somebody watches, and what is made of
// it: but each rests some times as long as the CPU was at it.
const (
	lookOften  = 16 * time.Millisecond
	lookRest   = 4
	lookSeldom = 500 * time.Millisecond // of a program that has ended
	mapsOften  = time.Second
	curveOften = 250 * time.Millisecond
	mostBands  = 1 << 14
)

// watch is the touched pages of a program, read as they come while somebody watches, once for
// all who do.
type watch struct {
	s *Server
	p *program

	mu      sync.Mutex
	users   int
	stop    context.CancelFunc
	now     *watched // nil: none yet
	err     error    // why there is none
	changed chan struct{}
}

// watched is what is known at a time.
type watched struct {
	heatview.Source
	memory []byte // frames
	curve  []byte
	curves int // number of that
}

// join begins to watch, and returns what ends it.
func (w *watch) join() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users++; w.users == 1 {
		ctx, stop := context.WithCancel(w.s.ctx)
		w.stop, w.now, w.err, w.changed = stop, nil, nil, make(chan struct{})
		changed := w.changed
		w.s.done.Go(func() { w.follow(ctx, changed) })
	}
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.users--; w.users == 0 {
			w.stop()
			w.now, w.changed = nil, nil
		}
	})
}

// look is what is known, and what is closed when there is more.
func (w *watch) look() (now *watched, changed <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now, w.changed, w.err
}

// tell says what is known from now on, if it is still asked for.
func (w *watch) tell(changed chan struct{}, now *watched, err error) (next chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != changed {
		return changed // nobody watches, or others do by now
	}
	w.now, w.err, w.changed = now, err, make(chan struct{})
	close(changed)
	return w.changed
}

// watcher is who reads for them.
type watcher struct {
	*watch
	file    *pages.Follower
	times   int // of the file
	at      pages.Cursor
	now     watched
	settled bool
	failed  error
	maps    time.Time // when they are to be looked at again
	curve   heatview.Curve
	curved  pages.Cursor
	drawn   time.Time // when that was told
	undrawn bool      // there is more
}

func (w *watch) follow(ctx context.Context, changed chan struct{}) {
	t, err := w.p.openTable()
	if err != nil {
		w.tell(changed, nil, err)
		return
	}
	r := &watcher{watch: w, file: pages.Follow(t.Path(), t.Nonce)}
	t.Close()
	defer r.file.Close()
	for {
		isNew, took := timed(func() bool { return r.next(ctx) })
		switch {
		case r.failed != nil && isNew:
			changed = w.tell(changed, nil, r.failed)
		case isNew:
			now := r.now
			changed = w.tell(changed, &now, nil)
		}
		wait := lookOften
		if r.settled || r.failed != nil && !errors.Is(r.failed, pages.ErrNone) {
			wait = lookSeldom
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(wait, lookRest*took)):
		}
	}
}

// next reads what is new, and reports whether anything is.
func (r *watcher) next(ctx context.Context) (isNew bool) {
	s, isNew, err := r.file.Next()
	if err != nil {
		isNew = r.failed == nil
		if r.failed = err; errors.Is(err, pages.ErrNone) {
			r.failed = heat.NotNoted(r.p.source.Path(), err)
		}
		return isNew
	}
	isNew = isNew || r.failed != nil
	r.failed = nil
	if isNew {
		r.add(s)
	}
	if time.Now().After(r.maps) && !r.settled {
		isNew = r.look(s.File) || isNew
		r.maps = time.Now().Add(mapsOften)
	}
	if !r.settled && r.hasEnded() {
		isNew = r.settle(ctx) || isNew
	}
	if r.undrawn = r.undrawn || isNew; r.undrawn && time.Since(r.drawn) > curveOften {
		r.draw()
		r.drawn, r.undrawn, isNew = time.Now(), false, true
	}
	return isNew
}

// add adds what is new of slices.
func (r *watcher) add(s pages.State) {
	n := &r.now
	s.File = s.File.In(s.File.Noted)
	n.File, n.Granule, n.Written = s.File, s.File.Noted.Size(), s.Written
	if s.Times != r.times {
		r.times = s.Times
		n.Times++
		r.at, r.curved, r.curve = pages.Cursor{}, pages.Cursor{}, heatview.Curve{}
		r.settled, n.Settle, r.maps = false, nil, time.Time{} // it may be the end that is written
		n.Used = nil
		if s.File.Count > 0 {
			n.Used = pages.Unnumbered(s.File.Pages())
		}
		s.File.From(&r.at, func(s *pages.Slice, _ *pages.Cursor) bool { n.Executed = s.Executed; return true })
		return
	}
	var more []pages.Range
	s.File.From(&r.at, func(s *pages.Slice, _ *pages.Cursor) bool {
		n.Executed = s.Executed
		more = pages.Union(more, s.Ranges)
		return true
	})
	n.Used = pages.Union(n.Used, more)
}

// hasEnded reports whether the program has, and all is written.
func (r *watcher) hasEnded() bool {
	f, err := r.p.last()
	return r.now.File.Ended || err == nil && !f.Running
}

// settle says which pages were executed, which the table knows better than slices do.
func (r *watcher) settle(ctx context.Context) bool {
	t, done, err := r.s.whole(ctx, r.p)
	if err != nil {
		return false
	}
	defer done()
	n := &r.now
	_, flow, err := heat.FlowOf(t, n.File)
	if err != nil {
		return false
	}
	ran := heat.Executed(t, flow, n.File)
	n.Settle = func(list []pages.Range) []pages.Range { return heat.Settle(list, ran) }
	n.Used = n.Settle(n.Used)
	n.Times++
	r.settled = true
	r.curved, r.curve, r.drawn = pages.Cursor{}, heatview.Curve{}, time.Time{} // of all at once
	return true
}

// look finds out what is mapped: while the program runs the kernel says so, then the file.
func (r *watcher) look(f *pages.File) (isNew bool) {
	book := r.p.source.Book()
	mappings := heat.Named(f.Mappings, book.Objects, r.p.source.Path())
	if !f.Ended {
		if now := r.mapped(f); now != nil {
			mappings = heat.Named(now, book.Objects, r.p.source.Path())
		}
	}
	bands := bandsOf(mappings, r.now.Granule)
	more := max(0, len(bands)-mostBands)
	bands = bands[:len(bands)-more]
	n := &r.now
	if n.memory != nil && slices.Equal(bands, n.Mapped) {
		return false
	}
	n.Mapped = bands
	n.Maps++
	type band struct {
		Name string `json:"name"`
		From uint64 `json:"from"`
		To   uint64 `json:"to"`
		Ours bool   `json:"ours,omitempty"`
	}
	told := []band{}
	for _, b := range bands {
		told = append(told, band{b.Name, b.First * n.Granule, b.End * n.Granule, b.Ours})
	}
	n.memory = heatview.Join(map[string]any{"schema": heatview.Schema, "kind": "memory", "memory": told, "more": more}, nil)
	return true
}

// mapped is what is mapped in the program now, if its number here is still that of it. Shared memory
// is ours where the file says so of it.
func (r *watcher) mapped(f *pages.File) (list []pages.Mapping) {
	book := r.p.source.Book()
	ours := map[uint64]bool{}
	for i := range f.Mappings {
		if one := &f.Mappings[i]; one.Ours && one.IsShared() {
			ours[one.Inode] = true
		}
	}
	all, err := procmaps.Of(strconv.FormatUint(uint64(book.Pid), 10))
	if err != nil || len(book.Objects) == 0 {
		return nil
	}
	is := false
	for _, m := range all {
		is = is || m.Start == book.Objects[0].Low && m.Path == book.Objects[0].Path
		one := pages.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path, Inode: m.Inode}
		one.Ours = one.IsShared() && ours[m.Inode]
		list = append(list, one)
	}
	if !is {
		return nil
	}
	return list
}

// draw makes the frame of curves.
func (r *watcher) draw() {
	n := &r.now
	r.curve.Add(n.File.In(pages.Page), &r.curved, n.Executed)
	of, touched := map[string]uint64{}, uint64(0)
	for _, u := range n.Used {
		touched += u.Pages
	}
	for _, u := range pages.Coarse(nil, n.Used, pages.Page-n.File.Noted) {
		of["touched"] += u.Pages
		for name, is := range map[string]pages.What{"read": pages.WasRead, "written": pages.WasWritten, "executed": pages.WasExecuted} {
			if u.What&is != 0 {
				of[name] += u.Pages
			}
		}
	}
	var body []byte
	for _, of := range []func(*heatview.Point) uint64{
		func(p *heatview.Point) uint64 { return p.Instructions }, func(p *heatview.Point) uint64 { return p.Nanoseconds }, func(p *heatview.Point) uint64 { return p.Touched },
		func(p *heatview.Point) uint64 { return p.Used }, func(p *heatview.Point) uint64 { return p.WorkingSet }, func(p *heatview.Point) uint64 { return p.Resident },
		func(p *heatview.Point) uint64 { return p.Minor }, func(p *heatview.Point) uint64 { return p.Major }, func(p *heatview.Point) uint64 { return p.Threads }, func(p *heatview.Point) uint64 { return uint64(p.Counting) },
	} {
		for i := range r.curve.Points {
			body = binary.LittleEndian.AppendUint64(body, math.Float64bits(float64(of(&r.curve.Points[i]))))
		}
	}
	n.curves++
	n.curve = heatview.Join(map[string]any{
		"schema": heatview.Schema, "kind": "curve", "n": len(r.curve.Points), "window": r.curve.Window, "page": pages.PageSize, "granule": n.Granule, "granules": touched, "settled": r.settled,
		"curves":  []string{"instructions", "ns", "touched", "used", "working_set", "resident", "minor_faults", "major_faults", "threads", "counting"},
		"touched": of["touched"], "read": of["read"], "written": of["written"], "executed": of["executed"],
	}, body)
}

// watchOf is that of a program.
func (s *Server) watchOf(p *program) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.watch == nil {
		p.watch = &watch{s: s, p: p}
	}
	return p.watch
}

// bandsOf is what is mapped, the shadow left out.
func bandsOf(mappings []pages.Mapping, granule uint64) (bands []heatview.Band) {
	for i := range mappings {
		m := &mappings[i]
		b := heatview.Band{Name: heat.NameOf(m), First: m.Start / granule, End: min((m.End+granule-1)/granule, pages.Pages*pages.PageSize/granule), Ours: m.Ours, Gone: m.Gone}
		if n := len(bands); n > 0 && bands[n-1].Name == b.Name && bands[n-1].Gone == b.Gone && bands[n-1].End == b.First {
			bands[n-1].End = b.End
		} else if b.End > b.First && !m.IsShadow() {
			bands = append(bands, b)
		}
	}
	return bands
}
