-- Closures, strings, tables, metatables, coroutines, errors, sorting; ends with
-- a line on stderr and status 3.
local seed = 12345
local function random(n)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 65536 % n + 1
end

local function counter(step)
  local n = 0
  return function() n = n + step; return n end
end
local c = counter(3)
for _ = 1, 20000 do c() end
print("closure", c())

local words = {}
for i = 1, 3000 do
  words[i] = string.char(96 + random(26), 96 + random(26), 96 + random(26))
end
table.sort(words)
print("sort", words[1], words[1500], words[3000])
table.sort(words, function(a, b) return a:reverse() > b:reverse() end)
print("sort by", words[1], words[3000])

local text = table.concat(words, " ")
local n = select(2, text:gsub("(%a)(%a)%a", "%2%1"))
print("gsub", n, #text:upper():rep(2, ","), text:find("q%w", 1))
local seen = {}
for w in text:gmatch("%a+") do seen[w] = (seen[w] or 0) + 1 end
local most = 0
for _, k in pairs(seen) do most = math.max(most, k) end
print("gmatch", most, string.format("%5.3f|%-8s|%q", 2 / 3, "left", "a\nb"))

local function walk(t)
  if type(t) == "table" then for _, v in ipairs(t) do walk(v) end else coroutine.yield(t) end
end
local sum = 0
for v in coroutine.wrap(function() walk({ 1, { 2, { 3, { 4 } } }, { { 5 } } }) end) do sum = sum + v end
local workers = {}
for i = 1, 50 do
  workers[i] = coroutine.create(function(a) for k = 1, 40 do a = a + coroutine.yield(k) end return a end)
end
for round = 1, 41 do
  for i, co in ipairs(workers) do
    local ok, v = coroutine.resume(co, i)
    if ok and round == 41 then sum = sum + v end
  end
end
print("coroutines", sum)

local failures = 0
for i = 1, 500 do
  local ok, err = pcall(function()
    if i % 2 == 0 then error({ code = i }) end
    local _ = nil + i
  end)
  if not ok then failures = failures + (type(err) == "table" and err.code or 1) end
end
print("pcall", failures, select(2, pcall(string.rep)))
print("xpcall", xpcall(error, function(m) return "handled " .. tostring(m) end, "x"))

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({ x = a.x + b.x, y = a.y + b.y }, Vector) end
Vector.__tostring = function(v) return ("(%d, %d)"):format(v.x, v.y) end
local v = setmetatable({ x = 0, y = 0 }, Vector)
for i = 1, 5000 do v = v + setmetatable({ x = i, y = -i }, Vector) end
print("metatable", v)

local function fib(k) if k < 2 then return k end return fib(k - 1) + fib(k - 2) end
print("fib", fib(20), 7 // 2, 7.5 % 2, 1 << 40, 3 | 8, math.tointeger(2 ^ 31))
local chunk = assert(load("local a, b = ... ; return a * b, _VERSION"))
print("load", chunk(6, 7))
collectgarbage()
print("pack", string.unpack("<i4z", string.pack("<i4z", -5, "zero")), utf8.char(228, 8364), utf8.len("äö€"))
io.stderr:write("done, with status 3\n")
os.exit(3, true)
