// Command frontend shows what the CPU's limits are for functions that are counted: what a
// call takes as a function of how many are called in turn, by itself, counted, and counted
// with stubs laid out in other ways (docs/benchmarks.md, "Many functions in turn").
//
//	go run ./bench/frontend -rounds 9
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed testdata/frontend.c
var source string

func main() {
	rounds := flag.Int("rounds", 9, "of which the least counts")
	flag.Parse()
	if err := measure(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "frontend:", err)
		os.Exit(1)
	}
}

func measure(rounds int) error {
	dir, err := os.MkdirTemp("", "frontend")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, program := filepath.Join(dir, "frontend.c"), filepath.Join(dir, "frontend")
	if err := os.WriteFile(c, []byte(source), 0o600); err != nil {
		return err
	}
	if err := do("gcc", "-O2", "-Wall", "-Wextra", "-o", program, c); err != nil {
		return err
	}
	return do(program, strconv.Itoa(rounds))
}

func do(args ...string) error {
	p := exec.Command(args[0], args[1:]...)
	p.Stdout, p.Stderr = os.Stdout, os.Stderr
	return p.Run()
}
