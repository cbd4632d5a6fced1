package main

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// redisWorkload is a server under its own benchmark, which runs on the first
// CPU. The server exports the names of its functions, so that it is known how
// often the commands' must have been called; the others depend on how requests
// arrive.
var redisWorkload = &workload{
	name: "redis", about: "Debian's redis-server under redis-benchmark", size: 1000, small: 20,
	needs:   []string{"/usr/bin/redis-server", "/usr/bin/redis-benchmark", "/usr/bin/redis-cli"},
	prepare: installed("/usr/bin/redis-server"),
	args: func(*machine, int) ([]string, error) {
		return []string{"--port", "0", "--unixsocket", "socket", "--save", "", "--daemonize", "no", "--loglevel", "warning"}, nil
	},
	drive: func(m *machine, dir string, size int) func() error {
		return func() error { return driveRedis(m, filepath.Join(dir, "socket"), size*1000) }
	},
	calls: func(size int) counts {
		n := uint64(size) * 1000
		return counts{"setCommand": n, "getCommand": n, "lpushCommand": n}
	},
	partly: true,
}

func driveRedis(m *machine, socket string, requests int) error {
	if err := answers(m, socket); err != nil {
		return err
	}
	if requests > 0 {
		c := exec.CommandContext(m.ctx, m.launch, filepath.Join(filepath.Dir(socket), "client"), "0", m.work, "--",
			"/usr/bin/redis-benchmark", "-s", socket, "-t", "set,get,lpush", "-n", strconv.Itoa(requests), "-r", "1000", "-P", "16", "-c", "20", "-q")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("redis-benchmark: %w: %s", err, lastLine(string(out)))
		}
	}
	_, err := m.tool("/usr/bin/redis-cli", "-s", socket, "shutdown", "nosave")
	return err
}

// answers waits until redis-server listens.
func answers(m *machine, socket string) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		c, err := net.Dial("unix", socket)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) || m.ctx.Err() != nil {
			return errors.New("redis-server does not answer")
		}
	}
}
