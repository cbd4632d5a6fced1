package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var programs = &suite{
	name: "programs",
	about: "large programs of Debian on fixed inputs, output compared byte by byte: gcc's cc1 and cc1plus, clang, openssl, ffmpeg; " +
		"node and java start and work; eleven smaller interpreters",
	least: 150, leastQuick: 150,
	prepare: preparePrograms,
}

func preparePrograms(m *machine) ([]unit, error) {
	dir := filepath.Join(m.work, "programs")
	if err := m.mkdir(dir); err != nil {
		return nil, err
	}
	var units []unit
	for _, group := range []struct {
		name string
		make func(m *machine, dir string) ([]unit, error)
	}{
		{"compilers", compilers}, {"openssl", openssl}, {"ffmpeg", ffmpeg}, {"runtimes", runtimes}, {"interpreters", interpreters},
	} {
		more, err := group.make(m, dir)
		if reason, ok := isSkipped(err); ok {
			units = append(units, unit{name: group.name, skipped: reason})
		} else if err != nil {
			return nil, err
		}
		for _, u := range more {
			u.works = true
			u.dir = filepath.Join(dir, u.name)
			if err := m.mkdir(u.dir); err != nil {
				return nil, err
			}
			units = append(units, u)
		}
	}
	return units, nil
}

// compilers compile Lua, all in one file, and all headers of the C++ library.
func compilers(m *machine, dir string) ([]unit, error) {
	cc1, cc1plus := "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus"
	if err := needs("gcc", "g++", cc1, cc1plus); err != nil {
		return nil, err
	}
	source, err := m.source("lua5.4", "5.4.4")
	if err != nil {
		return nil, err
	}
	include := filepath.Join(source, "src")
	c, cc, err := oneFile(m, dir, include)
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, level := range []string{"-O0", "-O2", "-O3"} {
		units = append(units,
			unit{name: "cc1" + level, slow: level == "-O3", args: []string{cc1, "-quiet", "-w", level, "-g", c, "-o", "one.s"}, read: readFiles("one.s")},
			unit{name: "cc1plus" + level, slow: level != "-O0", args: []string{cc1plus, "-quiet", "-w", "-std=c++20", level, cc, "-o", "one.s"}, read: readFiles("one.s")})
	}
	units = append(units,
		unit{name: "gcc-pipe", args: []string{"gcc", "-pipe", "-w", "-O1", "-c", c, "-o", "one.o"}, read: readFiles("one.o")},
		unit{name: "g++", args: []string{"g++", "-w", "-std=c++20", "-O1", "-frandom-seed=1", "-c", cc, "-o", "one.o"}, read: readFiles("one.o")})
	// clang does not know all of glibc's headers as gcc preprocesses them.
	clang := unit{name: "clang", args: []string{"clang", "-w", "-O1", "-I" + include, "-c", filepath.Join(dir, "one.c"), "-o", "one.o"}, read: readFiles("one.o")}
	clang.skipped, _ = isSkipped(needs("clang"))
	return append(units, clang), nil
}

// oneFile makes a large preprocessed file of C, all of Lua, and one of C++.
func oneFile(m *machine, dir, include string) (c, cc string, err error) {
	files, err := filepath.Glob(filepath.Join(include, "l*.c"))
	if err != nil {
		return "", "", err
	}
	text := "#define LUA_USE_LINUX\n#define LUAI_FUNC static\n#define LUAI_DDEC(def)\n#define LUAI_DDEF static\n#include \"lprefix.h\"\n"
	for _, f := range files {
		if name := filepath.Base(f); name != "luac.c" && name != "lua.c" {
			text += fmt.Sprintf("#include %q\n", name)
		}
	}
	if err := m.write(filepath.Join(dir, "one.c"), text, 0o644); err != nil {
		return "", "", err
	}
	text = "#include <bits/stdc++.h>\ntemplate class std::basic_regex<char>;\n" +
		"template class std::map<std::string, std::vector<double>>;\nstd::regex word{\"[a-z]+\"};\n"
	if err := m.write(filepath.Join(dir, "one.cc"), text, 0o644); err != nil {
		return "", "", err
	}
	c, cc = filepath.Join(dir, "one.i"), filepath.Join(dir, "one.ii")
	if _, err := m.tool(dir, "gcc", "-E", "-P", "-I"+include, "one.c", "-o", c); err != nil {
		return "", "", err
	}
	_, err = m.tool(dir, "g++", "-std=c++20", "-E", "-P", "one.cc", "-o", cc)
	return c, cc, err
}

