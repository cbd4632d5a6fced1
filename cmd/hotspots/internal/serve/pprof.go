package serve

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/export"
	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/table"
)

// profiles answers /pprof/calls with a profile of calls: of all that there were, or with
// ?seconds=N of those that are made in the next N seconds, as collectors of profiles ask for
// (Parca: delta; Pyroscope: delta).
type profiles struct {
	endpoint *exporter.Endpoint
	mangled  bool
	many     bool
	turn     chan struct{} // room for a profile that is being made
}

// Bounds of a profile.
const (
	maxSeconds  = 300
	atATime     = 4 // that are waited for or made
	profileTime = 30 * time.Second
)

func newProfiles(e *exporter.Endpoint, opt exporter.Options, many bool) *profiles {
	return &profiles{e, opt.Mangled, many, make(chan struct{}, atATime)}
}

// parse reads the query.
func (p *profiles) parse(values url.Values) (pid string, seconds int, err error) {
	for name := range values {
		if name != "seconds" && (name != "pid" || !p.many) {
			return "", 0, fmt.Errorf("unknown parameter %q: there are seconds%s", name, map[bool]string{true: ", pid"}[p.many])
		}
	}
	if values.Has("seconds") {
		if seconds, err = strconv.Atoi(values.Get("seconds")); err != nil || seconds < 1 || seconds > maxSeconds {
			return "", 0, fmt.Errorf("seconds is a number from 1 to %d", maxSeconds)
		}
	}
	return values.Get("pid"), seconds, nil
}

func (p *profiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !exporter.ReadOnly(w, r) {
		return
	}
	pid, seconds, err := p.parse(r.URL.Query())
	if err != nil {
		exporter.Refuse(w, http.StatusBadRequest, err)
		return
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	default:
		exporter.Refuse(w, http.StatusServiceUnavailable, errors.New("too many profiles at a time"))
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Duration(seconds)*time.Second + profileTime))
	path, err := p.endpoint.TableOf(pid)
	var body bytes.Buffer
	if err == nil {
		err = p.profile(r, path, time.Duration(seconds)*time.Second, &body)
	}
	if err != nil {
		exporter.Refuse(w, exporter.StatusOf(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="calls.pb.gz"`)
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.Write(body.Bytes())
}

// profile makes one of a table.
func (p *profiles) profile(r *http.Request, path string, window time.Duration, body *bytes.Buffer) error {
	var before *export.CallsAt
	if window > 0 {
		err := withTable(path, func(t *table.Table) (err error) {
			before, err = export.CallsNow(t)
			return err
		})
		if err != nil {
			return err
		}
		select {
		case <-time.After(window):
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	return withTable(path, func(t *table.Table) error {
		_, err := export.PprofSince(body, t, before, p.mangled)
		return err
	})
}

// withTable opens a table for a while.
func withTable(path string, use func(*table.Table) error) error {
	t, err := table.Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	return use(t)
}
