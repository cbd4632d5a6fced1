package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dynprof/dynprof/internal/symname"
)

const apiPath = "/api/"

// handler answers for pages and API, without a guard.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", serveAsset)
	mux.HandleFunc(apiPath, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "there is no such thing in this API: see docs/web.md")
	})
	mux.HandleFunc("GET /api/v1/tables/{id}/memory/live", s.stream)
	for path, answer := range map[string]func(*http.Request) (reply, error){
		"GET /api/v1/tables":                        s.tables,
		"POST /api/v1/tables/{id}":                  s.open,
		"GET /api/v1/tables/{id}/functions":         s.of(functions),
		"GET /api/v1/tables/{id}/counts":            s.of(counts),
		"GET /api/v1/tables/{id}/times":             s.of(times),
		"GET /api/v1/tables/{id}/timeline":          s.of(timeline),
		"GET /api/v1/tables/{id}/range":             s.of(within),
		"GET /api/v1/tables/{id}/events":            s.of(events),
		"GET /api/v1/tables/{id}/threads":           s.of(threads),
		"GET /api/v1/tables/{id}/coverage":          s.of(s.coverage),
		"GET /api/v1/tables/{id}/memory":            s.of(s.memory),
		"GET /api/v1/tables/{id}/memory/at":         s.of(s.at),
		"GET /api/v1/tables/{id}/memory/names":      s.of(s.named),
		"GET /api/v1/tables/{id}/memory/whose":      s.of(s.whose),
		"GET /api/v1/tables/{id}/memory/objects":    s.of(s.objects),
		"GET /api/v1/tables/{id}/memory/part":       s.of(s.touchedIn),
		"GET /api/v1/tables/{id}/functions/{index}": s.of(detail),
		"GET /api/v1/diff":                          s.diff,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			a, err := answer(r)
			if err != nil {
				var status statusError
				if !errors.As(err, &status) {
					status = http.StatusBadRequest
				}
				refuse(w, int(status), err.Error())
				return
			}
			w.Header().Set("Content-Type", a.kind)
			w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
			w.Write(a.body)
		})
	}
	return mux
}

// reply is the body of an answer.
type reply struct {
	kind string
	body []byte
}

// statusError is the status of an answer that says what is wrong.
type statusError int

func (e statusError) Error() string { return http.StatusText(int(e)) }

// failed has a status for an error.
func failed(status int, err error) error {
	return &failure{statusError(status), err}
}

type failure struct {
	statusError
	err error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.statusError }

// refuse answers with what is wrong.
func refuse(w http.ResponseWriter, status int, why string) {
	body, _ := json.Marshal(map[string]any{"schema": Schema, "error": symname.Clean(why)})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

func jsonReply(v any) (reply, error) {
	b, err := json.Marshal(v)
	return reply{"application/json", b}, err
}

func columnsReply(head map[string]any, functions []uint32, counts []uint64) (reply, error) {
	b, err := columns(head, functions, counts)
	return reply{"application/octet-stream", b}, err
}

// of answers for the program that the path names.
func (s *Server) of(answer func(*program, url.Values, *http.Request) (reply, error)) func(*http.Request) (reply, error) {
	return func(r *http.Request) (reply, error) {
		p, err := s.program(r.PathValue("id"))
		if err != nil {
			return reply{}, failed(http.StatusNotFound, err)
		}
		q, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return reply{}, err
		}
		return answer(p, q, r)
	}
}

// number reads a parameter that is not negative; without it the number is none.
func number(q url.Values, name string, none int64) (int64, error) {
	if !q.Has(name) {
		return none, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < 0 || len(q[name]) > 1 {
		return 0, fmt.Errorf("%s=%.40q: it is one number, 0 or more", name, q.Get(name))
	}
	return n, nil
}

// milliseconds is a time as JavaScript has it.
func milliseconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

func moment(ms int64) time.Time {
	const never = 253402300799999 // in the year 9999
	return time.UnixMilli(min(ms, never))
}
