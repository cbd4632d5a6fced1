package cputime

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func sample() *File {
	return &File{
		Version: Version, Period: 1_000_000, Kernel: true, Ended: true, InKernel: 3, Own: 1, Guessed: 6, Planner: 2, Elsewhere: 4, Lost: 5, Throttled: 1,
		Functions: []Function{
			{Number: 0, Object: "/bin/a", Address: 0x1000, Size: 5, Samples: 90},
			{Number: -1, Object: "/lib/libc.so.6", BuildID: "01", Address: 0x2000, Size: 7, Name: "memcpy", Samples: 7},
			{Number: -1, Object: "[anonymous]", Samples: 1},
		},
	}
}

// TestWriteRead: what is written is read, beside its table and no other's.
func TestWriteRead(t *testing.T) {
	table := filepath.Join(t.TempDir(), "a.dynprof")
	nonce := [16]byte{1, 2, 3}
	if _, err := Read(table, nonce); !errors.Is(err, ErrNone) {
		t.Errorf("of none: %v", err)
	}
	for range 2 { // the second takes the first one's place
		want := sample()
		if err := want.Write(table, nonce); err != nil {
			t.Fatal(err)
		}
		got, err := Read(table, nonce)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if fi, err := os.Stat(PathOf(table)); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if _, err := Read(table, [16]byte{1}); !errors.Is(err, ErrNone) {
		t.Errorf("of another table: %v", err)
	}
	if n := sample().Total(); n != 101 {
		t.Errorf("%d samples", n)
	}
}

// TestCopyRemove: they go where their table goes, and over nothing else.
func TestCopyRemove(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	nonce := [16]byte{9}
	if err := errors.Join(sample().Write(a, nonce), Copy(a, b, nonce)); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(b, nonce); err != nil || got.Total() != sample().Total() {
		t.Errorf("%+v, %v", got, err)
	}
	Remove(a)
	if err := Copy(a, b, nonce); err != nil {
		t.Error(err)
	}
	if _, err := Read(b, nonce); !errors.Is(err, ErrNone) {
		t.Errorf("the older one is left: %v", err)
	}
	if err := os.WriteFile(PathOf(a), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sample().Write(a, nonce); err == nil || !strings.Contains(err.Error(), "no file of CPU times") {
		t.Errorf("over another: %v", err)
	}
	Remove(a)
	if text, err := os.ReadFile(PathOf(a)); string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestDamaged: what makes no sense is refused.
func TestDamaged(t *testing.T) {
	for _, text := range []string{
		"", "{}", "null", `{"dynprof_time":1}`, `{"dynprof_time":1,"period_ns":2000000000}`, `{"dynprof_time":2,"period_ns":1}`,
		`{"dynprof_time":1,"period_ns":1000,"own":18446744073709551615}`,
		`{"dynprof_time":1,"period_ns":1000,"in_kernel":9000000000000000,"own":9000000000000000}`,
		`{"dynprof_time":1,"period_ns":1,"functions":[{"number":-2}]}`,
		`{"dynprof_time":1,"period_ns":1,"functions":[{"samples":9223372036854775807},{"samples":1}]}`,
	} {
		if f, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, f)
		}
	}
}

// TestInterval: against values of Brown, Cai, DasGupta's formula, and at the ends.
func TestInterval(t *testing.T) {
	for _, row := range []struct {
		k, n      uint64
		low, high float64
	}{
		{0, 0, 0, 1}, {0, 10, 0, 0.277533}, {10, 10, 0.722467, 1}, {5, 10, 0.236593, 0.763407},
		{1, 100, 0.001767, 0.054486}, {500, 1000, 0.469070, 0.530930},
	} {
		low, high := Interval(row.k, row.n)
		if math.Abs(low-row.low) > 1e-5 || math.Abs(high-row.high) > 1e-5 {
			t.Errorf("%d of %d: %f to %f, want %f to %f", row.k, row.n, low, high, row.low, row.high)
		}
	}
}

func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	if err := sample().Write(filepath.Join(dir, "a"), [16]byte{}); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "a"+suffix))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(b)
		if (file == nil) == (err == nil) {
			t.Fatalf("%v, %v", file, err)
		}
		if err == nil && file.Duration(file.Total()) > math.MaxInt64 {
			t.Fatal("overflow")
		}
	})
}
