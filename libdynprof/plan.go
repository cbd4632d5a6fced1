package main

// #include "base/ctl.h"
// #include "base/memory.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/version"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/patcher/target/self"
)

// planFor plans what the shim asks for, and writes down all that the target needs.
func planFor(ctl *C.struct_dp_ctl) error {
	choice, err := parseConfig(variables(ctl))
	if err != nil {
		return err
	}
	choice.Granule = byte(ctl.granule)
	choice.Bases = ctl.bases != 0
	choice.HeatByMasks = ctl.heat == C.DP_HEAT_MASKS || ctl.heat == C.DP_HEAT_REGIONS_MASKS || ctl.heat == C.DP_HEAT_WHO_MASKS
	choice.HeatThreads = ctl.heat == C.DP_HEAT_THREADS
	choice.HeatTells = ctl.heat == C.DP_HEAT_WHO || ctl.heat == C.DP_HEAT_WHO_MASKS
	choice.Regions = ctl.heat == C.DP_HEAT_REGIONS || ctl.heat == C.DP_HEAT_REGIONS_MASKS
	if choice.Heat = ctl.heat != C.DP_HEAT_NONE; choice.Heat {
		choice.On[setting.Blocks] = true
	}
	if choice.On[setting.Blocks] {
		const percent = 50
		debug.SetGCPercent(percent) // graphs of all functions are more than anybody wants in memory
	}
	process := &self.Process{
		Pid: int(ctl.pid), Outside: ctl.outside != 0,
		ReserveAt: uint64(ctl.reserve), ReserveSize: uint64(ctl.reserve_size), HeapEnd: uint64(ctl.heap_end),
		Beat: parallel.Beat, Audited: ctl.audited != 0,
		Mapped: mem.View(uint64(ctl.maps), int(ctl.maps_size)),
	}
	request, later := requestOf(ctl, choice), (*build.Appender)(nil)
	request.Table = func() (t *build.Appender, err error) {
		later, err = openTable(mem.Window{Addr: uint64(ctl.view), Size: uint64(ctl.view_size)})
		return later, err
	}
	useCache(ctl, choice, request)
	identity := identify(ctl)
	plan, err := patcher.New(request, process)
	if err == nil {
		err = process.Checked()
	}
	if err != nil {
		return err
	}
	if err := hasMemory(plan.ToTake()); err != nil {
		return err
	}
	ctl.begun = 1 // from here on the table may be changed
	remark := ""
	if later == nil {
		serving, remark = openEndpoint(choice, process.Pid, request.Objects, plan.Program())
	}
	if names := plan.NotLed(); len(names) > 0 {
		remark = "blocks of these functions are not seen: " + strings.Join(names, ", ")
	}
	copyText(ctl.remark[:], remark)
	if plan.CountsCalls() { // the table says which calls are led
		plan.Patch()
	}
	if ctl.announce = flag(choice.On[setting.PerfMap]); choice.On[setting.PerfMap] {
		writePerfMap(process.Pid, plan) // perf shows bare addresses without it
	}
	done := make(chan error, 1)
	go func() {
		if later != nil {
			done <- later.Add(plan.Ledger())
		} else {
			done <- writeTable(ctl, choice, plan, <-identity)
		}
	}()
	if !plan.CountsCalls() {
		plan.Patch()
	}
	if err := <-done; err != nil {
		return err
	}
	saving.plan = plan
	return deliver(ctl, plan)
}

// hasMemory is an error if the target has not that many bytes left. What the planner has
// taken is free by then, or it is killed first.
func hasMemory(bytes uint64) error {
	if C.dp_has_memory(C.uint64_t(bytes)) != 0 {
		return nil
	}
	mine := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(mine)
	needed := bytes
	for i := range mine {
		needed -= min(needed, mine[i].Value.Uint64())
	}
	if C.dp_has_memory(C.uint64_t(needed)) == 0 {
		return fmt.Errorf("its control group leaves it too little memory (%d MB are needed)", bytes>>20)
	}
	return nil
}

// identify asks who the target is while it is planned; a table that there is knows it.
func identify(ctl *C.struct_dp_ctl) <-chan layout.Identity {
	who := make(chan layout.Identity, 1)
	if ctl.late != 0 {
		close(who)
		return who
	}
	go func(pid int) { who <- alive.Identify(pid) }(int(ctl.pid))
	return who
}

func openTable(view mem.Window) (*build.Appender, error) {
	if view.Addr == 0 {
		return nil, errors.New("the count table cannot be mapped again")
	}
	return build.OpenAppend(view)
}

// writeTable makes the table; the target publishes it when the patches are in.
func writeTable(ctl *C.struct_dp_ctl, choice *config, plan *patcher.Plan, who layout.Identity) error {
	host, _ := os.Hostname() // only for %h
	path, err := tabledir.OutputPath(choice.output, choice.runtimeDir, tabledir.Names{
		Program: plan.Program(), Pid: int(ctl.pid), Host: host, Time: time.Now(),
	})
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil { // the program may go elsewhere
		return err
	}
	f, err := build.Create(path, ledgerOf(ctl, choice, plan, who))
	if err != nil {
		return err
	}
	if path = f.Path(); len(path) >= len(ctl.table) {
		err = fmt.Errorf("the path of the count table has %d bytes, more than the system allows", len(path))
	}
	copyText(ctl.table[:], path)
	for i, b := range f.Nonce {
		ctl.nonce[i] = C.uint8_t(b)
	}
	return errors.Join(err, f.Close())
}

// ledgerOf is what the table says.
func ledgerOf(ctl *C.struct_dp_ctl, choice *config, plan *patcher.Plan, who layout.Identity) *build.Spec {
	spec := plan.Ledger()
	spec.Identity = who
	spec.RunID = choice.runID
	spec.Program = plan.Program()
	spec.Creator = version.Creator
	spec.Listen = serving.Listens()
	if choice.On[setting.Args] {
		spec.Arguments = procfile.CommandLine("/proc/self")
	}
	spec.ShortSpace = ctl.short_space != 0
	if choice.On[setting.FollowExec] {
		spec.Flags |= layout.FlagFollowExec
	}
	return spec
}
