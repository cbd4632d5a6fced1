-- Eight queens, many times over: what docs/tutorial.md and its pictures count.
local function free(board, row, column)
  for r = 1, row - 1 do
    local c = board[r]
    if c == column or math.abs(c - column) == row - r then return false end
  end
  return true
end

local function place(board, row, n, found)
  if row > n then return found + 1 end
  for column = 1, n do
    if free(board, row, column) then
      board[row] = column
      found = place(board, row + 1, n, found)
    end
  end
  return found
end

local n, rounds, names = tonumber(arg[1] or 8), tonumber(arg[2] or 20), {}
for i = 1, rounds do
  names[#names + 1] = string.format("round %d: %d ways", i, place({}, 1, n, 0))
end
print(names[#names])
