package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
)

// guard lets nobody in but pages of this server, with its token.
//
//   - The socket is of the loopback interface only, or speaks TLS.
//   - The Host that a request names is an address of that, so that no name of somebody else's,
//     which he has lead here later (DNS rebinding), is answered. Its port is not looked at: it
//     is another one where ssh -L forwards it. By TLS a name that is not of our certificate does
//     not come as far as that, and which names others know us by we cannot know.
//   - A request that tells its Origin is of that Host itself.
//   - What is asked of a program needs the token, in a header: the printed URL has it behind
//     the #, which browsers send nowhere. It is no cookie: these are sent to all servers of
//     the host, whatever their port, thus to other users', too (RFC 6265, 8.5).
type guard struct {
	token string
	next  http.Handler
	tls   bool
}

// newToken is one that nobody can guess.
func newToken() string {
	b := make([]byte, 24)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// policy is what pages of ours may do: nothing but run our own scripts and ask us. No text
// ever becomes HTML (trusted-types).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme := "http://"
	if g.tls {
		scheme = "https://"
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch {
	case !g.tls && !isLoopback(r.Host):
		refuse(w, http.StatusForbidden, "this server answers for 127.0.0.1, localhost and [::1] only: open the URL that hotspots web printed")
	case r.Header.Get("Origin") != "" && !strings.EqualFold(r.Header.Get("Origin"), scheme+r.Host):
		refuse(w, http.StatusForbidden, "pages of other origins get nothing")
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		h.Set("Allow", "GET, HEAD, POST")
		refuse(w, http.StatusMethodNotAllowed, "this can be read only")
	case strings.HasPrefix(r.URL.Path, apiPath) && !g.knows(r):
		refuse(w, http.StatusForbidden, "wrong or no token: open the URL that hotspots web printed, as a whole")
	default:
		g.next.ServeHTTP(w, r)
	}
}

// isLoopback reports whether a Host is this machine, as itself.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// knows compares sums, so that the time that it takes tells nothing.
func (g *guard) knows(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		token, ok = tokenOf(r)
	}
	have, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.token))
	return ok && subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// tokenOf is the one that a page tells with a WebSocket, for which browsers send no header of
// the page's: it is among the protocols that it speaks, and is not answered.
func tokenOf(r *http.Request) (token string, ok bool) {
	for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
		for one := range strings.SplitSeq(list, ",") {
			if token, ok = strings.CutPrefix(strings.TrimSpace(one), tokenProtocol); ok {
				return token, true
			}
		}
	}
	return "", false
}
