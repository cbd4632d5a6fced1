package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Debian's source packages come by apt-get with a configuration of its own in
// the cache: that of the system, which often names no sources, stays as it is.
const sourcesList = `deb-src http://deb.debian.org/debian bookworm main
deb-src http://deb.debian.org/debian-security bookworm-security main
`

// apt runs a command of apt with the private configuration, as the user who
// runs the oracles, and returns what it printed.
func (m *machine) apt(dir string, args ...string) (string, error) {
	at := filepath.Join(m.cache, "apt")
	options := []string{
		"-q=2", "-o", "Dir::Etc::sourcelist=" + filepath.Join(at, "sources.list"),
		"-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State=" + at, "-o", "Dir::State::lists=" + filepath.Join(at, "lists"),
		"-o", "Dir::Cache=" + filepath.Join(at, "cache"),
		"-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2", "-o", "APT::Update::Error-Mode=any",
	}
	c := exec.CommandContext(m.ctx, args[0], append(options, args[1:]...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lastLines(string(out), 2))
	}
	return string(out), nil
}

// aptUpdate makes the private configuration, once, and fetches the index of
// source packages.
func (m *machine) aptUpdate() error {
	at := filepath.Join(m.cache, "apt")
	if _, err := os.Stat(filepath.Join(at, "updated")); err == nil {
		return nil
	}
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(at, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(at, "sources.list"), []byte(sourcesList), 0o644); err != nil {
		return err
	}
	if _, err := m.apt(at, "apt-get", "update"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(at, "updated"), nil, 0o644)
}

// source unpacks the upstream part of Debian's source package into a new
// directory below the work directory, and returns the directory that the archive
// holds. What has been downloaded once is kept. Debian's patches are left out:
// the tests are upstream's.
func (m *machine) source(pkg, upstream string) (string, error) {
	archive, err := m.download(pkg, upstream)
	if err != nil {
		return "", skip("no source of %s: %v", pkg, err)
	}
	dir := filepath.Join(m.work, pkg)
	if err := m.mkdir(dir); err != nil {
		return "", err
	}
	return m.unpack(archive, dir)
}

// unpack unpacks an archive into a directory, and returns the one directory
// that it holds.
func (m *machine) unpack(archive, dir string) (string, error) {
	f, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer f.Close()
	how := "-z"
	if strings.HasSuffix(archive, ".xz") {
		how = "-J"
	}
	if _, err := m.toolFrom(f, dir, "tar", "-x", how, "--no-same-owner", "-f", "-"); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%s holds %d directories", archive, len(entries))
	}
	return filepath.Join(dir, entries[0].Name()), nil
}

// download returns the path of an upstream archive.
func (m *machine) download(pkg, upstream string) (string, error) {
	dir := filepath.Join(m.cache, "sources", pkg)
	pattern := filepath.Join(dir, pkg+"_"+upstream+".orig.tar.?z")
	if found, _ := filepath.Glob(pattern); len(found) == 1 {
		return found[0], nil
	}
	if err := needs("apt-get", "tar", "xz"); err != nil {
		return "", err
	}
	if err := m.aptUpdate(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// The release's own version first: mirrors may lack those of updates.
	var err error
	for _, from := range []string{pkg + "/bookworm", pkg} {
		// The archive may have come even if other files are missing.
		_, err = m.apt(dir, "apt-get", "source", "--download-only", "--tar-only", from)
		if found, _ := filepath.Glob(pattern); len(found) == 1 {
			return found[0], nil
		}
	}
	if err == nil {
		err = fmt.Errorf("apt-get source %s brought no version %s", pkg, upstream)
	}
	return "", err
}
