package heat

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
)

// Paths, as /proc/PID/maps has them, of the shadow and of shared memory without a file.
const (
	shadowPath = "/memfd:dynprof-heat"
	sharedPath = "/dev/zero"
)

// ours is what dynprof's own files are called: its library, and those without a name.
var ours = regexp.MustCompile(`/(libdynprof|memfd:dynprof)[^/]*$`)

// IsShadow reports whether a mapping is that of a shadow.
func (m *Mapping) IsShadow() bool { return strings.HasPrefix(m.Path, shadowPath) }

// IsShared reports whether a mapping is of shared memory without a file.
func (m *Mapping) IsShared() bool { return strings.HasPrefix(m.Path, sharedPath) }

// errGone is of a process that has ended, or has become another, while it was looked at.
var errGone = errors.New("the program has gone")

// MapsOf is what process pid has mapped now, if it has this shadow, with what of that is in memory
// or without, which takes less: then no more of its memory than its list of mappings is looked at.
func (s *Shadow) MapsOf(pid int, resident bool) (list []Mapping, err error) {
	name := "maps"
	if resident {
		name = "smaps"
	}
	of := "/proc/" + strconv.Itoa(pid) + "/"
	text, err := procfile.Read(of + name)
	if err != nil {
		return nil, err
	}
	if list, err = parseSmaps(text); err != nil {
		return nil, err
	}
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	if !slices.ContainsFunc(list, func(m Mapping) bool {
		return m.IsShadow() && m.Inode == inode && m.Offset >= uint64(s.at) && m.Offset < uint64(s.at+s.room())
	}) {
		return nil, errGone
	}
	// One that ended meanwhile has told the first of them only, one that has executed another the
	// first of these.
	if now, err := firstOf(of + "maps"); err != nil || now != list[0].Start {
		return nil, errGone
	}
	return list, nil
}

// FilesIn is where files were mapped, as a process's /proc/PID/maps has said at some time.
func FilesIn(text []byte) (*Maps, error) {
	all, err := procmaps.Parse(bytes.NewReader(text))
	m := &Maps{Untold: true}
	for _, one := range all {
		if strings.HasPrefix(one.Path, "/") {
			m.Mappings = append(m.Mappings, Mapping{Start: one.Start, End: one.End, Offset: one.Offset, Path: one.Path, Gone: true})
		}
	}
	if err == nil && !m.inOrder() {
		err = errors.New("mappings are not in the order of their addresses")
	}
	return m, err
}

// firstOf is where the first mapping of a process begins.
func firstOf(path string) (uint64, error) {
	f, err := procfile.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make([]byte, 2*os.Getpagesize())
	n, err := f.Read(b)
	if err != nil {
		return 0, err
	}
	start, _, _ := strings.Cut(string(b[:n]), "-")
	return strconv.ParseUint(start, 16, 64)
}

// Add makes of what was known of a program's mappings what is, when others are read: what they
// have nothing at, and had a name, keeps it, and is said to be gone; of what is behind the end
// of a list that is cut nothing is known anew.
func (m *Maps) Add(newer *Maps) *Maps {
	all, behind := *newer, ^uint64(0)
	if n := len(newer.Mappings); newer.Cut && n > 0 {
		behind = newer.Mappings[n-1].End
	}
	all.Mappings = nil
	at := uint64(0)
	old := m.Mappings
	// keep keeps what is left of the old ones in front of an address.
	keep := func(to uint64) {
		for len(old) > 0 && old[0].Start < to {
			one := old[0]
			if one.End > to { // its rest is for what comes behind
				one.End = to
			} else {
				old = old[1:]
			}
			if one.Start < at {
				one.Start, one.Offset = at, one.Offset+at-one.Start
			}
			if one.Start < one.End && (one.Path != "" || one.Start >= behind) && len(all.Mappings) < mostMappings {
				if one.Start < behind {
					one.Gone, one.Resident = true, 0
				}
				all.Mappings = append(all.Mappings, one)
			}
			if one.End == to {
				break
			}
		}
	}
	for _, one := range newer.Mappings {
		keep(one.Start)
		all.Mappings = append(all.Mappings, one)
		at = one.End
	}
	keep(^uint64(0))
	return &all
}

// mostMappings is how many are kept of those that are gone, and others: a process has 65,530 if
// nobody says otherwise.
const mostMappings = 1 << 17

// Unknown is the first granule of some ranges, by address, that is in no mapping that
// is there.
func (m *Maps) Unknown(ranges []Range, g Granule) (at uint64, is bool) {
	list := m.Mappings
	for _, r := range ranges {
		for at := r.First << g; at < r.end()<<g; at = list[0].End {
			for len(list) > 0 && list[0].End <= at {
				list = list[1:]
			}
			if len(list) == 0 || list[0].Gone || list[0].Start >= at+g.Size() {
				return at, true
			}
		}
	}
	return 0, false
}

// Own is by what dynprof's own memory is known, besides its library's path.
type Own struct {
	Table string // path
	Row   uint64 // bytes that a row of it takes while the program runs; 0: not known
	Begun *Maps  // what was mapped before the program began
}

// MarkOurs notes which mappings are dynprof's own.
func (m *Maps) MarkOurs(own Own) {
	shared := map[uint64]bool{}
	for i := range own.Begun.Mappings {
		if one := &own.Begun.Mappings[i]; one.IsShared() {
			shared[one.Inode] = true
		}
	}
	for i := range m.Mappings {
		one := &m.Mappings[i]
		path := strings.TrimSuffix(one.Path, " (deleted)")
		one.Ours = one.Ours || ours.MatchString(path) || path != "" && path == own.Table || one.IsShared() && one.Inode != 0 && shared[one.Inode]
		if i > 0 && one.IsShared() && own.isRow(&m.Mappings[i-1], one) {
			m.Mappings[i-1].Ours, one.Ours = true, true
		}
	}
}

// isRow reports whether two mappings are the row of those that do not count: a page of the process's own,
// then counters that it shares with its children (libdynprof/resident/plans/begin.c).
func (o *Own) isRow(head, counters *Mapping) bool {
	return head.Path == "" && head.End == counters.Start && head.End-head.Start == PageSize && counters.Offset == PageSize && counters.End-head.Start == o.Row
}
