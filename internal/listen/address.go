// Package listen opens the socket of an endpoint for metrics. The planning twin
// uses it before the program starts, so it has neither package net nor
// net/netip: initialising the latter costs 0.1 ms at every start.
package listen

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Address is where an endpoint listens: an IP address and a port, or a path.
type Address struct {
	IP   [16]byte // IPv4 as in ::ffff:127.0.0.1
	V4   bool
	Port uint16 // 0: the kernel chooses
	Path string // of a unix socket; empty for TCP
}

// maxPath is what a socket address has room for (unix(7)), without the NUL.
const maxPath = 107

var loopback4 = [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}

// Parse reads HOST:PORT, :PORT, PORT or unix:PATH. HOST is an IP address (IPv6
// in brackets) or localhost; without one it is 127.0.0.1, so that nothing is
// open to the network unless its address is named (0.0.0.0, [::]).
func Parse(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return parsePath(path)
	}
	host, port := "", s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i+1:]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("%q is not an address to listen at: write IP:PORT, PORT, or unix:PATH", s)
	}
	a := Address{IP: loopback4, V4: true, Port: uint16(n)}
	if host != "" && host != "localhost" {
		var ok bool
		if a.IP, a.V4, ok = parseIP(host); !ok {
			return Address{}, fmt.Errorf("%q is not an address to listen at: %q is no IP address (IPv6 needs brackets)", s, host)
		}
	}
	return a, nil
}

func parsePath(path string) (Address, error) {
	switch {
	case path == "":
		return Address{}, errors.New("unix: needs the path of a socket")
	case path[0] == '@':
		return Address{}, errors.New("an abstract socket is open to all users: name a path")
	case strings.IndexByte(path, 0) >= 0:
		return Address{}, errors.New("the path of a socket has a zero byte")
	}
	path, err := filepath.Abs(path)
	if err == nil && len(path) > maxPath {
		err = fmt.Errorf("the path of a socket has at most %d bytes: %s", maxPath, path)
	}
	return Address{Path: path}, err
}

// parseIP reads an IPv4 address, or an IPv6 one in brackets.
func parseIP(s string) (ip [16]byte, v4, ok bool) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		ip, ok = parse6(s[1 : len(s)-1])
		return ip, false, ok
	}
	ip = loopback4
	ok = parse4(ip[12:], s)
	return ip, true, ok
}

func parse4(to []byte, s string) bool {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 8)
		if err != nil || len(p) > 1 && p[0] == '0' {
			return false
		}
		to[i] = byte(n)
	}
	return true
}

// parse6 reads the forms of RFC 4291, section 2.2; no zones.
func parse6(s string) (ip [16]byte, ok bool) {
	left, right, short := strings.Cut(s, "::")
	head, ok := groups(left, !short)
	if !ok {
		return ip, false
	}
	copy(ip[:], head)
	if !short {
		return ip, len(head) == len(ip)
	}
	tail, ok := groups(right, true)
	copy(ip[len(ip)-min(len(ip), len(tail)):], tail)
	return ip, ok && len(head)+len(tail) <= len(ip)-2
}

// groups reads groups of hex digits; the last may be an IPv4 address.
func groups(s string, last bool) (b []byte, ok bool) {
	if s == "" {
		return nil, true
	}
	parts := strings.Split(s, ":")
	for i, p := range parts {
		if last && i == len(parts)-1 && strings.IndexByte(p, '.') >= 0 {
			b = append(b, 0, 0, 0, 0)
			return b, parse4(b[len(b)-4:], p) && len(b) <= 16
		}
		n, err := strconv.ParseUint(p, 16, 16)
		if err != nil || len(p) > 4 {
			return nil, false
		}
		b = append(b, byte(n>>8), byte(n))
	}
	return b, len(b) <= 16
}

// String is the address as Parse reads it and, for TCP, as a scraper does.
func (a Address) String() string {
	port := ":" + strconv.Itoa(int(a.Port))
	switch {
	case a.Path != "":
		return "unix:" + a.Path
	case a.V4:
		return fmt.Sprintf("%d.%d.%d.%d", a.IP[12], a.IP[13], a.IP[14], a.IP[15]) + port
	}
	return "[" + format6(a.IP) + "]" + port
}

// format6 is the form of RFC 5952: the first longest run of two zero groups or
// more is left out.
func format6(ip [16]byte) string {
	zeros, at := 1, -1
	for i := 0; i < 16; i += 2 {
		n := 0
		for i+2*n < 16 && ip[i+2*n] == 0 && ip[i+2*n+1] == 0 {
			n++
		}
		if n > zeros {
			zeros, at = n, i
		}
	}
	var b strings.Builder
	for i := 0; i < 16; i += 2 {
		if i == at {
			b.WriteString("::")
			i += 2*zeros - 2
			continue
		}
		if i > 0 && i != at+2*zeros {
			b.WriteByte(':')
		}
		b.WriteString(strconv.FormatUint(uint64(ip[i])<<8|uint64(ip[i+1]), 16))
	}
	return b.String()
}
