package main

// #include "base/ctl.h"
// #include "stubs/pause.h"
import "C"

import (
	"os"
	"unsafe"

	"github.com/dynprof/dynprof/internal/agent"
	"github.com/dynprof/dynprof/internal/mem"
)

// dp_agent is what twin.c calls when the twin stays as the agent. It returns
// when the agent is not wanted any more.
//
//export dp_agent
func dp_agent(at C.uintptr_t) {
	saved := make(chan struct{})
	go func() { // requests may come now
		defer close(saved)
		dp_save()
	}()
	defer func() { <-saved }()
	ctl := &mem.Array[C.struct_dp_ctl](uint64(at), 1)[0]
	reserve, pid := ctl.reserve, ctl.pid
	a := &agent.Agent{
		Path: mem.CString(uint64(uintptr(unsafe.Pointer(&ctl.table[0])))),
		SetPaused: func(table *os.File, paused bool) int {
			word := C.uint32_t(0)
			if paused {
				word = 1
			}
			return int(C.dp_agent_set_paused(C.int(table.Fd()), reserve, word))
		},
		Turn: func(table *os.File, turns []agent.Turn) int {
			return int(C.dp_agent_turn(C.int(table.Fd()), reserve, (*C.struct_dp_turn)(unsafe.Pointer(unsafe.SliceData(turns))), C.uint32_t(len(turns))))
		},
	}
	for i := range a.Nonce {
		a.Nonce[i] = byte(ctl.nonce[i])
	}
	keep := ctl.keep != 0
	if serving != nil && !keep {
		serveAs(serving, a.Path, a.Nonce, int(pid))
		return
	}
	if serving != nil {
		start(serving, a.Path, a.Nonce)
	}
	a.Run() // an error is as good as an end: there is nobody to tell
}
