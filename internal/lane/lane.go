// Package lane tells tests which of two lanes they run in: make test, which is to
// end within six minutes, or make long (the build tag long), which runs everything.
package lane

// Some is the whole of a test's cases in the long lane, and else those of the
// indexes: the ones that, by themselves, would show most of what all show.
func Some[T any](all []T, indexes ...int) []T {
	if Long {
		return all
	}
	some := make([]T, 0, len(indexes))
	for _, i := range indexes {
		some = append(some, all[i])
	}
	return some
}

// Turn is the whole of a test's ways in the long lane, and else the one whose turn
// it is in the test's ith case: cases by ways are many, and all of either are seen.
func Turn[T any](all []T, i int) []T {
	if Long {
		return all
	}
	return all[i%len(all):][:1]
}

// Of is how much of something a test does: so much in make test, more in make long.
func Of[T any](short, long T) T {
	if Long {
		return long
	}
	return short
}

// Thin is the whole of a test's cases in the long lane, and else every nth.
func Thin[T any](all []T, n int) []T {
	if Long {
		return all
	}
	var some []T
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// Parallel has a whole test run beside others in make test, where most wait for
// something now and then. In make long they run one by one: some are storms.
func Parallel(t interface{ Parallel() }) {
	if !Long {
		t.Parallel()
	}
}
