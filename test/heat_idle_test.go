package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Memory that is of no use, by hotspots advise.

// idle is advice on a variable or an allocation site, by name and kind.
type idle struct {
	Kind, Memory, Name, Confidence, Proof string
	Bytes, Pages                          uint64
	AtMost                                uint64 `json:"pages_at_most"`
}

// hidden is of which nothing can be said.
type hidden struct {
	Memory  string
	Bytes   uint64
	Objects []string
}

func idlesOf(t *testing.T, table string) (all map[string]idle, unseen []hidden) {
	t.Helper()
	var list struct {
		Program string
		Advice  []idle
		Hidden  []hidden
	}
	r := run(t, cmd(build(t, "hotspots"), "advise", table, "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.status != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	all = map[string]idle{}
	for _, a := range list.Advice {
		if name, _, _ := strings.Cut(a.Name, " "); a.Bytes > 0 && a.Memory == list.Program {
			if _, had := all[name+" "+a.Kind]; had {
				t.Errorf("twice: %+v", a)
			}
			all[name+" "+a.Kind] = a
		}
	}
	return all, list.Hidden
}

// TestAdviseIdle: what is said of memory that nothing touches or reads is what the program says of itself, and that
// it is sure where no system call can have done so, or the pages are not in memory; nothing is said of other memory.
func TestAdviseIdle(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}}, 1) {
		program := compile(t, gcc, append(flags, "-g", "-Wall", "-Werror"), "heat_idle.c")
		said := run(t, cmd(program, "say")).stdout
		for _, say := range lane.Some([]bool{true, false}, 0) {
			argv := []string{program}
			if say {
				argv = append(argv, "say")
			}
			counted, table := countedAt(t, cmd(argv...), "--heat=bytes", "--allocs", "--objects", "all")
			if counted.status != 0 || counted.stderr != "" {
				t.Fatalf("%+v", counted)
			}
			all, unseen := idlesOf(t, table)
			if len(unseen) > 0 {
				t.Errorf("not seen: %+v", unseen)
			}
			for line := range strings.Lines(said) {
				var name, kind string
				var bytes uint64
				if n, _ := fmt.Sscanf(line, "%s %s %d", &name, &kind, &bytes); n != 3 {
					t.Fatal(line)
				}
				got, is := all[name+" "+kind]
				// What is not there is known; of what was read system calls that write may have read as much.
				confidence := map[bool]string{true: "low", false: "high"}[say && (kind == "unread" || name == "mostly")]
				if !is || got.Bytes != bytes || got.Pages != 0 || got.AtMost > bytes/4096 || got.Confidence != confidence {
					t.Errorf("%v: %s: %+v", say, line, got)
				}
				delete(all, name+" "+kind)
			}
			if len(all) > 0 {
				t.Errorf("besides: %+v", all)
			}
		}
	}
}

// TestAdviseIdleUnseen: where libc is not seen, it is said how much it may have touched, and no more.
func TestAdviseIdleUnseen(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror"}, "heat_idle.c")
	_, table := countedAt(t, cmd(program), "--heat=bytes", "--allocs", "--objects", "main")
	all, unseen := idlesOf(t, table)
	sums := map[string]uint64{}
	for _, h := range unseen {
		if h.Bytes > 0 {
			sums[h.Memory] = h.Bytes
		}
	}
	if len(all) > 0 || sums["variables"] < 100032 || sums["blocks of malloc"] < 1<<20 {
		t.Errorf("%+v, %+v", all, unseen)
	}
}
