package exporter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// hostOf is an endpoint of all tables in dir, with a clock that can be moved.
func hostOf(t testing.TB, dir string) (e *Endpoint, clock *time.Time) {
	now := time.Now()
	e = NewHost(func() []string { return []string{dir, filepath.Join(dir, "missing")} }, time.Minute, Options{Top: 2})
	e.src.(*host).now = func() time.Time { return now }
	t.Cleanup(e.Close)
	return e, &now
}

// running is a table of this very process, which has it mapped.
func running(t testing.TB, dir, program string, change func(*build.Spec)) (live *tabletest.Live, end func()) {
	t.Helper()
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(os.Getpid())
	spec.Program = program
	if change != nil {
		change(spec)
	}
	live = tabletest.Demo(t, filepath.Join(dir, filepath.Base(program)+tabledir.Ext), spec)
	f, err := os.Open(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, layout.PageSize, syscall.PROT_READ, syscall.MAP_SHARED)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	gone := false
	end = func() {
		if !gone {
			gone = true
			syscall.Munmap(m)
			live.Close()
		}
	}
	t.Cleanup(end)
	return live, end
}

func (s scraped) has(parts ...string) bool {
	for key := range s {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(key+",", p+",")
		}
		if all {
			return true
		}
	}
	return false
}

// Programs are served as they come, and for a while after they have gone.
func TestHost(t *testing.T) {
	dir := t.TempDir()
	e, clock := hostOf(t, dir)
	if s := scrape(t, e, ""); s.total() != 0 || s["dynprof_tables,state=served"] != 0 {
		t.Errorf("nothing is there: %v", s)
	}
	pid := fmt.Sprint("pid=", os.Getpid())
	_, end := running(t, dir, "/opt/a", nil)
	*clock = clock.Add(2 * time.Second)
	s := scrape(t, e, "")
	if !s.has(callsName, "function=main", "program=/opt/a", pid) || !s.has("dynprof_threads", "program=/opt/a", pid) || s.total() != 2223 {
		t.Errorf("a is not served: %v", s)
	}
	b, _ := running(t, dir, "/opt/b", nil)
	container, _ := running(t, dir, "/opt/c", func(s *build.Spec) { s.Program, s.PidNS = "/opt/b", 4026539999 })
	if err := os.WriteFile(filepath.Join(dir, "junk"+tabledir.Ext), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	*clock = clock.Add(2 * time.Second)
	s = scrape(t, e, "")
	if !s.has("program=/opt/b", pid) || !s.has("program=/opt/b", pid+"/4026539999") || s.total() != 3*2223 ||
		s["dynprof_tables,state=served"] != 3 || s["dynprof_tables,state=unreadable"] != 1 || s["dynprof_tables,state=duplicate"] != 0 {
		t.Errorf("b and the container are not served: %v", s)
	}
	one := scrape(t, e, "?pid="+strings.TrimPrefix(pid, "pid=")+"/4026539999")
	if one.total() != 2223 || one.has("program=/opt/a") {
		t.Errorf("of one program: %v", one)
	}
	if w := get(e, "/metrics?pid=1"); w.Code != http.StatusNotFound {
		t.Errorf("of no program: status %d", w.Code)
	}
	end()
	*clock = clock.Add(2 * time.Second)
	if s = scrape(t, e, ""); !s.has("program=/opt/a") {
		t.Errorf("the last counts of a are not served: %v", s)
	}
	*clock = clock.Add(2 * time.Minute)
	if s = scrape(t, e, ""); s.has("program=/opt/a") || !s.has("program=/opt/b") {
		t.Errorf("a is served for ever: %v", s)
	}
	os.Remove(b.Path)
	os.Truncate(container.Path, 5000)
	*clock = clock.Add(2 * time.Second)
	if s = scrape(t, e, ""); s.has("program=/opt/b") || s["dynprof_tables,state=unreadable"] != 2 || s["dynprof_tables,state=served"] != 0 {
		t.Errorf("gone and damaged: %v", s)
	}
}

// Of two tables of one program and process the one that is counted into is
// served: after an exec of the same file.
// TestHostFolded: what was folded was served before, and is not served again.
func TestHostFolded(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i := range uint32(4) {
		spec := tabletest.Spec()
		spec.Identity = alive.Identify(os.Getpid())
		spec.StartTicks, spec.Pid = spec.StartTicks+1, 1000+i
		live := tabletest.CreateAt(t, filepath.Join(dir, fmt.Sprint(i)+tabledir.Ext), spec)
		live.Row(layout.Row{Index: 0, State: layout.RowLive, Pid: spec.Pid, Tid: spec.Pid})
		live.Set(0, 5)
		live.Close()
		paths = append(paths, live.Path)
	}
	e, _ := hostOf(t, dir)
	if s := scrape(t, e, ""); s.total() != 20 {
		t.Errorf("%v calls of four programs", s.total())
	}
	e.Close()
	if gone, err := edit.Fold(paths, 3); gone != 3 || err != nil {
		t.Fatalf("%d gone, %v", gone, err)
	}
	e, _ = hostOf(t, dir)
	if s := scrape(t, e, ""); s.total() != 0 {
		t.Errorf("%v calls of a folded table", s.total())
	}
}

func TestHostSameLabels(t *testing.T) {
	dir := t.TempDir()
	e, clock := hostOf(t, dir)
	_, end := running(t, dir, "/opt/a", nil)
	if s := scrape(t, e, ""); s.total() != 2223 {
		t.Errorf("the first: %v", s)
	}
	again, _ := running(t, dir, "/opt/b", func(s *build.Spec) { s.Program = "/opt/a" })
	again.Set(0, 1)
	*clock = clock.Add(2 * time.Second)
	if s := scrape(t, e, ""); s["dynprof_tables,state=duplicate"] != 1 || s.total() != 2223 {
		t.Errorf("both: %v", s)
	}
	end()
	*clock = clock.Add(2 * time.Second)
	scrape(t, e, "") // sees the end
	*clock = clock.Add(2 * time.Second)
	if s := scrape(t, e, ""); s["dynprof_tables,state=duplicate"] != 0 || s.total() != 2223-699 {
		t.Errorf("the second: %v", s)
	}
}

func TestDiscovery(t *testing.T) {
	dir := t.TempDir()
	e, clock := hostOf(t, dir)
	list := func() (targets []target) {
		t.Helper()
		*clock = clock.Add(2 * time.Second)
		w := get(http.HandlerFunc(e.Discovery), "http://host:9465/sd")
		if c := w.Header().Get("Content-Type"); c != "application/json" {
			t.Errorf("Content-Type %s", c)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &targets); err != nil || targets == nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		return targets
	}
	if n := len(list()); n != 0 {
		t.Errorf("%d targets", n)
	}
	running(t, dir, "/opt/a", func(s *build.Spec) { s.Listen = "127.0.0.1:1234" })
	running(t, dir, "/opt/b", nil)
	all := list()
	if len(all) != 2 || all[0].Targets[0] != "host:9465" || all[0].Labels["__meta_dynprof_program"] != "/opt/a" ||
		all[0].Labels["__param_pid"] != fmt.Sprint(os.Getpid()) || all[0].Labels["__meta_dynprof_listen"] != "127.0.0.1:1234" || all[1].Labels["__meta_dynprof_listen"] != "" {
		t.Errorf("%+v", all)
	}
}
