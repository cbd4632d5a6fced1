package exporter

import (
	"encoding/json"
	"net/http"
	"time"
)

// target is an entry of Prometheus's HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// Discovery answers Prometheus's HTTP service discovery: a target for each
// program of an endpoint of many, which is scraped through that endpoint.
func (e *Endpoint) Discovery(w http.ResponseWriter, r *http.Request) {
	if !ReadOnly(w, r) {
		return
	}
	targets := []target{} // [] and not null
	for _, t := range e.list() {
		labels := map[string]string{
			"__param_pid": t.label[1], "__meta_dynprof_program": t.label[0], "__meta_dynprof_pid": t.label[1],
			"__meta_dynprof_started": t.started.UTC().Format(time.RFC3339),
		}
		if t.listen != "" {
			labels["__meta_dynprof_listen"] = t.listen
		}
		targets = append(targets, target{[]string{r.Host}, labels})
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(targets) // an error is the client's
}

// listed is a program of an endpoint.
type listed struct {
	label   [2]string
	listen  string
	started time.Time
}

func (e *Endpoint) list() []listed {
	h, ok := e.src.(*host)
	if !ok {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h.look()
	var all []listed
	for _, t := range h.sorted() {
		all = append(all, listed{t.label, t.p.meter.Listen, t.p.meter.Realtime})
	}
	return all
}
