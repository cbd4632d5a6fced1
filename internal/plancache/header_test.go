package plancache

import (
	"flag"
	"testing"

	"github.com/dynprof/dynprof/internal/cheader"
)

var update = flag.Bool("update", false, "write generated files")

const header = "../../libdynprof/resident/base/plancache.h"

// TestHeader keeps the C's copy of the layout in step.
func TestHeader(t *testing.T) {
	s, err := cheader.Read("layout.go")
	if err != nil {
		t.Fatal(err)
	}
	want := s.Header("go generate ./internal/plancache from layout.go", "DP_PLANCACHE_H", "dp_plan_part", []cheader.Struct{
		{Name: "dp_plan_part", Prefix: "Part", Size: "PartSize"},
		{Name: "dp_plan_file", Prefix: "Plan", Size: "PlanHeaderSize"},
		{Name: "dp_plan_text", Prefix: "Text", Size: "TextEntrySize"},
		{Name: "dp_plan_fixup", Prefix: "Fix", Size: "FixEntrySize"},
		{Name: "dp_plan_island", Prefix: "Island", Size: "IslandEntrySize"},
	})
	if err := cheader.Keep(header, want, "./internal/plancache", *update); err != nil {
		t.Error(err)
	}
}
