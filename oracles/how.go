package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/setting"
)

// how says what is counted besides calls.
type how []string

// ways are the words of -how, and the variables that stand for them.
var ways = map[string]string{
	"blocks": setting.All[setting.Blocks].Variable + "=1",
	"edges":  setting.All[setting.Edges].Variable + "=1",
	"trips":  setting.All[setting.Trips].Variable + "=1",
	"hot":    setting.All[setting.BlocksOf].Variable + "=" + setting.BlocksHot,
	heat:     "", // hotspots run alone can set its variable
}

const heat = "heat"

func parseHow(text string) (how, error) {
	var h how
	for word := range strings.SplitSeq(text, ",") {
		if _, known := ways[word]; !known && text != "" {
			return nil, fmt.Errorf("-how %s: there are blocks, edges, trips, hot, heat", text)
		}
		h = append(h, word)
	}
	return h, nil
}

// variables are those of commands with the library.
func (h how) variables() []string {
	var all []string
	for _, word := range h {
		if v := ways[word]; v != "" {
			all = append(all, v)
		}
	}
	return all
}

// byCommand reports whether programs are started by hotspots run. Then what
// they execute is not counted.
func (h how) byCommand() bool { return slices.Contains(h, heat) }

// started is a command as hotspots run starts it.
func (m *machine) started(args []string, tables string) []string {
	return append([]string{m.hotspots, "run", "--library", m.library, "--heat=pages", "--follow-self=false",
		"--summary", "0", "-o", filepath.Join(tables, "%p"+tableSuffix), "--"}, args...)
}

// part is the K-th of every N commands of a suite.
type part struct{ k, n int }

func parsePart(text string) (p part, err error) {
	if _, err := fmt.Sscanf(text+" ", "%d/%d ", &p.k, &p.n); err != nil || p.k < 1 || p.k > p.n {
		return p, fmt.Errorf("-part %s: it is K/N, K from 1 to N", text)
	}
	return p, nil
}

func (p part) of(units []unit) []unit {
	var chosen []unit
	for i := p.k - 1; i < len(units); i += p.n {
		chosen = append(chosen, units[i])
	}
	return chosen
}
