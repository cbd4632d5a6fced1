package symname

import "testing"

func TestThresholds(t *testing.T) {
	for _, row := range []struct {
		arg, name string
		want      uint32
		any, same bool
	}{
		{"1000", "f", 1000, true, true},
		{"0", "f", 0, false, true},
		{"f=5", "f", 5, true, false},
		{"f=5", "ff", 0, true, false},
		{"f=0", "f", 0, false, false},
		{"7;f*=5;ff=2147483647", "ff", 1<<31 - 1, true, false},
		{"7;ff=9;f*=5", "ff", 5, true, false},
		{"7;f*=5", "g", 7, true, false},
		{"f?=5;9", "f1", 5, true, false},
		{"f?=5;9", "f", 9, true, false},
		{"A::operator==*=3", "A::operator==(A const&)", 3, true, false},
		{"<[u8? 4]*=3", "<[u8; 4] as F>::f", 3, true, false},
		{"a.b=3", "axb", 0, true, false},
		{"\xff*=3", "\uFFFD1", 3, true, false}, // as it is displayed
	} {
		got, err := ParseThresholds(row.arg)
		if err != nil {
			t.Errorf("%s: %v", row.arg, err)
			continue
		}
		if n := got.Of(row.name); n != row.want || got.Any() != row.any || got.Same() != row.same {
			t.Errorf("%s: %s has %d, not %d; any %t, same %t", row.arg, row.name, n, row.want, got.Any(), got.Same())
		}
	}
	for _, arg := range []string{"", "x", "=5", "f=", "f=-1", "2147483648", "5;", "f=5;;g=6", "f=1e3"} {
		if _, err := ParseThresholds(arg); err == nil {
			t.Errorf("%q is taken", arg)
		}
	}
}
