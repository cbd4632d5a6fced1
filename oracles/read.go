package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// lines calls f for every line.
func lines(text []byte, f func(line string)) error {
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, mostOutput)
	for s.Scan() {
		f(s.Text())
	}
	return s.Err()
}

var (
	tapLine = regexp.MustCompile(`^(not )?ok\b *(\d*)(.*)`)
	tapPlan = regexp.MustCompile(`^1\.\.(\d+)(.*)`)
	tapNote = regexp.MustCompile(`(?i)# *(skip|todo)`)
)

// readTAP reads the Test Anything Protocol: one result for a number, and the
// plan. A number that comes twice is two results.
func readTAP(o *output) (results, error) {
	r := results{}
	next := 1
	err := lines(o.stdout, func(line string) {
		if p := tapPlan.FindStringSubmatch(line); p != nil {
			r["plan"] = p[1]
			if tapNote.MatchString(p[2]) {
				r["plan"] += " skip"
			}
			return
		}
		p := tapLine.FindStringSubmatch(line)
		if p == nil {
			return
		}
		outcome := p[1] + "ok"
		if n := tapNote.FindStringSubmatch(p[3]); n != nil {
			outcome += " " + strings.ToLower(n[1])
		}
		if p[2] != "" {
			fmt.Sscan(p[2], &next)
		}
		r.add(fmt.Sprint(next), outcome)
		next++
	})
	return r, err
}

// add adds a result; a name that exists gets a number.
func (r results) add(name, outcome string) {
	key := name
	for i := 2; ; i++ {
		if _, taken := r[key]; !taken {
			break
		}
		key = fmt.Sprintf("%s#%d", name, i)
	}
	r[key] = outcome
}

// readText makes one result of all that was printed.
func readText(o *output) (results, error) {
	return results{"stdout": string(o.stdout), "stderr": string(o.stderr)}, nil
}

// readStatus makes no result but the exit status.
func readStatus(*output) (results, error) { return results{}, nil }

// readFiles returns a reader of what was printed and of the sums of files that
// the command wrote in its directory.
func readFiles(names ...string) func(o *output) (results, error) {
	return func(o *output) (results, error) {
		r, err := readText(o)
		for _, name := range names {
			path := filepath.Join(o.dir, name)
			data, err := os.ReadFile(path)
			if err != nil {
				r[name] = "missing"
				continue
			}
			r[name] = fmt.Sprintf("%d bytes, sha256 %x", len(data), sha256.Sum256(data))
			os.Remove(path)
		}
		return r, err
	}
}

// readJUnit reads the tests of a JUnit file that the command wrote.
func readJUnit(name string) func(o *output) (results, error) {
	return func(o *output) (results, error) {
		path := filepath.Join(o.dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return results{"report": "missing"}, nil
		}
		os.Remove(path)
		var report struct {
			Suites []struct {
				Cases []struct {
					Name    string    `xml:"name,attr"`
					Failure *struct{} `xml:"failure"`
					Error   *struct{} `xml:"error"`
					Skipped *struct{} `xml:"skipped"`
				} `xml:"testcase"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(text, &report); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r := results{}
		for _, s := range report.Suites {
			for _, c := range s.Cases {
				outcome := "ok"
				switch {
				case c.Error != nil:
					outcome = "error"
				case c.Failure != nil:
					outcome = "failure"
				case c.Skipped != nil:
					outcome = "skipped"
				}
				r.add(c.Name, outcome)
			}
		}
		return r, nil
	}
}
