package main

import (
	"os"
	"path/filepath"
)

// runtimes: just-in-time compilers with threads, child processes, deep
// recursion and exceptions made of faults.
func runtimes(m *machine, dir string) ([]unit, error) {
	js, java := filepath.Join(dir, "work.js"), filepath.Join(dir, "Work.java")
	if err := m.write(js, nodeScript, 0o644); err != nil {
		return nil, err
	}
	if err := m.write(java, javaProgram, 0o644); err != nil {
		return nil, err
	}
	units := []unit{
		{name: "node", args: []string{"/usr/bin/node", js}, read: readSorted},
		{name: "node-interpreter", args: []string{"/usr/bin/node", "--jitless", js}, read: readSorted},
		{name: "java", args: []string{"/usr/bin/java", "-Xmx256m", java}, read: readText},
		{name: "java-interpreter", args: []string{"/usr/bin/java", "-Xint", "-XX:+UseSerialGC", "-Xmx256m", java}, read: readText},
	}
	for i := range units {
		if _, err := os.Stat(units[i].args[0]); err != nil {
			units[i].skipped = "no " + units[i].args[0] + " on this machine"
		}
	}
	return units, nil
}

// readSorted is for output whose lines come in any order.
func readSorted(o *output) (results, error) {
	r := results{"stderr": string(o.stderr)}
	err := lines(o.stdout, func(line string) { r.add(line, "printed") })
	return r, err
}

const nodeScript = `
const { Worker, isMainThread, parentPort } = require('worker_threads')
const zlib = require('zlib'), crypto = require('crypto'), { exec } = require('child_process')
if (isMainThread) main()
else {
	let s = 0
	for (let i = 0; i < 3e6; i++) s = (s * 31 + i) >>> 0
	parentPort.postMessage(s)
}
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
function main() {
	const text = Array.from({ length: 20000 }, (_, i) => 'word' + i * i % 977).join(' ')
	console.log(crypto.createHash('sha256').update(zlib.brotliCompressSync(text, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } })).digest('hex'))
	console.log(zlib.inflateSync(zlib.deflateSync(text)).length, text.match(/word(\d)\1/g).length)
	console.log(fib(25))
	try { (function f() { f() })() } catch (e) { console.log(e instanceof RangeError) }
	let n = 0
	for (let i = 0; i < 2; i++)
		new Worker(__filename).on('message', m => {
			console.log(m)
			if (++n == 2) exec('echo child', (e, out) => process.stdout.write(out))
		})
}
`

const javaProgram = `
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;
public class Work {
	static int depth(int n) { return depth(n + 1) + 1; }
	static long sum(int seed) {
		CRC32 c = new CRC32();
		for (int i = 0; i < 100000; i++) c.update(i * seed);
		return c.getValue();
	}
	public static void main(String[] args) throws Exception {
		System.out.println(IntStream.range(0, 2_000_000).parallel().mapToLong(i -> i * 31L % 977).sum());
		ExecutorService pool = Executors.newFixedThreadPool(4);
		List<Future<Long>> sums = new ArrayList<>();
		for (int t = 0; t < 8; t++) {
			final int seed = t;
			sums.add(pool.submit(() -> sum(seed)));
		}
		for (var s : sums) System.out.println(s.get());
		pool.shutdown();
		Object nothing = args.length == 0 ? null : args;
		try { nothing.hashCode(); } catch (NullPointerException e) { System.out.println("null"); }
		try { depth(0); } catch (StackOverflowError e) { System.out.println("deep"); }
		try { System.out.println(1 / args.length); } catch (ArithmeticException e) { System.out.println("zero"); }
		List<byte[]> kept = new ArrayList<>();
		for (int i = 0; i < 20000; i++) {
			byte[] b = new byte[10000];
			if (i % 100 == 0) kept.add(b);
		}
		System.gc();
		System.out.println(kept.size());
		var child = new ProcessBuilder("echo", "child").start();
		System.out.println(new String(child.getInputStream().readAllBytes()).trim());
	}
}
`
