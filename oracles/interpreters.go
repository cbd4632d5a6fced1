package main

import "strings"

// interpreters of other makings than the large ones: a tracing compiler,
// precise and conservative collectors, stacks of their own, floats by MPFR.
func interpreters(_ *machine, _ string) ([]unit, error) {
	units := []unit{
		{name: "gawk", args: []string{"gawk", "-M", gawkScript}},
		{name: "bc", args: []string{"sh", "-c", "echo 'scale=400; 4*a(1); e(2); 2^1000' | bc -l"}},
		{name: "m4", args: []string{"sh", "-c", `echo "$1" | m4`, "sh", m4Script}},
		{name: "zsh", args: []string{"zsh", "-fc", zshScript}},
		{name: "fish", args: []string{"fish", "-c", `for i in (seq 100); set -a l (math $i \* 2); end; echo (count $l) $l[5]; string replace -r "(a+)" "<\$1>" baab`}},
		{name: "tclsh", args: []string{"sh", "-c", `echo "$1" | tclsh`, "sh", tclScript}},
		{name: "luajit", args: []string{"luajit", "-e", luajitScript}},
		{name: "luajit-interpreter", args: []string{"luajit", "-joff", "-e", luajitScript}},
		{name: "ecl", args: []string{"ecl", "--norc", "--eval", lispScript, "--eval", "(ext:quit 0)"}},
		{name: "clisp", args: []string{"clisp", "-q", "-norc", "-x", lispScript}},
		{name: "pypy3", args: []string{"pypy3", "-c", pypyScript}},
	}
	for i, u := range units {
		units[i].read = readText
		units[i].skipped, _ = isSkipped(needs(strings.Split(u.name, "-")[0]))
	}
	return units, nil
}

const gawkScript = `BEGIN {
	for (i = 0; i < 100000; i++) if (length(a[i % 977] = a[i % 977] i % 10) > 50) a[i % 977] = ""
	print asort(a), length(a[5]), gensub(/(a+)/, "<\\1>", "g", "baab"); PREC = 300; print exp(1), 2 ^ 100
	"echo from a pipe" | getline y; print y; print "to a process" |& "cat"; close("cat", "to"); "cat" |& getline z; print z
}`

const m4Script = "define(`f',`ifelse(eval($1<2),1,$1,`eval(f(eval($1-1))+f(eval($1-2)))')')f(13) patsubst(`aabb',`b+',`X') syscmd(`echo child')"

const zshScript = `zmodload zsh/mathfunc; print $((sin(1))); a=({1..2000}); print ${#a} ${(j:,:)a[1,5]} ${(o)a[-3,-1]}
for i in {1..9}; do (exit $i); print -n "$? "; done; TRAPUSR1() { print usr1 }; kill -USR1 $$; coproc cat; print -p through; read -p l; print $l`

const tclScript = `proc fib n {expr {$n<2?$n:[fib [expr $n-1]]+[fib [expr $n-2]]}}; puts [fib 16]; puts [catch {error x} e]$e
set f [open "|cat" r+]; puts $f through; flush $f; puts [gets $f]; close $f; after 5 {set x 1}; vwait x
interp create i; puts [i eval {expr 2**100}]; coroutine c apply {{} {yield 1; return 2}}; puts [c]; proc r n {r [incr n]}; puts [catch {r 0}]`

const luajitScript = `local ffi = require'ffi'; ffi.cdef'int abs(int); typedef int (*cb)(const void*, const void*); void qsort(void*, size_t, size_t, cb);'
local s = 0; for i = 1, 1000000 do s = s + ffi.C.abs(-i) % 7 end print(s)
local a = ffi.new('int[300]'); for i = 0, 299 do a[i] = i * 7919 % 300 end
ffi.C.qsort(a, 300, 4, ffi.cast('cb', function(x, y) return ffi.cast('const int*', x)[0] - ffi.cast('const int*', y)[0] end)); print(a[0], a[299])
local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end); print(f(), f(), pcall(error, 'e'))`

const lispScript = `(progn (defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (print (fib 17))
(print (handler-case (error "x") (error () :caught))) (print (length (loop for i below 20000 collect (make-string 100)))) (print (expt 3 300)))`

const pypyScript = `import threading, os, gc
def f(n): return n if n < 2 else f(n-1) + f(n-2)
s = 0
for i in range(1000000): s = (s * 31 + i) % 1000003
print(f(18), s); r = []
ts = [threading.Thread(target=lambda k=k: r.append(f(10 + k % 3))) for k in range(8)]
for t in ts: t.start()
for t in ts: t.join()
print(sum(r)); p = os.fork()
if p == 0: gc.collect(); os._exit(5)
print(os.WEXITSTATUS(os.waitpid(p, 0)[1]))
def g(n): return g(n+1) + 1
try: g(0)
except RecursionError: print("deep")`
