"""Classes, generators, regular expressions, JSON, digests, decimals, threads,
exceptions; ends with an uncaught one."""
import collections, contextlib, dataclasses, decimal, functools, hashlib, heapq
import itertools, json, queue, re, struct, sys, threading, zlib


class Shape:
    made = 0

    def __init__(self, name):
        self.name = name
        Shape.made += 1

    def area(self):
        raise NotImplementedError(self.name)

    def __lt__(self, other):
        return self.area() < other.area()

    def __repr__(self):
        return f"{self.name}:{self.area():.2f}"


class Square(Shape):
    def __init__(self, side):
        super().__init__("square")
        self.side = side

    def area(self):
        return self.side ** 2


class Disc(Square):
    @property
    def radius(self):
        return self.side / 2

    def area(self):
        return 3.14159 * self.radius ** 2


shapes = [(Disc if i % 3 else Square)(i * 7919 % 101) for i in range(500)]
print(sorted(shapes)[:3], max(shapes), Shape.made)


def primes():
    known = []
    for n in itertools.count(2):
        if all(n % p for p in known if p * p <= n):
            known.append(n)
            yield n


def averager():
    total = n = 0
    while True:
        total += (yield total / n if n else None)
        n += 1


print(list(itertools.islice(primes(), 150))[-5:])
a = averager()
next(a)
print([a.send(i) for i in range(10)][-1])

text = " ".join(f"key{i}={i * i % 97};" for i in range(2000))
print(len(re.findall(r"key(\d+)=(\d{2});", text)), re.sub(r"(?P<k>key)(\d)", r"\2\g<k>", text)[:40])
print(collections.Counter(re.findall(r"=(\d+)", text)).most_common(3))

tree = {"list": list(range(200)), "text": "äöü€\u2603", "deep": functools.reduce(lambda t, i: {"n": i, "t": t}, range(30), None)}
assert json.loads(json.dumps(tree)) == tree
print(len(json.dumps(tree, indent=1, sort_keys=True)))
print(hashlib.sha256(text.encode()).hexdigest(), hashlib.md5(b"x" * 100000).hexdigest(), zlib.crc32(text.encode()))
print(len(zlib.compress(text.encode(), 9)), struct.pack("<IhQ", 1, -2, 3).hex())

with decimal.localcontext() as ctx:
    ctx.prec = 60
    print(decimal.Decimal(2).sqrt(), decimal.Decimal(1) / 7)
print(2 ** 500 % 1000007, divmod(-7, 2), round(2.675, 2), sum(x * .1 for x in range(10)))

jobs, done, lock, total = queue.Queue(), [], threading.Lock(), 0


def work():
    global total
    while (n := jobs.get()) is not None:
        value = sum(i * i for i in range(n))
        with lock:
            total += value
    done.append(threading.current_thread().name)


threads = [threading.Thread(target=work, name=f"w{i}") for i in range(4)]
for t in threads:
    t.start()
for n in range(300):
    jobs.put(n)
for t in threads:
    jobs.put(None)
for t in threads:
    t.join()
print(total, sorted(done))


@contextlib.contextmanager
def noted(what):
    try:
        yield what
    except KeyError as e:
        print("caught", e, what)
    finally:
        print("left", what)


with noted("block"):
    {}["missing"]
failures = 0
for i in range(1000):
    try:
        [0][i]
    except IndexError:
        failures += 1
print(failures, heapq.nsmallest(3, [i * 37 % 1009 for i in range(1, 1000)]))


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0


print(min(Point(3, 1), Point(2, 9)), eval("[v for v in range(5) if v % 2]"))
sys.stdout.flush()
shapes[0].__class__.__mro__[-2].area(shapes[0])
