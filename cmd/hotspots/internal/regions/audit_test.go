package regions

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
)

// TestAuditText: where code of no object, and of no function, is.
func TestAuditText(t *testing.T) {
	a := &Audit{Accesses: 1, Missed: 1, Misses: []*AuditPlace{
		{Address: 0x1000, Function: unknown, Object: unknown, Kind: "load", Reason: reasonNowhere, Accesses: 1, Code: "mov (%rax),%eax"},
		{Address: 0x2000, Function: unknown, Object: "/x/libx.so", Kind: "store", Accesses: 2},
		{Address: 0x3000, Function: "f", Object: "/x/libx.so", Kind: "store", Accesses: 2, Code: "ret"},
	}}
	var out strings.Builder
	a.text(&out, report.Style{})
	for _, want := range []string{"Audit: 1 access seen, 0 recorded, 1 not", "0x1000  mov (%rax),%eax  in no object (code that is in no object)\n", "0x2000  in no function of /x/libx.so\n", "0x3000  ret  in f of /x/libx.so\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, &out)
		}
	}
}
