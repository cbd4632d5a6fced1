package job

import (
	"os"
	"path/filepath"
	"time"

	"github.com/dynprof/dynprof/internal/plancache/store"
	"github.com/dynprof/dynprof/internal/plancache/textcopy"
	"github.com/dynprof/dynprof/internal/setting"
)

// PlansDir is where the user's plans are, and whether the user has named the directory;
// empty: nowhere.
func PlansDir() (dir string, named bool) {
	if dir = os.Getenv(setting.All[setting.Cache].Variable); filepath.IsAbs(dir) {
		return dir, true
	}
	return store.Dir(os.Getenv("XDG_CACHE_HOME"), os.Getenv("HOME")), false
}

// begun is before the program was: file systems have coarse times.
var begun = time.Now().Add(-time.Second)

// fillCopies makes copies of the objects of which this run has left plans. Whatever fails,
// later starts do without.
func (j *Job) fillCopies() {
	dir, _ := PlansDir()
	s, err := store.Open(dir)
	if err != nil {
		return
	}
	defer s.Close()
	if !s.Changed().Before(begun) {
		textcopy.Fill(s, begun)
	}
}
