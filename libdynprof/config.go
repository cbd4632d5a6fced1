package main

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/overhead"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/textfile"
	"github.com/dynprof/dynprof/patcher"
)

// config is what the DYNPROF_* variables say (docs/environment.md).
type config struct {
	patcher.Options
	output     string // pattern; "" is the default place
	runtimeDir string
	uncached   bool   // no cached plans are used
	plans      string // directory of cached plans, if the user named one
	cacheHome  string // XDG_CACHE_HOME
	home       string
	runID      [16]byte
	listen     string // where the endpoint for metrics listens; "": there is none
	linger     time.Duration
	hotspots   string // the command; "": to be found
}

// parseConfig reads vars, each NAME=value; the first of a name counts, as for
// getenv. An empty value is as good as none.
func parseConfig(vars []string) (*config, error) {
	c := &config{linger: listen.DefaultLinger, Options: patcher.Options{Threshold: &symname.Thresholds{}}}
	seen := map[string]bool{}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		if seen[name] || value == "" {
			continue
		}
		seen[name] = true
		if err := c.set(name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	c.On[setting.Blocks] = c.On[setting.Blocks] || c.On[setting.Trips] || c.BlocksOf != nil || c.Hot
	if c.Overhead > 0 { // the agent chooses, and knows what is hot
		c.Hot, c.On[setting.Blocks], c.On[setting.Control] = false, true, true
		if c.On[setting.Trips] || c.On[setting.Edges] {
			return nil, errOverheadMore
		}
	}
	if c.Hot && !c.Threshold.Any() {
		c.Threshold = &symname.Thresholds{All: layout.UsualHot}
	}
	return c, nil
}

// errOverheadMore is why a bound is refused.
var errOverheadMore = fmt.Errorf("%s=1 and %s=1 cost what no estimate knows: they do not go with %s",
	setting.All[setting.Trips].Variable, setting.All[setting.Edges].Variable, setting.All[setting.Overhead].Variable)

func (c *config) set(name, value string) (err error) {
	for place, to := range map[string]*string{"XDG_RUNTIME_DIR": &c.runtimeDir, "XDG_CACHE_HOME": &c.cacheHome, "HOME": &c.home} {
		if name == place {
			*to = value
			return nil
		}
	}
	id, known := setting.OfVariable(name)
	if !known {
		return nil
	}
	if setting.All[id].Kind == setting.Switch {
		c.On[id] = setting.IsOn(value)
		if id == setting.Cache {
			c.cache(value)
		}
		return nil
	}
	switch id {
	case setting.Output:
		c.output = value
	case setting.Objects:
		c.Objects, err = symname.ParseObjects(value)
	case setting.Only:
		c.Only, err = symname.ParseNames(value, textfile.Read)
	case setting.Skip:
		c.Skip, err = symname.ParseNames(value, textfile.Read)
	case setting.BlocksOf:
		if c.Hot = value == setting.BlocksHot; c.Hot {
			break
		}
		c.BlocksOf, err = symname.ParseGlobs(value, textfile.Read)
	case setting.Overhead:
		var bound overhead.Bound
		bound, err = overhead.Parse(value)
		c.Overhead = uint32(bound)
	case setting.Threshold:
		c.Threshold, err = symname.ParseThresholds(value)
	case setting.Listen:
		c.listen = value
	case setting.Linger:
		if c.linger, err = time.ParseDuration(value); err != nil || c.linger < 0 {
			err = fmt.Errorf("%q is not a time like 15s", value)
		}
	case setting.Hotspots:
		c.hotspots = value
	case setting.RunID:
		if n, e := hex.Decode(c.runID[:], []byte(value[:min(len(value), 32)])); e != nil || n != 16 {
			err = fmt.Errorf("%q is not 32 hex digits", value)
		}
	}
	return err
}

// cache takes what DYNPROF_CACHE says. Plans that are there are used if it says nothing.
func (c *config) cache(value string) {
	c.uncached = !c.On[setting.Cache]
	if dir := strings.TrimPrefix(value, "only:"); filepath.IsAbs(dir) {
		c.plans = dir
	}
}
