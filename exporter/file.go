package exporter

import "github.com/dynprof/dynprof/internal/table"

// File is the Source of one table on disk. It opens the table anew when its
// program has loaded more objects.
type File struct {
	Path string

	t *table.Table
}

// Read implements Source.
func (f *File) Read() (*table.Table, *table.Snapshot, error) {
	if f.t == nil {
		t, err := table.Open(f.Path)
		if err != nil {
			return nil, nil, err
		}
		f.t = t
	}
	s, err := f.t.Snapshot()
	if err != nil || s.Generation == f.t.Generation {
		return f.t, s, err
	}
	f.Close()
	return f.Read()
}

// Close closes the table; the next Read opens it again.
func (f *File) Close() error {
	t := f.t
	if f.t = nil; t == nil {
		return nil
	}
	return t.Close()
}