var opensslName = regexp.MustCompile(`^-?[a-z0-9][\w-]*$`)

// openssl: every digest and cipher that it lists, keys, and its benchmarks.
func openssl(m *machine, dir string) ([]unit, error) {
	if err := needs("openssl", "perl"); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if _, err := m.tool(dir, "perl", "-e", `srand 7; open F, ">", "data"; print F pack "C*", map { int rand 256 } 1..300_007`); err != nil {
		return nil, err
	}
	names := func(what string) ([]string, error) {
		out, err := m.tool(dir, "openssl", "list", what)
		var all []string
		for _, w := range strings.Fields(out) {
			if opensslName.MatchString(w) {
				all = append(all, w)
			}
		}
		return all, err
	}
	digests, err := names("-digest-commands")
	if err != nil {
		return nil, err
	}
	ciphers, err := names("-cipher-commands")
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, d := range digests {
		units = append(units, unit{name: "openssl-dgst-" + d, args: []string{"openssl", "dgst", "-" + d, data}, read: readText})
	}
	for _, c := range ciphers {
		units = append(units, unit{name: "openssl-enc-" + c, read: readFiles("out"), args: []string{"openssl", "enc", "-" + c,
			"-K", strings.Repeat("5a", 16), "-iv", strings.Repeat("a5", 8), "-in", data, "-out", "out"}})
	}
	speed := func(o *output) (results, error) { // figures differ, names do not
		names := regexp.MustCompile(`(?m)^\S+`).FindAllString(string(o.stdout), -1)
		return results{"lines": strings.Join(names, " ")}, nil
	}
	key := "openssl genrsa 2048 2>/dev/null | openssl rsa -check -noout"
	ec := "openssl ecparam -name prime256v1 -genkey | openssl pkey -check -noout"
	return append(units,
		unit{name: "openssl-genrsa", args: []string{"sh", "-c", key}, read: readText},
		unit{name: "openssl-ecparam", args: []string{"sh", "-c", ec}, read: readText},
		unit{name: "openssl-prime", args: []string{"openssl", "prime", "-checks", "20", "170141183460469231731687303715884105727"}, read: readText},
		unit{name: "openssl-speed", args: []string{"openssl", "speed", "-seconds", "1", "sha256", "md5", "rsa2048", "ecdsap256", "ecdhx25519"}, read: speed, limit: 3 * time.Minute}), nil
}

// ffmpeg encodes moving test pictures and sound with encoders of its own and of
// large libraries, and prints a sum of every packet.
func ffmpeg(m *machine, dir string) ([]unit, error) {
	if err := needs("ffmpeg"); err != nil {
		return nil, err
	}
	encode := func(source, kind, codec string, more ...string) unit {
		args := []string{"ffmpeg", "-v", "error", "-nostdin", "-f", "lavfi", "-i", source, "-threads", "2", kind, codec}
		args = append(args, more...)
		return unit{name: "ffmpeg-" + codec, args: append(args, "-flags", "+bitexact", "-f", "framemd5", "-"), read: readStdout}
	}
	picture, sound := "testsrc2=size=320x180:rate=10:duration=2", "aevalsrc=sin(440*2*PI*t)*t/9:s=48000:d=9"
	units := []unit{
		encode(picture, "-c:v", "libaom-av1", "-cpu-used", "8"),
		encode(picture, "-c:v", "libsvtav1", "-preset", "10"),
	}
	for _, codec := range []string{"libx264", "libx265", "libvpx-vp9", "mpeg4", "ffv1", "libtheora", "libwebp", "png"} {
		units = append(units, encode(picture, "-c:v", codec))
	}
	for _, codec := range []string{"libmp3lame", "aac", "libopus", "libvorbis", "flac", "ac3"} {
		units = append(units, encode(sound, "-c:a", codec))
	}
	return units, nil
}

// readStdout leaves out stderr: libraries print figures there.
func readStdout(o *output) (results, error) { return results{"stdout": string(o.stdout)}, nil }
