package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/textfile"
	"github.com/dynprof/dynprof/patcher"
)

// config is what the DYNPROF_* variables say (docs/environment.md).
type config struct {
	patcher.Options
	output     string // pattern; "" is the default place
	runtimeDir string
	followExec bool
	perfMap    bool
	runID      [16]byte
	listen     string // where the endpoint for metrics listens; "": there is none
	linger     time.Duration
	hotspots   string // the command; "": to be found
}

// parseConfig reads vars, each NAME=value; the first of a name counts, as for
// getenv. An empty value is as good as none.
func parseConfig(vars []string) (*config, error) {
	c := &config{linger: defaultLinger, Options: patcher.Options{Threshold: &symname.Thresholds{}}}
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
	return c, nil
}

func (c *config) set(name, value string) (err error) {
	switch name {
	case "XDG_RUNTIME_DIR":
		c.runtimeDir = value
	case "DYNPROF_OUTPUT":
		c.output = value
	case "DYNPROF_OBJECTS":
		c.Objects, err = symname.ParseObjects(value)
	case "DYNPROF_ONLY":
		c.Only, err = symname.ParseNames(value, textfile.Read)
	case "DYNPROF_SKIP":
		c.Skip, err = symname.ParseNames(value, textfile.Read)
	case "DYNPROF_THRESHOLD":
		c.Threshold, err = symname.ParseThresholds(value)
	case "DYNPROF_FOLLOW_EXEC":
		c.followExec = value != "0"
	case "DYNPROF_PERF_MAP":
		c.perfMap = value != "0"
	case "DYNPROF_ALLOW_TRAPS":
		c.AllowTraps = value != "0"
	case "DYNPROF_LOCK":
		c.Lock = value != "0"
	case "DYNPROF_DIRECT_CALLS":
		c.DirectCalls = value != "0"
	case "DYNPROF_LISTEN":
		c.listen = value
	case "DYNPROF_LINGER":
		if c.linger, err = time.ParseDuration(value); err != nil || c.linger < 0 {
			err = fmt.Errorf("%q is not a time like 15s", value)
		}
	case "DYNPROF_HOTSPOTS":
		c.hotspots = value
	case "DYNPROF_RUN_ID":
		if n, e := hex.Decode(c.runID[:], []byte(value[:min(len(value), 32)])); e != nil || n != 16 {
			err = fmt.Errorf("%q is not 32 hex digits", value)
		}
	}
	return err
}
