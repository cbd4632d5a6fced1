use std::collections::HashMap;
use std::panic;
use std::thread;
#[inline(never)] fn step(n: u64) -> u64 { n.wrapping_mul(3) ^ 7 }
#[inline(never)] fn fails(n: i32) -> i32 { if n > 2 { panic!("too large: {}", n) } n }
fn main() {
    panic::set_hook(Box::new(|i| println!("hook: {}", i)));
    let mut s = 0u64; for i in 0..1000 { s ^= step(i); }
    println!("{} {:?}", s, panic::catch_unwind(|| fails(5)).is_err());
    let h: Vec<_> = (0..8).map(|t| thread::spawn(move || (0..1000).map(|i| step(i + t)).fold(0, |a, b| a ^ b))).collect();
    for x in h { println!("{}", x.join().unwrap()); }
    let mut m: HashMap<String, usize> = HashMap::new();
    for w in "a b c a b a".split(' ') { *m.entry(w.to_string()).or_default() += 1; }
    let mut v: Vec<_> = m.into_iter().collect(); v.sort(); println!("{:?}", v);
    println!("{:?}", "x".parse::<i32>());
}
