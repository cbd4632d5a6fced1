package attach

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// Blob is the resident part of the library, linked by itself (make): code and data that can
// lie anywhere.
type Blob struct {
	image   []byte // code, and behind it data
	text    uint64 // bytes of code, whole pages
	symbols map[string]uint64
	sum     string // tells it from those of other builds
}

// NewBlob reads the file that the build has made.
func NewBlob(file []byte) (*Blob, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("the code to attach is not understood: %w", err)
	}
	b := &Blob{symbols: map[string]uint64{}}
	end := uint64(0)
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		if p.Flags&elf.PF_W == 0 {
			if end > b.text {
				return nil, errors.New("the code to attach lies behind its data")
			}
			b.text = layout.RoundUp(p.Vaddr + p.Memsz)
		} else if p.Vaddr < b.text {
			return nil, errors.New("the code to attach is on a page with its data")
		}
		end = p.Vaddr + p.Memsz
	}
	const most = 64 << 20
	if end > most {
		return nil, errors.New("the code to attach is too large")
	}
	b.image = make([]byte, layout.RoundUp(end))
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			if _, err := p.ReadAt(b.image[p.Vaddr:p.Vaddr+p.Filesz], 0); err != nil {
				return nil, fmt.Errorf("the code to attach is not whole: %w", err)
			}
		}
	}
	all, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("the code to attach has no symbols: %w", err)
	}
	for _, s := range all {
		b.symbols[s.Name] = s.Value
	}
	for _, name := range []string{"dp_park", "dp_write", "dp_cold", "dp_keeper", "dp_kernel_site", "dp_signal_site", "dp_objects_changed", "dp_behind_watched", "dp_behind_shown", "dp_return_site", "dp_attach_state"} {
		if b.symbols[name] == 0 {
			return nil, fmt.Errorf("the code to attach has no %s", name)
		}
	}
	sum := sha256.Sum256(file)
	b.sum = hex.EncodeToString(sum[:8])
	return b, nil
}

// name is that of the file without a name that its memory is of.
func (b *Blob) name() string { return strings.TrimPrefix(mapPrefix, "/memfd:") + b.sum }

// What the kernel calls such a file in /proc/PID/maps.
const (
	mapPrefix = remote.OwnFiles
	deleted   = " (deleted)"
)
