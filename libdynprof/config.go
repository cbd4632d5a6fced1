package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/textfile"
)

// maxThreshold is the largest threshold: the check compares with a
// sign-extended 32-bit immediate.
const maxThreshold = 1<<31 - 1

// config is what the DYNPROF_* variables say (docs/environment.md).
type config struct {
	output     string // pattern; "" is the default place
	runtimeDir string
	objects    *symname.Objects // nil: the default choice
	only, skip *symname.Names   // nil: all, none
	threshold  uint32           // 0: none
	followExec bool
	perfMap    bool
	runID      [16]byte
}

// parseConfig reads vars, each NAME=value; the first of a name counts, as for
// getenv. An empty value is as good as none.
func parseConfig(vars []string) (*config, error) {
	c := &config{}
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
		c.objects, err = symname.ParseObjects(value)
	case "DYNPROF_ONLY":
		c.only, err = symname.ParseNames(value, textfile.Read)
	case "DYNPROF_SKIP":
		c.skip, err = symname.ParseNames(value, textfile.Read)
	case "DYNPROF_THRESHOLD":
		c.threshold, err = parseThreshold(value)
	case "DYNPROF_FOLLOW_EXEC":
		c.followExec = value != "0"
	case "DYNPROF_PERF_MAP":
		c.perfMap = value != "0"
	case "DYNPROF_RUN_ID":
		if n, e := hex.Decode(c.runID[:], []byte(value[:min(len(value), 32)])); e != nil || n != 16 {
			err = fmt.Errorf("%q is not 32 hex digits", value)
		}
	}
	return err
}

func parseThreshold(value string) (uint32, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n > maxThreshold {
		return 0, fmt.Errorf("%q is not a number of calls from 1 to %d", value, maxThreshold)
	}
	return uint32(n), nil
}
