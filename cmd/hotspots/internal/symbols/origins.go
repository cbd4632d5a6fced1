package symbols

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Process is a running process whose arenas can be asked about.
type Process struct {
	image  *image
	arenas []arenaOrigins
}

// arenaOrigins is what is told of an arena's code.
type arenaOrigins struct {
	emit.ArenaRef
	records, lengths []byte
}

// OpenProcess opens the memory of a process. Close it after use.
func OpenProcess(pid uint32) (*Process, error) {
	m, err := openProcess(strconv.FormatUint(uint64(pid), 10))
	if err != nil {
		return nil, err
	}
	return &Process{image: m}, nil
}

// Close closes it.
func (p *Process) Close() { p.image.close() }

// Origin is where the instruction of the program's is that the one at a run address stands
// for, in an arena, or as a jump of ours into one; 0 if it stands for none but itself. Own
// says that it is code of dynprof's in an arena.
func (p *Process) Origin(at uint64) (origin uint64, own bool) {
	a := p.arenaAt(at)
	if a == nil {
		if at = p.jump(at); at == 0 {
			return 0, false
		}
		if a = p.arenaAt(at); a == nil {
			return 0, false
		}
	}
	origin, ok := a.OriginOf(a.records, a.lengths, at)
	return origin, !ok
}

func (p *Process) arenaAt(at uint64) *arenaOrigins {
	for i := range p.arenas {
		if a := &p.arenas[i]; at >= a.At && at < a.At+a.Size {
			return a
		}
	}
	return nil
}

// jump is where a jump of five bytes at an address leads; 0 if there is none.
func (p *Process) jump(at uint64) uint64 {
	const jmp, size = 0xe9, 5
	b, err := p.image.bytes(at, size)
	if err != nil || b[0] != jmp {
		return 0
	}
	return at + size + uint64(int64(int32(binary.LittleEndian.Uint32(b[1:]))))
}

// Refresh reads which arenas there are: a process makes some at its start, and as libraries
// are loaded.
func (p *Process) Refresh(pid uint32) error {
	m, err := openProcess(strconv.FormatUint(uint64(pid), 10))
	if err != nil {
		return err
	}
	p.image.close()
	p.image, p.arenas = m, nil
	lists := *m
	lists.areas = nil
	for i, shared := range m.shared {
		if shared {
			lists.areas = append(lists.areas, m.areas[i])
		}
	}
	for list := range lists.lists {
		for _, r := range list {
			if p.arenaAt(r.At) != nil { // the reserve may be mapped as well
				continue
			}
			a := arenaOrigins{ArenaRef: r}
			if r.Count > r.Size {
				continue // damaged
			}
			if a.records, err = m.bytes(r.Records, r.Count*emit.OriginSize); err != nil {
				continue
			}
			if a.lengths, err = m.bytes(r.Lengths, r.LengthsSize); err == nil {
				p.arenas = append(p.arenas, a)
			}
		}
	}
	return nil
}

// isReserve reports whether a mapping may be a part of the reserve: shared memory without a
// file's name.
func isReserve(m *procmaps.Mapping) bool {
	return m.Shared && m.Prot&procmaps.ProtRead != 0 && strings.HasPrefix(m.Path, "/dev/zero")
}
