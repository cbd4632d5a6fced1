package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// graph returns what is wrong with who needs whom.
func (r *rules) graph(parts []string) (problems []string, err error) {
	defined, needed := map[string]string{}, map[string][]string{} // symbols: the file; a file: symbols
	for _, path := range parts {
		f, err := elf.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		defer f.Close()
		has, needs, err := symbols(f, path)
		if err != nil {
			return nil, err
		}
		for _, name := range has {
			defined[name] = path
		}
		needed[path] = needs
	}
	uses := map[string][]string{}
	for path, names := range needed {
		for _, name := range names {
			if there := defined[name]; there != "" && !r.areOne(path, there) {
				uses[path] = append(uses[path], there)
			}
		}
		read, err := headers(path)
		if err != nil {
			return nil, err
		}
		problems = append(problems, r.outOfOrder(path, slices.Concat(uses[path], read))...)
	}
	if way := circle(uses); way != nil {
		problems = append(problems, "files need each other: "+strings.Join(way, " -> "))
	}
	return problems, nil
}

// areOne reports whether two files are parts of one thing.
func (r *rules) areOne(path, other string) bool {
	return slices.Contains(r.one, path) && slices.Contains(r.one, other)
}

// headers are those that a part was compiled with, by the list that the compiler
// has left beside it (gcc -MMD); none without.
func headers(part string) (paths []string, err error) {
	text, err := os.ReadFile(strings.TrimSuffix(part, ".o") + ".d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, word := range strings.Fields(string(text)) {
		if strings.HasSuffix(word, ".h") && strings.Contains(word, "/resident/") && !strings.Contains(word, "..") {
			paths = append(paths, word)
		}
	}
	return paths, nil
}

// outOfOrder are the files of later folders that a file needs.
func (r *rules) outOfOrder(path string, needs []string) (problems []string) {
	if len(r.order) == 0 {
		return nil
	}
	rank := func(path string) int { return slices.Index(r.order, filepath.Base(filepath.Dir(path))) }
	if rank(path) < 0 {
		return []string{fmt.Sprintf("%s lies in no folder of the order %v", path, r.order)}
	}
	for _, other := range needs {
		if rank(other) > rank(path) {
			problems = append(problems, fmt.Sprintf("%s needs %s, of a later folder", path, other))
		}
	}
	return problems
}

// circle is a way through the graph that ends where it begins; nil if there is none.
func circle(uses map[string][]string) (found []string) {
	done := map[string]bool{}
	var visit func(way []string)
	visit = func(way []string) {
		last := len(way) - 1
		at := way[last]
		if i := slices.Index(way[:last], at); i >= 0 {
			found = way[i:]
		}
		if found != nil || done[at] {
			return
		}
		slices.Sort(uses[at])
		for _, next := range slices.Compact(uses[at]) {
			if visit(append(slices.Clip(way), next)); found != nil {
				return
			}
		}
		done[at] = true
	}
	for _, path := range slices.Sorted(maps.Keys(uses)) {
		visit([]string{path})
	}
	return found
}
