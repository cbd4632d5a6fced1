package remote

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// TestOwn: pages of a file become the process's own, with the same bytes.
func TestOwn(t *testing.T) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const pages = 4
	b, err := unix.Mmap(int(f.Fd()), 0, pages*4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	before := slices.Clone(b)
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all, err := procmaps.Of("self")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(m procmaps.Mapping) bool {
		return m.Offset == 0 && m.Inode != 0 && m.Prot == procmaps.ProtRead|procmaps.ProtExec && m.End-m.Start == pages*4096
	})
	at := all[i].Start
	own := []uint64{at + 4096, at + 3*4096}
	p.Own(slices.Values(append(own, 0))) // nothing is at 0
	if got, err := p.Written(at, at+pages*4096); err != nil || !slices.Equal(got, own) {
		t.Errorf("%#x, not %#x: %v", got, own, err)
	}
	if !slices.Equal(b, before) {
		t.Error("they have other bytes")
	}
}
