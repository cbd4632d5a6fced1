package exporter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// served is an endpoint of the tables in dir that keeps its series in a file, as
// hotspots serve does. It can be started again.
type servedDir struct {
	t         *testing.T
	dir, file string
	e         *Endpoint
	k         *Kept
}

func (s *servedDir) start() {
	s.t.Helper()
	k, err := OpenKept(s.file, func(err error) { s.t.Error(err) })
	if err != nil {
		s.t.Fatal(err)
	}
	s.k, s.e = k, NewHost(func() []string { return []string{s.dir} }, 1<<62, Options{Top: 1, Series: k})
}

func (s *servedDir) stop() {
	s.e.Close()
	s.k.Close()
}

func serveKept(t *testing.T) (s *servedDir, live *tabletest.Live) {
	t.Helper()
	s = &servedDir{t: t, dir: t.TempDir(), file: filepath.Join(t.TempDir(), "series")}
	live = tabletest.Demo(t, filepath.Join(s.dir, "a"+tabledir.Ext), tabletest.Spec())
	s.start()
	t.Cleanup(func() { s.stop() })
	return s, live
}

// TestSeriesOutliveTheEndpoint: started again at any moment it goes on with the
// same series: nothing goes down, nothing jumps, and the sum is the total.
func TestSeriesOutliveTheEndpoint(t *testing.T) {
	s, live := serveKept(t)
	queries := []string{"", "?top=2", "?function[]=demo*", "?function[]=\"%00*&function[]=m*"}
	last := map[string]scraped{}
	step := func(again bool, counts ...uint64) {
		t.Helper()
		live.Set(0, counts...)
		total := 520.0 // row 1
		for _, n := range counts {
			total += float64(n)
		}
		for _, q := range queries {
			now := scrape(t, s.e, q)
			if now.total() != total {
				t.Errorf("%q: %v of %v", q, now.total(), total)
			}
			for key, before := range last[q] {
				if strings.Contains(key, "calls_total") && (now[key] < before || again && now[key] != before) {
					t.Errorf("%q: %s from %v to %v", q, key, before, now[key])
				}
			}
			last[q] = now
		}
	}
	again := func(counts ...uint64) {
		t.Helper()
		s.stop()
		s.start()
		step(true, counts...)
	}
	step(false, 700, 1000, 3, 0)
	again(700, 1000, 3, 0)
	step(false, 2000, 1000, 3, 0)
	again(2000, 1000, 3, 0)
	again(2000, 1000, 3, 0)
	step(false, 2000, 5000, 9000, 1)
	step(false, 2001, 5000, 9000, 99999)
	again(2001, 5000, 9000, 99999)
	s.stop()
	s.start()
	step(false, 3000, 6000, 10000, 100000) // while nobody served it
	if by, _ := last[""].calls(); len(by) != 4 || by["main"] != 3000-2000 {
		t.Errorf("%v: the series of main began at 2000", by)
	}
}

// TestKeptFile: what is damaged is as good as not there, and nobody else's.
func TestKeptFile(t *testing.T) {
	s, live := serveKept(t)
	scrape(t, s.e, "")
	if fi, err := os.Stat(s.file); err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	if _, err := OpenKept(s.file, nil); !errors.Is(err, ErrKept) {
		t.Errorf("opened twice: %v", err)
	}
	nonce := fmt.Sprintf("%x", s.k.nonce(t))
	for name, lines := range map[string]string{
		"no series of it":      nonce + ` "1\x00" 99:0` + "\n",
		"a base of the future": nonce + ` "1\x00" 0:0 1:99999999` + "\n",
		"junk":                 "x\n\n" + nonce + "\n" + nonce + ` "1` + "\n" + nonce + ` "1\x00" 1:2:3` + "\n\xff\x00\n",
		"another table":        strings.Repeat("0", 32) + ` "1\x00" 1:77` + "\n",
		"cut short":            nonce + ` "1\x00" 1:77`,
		"ended":                nonce + ` "1\x00" 1:77` + "\n" + nonce + ` "1\x00"` + "\n",
	} {
		s.stop()
		if err := os.WriteFile(s.file, []byte(keptHead+lines), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		for range 2 {
			if by, _ := scrape(t, s.e, "").calls(); len(by) != 1 || by["demo::add(int, int)"] != 1500 {
				t.Errorf("%s: %v", name, by)
			}
			s.stop()
			s.start()
		}
	}
	s.stop()
	if err := os.WriteFile(s.file, []byte("letter"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKept(s.file, nil); err == nil {
		t.Error("a letter was taken for series")
	}
	if b, _ := os.ReadFile(s.file); string(b) != "letter" {
		t.Errorf("the letter is %q", b)
	}
	os.Remove(s.file)
	s.start()
	live.Set(0, 700, 1000, 3, 0)
}

// nonce is of the only table in the file.
func (k *Kept) nonce(t *testing.T) (n [16]byte) {
	t.Helper()
	again := &Kept{before: map[keptKey][]keptSeries{}}
	b, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimPrefix(string(b), keptHead)) {
		again.parse(line)
	}
	for key := range again.before {
		n = key.nonce
	}
	return n
}

// TestKeptFileIsBounded: it is written anew with what there still is.
func TestKeptFileIsBounded(t *testing.T) {
	s, live := serveKept(t)
	live.Set(0, 700, 1000, 3, 0)
	scrape(t, s.e, "")
	s.stop()
	f, err := os.OpenFile(s.file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40_000 { // of tables that are gone
		fmt.Fprintf(f, "%032x \"1\\x00\" 1:77 2:88\n", i)
	}
	f.Close()
	s.start()
	live.Set(0, 2000, 1000, 3, 0)
	want := scrape(t, s.e, "")
	if fi, err := os.Stat(s.file); err != nil || fi.Size() > 1000 {
		t.Errorf("%v, %v", fi.Size(), err)
	}
	if _, err := OpenKept(s.file, nil); !errors.Is(err, ErrKept) {
		t.Errorf("opened twice: %v", err)
	}
	s.stop()
	s.start()
	if now := scrape(t, s.e, ""); now.total() != want.total() || len(now) != len(want) {
		t.Errorf("%v after %v", now, want)
	}
	for key, n := range want {
		if now := scrape(t, s.e, ""); strings.Contains(key, "calls_total") && now[key] != n {
			t.Errorf("%s: %v after %v", key, now[key], n)
		}
	}
}
