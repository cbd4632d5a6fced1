//go:build long

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestHeatRaced: Go's race detector, which no symbol names, has its heap at a fixed place, or ends the
// program.
func TestHeatRaced(t *testing.T) {
	lane.Parallel(t)
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command(need(t, "go"), "build", "-race", "-ldflags=-w", "-o", program, "main.go")
	c.Dir = "testdata/raced"
	c.Env = append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=", "GOWORK=off")
	if msg, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	countedBeside(t, program, "main.main")
}
