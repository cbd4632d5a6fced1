package test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table"
)

// reading is a table's total, read between two moments.
type reading struct {
	begin, end time.Time
	total      float64
}

// watched is what a table was seen to have, and while its program stood still.
type watched struct {
	readings []reading
	pauses   []reading
}

// watch reads a table for some seconds, and stops its program every six, until a
// scrape that began since has found it so.
func watch(t *testing.T, path string, seconds int, scraped func(since time.Time) bool) *watched {
	t.Helper()
	m, err := table.OpenMeter(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	w, buf := &watched{}, &table.Reading{}
	read := func() reading {
		r := reading{begin: time.Now()}
		if err := m.Read(buf); err != nil {
			t.Fatal(err)
		}
		r.end, r.total = time.Now(), float64(buf.Total)
		return r
	}
	const each = 6 * time.Second
	next := time.Now().Add(each / 2)
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(next) {
			next = next.Add(each)
			resume := stand(t, int(m.Pid))
			pause := read()
			for limit := time.Now().Add(30 * time.Second); !scraped(pause.end) && time.Now().Before(limit); {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(20 * time.Millisecond) // more than the slack of check
			last := read()
			resume()
			if last.total != pause.total {
				t.Errorf("%v calls while it stands still", last.total-pause.total)
			}
			w.pauses = append(w.pauses, reading{pause.begin, last.end, last.total})
		}
		w.readings = append(w.readings, read())
	}
	return w
}

// stand stops a process and its children until resume is called.
func stand(t *testing.T, pid int) (resume func()) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	all := []int{pid}
	for _, s := range strings.Fields(string(children)) {
		child, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, child)
	}
	for _, p := range all {
		syscall.Kill(p, syscall.SIGSTOP)
	}
	for _, p := range all {
		for limit := time.Now().Add(patience); !strings.HasPrefix(state(p, "State"), "T"); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("process %d does not stop", p)
			}
		}
	}
	return func() {
		for _, p := range all {
			syscall.Kill(p, syscall.SIGCONT)
		}
	}
}

// check compares the sums of a job's scrapes with what the table had just before
// and just after each, and, while the program stood still, at it.
func (w *watched) check(t *testing.T, p *prometheus, job string, totals []sample) {
	t.Helper()
	const slack = 5 * time.Millisecond // Prometheus moves times by 2 to align them
	took := map[float64]float64{}
	for _, s := range p.query(`scrape_duration_seconds{job="` + job + `"}[1h]`) {
		for _, v := range s.values {
			took[v.time] = v.value
		}
	}
	between, exact := 0, 0
	for _, s := range totals {
		from := time.UnixMilli(int64(s.time * 1000))
		to := from.Add(time.Duration(took[s.time]*float64(time.Second)) + slack)
		from = from.Add(-slack)
		bounded := false
		for _, r := range w.readings {
			if r.end.Before(from) && s.value < r.total {
				t.Errorf("%s: a scrape of %v, %v calls, when there had been %v", job, from, s.value, r.total)
				break
			}
			if r.begin.After(to) {
				bounded = true
				if s.value > r.total {
					t.Errorf("%s: a scrape of %v, %v calls, and later there were %v", job, from, s.value, r.total)
				}
				break
			}
		}
		if bounded {
			between++
		}
		for _, r := range w.pauses {
			if r.begin.Before(from) && r.end.After(to) {
				exact++
				if s.value != r.total {
					t.Errorf("%s: a scrape of %v, %v calls; the table had %v, and the program stood still", job, from, s.value, r.total)
				}
			}
		}
	}
	if len(w.pauses) == 0 || exact < len(w.pauses) || between < len(totals)/2 {
		t.Errorf("%s: %d scrapes in %d pauses, %d of %d between two readings", job, exact, len(w.pauses), between, len(totals))
	}
	t.Logf("%s: %d scrapes, all between the table's totals before and after; %d while the program stood still, equal to the table", job, len(totals), exact)
}
