// Package doctor looks for what limits counting on this machine, and in programs: what it
// is, its effect, and how to mend it.
package doctor

import (
	"cmp"
	"slices"
)

// Severity says how much a finding matters.
type Severity string

// Severities, the worst first.
const (
	Fatal Severity = "fatal" // nothing is counted
	Limit Severity = "limit" // something is not counted, or not as well
	Fine  Severity = "ok"
)

// Finding is one line of what the doctor says.
type Finding struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"`   // the setting, and how it is
	Effect   string   `json:"effect"` // what is not possible by it; empty if all is
	Mend     string   `json:"mend"`   // what to do; empty if nothing can, or need be done
}

func fine(what string) Finding { return Finding{Severity: Fine, What: what} }

// Machine is what the doctor asks. Its functions are those of package os and the like.
type Machine struct {
	Read    func(path string) ([]byte, error)
	Exists  func(path string) bool
	Getenv  func(name string) string
	Limit   func(resource int) (soft uint64, known bool) // getrlimit(2)
	Prctl   func(option int) int                         // with no arguments; negative: an error
	GlibC   func() string                                // what the dynamic linker says of itself; empty: there is none
	Library func() (path string, err error)              // where the library is, or will be
	Room    func(dir string) (bytes uint64, err error)
	Tables  string // the directory of tables
	Uid     int
}

// Look makes all checks, in an order that is always the same, what is worst first.
func Look(m *Machine) []Finding {
	var all []Finding
	for _, check := range checks {
		all = append(all, check(m)...)
	}
	return Sorted(all)
}

// Sorted puts what is worst first.
func Sorted(all []Finding) []Finding {
	rank := []Severity{Fatal, Limit, Fine}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(rank, a.Severity), slices.Index(rank, b.Severity))
	})
	return all
}

// Worst is the severity of the worst finding.
func Worst(all []Finding) Severity {
	if len(all) == 0 {
		return Fine
	}
	return Sorted(slices.Clone(all))[0].Severity
}
