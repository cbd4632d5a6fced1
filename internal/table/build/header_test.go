package build

import (
	"flag"
	"testing"

	"github.com/dynprof/dynprof/internal/cheader"
)

var update = flag.Bool("update", false, "write generated files")

const header = "../../../libdynprof/resident/base/tablesize.h"

// TestHeader keeps the C's copy of the sizes in step.
func TestHeader(t *testing.T) {
	s, err := cheader.Read("sizes.go")
	if err != nil {
		t.Fatal(err)
	}
	want := s.Header("go generate ./internal/table/build from sizes.go", "DP_TABLESIZE_H", "", nil)
	if err := cheader.Keep(header, want, "./internal/table/build", *update); err != nil {
		t.Error(err)
	}
}
