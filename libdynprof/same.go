package main

// #include "base/ctl.h"
// #include "stubs/arenas.h"
// #include "texts/undos.h"
import "C"

import (
	"unsafe"

	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/stubgen/entry"
)

// The lists are written as the types of package patch and read as structs of C.
var (
	_ [patch.ListedSize]byte              = [unsafe.Sizeof(patch.Listed{})]byte{}
	_ [patch.ListedSize]byte              = [C.sizeof_struct_dp_listed]byte{}
	_ [patch.OverwrittenSize]byte         = [unsafe.Sizeof(patch.Overwritten{})]byte{}
	_ [patch.OverwrittenSize]byte         = [C.sizeof_struct_dp_overwritten]byte{}
	_ [patch.LedSize]byte                 = [unsafe.Sizeof(patch.Led{})]byte{}
	_ [patch.LedSize]byte                 = [C.sizeof_struct_dp_led]byte{}
	_ [patch.UndoTextSize]byte            = [unsafe.Sizeof(patch.UndoText{})]byte{}
	_ [patch.UndoTextSize]byte            = [C.sizeof_struct_dp_undo_text]byte{}
	_ [patch.TrapSize]byte                = [C.sizeof_struct_dp_trap]byte{}
	_ [unsafe.Sizeof(entry.Island{})]byte = [C.sizeof_struct_dp_island]byte{}
)

// So are their fields, and what these may be.
var (
	_ [unsafe.Offsetof(patch.Overwritten{}.Moved)]struct{}     = [unsafe.Offsetof(C.struct_dp_overwritten{}.moved)]struct{}{}
	_ [unsafe.Offsetof(patch.Overwritten{}.Len)]struct{}       = [unsafe.Offsetof(C.struct_dp_overwritten{}.len)]struct{}{}
	_ [unsafe.Offsetof(patch.Overwritten{}.Kind)]struct{}      = [unsafe.Offsetof(C.struct_dp_overwritten{}.kind)]struct{}{}
	_ [unsafe.Offsetof(patch.Overwritten{}.New)]struct{}       = [unsafe.Offsetof(C.struct_dp_overwritten{}.new)]struct{}{}
	_ [unsafe.Offsetof(patch.Listed{}.Of)]struct{}             = [unsafe.Offsetof(C.struct_dp_listed{}.of)]struct{}{}
	_ [unsafe.Offsetof(patch.Led{}.Entry)]struct{}             = [unsafe.Offsetof(C.struct_dp_led{}.entry)]struct{}{}
	_ [unsafe.Offsetof(patch.Led{}.Stub)]struct{}              = [unsafe.Offsetof(C.struct_dp_led{}.stub)]struct{}{}
	_ [patch.CallBit]struct{}                                  = [C.DP_CALL_BIT]struct{}{}
	_ [patch.SlotBit]struct{}                                  = [C.DP_SLOT_BIT]struct{}{}
	_ [unsafe.Offsetof(patch.UndoText{}.List)]struct{}         = [unsafe.Offsetof(C.struct_dp_undo_text{}.list)]struct{}{}
	_ [unsafe.Offsetof(patch.UndoText{}.Overwritten)]struct{}  = [unsafe.Offsetof(C.struct_dp_undo_text{}.overwritten)]struct{}{}
	_ [unsafe.Offsetof(patch.UndoText{}.Leds)]struct{}         = [unsafe.Offsetof(C.struct_dp_undo_text{}.leds)]struct{}{}
	_ [unsafe.Offsetof(patch.UndoText{}.Prot)]struct{}         = [unsafe.Offsetof(C.struct_dp_undo_text{}.prot)]struct{}{}
	_ [unsafe.Offsetof(patch.UndoText{}.Longest)]struct{}      = [unsafe.Offsetof(C.struct_dp_undo_text{}.longest)]struct{}{}
	_ [unsafe.Offsetof(patch.UndoText{}.FunctionsEnd)]struct{} = [unsafe.Offsetof(C.struct_dp_undo_text{}.functions_end)]struct{}{}
	_ [unsafe.Offsetof(patch.UndoText{}.Base)]struct{}         = [unsafe.Offsetof(C.struct_dp_undo_text{}.base)]struct{}{}
	_ [unsafe.Offsetof(patch.Trap{}.To)]struct{}               = [unsafe.Offsetof(C.struct_dp_trap{}.to)]struct{}{}
	_ [unsafe.Offsetof(entry.Island{}.From)]struct{}           = [unsafe.Offsetof(C.struct_dp_island{}.from)]struct{}{}
	_ [patch.KindFirst]struct{}                                = [C.DP_UNDO_FIRST]struct{}{}
	_ [patch.KindIsland]struct{}                               = [C.DP_UNDO_ISLAND]struct{}{}
	_ [patch.KindCall]struct{}                                 = [C.DP_UNDO_CALL]struct{}{}
	_ [patch.KindSite]struct{}                                 = [C.DP_UNDO_SITE]struct{}{}
	_ [patch.SpanUnits]struct{}                                = [C.DP_SPAN_UNITS]struct{}{}
	_ [patch.SpanUnit]struct{}                                 = [C.DP_SPAN_UNIT]struct{}{}
	_ [patch.NoGroup]struct{}                                  = [C.DP_NO_GROUP]struct{}{}
	_ [patch.SignalSites]struct{}                              = [C.DP_SIGNAL_SITES]struct{}{}
)
