-- What Lua programs do: calls, tables, strings, patterns, closures, sorting,
-- errors that are caught. lua5.4 bench.lua SIZE
local size = tonumber(arg[1]) or 1

local seed = 42
local function random(n)
	seed = (seed * 1103515245 + 12345) % 2147483648
	return seed % n + 1
end

local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end

local Account = {}
Account.__index = Account
function Account.new(balance) return setmetatable({ balance = balance }, Account) end
function Account:deposit(n) self.balance = self.balance + n return self end
function Account:withdraw(n)
	if n > self.balance then error("insufficient funds") end
	self.balance = self.balance - n
	return self
end

local function tree(depth)
	if depth == 0 then return {} end
	return { tree(depth - 1), tree(depth - 1) }
end
local function count(t) return t[1] and 1 + count(t[1]) + count(t[2]) or 1 end

local function queens(n)
	local found, columns, up, down = 0, {}, {}, {}
	local function place(row)
		if row > n then found = found + 1 return end
		for c = 1, n do
			if not (columns[c] or up[row + c] or down[row - c]) then
				columns[c], up[row + c], down[row - c] = true, true, true
				place(row + 1)
				columns[c], up[row + c], down[row - c] = nil, nil, nil
			end
		end
	end
	place(1)
	return found
end

local sum = 0
for _ = 1, size do
	sum = sum + fib(17) + count(tree(9)) + queens(6)
	local words = {}
	for i = 1, 400 do words[i] = string.format("%05d-%s", random(99999), ("xyz"):rep(i % 5)) end
	table.sort(words)
	table.sort(words, function(a, b) return a:sub(3) < b:sub(3) end)
	local text = table.concat(words, " ")
	local n = 0
	for a, b in text:gmatch("(%d+)-(%a*)") do n = n + #a + #b end
	sum = sum + n + #text:gsub("z", "zz"):upper()
	local a = Account.new(100)
	for i = 1, 500 do
		a:deposit(i % 7)
		if not pcall(a.withdraw, a, random(300)) then sum = sum + 1 end
	end
	local f = {}
	for i = 1, 200 do f[i] = function(x) return x * i % 1000 end end
	for i = 1, 2000 do sum = (sum + f[i % 200 + 1](i)) % 1000000007 end
end
print(sum)
