# What Python programs do: methods, dictionaries, comprehensions, generators,
# exceptions, regular expressions, JSON, sorting. python3.11 bench.py SIZE
import json
import re
import sys


class Shape:
    def __init__(self, width, height):
        self.width, self.height = width, height

    def area(self):
        return self.width * self.height


class Square(Shape):
    def __init__(self, side):
        super().__init__(side, side)

    def area(self):
        return super().area() + 1


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def primes(n):
    sieve = bytearray([1]) * n
    for i in range(2, n):
        if sieve[i]:
            yield i
            sieve[i * i :: i] = bytes(len(range(i * i, n, i)))


def half(n):
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n // 2


WORD = re.compile(r"(\w+)@(\w+)\.(com|org)")


def work(number):
    total = fib(15) + sum(primes(3000))
    shapes = [Square(i) if i % 3 else Shape(i, i + 1) for i in range(400)]
    total += sum(s.area() for s in shapes)
    counts = {}
    for i in range(2000):
        key = "key%d" % (i * 7 % 97)
        counts[key] = counts.get(key, 0) + i
    total += len(json.dumps(json.loads(json.dumps(counts))))
    text = " ".join(f"user{i}@host{i % 9}.{'com' if i % 2 else 'net'}" for i in range(300))
    total += sum(len(m.group(1)) for m in WORD.finditer(text))
    for i in range(300):
        try:
            total += half(i)
        except ValueError as e:
            total += len(str(e))
    rows = sorted(((i * 7919) % 1009, str(i)) for i in range(1000))
    rows.sort(key=lambda r: r[1], reverse=True)
    return total + rows[number % 1000][0]


print(sum(work(i) for i in range(int(sys.argv[1]))))
