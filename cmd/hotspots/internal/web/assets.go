package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
)

//go:embed assets
var assets embed.FS

// kinds are the files that a page consists of.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// stamp is a folder of a name that other assets do not have, so that a browser need not ask
// for them again: what it has of that folder is what there is.
var stamp = sync.OnceValue(func() string {
	sum := sha256.New()
	fs.WalkDir(assets, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			b, _ := assets.ReadFile(name)
			fmt.Fprintf(sum, "%s %d\n%s", name, len(b), b)
		}
		return err
	})
	return "/" + hex.EncodeToString(sum.Sum(nil)[:8])
})

// serveAsset answers with a file of the page. There is nothing secret in these.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	path, stamped := strings.CutPrefix(r.URL.Path, stamp())
	name := strings.TrimPrefix(path, "/")
	if name == "" {
		name = "index.html"
	}
	kind, ok := kinds[filepath.Ext(name)]
	b, err := fs.ReadFile(assets, "assets/"+name)
	if err != nil || !ok {
		refuse(w, http.StatusNotFound, "there is no such page here")
		return
	}
	if name == "index.html" {
		b = bytes.ReplaceAll(b, []byte(`="@/`), []byte(`="`+stamp()+`/`))
	}
	sum := sha256.Sum256(b)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // it may be of another version tomorrow
	if stamped {
		h.Set("Cache-Control", "private, max-age=604800, immutable")
	}
	h.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", kind)
	w.Write(b)
}
