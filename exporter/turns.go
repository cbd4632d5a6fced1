package exporter

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
)

// maxTurns bounds the answers that are in memory: slow clients keep theirs until
// they have read it or time is up.
const maxTurns = 8

// roomTime is how long a scrape waits for one of them to go: where a machine is busy,
// clients that do read take their time, too. Prometheus waits 10 s for its answer.
const roomTime = 5 * time.Second

var errBusy = errors.New("too many scrapes at a time, or clients that do not read their answers")

// turns lets scrapes that wait at the same time share one answer. Who comes
// while an answer is being made does not get that one, which may be older than
// its question, but the next.
//
//  1. Who asks joins the turn that waits for its kind of answer, or makes one, when there
//     is room for its answer.
//  2. A turn's goroutine waits for the endpoint, takes the turn out of waiting
//     (nobody joins any more), reads the tables, and closes done.
//  3. All who joined write the answer to their clients, and leave; with the last
//     of them the answer goes.
type turns struct {
	mu      sync.Mutex
	waiting map[string]*turn
	alive   int
	freed   chan struct{} // closed when there is room again; nil: nobody waits for that
	room    time.Duration // roomTime, or 0
	scratch bytes.Buffer  // guarded by making
	making  sync.Mutex
}

// turn is one answer for all who wait for it.
type turn struct {
	done    chan struct{}
	body    []byte
	err     error
	readers int // and the goroutine that makes it
}

// ask returns the answer to q in that form. Call leave when it is written.
func (e *Endpoint) ask(ctx context.Context, q *query, format expfmt.Format, compressed bool) (body []byte, leave func(), err error) {
	key := fmt.Sprint(q.key, "\x00\x00", q.pid, "\x00", format, compressed)
	t, err := e.turn.await(ctx, key, func(t *turn, begun func()) {
		t.body, t.err = e.render(q, format, compressed, begun)
	})
	if err != nil {
		return nil, func() {}, err
	}
	leave = func() { e.turn.leave(t) }
	select {
	case <-t.done:
		return t.body, leave, t.err
	case <-ctx.Done():
		return nil, leave, ctx.Err()
	}
}

// await joins a turn as soon as there is room.
func (ts *turns) await(ctx context.Context, key string, answer func(t *turn, begun func())) (*turn, error) {
	patience := time.NewTimer(cmp.Or(ts.room, roomTime))
	defer patience.Stop()
	for {
		t, freed := ts.join(key, answer)
		if t != nil {
			return t, nil
		}
		select {
		case <-freed:
		case <-patience.C:
			return nil, errBusy
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join returns a turn or, where there is no room for one, what tells when there is.
func (ts *turns) join(key string, answer func(t *turn, begun func())) (*turn, <-chan struct{}) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.waiting[key]; t != nil {
		t.readers++
		return t, nil
	}
	if ts.alive >= maxTurns {
		if ts.freed == nil {
			ts.freed = make(chan struct{})
		}
		return nil, ts.freed
	}
	t := &turn{done: make(chan struct{}), readers: 2}
	if ts.waiting == nil {
		ts.waiting = map[string]*turn{}
	}
	ts.waiting[key] = t
	ts.alive++
	begun := func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if ts.waiting[key] == t {
			delete(ts.waiting, key)
		}
	}
	go func() {
		defer ts.leave(t)
		defer close(t.done)
		defer begun() // also if it fails before
		defer func() {
			if p := recover(); p != nil {
				t.body, t.err = nil, fmt.Errorf("BUG: %v", p)
			}
		}()
		answer(t, begun)
	}()
	return t, nil
}

func (ts *turns) leave(t *turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.readers--; t.readers == 0 {
		ts.alive--
		t.body = nil
		if ts.freed != nil {
			close(ts.freed)
			ts.freed = nil
		}
	}
}

// render makes the answer. Both buffers are as large as the answer before; only
// what is sent is new each time.
func (e *Endpoint) render(q *query, format expfmt.Format, compressed bool, begun func()) ([]byte, error) {
	e.turn.making.Lock()
	defer e.turn.making.Unlock()
	begun()
	buf := &e.turn.scratch
	buf.Reset()
	if err := e.write(buf, q, format); err != nil {
		return nil, err
	}
	if !compressed {
		return bytes.Clone(buf.Bytes()), nil
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(buf.Bytes()); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
