//go:build record

package patcher

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// TestRecord makes the recording anew: go test -tags record ./patcher -run TestRecord.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	source, err := filepath.Abs("testdata/source")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"-shared -o libc.so.6 {}/libc.s",
		"-shared -o libgs.so {}/gs.s",
		"-shared -g -O1 -fno-inline -o liblate.so {}/late.c",
		"-pie -o program -Wl,--no-as-needed,-rpath,$ORIGIN,-z,noexecstack {}/start.s {}/../../../stubgen/testdata/entries.s libc.so.6 libgs.so liblate.so",
	} {
		c := exec.Command("gcc", append([]string{"-nostdlib", "-fPIC"}, strings.Fields(strings.ReplaceAll(line, "{}", source))...)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("gcc %s: %v\n%s", line, err, out)
		}
	}
	c := exec.Command(dir + "/program")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it did not stop: %v %v", status, err)
	}
	if err := os.WriteFile(recording, recorded(t, c.Process.Pid, dir), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recorded is the recording of process pid, whose own files are in dir.
func recorded(t *testing.T, pid int, dir string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, data []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Unix(0, 0)})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	add("maps", bytes.ReplaceAll(text, []byte(dir+"/"), []byte("/recorded/")))
	maps, err := procmaps.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	files := map[string][]byte{}
	for _, m := range maps {
		if m.Inode == 0 {
			continue
		}
		file := files[m.Path]
		if file == nil {
			if file, err = os.ReadFile(m.Path); err != nil {
				t.Fatal(err)
			}
			files[m.Path] = file
			add("files"+strings.Replace(m.Path, dir+"/", "/recorded/", 1), file)
		}
		for at := m.Start; at < m.End; at += pageSize {
			page := make([]byte, pageSize)
			if _, err := memory.ReadAt(page, int64(at)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(page, pageOf(file, m.Offset+at-m.Start)) {
				add(fmt.Sprintf("pages/%x", at), page)
			}
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
