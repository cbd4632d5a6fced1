package layout

import (
	"testing"

	"github.com/dynprof/dynprof/internal/cheader"
)

const layoutHeader = "../../../libdynprof/resident/base/layout.h"

// TestLayoutHeader keeps the C shim's copy of the layout in step.
func TestLayoutHeader(t *testing.T) {
	want := parseLayout(t).Header("go generate ./internal/table/layout from layout.go", "DP_LAYOUT_H", "dp_section", structs)
	if err := cheader.Keep(layoutHeader, want, "./internal/table/layout", *update); err != nil {
		t.Error(err)
	}
}

// structs are the kinds of entry. The header ends with its last field: a copy is no page.
var structs = []cheader.Struct{
	{Name: "dp_section", Prefix: "Sec", Size: "SectionSize"},
	{Name: "dp_header", Prefix: "Hdr"},
	{Name: "dp_object_entry", Prefix: "Obj", Size: "ObjEntrySize"},
	{Name: "dp_function", Prefix: "Fn", Size: "FnEntrySize"},
	{Name: "dp_event", Prefix: "Ev", Size: "EvEntrySize"},
	{Name: "dp_former", Prefix: "Fm", Size: "FmEntrySize"},
	{Name: "dp_missed", Prefix: "Ms", Size: "MsEntrySize"},
	{Name: "dp_block", Prefix: "Bk", Size: "BkEntrySize"},
	{Name: "dp_way", Prefix: "Wy", Size: "WyEntrySize"},
	{Name: "dp_loop", Prefix: "Lp", Size: "LpEntrySize"},
	{Name: "dp_site", Prefix: "St", Size: "StEntrySize"},
	{Name: "dp_baseline", Prefix: "Bl", Size: "BlCounts", Behind: "counts"},
	{Name: "dp_row", Prefix: "Row", Size: "RowCounters", Behind: "counters"},
}
