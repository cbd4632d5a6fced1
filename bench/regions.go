package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What it takes to record each access to chosen memory, beside the method of memtr's paper.

// recording is a program whose accesses are recorded by one of them.
type recording struct {
	Program  string    `json:"program"`
	Tool     string    `json:"tool"`
	Skipped  string    `json:"skipped,omitempty"`
	Accesses uint64    `json:"accesses"` // that were recorded
	RunsMS   []float64 `json:"runs_ms"`  // wall time, of the work alone where the program tells it, less that of it without
	CPUMS    []float64 `json:"cpu_ms"`   // of the program, likewise; nil: not told
	WallNS   spread    `json:"wall_ns"`  // an access
	CPUNS    spread    `json:"cpu_ns"`
}

const (
	frameLines  = 4652 // so many that 31 million accesses are made
	frameAccess = 6664 // of a line, with its chroma
	paperPart   = 1000 // of these lines has the method of the paper
)

// Aims of an access, in ns of the wall, and of the frame, in ms.
const recordedAtMost, frameAtMost = 20, 600

// recordings measures them in turn.
func (m *machine) recordings(f *figures) error {
	header := "-I" + filepath.Join(m.sources, "..", "..", "libdynprof")
	source := filepath.Join(m.sources, "frame.c")
	program, err := m.build("frame", "gcc", "-O1", header, source)
	if err != nil {
		return err
	}
	paper, err := m.build("frame-paper", "gcc", "-O1", "-DPAPER", header, source)
	if err != nil {
		return err
	}
	fmt.Println("regions: each access to the planes of a VGA frame")
	ours := recording{Program: "frame", Tool: "hotspots run --regions"}
	theirs := recording{Program: "frame", Tool: "page protection, signals and single steps (memtr's paper)"}
	encoder := recording{Program: "x264, a VGA frame", Tool: "hotspots run --region heap"}
	if err := needs("/usr/bin/x264"); err != nil {
		encoder.Skipped = err.Error()
	}
	for range f.Rounds {
		if err := m.frame(&ours, program, program, frameLines, m.hotspots, "run", "--regions", "--summary", "0", "-o", "table", "--"); err != nil {
			return err
		}
		if err := m.frame(&theirs, program, paper, frameLines/paperPart); err != nil {
			return err
		}
		if encoder.Skipped == "" {
			if err := m.encode(&encoder); err != nil {
				return err
			}
		}
	}
	for _, r := range []*recording{&ours, &theirs, &encoder} {
		r.WallNS = spreadOf(r.RunsMS).times(1e6 / float64(max(r.Accesses, 1)))
		r.CPUNS = spreadOf(r.CPUMS).times(1e6 / float64(max(r.Accesses, 1)))
		f.Recordings = append(f.Recordings, *r)
	}
	return nil
}

// frame runs frame.c without and with its accesses recorded, and adds what it says it took.
func (m *machine) frame(r *recording, plain, program string, lines int, front ...string) error {
	took := func(args ...string) (accesses uint64, wall, cpu float64, err error) {
		dir, err := m.fresh()
		if err != nil {
			return 0, 0, 0, err
		}
		defer os.RemoveAll(dir)
		t, err := m.run(command{args: append(args, strconv.Itoa(lines)), dir: dir, cpus: "-", env: []string{"XDG_CACHE_HOME=" + m.plans()}})
		if err == nil {
			_, err = fmt.Sscan(string(t.stdout), &accesses, &wall, &cpu)
		}
		return accesses, wall / 1e6, cpu / 1e6, err
	}
	_, wall, cpu, err := took(plain)
	if err != nil {
		return err
	}
	n, with, withCPU, err := took(append(front, program)...)
	if err != nil {
		return err
	}
	if r.Accesses = n; n != uint64(lines)*frameAccess {
		return fmt.Errorf("frame: %d accesses, not %d", n, lines*frameAccess)
	}
	r.RunsMS, r.CPUMS = append(r.RunsMS, with-wall), append(r.CPUMS, withCPU-cpu)
	return nil
}

// encode runs x264 on a frame without and with accesses to its heap recorded, where all planes are.
func (m *machine) encode(r *recording) error {
	const width, height = 640, 480
	picture, err := m.input("frame.yuv", func() []byte {
		n := random(5)
		b := make([]byte, width*height*3/2)
		for i := range b {
			b[i] = byte(i/7+i/width) + byte(n.below(16))
		}
		return b
	})
	if err != nil {
		return err
	}
	dir, err := m.fresh()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := []string{"/usr/bin/x264", "--quiet", "--no-progress", "--threads", "1", "--asm", "SSE2,SSSE3,SSE4.2", "--frames", "1",
		"--input-res", fmt.Sprintf("%dx%d", width, height), "--fps", "25", "-o", "out.264", picture}
	env := []string{"XDG_CACHE_HOME=" + m.plans(), "DYNPROF_OBJECTS=x264,libx264*", "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1"}
	without, err := m.run(command{args: args, dir: dir, cpus: "-", env: env})
	if err != nil {
		return err
	}
	table := filepath.Join(dir, "table")
	with, err := m.run(command{args: slices.Concat([]string{m.hotspots, "run", "--region", "heap", "--summary", "0", "-o", table, "--"}, args), dir: dir, cpus: "-", env: env})
	if err != nil {
		return err
	}
	text, err := m.tool(m.hotspots, "regions", table, "--format", "json")
	if err != nil {
		return err
	}
	var list struct {
		Regions []struct{ Accesses uint64 }
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&list); err != nil {
		return err
	}
	r.Accesses = 0
	for _, one := range list.Regions {
		r.Accesses += one.Accesses
	}
	r.RunsMS = append(r.RunsMS, ms(with.wall-without.wall))
	return nil
}

// recordingText is the table of them.
func recordingText(f *figures) string {
	if len(f.Recordings) == 0 {
		return ""
	}
	rows := [][]string{{"program", "by", "accesses", "added ms", "ns an access", "of the program's CPU time"}}
	for _, r := range f.Recordings {
		if r.Skipped != "" {
			rows = append(rows, []string{r.Program, r.Tool, "skipped: " + r.Skipped, "", "", ""})
			continue
		}
		cpu := ""
		if len(r.CPUMS) > 0 {
			cpu = r.CPUNS.String()
		}
		rows = append(rows, []string{r.Program, r.Tool, fmt.Sprint(r.Accesses), spreadOf(r.RunsMS).String(), r.WallNS.String(), cpu})
	}
	return grid(rows)
}
