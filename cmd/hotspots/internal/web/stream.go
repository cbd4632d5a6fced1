package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heatview"
	"github.com/dynprof/dynprof/internal/symname"
)

// Bounds of those who watch pages.
const (
	maxWatching  = 8 // at a time: each has up to 8 MB of cells
	frameOften   = 16 * time.Millisecond
	frameBytes   = 1 << 20
	writeTime    = 10 * time.Second // then who does not read is left
	endTime      = time.Second
	pingOften    = 20 * time.Second
	viewsAtOnce  = 200 // views that may come faster than
	viewsASecond = 60
)

// protocol is what both speak. A browser tells its token as another one, of which the server
// says nothing: it can send no header of ours.
const (
	protocol      = "hotspots.memory.2"
	tokenProtocol = "hotspots.token."
)

// stream tells who sees pages what has changed in his view.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	p, err := s.program(r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	leave, err := s.enter()
	if err != nil {
		refuse(w, http.StatusTooManyRequests, err.Error())
		return
	}
	defer leave()
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it has told why
	}
	defer c.CloseNow()
	if c.Subprotocol() != protocol {
		c.Close(websocket.StatusPolicyViolation, "speak "+protocol)
		return
	}
	watch := s.watchOf(p)
	defer watch.join()()
	err = converse(s.ctx, c, watch)
	var bad *badView
	switch {
	case s.ctx.Err() != nil:
		c.Close(websocket.StatusGoingAway, "hotspots web has ended")
	case errors.As(err, &bad):
		c.Close(bad.status, closing(bad.why))
	}
}

// enter lets one more in; leave lets him out.
func (s *Server) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return nil, s.ctx.Err()
	case s.watching >= maxWatching:
		return nil, fmt.Errorf("%d pages show memory already: close one", maxWatching)
	}
	s.watching++
	s.done.Add(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watching--
		s.done.Done()
	}, nil
}

// badView is why one is not talked to any more.
type badView struct {
	status websocket.StatusCode
	why    string
}

func (b *badView) Error() string { return b.why }

// closing is what fits a close frame.
func closing(why string) string {
	why = symname.Clean(why)
	return why[:min(len(why), 120)]
}

// converse reads views, of which the last one counts, and tells what is in it. Whoever is slow
// is told less often, and then all that has changed meanwhile: nothing is kept for him but his
// cells.
func converse(ctx context.Context, c *websocket.Conn, watch *watch) error {
	c.SetReadLimit(heatview.MostText)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	views := make(chan heatview.View, 1)
	go func() { stop(listen(c, views)) }()
	ping := time.NewTicker(pingOften)
	defer ping.Stop()
	viewer := viewer{c: c, watch: watch}
	for {
		now, changed, err := watch.look()
		if err == nil {
			err = viewer.show(ctx, now, views)
		} else {
			err = viewer.none(ctx, err)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
		wait := time.NewTimer(frameOften)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
		select {
		case v := <-views:
			viewer.view, viewer.grid = &v, nil
		case <-changed:
		case <-ping.C:
			pinging, done := context.WithTimeout(ctx, writeTime)
			err := c.Ping(pinging)
			done()
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listen reads views until what comes is none, or the connection is closed: a context that is
// done would close it without a word.
func listen(c *websocket.Conn, views chan heatview.View) error {
	may, since := float64(viewsAtOnce), time.Now()
	for {
		kind, text, err := c.Read(context.Background())
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			return &badView{websocket.StatusUnsupportedData, "views are text"}
		}
		v, err := heatview.ParseView(text)
		if err != nil {
			return &badView{websocket.StatusPolicyViolation, err.Error()}
		}
		now := time.Now()
		may, since = min(viewsAtOnce, may+viewsASecond*now.Sub(since).Seconds())-1, now
		if may < 0 {
			return &badView{websocket.StatusPolicyViolation, fmt.Sprintf("more than %d views a second", viewsASecond)}
		}
		select {
		case <-views: // nobody has looked at it
		default:
		}
		views <- v
	}
}

// viewer is one of those who watch.
type viewer struct {
	c      *websocket.Conn
	watch  *watch
	view   *heatview.View // nil: he has not said yet
	grid   *heatview.Grid // nil: to be made
	maps   int            // what he knows
	curves int
	told   string
}

// show tells what is new, unless he looks elsewhere meanwhile.
func (v *viewer) show(ctx context.Context, now *watched, views <-chan heatview.View) error {
	if v.view == nil || now == nil {
		return nil
	}
	v.told = ""
	if v.maps != now.Maps {
		v.maps = now.Maps
		if err := v.write(ctx, now.memory); err != nil {
			return err
		}
	}
	if v.grid == nil {
		v.grid = heatview.NewGrid(*v.view, &now.Source)
	} else {
		v.grid.Update(&now.Source)
	}
	for frame := v.grid.Frame(frameBytes); frame != nil && len(views) == 0; frame = v.grid.Frame(frameBytes) {
		if err := v.write(ctx, frame); err != nil {
			return err
		}
	}
	if v.curves != now.curves {
		v.curves = now.curves
		return v.write(ctx, now.curve)
	}
	return nil
}

// none tells why there is nothing to be seen.
func (v *viewer) none(ctx context.Context, why error) error {
	if v.view == nil || v.told == why.Error() {
		return nil
	}
	v.told = why.Error()
	return v.write(ctx, heatview.Join(map[string]any{"schema": heatview.Schema, "kind": "none", "why": symname.Clean(v.told)}, nil))
}

// write writes a frame. To end in the middle of it would end all without a word, so that the
// end waits for it, if not for long.
func (v *viewer) write(ctx context.Context, frame []byte) error {
	writing, done := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer done()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endTime, done) })()
	return v.c.Write(writing, websocket.MessageBinary, frame)
}
