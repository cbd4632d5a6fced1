package entry

import (
	"reflect"
	"testing"
)

// TestPlanIsSmall: there is one for each function.
func TestPlanIsSmall(t *testing.T) {
	if n := reflect.TypeFor[Plan]().Size(); n > 32 {
		t.Errorf("a plan has %d bytes", n)
	}
}
