package bisect

import (
	"errors"
	"fmt"

	"github.com/dynprof/dynprof/internal/setting"
)

// bisect takes the steps of docs/bisect.md, "What it runs".
func (s *session) bisect(r *Result) error {
	var err error
	s.input, err = newInput(s.ctx, s.Stdin, s.Dir, func() { s.Say("reading standard input to its end: every run gets it") })
	if err != nil {
		return err
	}
	s.left = 4
	if err := s.refer(); err != nil {
		return err
	}
	all, err := s.everything(r)
	if err != nil || r.Verdict != "" {
		return err
	}
	if err := s.nothing(r); err != nil || r.Verdict != "" {
		return err
	}
	sel, err := s.narrow(r, all)
	if err != nil {
		return err
	}
	r.Verdict = Found
	return s.confirm(r, all, sel)
}

// refer runs the program twice without the library: what differs then tells
// nothing.
func (s *session) refer() error {
	s.lim = limits{time: s.Timeout}
	first, err := s.plain("without the library")
	if err != nil {
		return err
	}
	s.reference = first
	second, err := s.plain("without the library, again")
	if err != nil {
		return err
	}
	for _, o := range []*outcome{first, second} {
		if o.stopped != "" {
			return fmt.Errorf("without the library %s was %s", s.Command[0], o.stopped)
		}
	}
	if s.Timeout == 0 {
		s.lim.time = timeFactor*max(first.took, second.took) + timeMore
	}
	s.lim.output = outputFactor*max(first.written(), second.written()) + outputMore
	if s.Check != "" {
		if err := s.acceptable(first); err != nil {
			return err
		}
		return s.acceptable(second)
	}
	t, err := s.judge(second)
	if err == nil && t.verdict != good {
		return fmt.Errorf("%s does not do the same twice without the library (%s): say with --check what is good", s.Command[0], t.differences[0])
	}
	s.drop(t)
	return err
}

// acceptable is an error if the check does not accept a run without the
// library.
func (s *session) acceptable(o *outcome) error {
	t, err := s.judge(o)
	switch {
	case err != nil || t.verdict == good:
		return err
	case t.verdict == unclear:
		return fmt.Errorf("--check cannot tell (status %d) of %s without the library", checkSkip, s.Command[0])
	}
	return fmt.Errorf("--check says bad (status %s) of %s without the library", *t.differences[0].With, s.Command[0])
}

// everything patches all functions. It sets the verdict if that makes no
// difference, else it returns what was patched.
func (s *session) everything(r *Result) ([]*object, error) {
	t, err := s.try("everything patched", selection{})
	if err != nil {
		return nil, err
	}
	defer s.drop(t)
	all, err := readTables(t.dir)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		r.Functions += len(o.counted)
	}
	r.Objects = len(all)
	switch {
	case r.Functions == 0 && t.verdict == bad:
		return nil, fmt.Errorf("with everything patched %s did not come as far as main (status %s): try parts with --objects and --only", s.Command[0], t.end())
	case r.Functions == 0:
		return nil, fmt.Errorf("no function of %s was patched", s.Command[0])
	case t.verdict == unclear:
		return nil, fmt.Errorf("--check cannot tell (status %d) with everything patched", checkSkip)
	case t.verdict == good:
		r.Verdict = Same
	}
	return all, nil
}

// nothing runs with the library, no function patched.
func (s *session) nothing(r *Result) error {
	t, err := s.try("nothing patched", selection{names: []string{}})
	if err != nil {
		return err
	}
	defer s.drop(t)
	if t.verdict == bad {
		r.Verdict, r.Differences = Library, t.differences
	}
	return nil
}

// afterSearch is how many runs follow the search.
func (s *session) afterSearch() int {
	if s.countsBlocks() {
		return 3
	}
	return 2
}

// countsBlocks reports whether functions run as copies.
func (s *session) countsBlocks() bool { return s.On[setting.Blocks] || s.On[setting.Trips] }

// narrow finds the objects, then the names in them.
func (s *session) narrow(r *Result, all []*object) (sel selection, err error) {
	objects := all
	if len(all) > 1 {
		pick := func(set []int) selection { return selection{objects: paths(subset(all, set))} }
		set, err := s.minimal(len(all), "objects", pick, 1+steps(r.Functions)+s.afterSearch())
		if err != nil {
			return sel, err
		}
		objects = subset(all, set)
	}
	names := namesOf(objects)
	pick := func(set []int) selection { return selection{objects: paths(objects), names: subset(names, set)} }
	t, err := s.try(fmt.Sprintf("%d functions by name", len(names)), pick(identity(len(names))))
	if err != nil {
		return sel, err
	}
	s.drop(t)
	if t.verdict != bad {
		return sel, errors.New("the difference went away when functions were chosen by name: it comes and goes (see --repeat, --check), or a name cannot stand in a list")
	}
	set, err := s.minimal(len(names), "functions", pick, s.afterSearch())
	return pick(set), err
}

// minimal searches n items of a kind; more runs follow.
func (s *session) minimal(n int, kind string, pick func([]int) selection, more int) ([]int, error) {
	candidates := n
	find := search{
		left: func(left int) {
			candidates = left
			s.narrowed = fmt.Sprintf("%d %s left", left, kind)
			s.left = steps(left) + more
		},
		bad: func(set []int) (bool, error) {
			t, err := s.try(fmt.Sprintf("%d of %d %s, %d left", len(set), n, kind, candidates), pick(set))
			if err != nil {
				return false, err
			}
			s.drop(t)
			return t.verdict == bad, nil // unclear is not bad: ddmin's "unresolved"
		},
	}
	return find.minimal(n)
}

// confirm runs with the culprits alone, explains them, and runs with all
// others.
func (s *session) confirm(r *Result, all []*object, sel selection) error {
	s.left = s.afterSearch()
	t, err := s.try("the culprits alone", sel)
	if err != nil {
		return err
	}
	defer s.drop(t)
	r.Unstable = t.verdict != bad
	r.Differences = append(r.Differences, t.differences...)
	tables, err := readTables(t.dir)
	if err != nil {
		return err
	}
	for _, o := range tables {
		r.culprits = append(r.culprits, o.explain()...)
	}
	if len(r.culprits) == 0 {
		return fmt.Errorf("with only %q patched %s did not come as far as main (status %s)", sel.names, s.Command[0], t.end())
	}
	r.noteNamesakes()
	if s.countsBlocks() {
		sel.byCall = true
		if r.ByCall, err = s.outcome("the culprits counted by call", sel); err != nil {
			return err
		}
	}
	one := sel.names[:1] // without it the others make no difference
	r.Skip = s.command("run", one)
	if r.Others, err = s.outcome("all others", selection{names: without(namesOf(all), one)}); r.Others == differ {
		r.Next = s.command("bisect", one)
	}
	return err
}

// outcome tries a selection, and says whether it makes a difference.
func (s *session) outcome(what string, sel selection) (string, error) {
	t, err := s.try(what, sel)
	if err != nil {
		return "", err
	}
	s.drop(t)
	switch t.verdict {
	case good:
		return Same, nil
	case bad:
		return differ, nil
	}
	return cannotTell, nil
}

// noteNamesakes says which culprits could not be told apart.
func (r *Result) noteNamesakes() {
	count := map[string]int{}
	for _, c := range r.culprits {
		count[c.Name]++
	}
	for _, c := range r.culprits {
		if n := count[c.Name]; n > 1 && c.Note == "" {
			c.Note = fmt.Sprintf("one of %d functions that show this name: they are chosen together", n)
		}
	}
}
