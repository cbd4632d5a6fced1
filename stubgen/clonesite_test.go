package stubgen

import (
	"slices"
	"testing"
)

// TestCloneSitesOfLibc: a site that is missed lets two threads share a row.
func TestCloneSitesOfLibc(t *testing.T) {
	o := load(t, "/usr/lib/x86_64-linux-gnu/libc.so.6")
	for name, sites := range map[string][]CloneSite{
		"by functions": NewSurvey(o, 0).CloneSites(),
		"by bytes":     FindCloneSites(o.Text),
	} {
		var nrs []uint32
		for _, s := range sites {
			nrs = append(nrs, s.NR)
		}
		slices.Sort(nrs)
		if !slices.Equal(nrs, []uint32{sysClone, sysClone, sysClone3}) {
			t.Errorf("%s: system calls %v, want clone in _Fork, clone and clone3", name, nrs)
		}
	}
}
