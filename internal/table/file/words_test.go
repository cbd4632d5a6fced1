package file_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestWords: what one mapping stores another sees, and who waits is woken.
func TestWords(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	var ends [2]*file.Words
	for i := range ends {
		w, err := head(t, live.Path, os.O_RDWR).MapWords()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		ends[i] = w
	}
	a, b := ends[0], ends[1]
	a.Long(layout.HdrReply).Store(1 << 40)
	if n := b.Long(layout.HdrReply).Load(); n != 1<<40 {
		t.Errorf("long word %#x", n)
	}
	a.Wait(layout.HdrRequest, 5, time.Hour) // it is not 5
	a.Wait(layout.HdrRequest, 0, time.Millisecond)
	done := make(chan uint32)
	go func() {
		for b.Word(layout.HdrRequest).Load() == 0 {
			b.Wait(layout.HdrRequest, 0, time.Hour)
		}
		done <- b.Word(layout.HdrRequest).Load()
	}()
	time.Sleep(5 * time.Millisecond)
	a.Word(layout.HdrRequest).Store(7)
	a.Wake(layout.HdrRequest)
	if n := <-done; n != 7 || live.Load(layout.HdrRequest) != 7 {
		t.Errorf("woken by %d, the file has %d", n, live.Load(layout.HdrRequest))
	}
	if w, err := head(t, live.Path, os.O_RDONLY).MapWords(); w != nil || !errors.Is(err, os.ErrPermission) {
		t.Errorf("mapped for writing what was opened for reading: %v", err)
	}
}

// TestGuard: a file that is cut short is an error, and nothing else is one.
func TestGuard(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	w, err := head(t, live.Path, os.O_RDWR).MapWords()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	read := func() error { w.Word(layout.HdrState).Load(); return nil }
	if err := file.Guard(read); err != nil {
		t.Errorf("whole: %v", err)
	}
	if err := os.Truncate(live.Path, 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Guard(read); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("cut short: %v", err)
	}
	mine := errors.New("mine")
	if err := file.Guard(func() error { return mine }); err != mine {
		t.Errorf("an error became %v", err)
	}
	defer func() {
		if p := recover(); p != mine {
			t.Errorf("a panic became %v", p)
		}
	}()
	file.Guard(func() error { panic(mine) })
}
