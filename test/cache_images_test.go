package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCacheImages: images of file systems have what times their maker said. A program in
// the place of another, of the same inode number, size and times, has plans of its own.
func TestCacheImages(t *testing.T) {
	rootOnly(t, "mounts")
	t.Parallel()
	mnt := t.TempDir()
	var images, want [2]string
	for i := range images {
		images[i] = image(t, fmt.Sprintf("-DPRICE=%d", 1005+i))
		c := mounted(t, images[i], mnt)
		r := run(t, c)
		if r.status != 0 && i == 0 {
			t.Skipf("no image can be mounted here: %+v", r)
		}
		want[i] = r.stdout
	}
	if want[0] == want[1] {
		t.Fatalf("both programs say %q", want[0])
	}
	for _, copies := range []string{"0", "1"} {
		t.Run("DYNPROF_TEXT_COPIES="+copies, func(t *testing.T) {
			home := cacheHome(t)
			for start, i := range []int{0, 0, 1, 1, 1, 0, 0} {
				p := &planned{command: mounted(t, images[i], mnt), home: home, by: "run", env: []string{"DYNPROF_TEXT_COPIES=" + copies}}
				r, rep, cached, all := p.start(t)
				if r.stdout != want[i] || r.stderr != "" || r.status != 0 {
					t.Errorf("start %d: %+v, not %q", start, r, want[i])
				}
				if f := rep.named(t, "price"); f.Calls != 1 {
					t.Errorf("start %d: price was called %d times", start, f.Calls)
				}
				if again := []bool{false, true, false, true, true, false, true}[start]; again != (cached == all) {
					t.Errorf("start %d: %d of %d objects had plans", start, cached, all)
				}
			}
		})
	}
}

// image is an image of ext2, which counts whole seconds, with the program image.c alone.
func image(t *testing.T, flag string) string {
	t.Helper()
	dir := t.TempDir()
	path, root := filepath.Join(dir, "image"), filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, compile(t, need(t, "gcc"), []string{"-O1", "-Wl,--build-id=none", flag}, "image.c"), filepath.Join(root, "image"))
	for _, c := range [][]string{
		{need(t, "mke2fs"), "-q", "-t", "ext2", "-I", "128", "-d", root, path, "1m"},
		{need(t, "debugfs"), "-w", "-R", "set_inode_field image mtime @1700000000", path},
		{need(t, "debugfs"), "-w", "-R", "set_inode_field image ctime @1700000000", path},
	} {
		if msg, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, msg)
		}
	}
	return path
}

// mounted is the program of an image that is mounted there, for it alone.
func mounted(t *testing.T, image, at string) command {
	t.Helper()
	const script = `mount -o loop,ro "$0" "$1" && shift && exec "$@"`
	return command{before: []string{need(t, "unshare"), "-m", "sh", "-c", script, image, at}, args: []string{filepath.Join(at, "image")}}
}
