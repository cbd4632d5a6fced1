package cheader

import "testing"

func TestName(t *testing.T) {
	for goName, want := range map[string]string{
		"HdrRowsUsed": "DP_HDR_ROWS_USED", "HdrPidNS": "DP_HDR_PID_NS", "ObjBuildID": "DP_OBJ_BUILD_ID",
		"HdrUID": "DP_HDR_UID", "Magic": "DP_MAGIC",
	} {
		if got := Name(goName); got != want {
			t.Errorf("Name(%s) = %s, want %s", goName, got, want)
		}
	}
}
