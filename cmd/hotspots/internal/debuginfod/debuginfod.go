// Package debuginfod gets debug information from servers (debuginfod(8)). It is one of its own
// since net/http takes long to start, and who shows functions at the end of a run does not ask.
package debuginfod

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Client asks servers for files of debug information, as debuginfod-client-config(7) says,
// and keeps what it gets in the cache that debuginfod's own client has.
type Client struct {
	URLs  []string
	Cache string        // directory
	Stall time.Duration // for this long a server may send next to nothing
	Total time.Duration // a file takes no longer; 0: no limit but Stall
	Size  int64         // nor is it larger, in bytes
	// Say is told what is fetched, before it is.
	Say func(format string, args ...any)
}

// Defaults of debuginfod's client, and a bound of size where that has none.
const (
	stall      = 90 * time.Second
	leastBytes = 100 << 10 // in that time
	maxSize    = 2 << 30   // bytes
	missLasts  = 10 * time.Minute
	unused     = 7 * 24 * time.Hour // files of the cache are removed then
	cleaned    = 24 * time.Hour     // and looked at so often
)

// FromEnvironment is what the variables say; nil if DEBUGINFOD_URLS is not set.
func FromEnvironment(get func(string) string) (*Client, error) {
	d := &Client{Cache: get("DEBUGINFOD_CACHE_PATH"), Stall: stall, Size: maxSize}
	for _, u := range strings.Fields(get("DEBUGINFOD_URLS")) {
		switch {
		case strings.HasPrefix(u, "http://"), strings.HasPrefix(u, "https://"):
			d.URLs = append(d.URLs, u)
		case !strings.HasPrefix(u, "ima:"): // how debuginfod's client is to check signatures
			return nil, fmt.Errorf("DEBUGINFOD_URLS: %q is no address of http or https", u)
		}
	}
	if len(d.URLs) == 0 {
		return nil, nil
	}
	for name, use := range map[string]func(n int64){
		"DEBUGINFOD_TIMEOUT": func(n int64) { d.Stall = time.Duration(n) * time.Second },
		"DEBUGINFOD_MAXTIME": func(n int64) { d.Total = time.Duration(n) * time.Second },
		"DEBUGINFOD_MAXSIZE": func(n int64) { d.Size = n },
	} {
		if text := get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 32)
			if name == "DEBUGINFOD_MAXSIZE" {
				n, err = strconv.ParseInt(text, 10, 63)
			}
			if err != nil || n < 0 {
				return nil, fmt.Errorf("%s: %q is no number", name, text)
			}
			if n > 0 { // 0 is no limit there; ours stay
				use(n)
			}
		}
	}
	if d.Cache == "" {
		dir := get("XDG_CACHE_HOME")
		if dir == "" && get("HOME") == "" {
			return nil, errors.New("debuginfod: no place for what is fetched: set DEBUGINFOD_CACHE_PATH, XDG_CACHE_HOME or HOME")
		}
		if dir == "" {
			dir = filepath.Join(get("HOME"), ".cache")
		}
		d.Cache = filepath.Join(dir, "debuginfod_client")
	}
	return d, nil
}

// Fetch is the path of the file with that build ID, of the cache or fetched into it. It is an
// error that wraps fs.ErrNotExist if no server has it.
func (d *Client) Fetch(buildID string) (string, error) {
	if _, err := hex.DecodeString(buildID); err != nil || buildID == "" {
		return "", fmt.Errorf("build ID %q: %w", buildID, fs.ErrNotExist)
	}
	d.clean()
	dir := filepath.Join(d.Cache, buildID)
	path := filepath.Join(dir, "debuginfo")
	if fi, err := os.Stat(path); err == nil {
		if fi.Size() > 0 {
			return path, nil
		}
		// An empty file says that nobody had it.
		if time.Since(fi.ModTime()) < missLasts {
			return "", fmt.Errorf("%s: %w", path, fs.ErrNotExist)
		}
		os.Remove(path)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if d.Say != nil {
		d.Say("asking %s for debug information with the build ID %s", strings.Join(d.URLs, " "), buildID)
	}
	var failed error
	for _, url := range d.URLs {
		err := d.get(strings.TrimSuffix(url, "/")+"/buildid/"+buildID+"/debuginfo", path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			failed = err // another one may have it
		}
	}
	if failed != nil {
		return "", failed
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: %w", path, fs.ErrNotExist)
}

// get fetches one file to path, which is there as a whole or not at all.
func (d *Client) get(url, path string) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if d.Total > 0 {
		ctx, cancel = context.WithTimeout(ctx, d.Total)
		defer cancel()
	}
	watch := time.AfterFunc(d.Stall, cancel)
	defer watch.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "hotspots")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return d.timed(err, url)
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", url, fs.ErrNotExist)
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", url, answer.Status)
	case answer.ContentLength > d.Size:
		return fmt.Errorf("%s: %d MB are more than DEBUGINFOD_MAXSIZE, or the limit without it, %d MB", url, answer.ContentLength>>20, d.Size>>20)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "debuginfo.*")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := d.copy(f, answer.Body, watch); err != nil {
		return d.timed(err, url)
	}
	return os.Rename(f.Name(), path)
}

var errLarge = errors.New("more than DEBUGINFOD_MAXSIZE, or the limit without it")

// copy copies what comes, and has the watch wait anew whenever enough has.
func (d *Client) copy(to io.Writer, from io.Reader, watch *time.Timer) error {
	for left := d.Size; ; {
		n, err := io.CopyN(to, from, min(leastBytes, left+1))
		if left -= n; left < 0 {
			return errLarge
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		watch.Reset(d.Stall)
	}
}

// timed says what being cancelled means.
func (d *Client) timed(err error, url string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: it takes too long (DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME)", url)
	}
	return fmt.Errorf("%s: %w", url, err)
}

// clean removes files of the cache that were not read for long, once a day, as debuginfod's
// client does.
func (d *Client) clean() {
	stamp := filepath.Join(d.Cache, "cache_clean_interval_s")
	if fi, err := os.Stat(stamp); err == nil && time.Since(fi.ModTime()) < cleaned {
		return
	}
	if os.MkdirAll(d.Cache, 0o700) != nil {
		return
	}
	if f, err := os.OpenFile(stamp, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		if fi, err := f.Stat(); err == nil && fi.Size() == 0 {
			fmt.Fprintf(f, "%d", int(cleaned.Seconds()))
		}
		f.Close()
		now := time.Now()
		os.Chtimes(stamp, now, now)
	}
	files, _ := filepath.Glob(filepath.Join(d.Cache, "*", "debuginfo*"))
	for _, path := range files {
		if fi, err := os.Lstat(path); err == nil && fi.Mode().IsRegular() && time.Since(lastUsed(fi)) > unused {
			os.Remove(path)
			os.Remove(filepath.Dir(path)) // if it is empty
		}
	}
}

// lastUsed is when a file was read or changed last.
func lastUsed(fi fs.FileInfo) time.Time {
	if read := time.Unix(fi.Sys().(*syscall.Stat_t).Atim.Unix()); read.After(fi.ModTime()) {
		return read
	}
	return fi.ModTime()
}
