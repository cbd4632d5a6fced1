package exporter

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/dynprof/dynprof/internal/symname"
)

// Bounds of a connection: memory and patience with slow clients.
const (
	MaxConnections = 1200
	headerTime     = 10 * time.Second
	answerTime     = 30 * time.Second
	idleTime       = 2 * time.Minute
	maxHeader      = 16 << 10
)

// formats that are spoken, the preferred first.
var formats = []expfmt.Format{expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtText}

// NewServer returns an HTTP server for h whose clients cannot hold on to much.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
	}
}

// ServeHTTP answers a scrape.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !ReadOnly(w, r) {
		return
	}
	asked := time.Now()
	q, err := parseQuery(r.URL.Query(), e.top, e.src.many())
	if err != nil {
		Refuse(w, http.StatusBadRequest, err)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, formats...)
	compressed := acceptsGzip(r.Header)
	body, leave, err := e.ask(r.Context(), q, format, compressed)
	defer leave()
	if err != nil {
		Refuse(w, StatusOf(err), err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", string(format))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Add("Vary", "Accept")
	h.Add("Vary", "Accept-Encoding")
	if compressed {
		h.Set("Content-Encoding", "gzip")
	}
	if _, err := w.Write(body); err == nil && r.Context().Err() == nil && time.Since(asked) < patience(r) {
		e.answered.note(asked)
	}
}

// patience is how long the client waits for its answer: Prometheus says so.
func patience(r *http.Request) time.Duration {
	s, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(s > 0 && s < answerTime.Seconds()) {
		return answerTime
	}
	return time.Duration(s * float64(time.Second))
}

// StatusOf says whose fault an error is.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, errBusy), errors.Is(err, errViews), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	case errors.Is(err, errWhich):
		return http.StatusBadRequest
	case errors.Is(err, errNone), errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// Refuse answers with one line of text.
func Refuse(w http.ResponseWriter, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, symname.Clean(err.Error()), status)
}

// ReadOnly refuses what is no GET or HEAD.
func ReadOnly(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	Refuse(w, http.StatusMethodNotAllowed, errors.New("only GET and HEAD"))
	return false
}

// Healthy answers /-/healthy.
func Healthy(w http.ResponseWriter, r *http.Request) {
	if ReadOnly(w, r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("healthy\n"))
	}
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3).
func acceptsGzip(h http.Header) bool {
	for part := range strings.SplitSeq(h.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name = strings.TrimSpace(name); name != "gzip" && name != "*" {
			continue
		}
		weight, found := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !found || err != nil || q > 0
	}
	return false
}
