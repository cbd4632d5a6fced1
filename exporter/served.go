package exporter

import "fmt"

// Served is a program that an endpoint serves.
type Served struct {
	Program, Pid string // its labels; empty if it is the only one
	Table        string // path
}

// Served are the programs that there are now.
func (e *Endpoint) Served() []Served {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch src := e.src.(type) {
	case *single:
		return []Served{{Table: src.path}}
	case *host:
		src.look()
		var all []Served
		for path, t := range src.known {
			if t.p != nil {
				all = append(all, Served{t.label[0], t.label[1], path})
			}
		}
		return all
	}
	return nil
}

// TableOf is the path of the table of the program with that pid, which is empty for the
// only one of an endpoint of one.
func (e *Endpoint) TableOf(pid string) (string, error) {
	for _, s := range e.Served() {
		if s.Pid == pid {
			return s.Table, nil
		}
	}
	if pid == "" {
		return "", errWhich
	}
	return "", fmt.Errorf("pid %q: %w", pid, errNone)
}
