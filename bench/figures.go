package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const figuresSchema = 2 // 1 had quartiles

// figures are all that a run measured, as they are kept.
type figures struct {
	Schema     int         `json:"schema"`
	Machine    string      `json:"machine"`
	Started    time.Time   `json:"started"`
	Seconds    int         `json:"seconds"`
	Quick      bool        `json:"quick"`
	Rounds     int         `json:"rounds"`
	Tools      []toolFact  `json:"tools"`
	Works      []workFact  `json:"workloads"`
	Results    []result    `json:"results"`
	StartUps   []startUp   `json:"start_up"`
	Memory     []memory    `json:"memory"`
	Pauses     []pause     `json:"pauses"`
	Recordings []recording `json:"recordings"`
	Aims       []aim       `json:"aims"`
	Wrong      []string    `json:"wrong"` // counts of dynprof's that are not right
}

type toolFact struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Skipped string `json:"skipped,omitempty"` // why
}

// workFact is a workload as it was run.
type workFact struct {
	Name      string `json:"name"`
	About     string `json:"about"`
	Skipped   string `json:"skipped,omitempty"`
	NativeMS  spread `json:"native_ms"` // CPU time of the full work
	Calls     uint64 `json:"calls"`     // in the full work
	Functions int    `json:"functions"`
	Counted   int    `json:"counted"`
	Reference string `json:"reference"` // what the counts were compared with
	Compared  int    `json:"compared"`  // functions that callgrind has, too, with the same count
	Unsteady  int    `json:"unsteady"`  // functions that are not called equally often in every run
}

// result is one tool on one workload.
type result struct {
	Workload string    `json:"workload"`
	Tool     string    `json:"tool"`
	Skipped  string    `json:"skipped,omitempty"`
	Part     float64   `json:"part"`            // of the full work
	Short    bool      `json:"short,omitempty"` // without the tool the work is too short to compare
	Rounds   int       `json:"rounds"`
	NativeMS spread    `json:"native_ms"` // CPU time of the same work without the tool
	CPUMS    spread    `json:"cpu_ms"`
	StartMS  float64   `json:"start_ms,omitempty"` // CPU time added to a run without work, where that was run
	Ratio    spread    `json:"ratio"`              // of CPU times; where Part < 1 without the start
	AddedNS  spread    `json:"added_ns"`           // CPU time a call, likewise
	RunsMS   []float64 `json:"runs_ms"`            // CPU time by round, likewise; 0: not in that round
	Calls    uint64    `json:"calls"`              // in this work
	NativeKB int       `json:"native_kib"`
	PeakKB   int       `json:"peak_kib"`

	verdict
}

// verdict compares the counts of a tool with the true ones.
type verdict struct {
	Counts  bool    `json:"counts"`  // whether it counts at all
	Called  int     `json:"called"`  // functions that are called
	Covered int     `json:"covered"` // of these, with a count
	Exact   int     `json:"exact"`   // of these, with the true count
	Lost    float64 `json:"lost"`    // share of the calls of covered functions that it missed
	Over    float64 `json:"over"`    // share that it counted too much
	worst   string
}

// compare finds what a tool has of the functions in truth.
func compare(truth, got counts) verdict {
	v := verdict{Counts: true}
	var all, lost, over, most uint64
	for name, want := range truth {
		n := got[name]
		if want == 0 && n == 0 {
			continue
		}
		v.Called++
		diff := max(want, n) - min(want, n)
		if diff > most {
			most, v.worst = diff, fmt.Sprintf("%s %d instead of %d", name, n, want)
		}
		if n == 0 {
			continue
		}
		v.Covered++
		all += want
		if diff == 0 {
			v.Exact++
		} else if n < want {
			lost += diff
		} else {
			over += diff
		}
	}
	if all > 0 {
		v.Lost, v.Over = float64(lost)/float64(all), float64(over)/float64(all)
	}
	return v
}

// exact reports whether every function that was called has its true count.
func (v verdict) exact() bool { return v.Counts && v.Exact == v.Called }

func (f *figures) result(workload, tool string) *result {
	for i := range f.Results {
		if r := &f.Results[i]; r.Workload == workload && r.Tool == tool && r.Skipped == "" {
			return r
		}
	}
	return nil
}

func (f *figures) wrong() error {
	if len(f.Wrong) == 0 {
		return nil
	}
	return errors.New("wrong counts:\n\t" + strings.Join(f.Wrong, "\n\t"))
}

func (f *figures) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func readFigures(path string) (*figures, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if head.Schema != figuresSchema {
		return nil, fmt.Errorf("%s: schema %d, this program knows %d", path, head.Schema, figuresSchema)
	}
	f := &figures{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}
