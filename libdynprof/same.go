package main

// #include "attach/attach.h"
// #include "attach/companion.h"
// #include "base/ctl.h"
// #include "base/lock.h"
// #include "stubs/arenas.h"
// #include "texts/undos.h"
import "C"

import (
	"unsafe"

	"github.com/dynprof/dynprof/internal/handover"
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

// What hotspots attach leaves in a process is written as those of package handover.
var (
	_ [handover.PlaceSize]byte  = [C.sizeof_struct_dp_place]byte{}
	_ [handover.ParkedSize]byte = [C.sizeof_struct_dp_parked]byte{}
	_ [handover.AttachSize]byte = [C.sizeof_struct_dp_attach]byte{}
	_ [handover.RangeSize]byte  = [C.sizeof_struct_dp_range]byte{}
	_ [handover.ArenaSize]byte  = [C.sizeof_struct_dp_arena]byte{}
	_ [handover.TextSize]byte   = [C.sizeof_struct_dp_text]byte{}
	_ [handover.AsksSize]byte   = [C.sizeof_struct_dp_asks]byte{}
	_ [handover.ObjectSize]byte = [C.sizeof_struct_dp_object]byte{}
	_ [handover.CtlSize]byte    = [C.sizeof_struct_dp_ctl]byte{}

	_ [unsafe.Offsetof(handover.Parked{}.From)]struct{}        = [unsafe.Offsetof(C.struct_dp_parked{}.from)]struct{}{}
	_ [unsafe.Offsetof(handover.Parked{}.To)]struct{}          = [unsafe.Offsetof(C.struct_dp_parked{}.to)]struct{}{}
	_ [unsafe.Offsetof(handover.Parked{}.GS)]struct{}          = [unsafe.Offsetof(C.struct_dp_parked{}.gs)]struct{}{}
	_ [unsafe.Offsetof(handover.Parked{}.Left)]struct{}        = [unsafe.Offsetof(C.struct_dp_parked{}.left)]struct{}{}
	_ [handover.SocketAt]struct{}                              = [unsafe.Offsetof(C.struct_dp_attach{}.socket)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Threads)]struct{}     = [unsafe.Offsetof(C.struct_dp_attach{}.threads)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Struck)]struct{}      = [unsafe.Offsetof(C.struct_dp_attach{}.struck)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Reserve)]struct{}     = [unsafe.Offsetof(C.struct_dp_attach{}.reserve)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Table)]struct{}       = [unsafe.Offsetof(C.struct_dp_attach{}.table)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Auxv)]struct{}        = [unsafe.Offsetof(C.struct_dp_attach{}.auxv)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Small)]struct{}       = [unsafe.Offsetof(C.struct_dp_attach{}.small_stacks)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Companion)]struct{}   = [unsafe.Offsetof(C.struct_dp_attach{}.companion)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Mark)]struct{}        = [unsafe.Offsetof(C.struct_dp_attach{}.mark)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Owned)]struct{}       = [unsafe.Offsetof(C.struct_dp_attach{}.owned)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Result)]struct{}      = [unsafe.Offsetof(C.struct_dp_attach{}.result)]struct{}{}
	_ [unsafe.Offsetof(handover.Attach{}.Why)]struct{}         = [unsafe.Offsetof(C.struct_dp_attach{}.why)]struct{}{}
	_ [unsafe.Offsetof(handover.Arena{}.Origins)]struct{}      = [unsafe.Offsetof(C.struct_dp_arena{}.origins)]struct{}{}
	_ [unsafe.Offsetof(handover.Arena{}.IslandsCount)]struct{} = [unsafe.Offsetof(C.struct_dp_arena{}.islands_count)]struct{}{}
	_ [unsafe.Offsetof(handover.Arena{}.Held)]struct{}         = [unsafe.Offsetof(C.struct_dp_arena{}.held)]struct{}{}
	_ [unsafe.Offsetof(handover.Text{}.Arena)]struct{}         = [unsafe.Offsetof(C.struct_dp_text{}.arena)]struct{}{}
	_ [unsafe.Offsetof(handover.Text{}.Exchanged)]struct{}     = [unsafe.Offsetof(C.struct_dp_text{}.exchanged)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.Late)]struct{}           = [unsafe.Offsetof(C.struct_dp_ctl{}.late)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.Held)]struct{}           = [unsafe.Offsetof(C.struct_dp_ctl{}.held)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.HandlesTraps)]struct{}   = [unsafe.Offsetof(C.struct_dp_ctl{}.handles_traps)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.Objects)]struct{}        = [unsafe.Offsetof(C.struct_dp_ctl{}.objects)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.ObjectsCount)]struct{}   = [unsafe.Offsetof(C.struct_dp_ctl{}.objects_count)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.ArenasCount)]struct{}    = [unsafe.Offsetof(C.struct_dp_ctl{}.arenas_count)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.TextsCap)]struct{}       = [unsafe.Offsetof(C.struct_dp_ctl{}.texts_cap)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.Arenas)]struct{}         = [unsafe.Offsetof(C.struct_dp_ctl{}.arenas)]struct{}{}
	_ [unsafe.Offsetof(handover.Ctl{}.Nonce)]struct{}          = [unsafe.Offsetof(C.struct_dp_ctl{}.nonce)]struct{}{}
	_ [handover.StatusAt]struct{}                              = [unsafe.Offsetof(C.struct_dp_ctl{}.status)]struct{}{}
	_ [handover.StopAt]struct{}                                = [unsafe.Offsetof(C.struct_dp_ctl{}.stop)]struct{}{}
	_ [handover.UndosAt]struct{}                               = [unsafe.Offsetof(C.struct_dp_ctl{}.undos)]struct{}{}
	_ [unsafe.Offsetof(handover.Asks{}.Nonce)]struct{}         = [unsafe.Offsetof(C.struct_dp_asks{}.nonce)]struct{}{}
	_ [unsafe.Offsetof(handover.Object{}.Missed)]struct{}      = [unsafe.Offsetof(C.struct_dp_object{}.missed)]struct{}{}
	_ [handover.Begun]struct{}                                 = [C.DP_ANSWER_BEGUN]struct{}{}
	_ [handover.Planned]struct{}                               = [C.DP_ANSWER_PLANNED]struct{}{}
	_ [handover.NothingYet]struct{}                            = [C.DP_NOTHING_YET]struct{}{}
	_ [handover.Begins]struct{}                                = [C.DP_BEGINS]struct{}{}
	_ [handover.Counts]struct{}                                = [C.DP_COUNTS]struct{}{}
	_ [handover.Ends]struct{}                                  = [C.DP_ENDS]struct{}{}
	_ [handover.HasEnded]struct{}                              = [C.DP_HAS_ENDED]struct{}{}
	_ [handover.Busy]struct{}                                  = [C.DP_BUSY]struct{}{}
	_ [handover.Done]struct{}                                  = [C.DP_DONE]struct{}{}
	_ [handover.GivenUp]struct{}                               = [C.DP_GIVEN_UP]struct{}{}
	_ [handover.KeepGS]struct{}                                = [C.DP_KEEP_GS]struct{}{}
	_ [handover.ToDetach]struct{}                              = [C.DP_DETACH]struct{}{}
	_ [handover.ToPause]struct{}                               = [C.DP_PAUSE]struct{}{}
	_ [handover.ToResume]struct{}                              = [C.DP_RESUME]struct{}{}
	_ [handover.ToAdd]struct{}                                 = [C.DP_ADD]struct{}{}
	_ [handover.Again]struct{}                                 = [C.DP_ATTACH_AGAIN]struct{}{}
	_ [handover.Succeeded]struct{}                             = [C.DP_ATTACH_DONE]struct{}{}
)
