package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

var redis = &suite{
	name:  "redis",
	about: "Redis 7.0.15's runtest (Debian's source) on Debian's redis-server: units on data types, scripts, replication, persistence",
	least: 1200, leastQuick: 230,
	alone:   true, // each starts servers on ports, and has its own clients
	prepare: prepareRedis,
}

var redisUnits = []struct {
	name string
	slow bool
}{
	{"unit/type/hash", false}, {"unit/multi", false}, {"unit/bitops", false}, {"unit/sort", false},
	{"unit/type/list", true}, {"unit/type/zset", true}, {"unit/type/string", true}, {"unit/scripting", true},
	{"integration/aof", true}, {"integration/replication-4", true}, {"integration/rdb", true},
}

func prepareRedis(m *machine) ([]unit, error) {
	if err := needs("redis-server", "redis-cli", "redis-benchmark", "tclsh"); err != nil {
		return nil, err
	}
	dir, err := m.source("redis", "7.0.15")
	if err != nil {
		return nil, err
	}
	for _, p := range []string{"redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb", "redis-sentinel"} {
		if err := os.Symlink("/usr/bin/"+p, filepath.Join(dir, "src", p)); err != nil {
			return nil, err
		}
	}
	var units []unit
	for i, u := range redisUnits {
		port := fmt.Sprint(21111 + 500*i)
		units = append(units, unit{
			name: u.name, dir: dir, slow: u.slow, read: readRedis,
			args: []string{"tclsh", "tests/test_helper.tcl", "--single", u.name, "--clients", "1", "--baseport", port, "--portcount", "400", "--skipunit", "none"},
		})
	}
	return units, nil
}

var (
	redisColour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	redisResult = regexp.MustCompile(`^\[(ok|err|skip|ignore|exception)\]: (.*?)(?: \(\d+ ms\))?$`)
)

// readRedis reads lines like "[ok]: HSET in update and insert mode (0 ms)".
func readRedis(o *output) (results, error) {
	r := results{}
	err := lines(o.stdout, func(line string) {
		line = redisColour.ReplaceAllString(line, "")
		if p := redisResult.FindStringSubmatch(line); p != nil {
			r.add(p[2], p[1])
		}
	})
	return r, err
}
