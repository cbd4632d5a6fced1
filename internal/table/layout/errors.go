package layout

import (
	"errors"
	"fmt"
)

// Why a file cannot be read as a table. Errors of readers wrap one of
// these, or the operating system's.
var (
	ErrNotTable  = errors.New("not a dynprof count table")
	ErrVersion   = errors.New("written by a newer dynprof: read it with that version's hotspots")
	ErrBuilding  = errors.New("not complete yet: its program is starting, or was ended while it did")
	ErrTruncated = errors.New("the count table is cut short: copy it again")
	ErrCorrupt   = errors.New("damaged count table")
)

// Corrupt is ErrCorrupt with what was found.
func Corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
