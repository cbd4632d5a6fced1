#include <cstdio>
#include <string>
#include <vector>
#include <thread>
#include <stdexcept>
__attribute__((noinline)) int step(int n) { return n * 3 + 1; }
int main(int c, char **v) {
  std::vector<std::thread> t; long s[4] = {};
  for (int k = 0; k < 4; k++) t.emplace_back([&s, k] { for (int i = 0; i < 1000; i++) s[k] += step(i); });
  for (auto &x : t) x.join();
  try { std::string().at(1); } catch (std::exception &e) { puts("caught"); }
  printf("%ld\n", s[0] + s[1] + s[2] + s[3]);
  (void)v;
  return c - 1;
}
