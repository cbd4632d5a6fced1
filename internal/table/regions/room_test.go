package regions

import (
	"os"
	"strings"
	"testing"
)

func TestRoom(t *testing.T) {
	for size, want := range map[uint64]uint64{0: 0, 20 << 20: 1 << 20, 1 << 30: 1 << 30 / 20, 1 << 40: 1 << 30} {
		if got := left(size); got != want {
			t.Errorf("of %d bytes %d are left, not %d", size, got, want)
		}
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := room{bytes: 10}
	if err := r.take(f, 10); err != nil || r.bytes != 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if err := r.take(f, 1); err != nil || r.bytes == 0 || r.bytes > mostRoom {
		t.Errorf("%v, %+v", err, r)
	}
	if err := r.take(f, 1<<60); err == nil || !strings.Contains(err.Error(), "no space left but for") {
		t.Errorf("%v", err)
	}
}
